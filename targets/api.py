"""An API: how a request is written for one kind of server, and what an event of its reply bears. Knows no socket.

To add one: a class with these members in a file of its own, and a row in `targets.apis.catalog`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from targets.target import PlannedRequest

JSON = Any
SSE, NDJSON = "sse", "ndjson"


@dataclass(frozen=True, slots=True)
class BodyOptions:
    """What decides how bodies are written, the same for every request of a run."""

    model: str
    stream: bool = True
    max_tokens_field: str | None = None
    """In place of the API's own name of the output limit (`max_completion_tokens`)."""
    pin_lengths: bool = True
    """Ask for exactly max_tokens where the API has fields for it (ignore_eos, min_tokens)."""
    token_prompts: bool = False
    """Send token ids where the API takes them."""
    usage: bool = True
    """Ask for usage where that has to be asked for."""
    extra: Mapping[str, JSON] = field(default_factory=dict)
    """Further fields of the body; they win."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts as the server tells them; None: not told."""

    output_tokens: int | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None


@dataclass(slots=True)
class Delta:
    """What one event of a reply bears."""

    text: str = ""
    """Generated text, answer, reasoning or a tool call's name and arguments. Empty: it bears no token."""
    reasoning: bool = False
    """The text is reasoning alone."""
    tokens: int | None = None
    """Tokens in it, where the event tells (token ids, logprobs); None: taken as one."""
    finish_reason: str | None = None
    usage: Usage | None = None
    error: str | None = None
    """The server reports a fault inside the stream."""
    reply_id: str | None = None


@dataclass(frozen=True, slots=True)
class PlainRun:
    """Events that bear a text of the answer and nothing else: those from `first` to before `last`."""

    first: int
    last: int
    texts: Sequence[str]


class Api(Protocol):
    """One kind of server."""

    name: str
    path: str
    """Under the base URL without its /v1: `/v1/chat/completions`."""
    framing: str
    """SSE or NDJSON."""
    models_path: str | None
    """Where the served models are listed in OpenAI's form; None: nowhere."""

    def body(self, request: PlannedRequest, options: BodyOptions) -> Mapping[str, JSON]:
        """The request's body. ValueError when the API cannot carry such a request (token ids where it takes text)."""
        ...

    def event(self, data: bytes, event_type: str) -> Delta | None:
        """One event (the data of an SSE event, a line of NDJSON); None: the API's end marker (`[DONE]`).

        ValueError when it is not what this API sends.
        """
        ...

    # An API may also have `plain_run(data: Sequence[bytes], before: bytes, after: bytes) -> PlainRun | None`, which
    # reads many events at once; each may have something around it, as lines of a stream have.

    def whole(self, body: bytes) -> Sequence[Delta]:
        """A reply that was not streamed. ValueError when it is not what this API sends."""
        ...
