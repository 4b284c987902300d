"""OpenAI's /v1/completions: a prompt of text or of token ids, continued."""

from collections.abc import Mapping, Sequence

from targets.api import JSON, SSE, BodyOptions, Delta, PlainRun
from targets.apis.asking import any_prompt
from targets.apis.openai_chat import generation_body
from targets.apis.openai_reading import UNNAMED, read_any, read_data, read_named
from targets.apis.plain_runs import plain_run
from targets.apis.reading import read_object
from targets.target import PlannedRequest


class OpenAiCompletions:
    """The prompt goes as it is."""

    name = "openai-completions"
    path = "/v1/completions"
    framing = SSE
    models_path: str | None = "/v1/models"

    def body(self, request: PlannedRequest, options: BodyOptions) -> Mapping[str, JSON]:
        """ValueError when token ids are asked for and the request has none."""
        return generation_body({"prompt": any_prompt(request, options)}, request, options)

    def event(self, data: bytes, event_type: str) -> Delta | None:
        """One event of a stream; None: `[DONE]`."""
        return read_data(data) if event_type in UNNAMED else read_named(data, event_type)

    def plain_run(self, data: Sequence[bytes], before: bytes, after: bytes) -> PlainRun | None:
        """Events that differ in their texts alone."""
        return plain_run(data, b'"text":"', read_data, before, after)

    def whole(self, body: bytes) -> Sequence[Delta]:
        """A reply that was not streamed: one object in place of all."""
        return [read_any(read_object(body))]
