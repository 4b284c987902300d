"""Ollama's own /api/chat: messages answered, one line of JSON an event."""

from collections.abc import Mapping, Sequence

from targets.api import JSON, NDJSON, BodyOptions, Delta
from targets.apis.asking import text_prompt
from targets.apis.ollama_reading import ollama_body, read_line
from targets.target import PlannedRequest


class OllamaChat:
    """The prompt goes as one message of the user."""

    name = "ollama-chat"
    path = "/api/chat"
    framing = NDJSON
    models_path: str | None = "/v1/models"

    def body(self, request: PlannedRequest, options: BodyOptions) -> Mapping[str, JSON]:
        """ValueError when token ids are asked for."""
        message = {"role": "user", "content": text_prompt(request, options, self.name)}
        return ollama_body({"messages": [message]}, request, options)

    def event(self, data: bytes, event_type: str) -> Delta | None:
        """One line."""
        return read_line(data)

    def whole(self, body: bytes) -> Sequence[Delta]:
        """A reply that was not streamed: its only line."""
        return [read_line(body)]
