"""The remote seam: what can be put under load over a wire. It owns its own time; the stamps are ours.

All times are `time.perf_counter_ns()` values of this host; the driver moves them to the run's time axis. A failed
request is a Reply with its status and whatever had arrived, never an exception.
"""

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from results.columns import NULL
from results.status import Status


@dataclass(frozen=True, slots=True)
class PlannedRequest:
    """One row of the schedule with its prompt, known before the run."""

    request_id: int
    prompt_text: str
    """What APIs that take text are sent."""
    prompt_token_ids: Sequence[int] | None
    """What APIs that take token ids are sent; None: this workload is text only."""
    max_tokens: int
    ignore_eos: bool = True
    temperature: float = 0.0
    seed: int | None = None
    session: int | None = None


@dataclass(slots=True)
class Reply:
    """What came back, and when. A time that was not reached, a count that was not told: NULL."""

    request_id: int
    status: Status
    sent_ns: int = NULL
    """Just before the first byte of the request was written."""
    connected_ns: int = NULL
    """A connection was in hand."""
    uploaded_ns: int = NULL
    """The kernel had taken the last byte of the request."""
    header_ns: int = NULL
    """The reply's head was complete."""
    first_byte_ns: int = NULL
    """The first byte of the reply's body arrived."""
    end_ns: int = NULL
    """The reply ended, in whatever way."""
    connect_ns: int = NULL
    """How long the TCP (or unix) connect took that this request waited for; NULL: none was needed."""
    tls_ns: int = NULL
    """How long its TLS handshake took."""
    connection_reused: int = NULL
    """1: the connection had served another request before; 0: this was its first."""
    resends: int = 0
    """How often it was sent again because a reused connection had been closed by the server before any reply."""
    http_status: int = NULL
    event_t_ns: "array[int]" = field(default_factory=lambda: array("q"))
    """Arrival of each token-bearing event: of the read that completed it."""
    event_tokens: "array[int] | None" = None
    """Tokens in each of them, where the server tells; None: taken as one each."""
    content_reads: int = 0
    """In how many reads of the socket the token-bearing events were complete."""
    reasoning_events: int = 0
    """How many of the token-bearing events bore reasoning alone."""
    answer_ns: int = NULL
    """Arrival of the first token-bearing event that was not reasoning."""
    told_output_tokens: int = NULL
    """usage.completion_tokens, wherever it stood."""
    told_prompt_tokens: int = NULL
    cached_tokens: int = NULL
    """Prompt tokens that the server took from a cache."""
    told_reasoning_tokens: int = NULL
    reply_bytes: int = 0
    """Bytes of the reply's body as they came over the wire."""
    finish_reason: str | None = None
    error: str | None = None
    """One line, capped, without secrets."""
    reply_id: str | None = None
    """The server's own id of the reply."""
    content_encoding: str | None = None
    """Where the server compressed although asked not to."""
    text: str = ""
    """What was generated, reasoning included, for counting and hashing after the run."""


class Target(Protocol):
    """Something behind a wire."""

    def describe(self) -> Mapping[str, Any]:
        """What goes into the stamp, secrets redacted."""
        ...

    async def open(self, requests: Sequence[PlannedRequest]) -> None:
        """Before time 0: resolve names, encode every body, check headroom, open connections ahead.

        ValueError in one line when the run could not be carried out.
        """

    async def send(self, request: PlannedRequest) -> Reply:
        """Send it now and wait for its end. Never raises for a failed request."""
        ...

    # A target may also have `start(request) -> Coroutine[Any, Any, Reply]`: `send` that begins when it is called, and
    # not when what it returns is first awaited.

    def abort(self, request_id: int, status: Status) -> None:
        """End a request that is under way with this status; `send` returns what had arrived."""

    async def close(self) -> None:
        """Close every connection."""
