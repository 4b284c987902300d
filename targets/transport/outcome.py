"""With which status a reply ended: one function of what is known of it."""

from dataclasses import dataclass

from results.status import Status
from targets.target import Reply

FIRST_REDIRECT, FIRST_ERROR = 300, 400
SHED_STATUSES = (429, 503)


@dataclass(slots=True)
class Ending:
    """How it ended, apart from what the reply itself says."""

    forced: Status | None = None
    """It was ended from here: a limit, an abort."""
    fault: str | None = None
    """What came is no HTTP, or not what the API sends."""
    broken: str | None = None
    """The connection was reset, or could not be had."""
    cut: bool = False
    """The server closed the connection before the body's end."""
    told_error: str | None = None
    """In the stream, or in the body of an HTTP error."""
    marked_end: bool = False
    streamed: bool = True


def outcome(ending: Ending, reply: Reply) -> tuple[Status, str | None]:
    """The status and what went wrong.

    When the last token is known, nothing that happens to the connection afterwards makes it a failure: a server that
    keeps a finished reply open or resets it has still served it.
    """
    complete = ending.marked_end or reply.finish_reason is not None
    if ending.fault is not None:
        return Status.PROTOCOL_ERROR, ending.fault
    if reply.http_status >= FIRST_REDIRECT:
        return _refused(reply.http_status, ending.told_error or "")
    if ending.told_error is not None:
        return Status.ENGINE_ERROR, ending.told_error
    if not complete:
        if ending.forced is not None:
            return ending.forced, None
        if ending.broken is not None:
            return Status.TRANSPORT_ERROR, ending.broken
        if ending.cut or ending.streamed:
            return Status.TRUNCATED, _cut_text(ending, reply)
    if not reply.event_t_ns:
        hidden = reply.finish_reason == "length" and reply.told_output_tokens > 0
        return (Status.BUDGET_SPENT_HIDDEN if hidden else Status.EMPTY), None
    return Status.OK, None


def _refused(http_status: int, told: str) -> tuple[Status, str]:
    status = Status.SHED if http_status in SHED_STATUSES else Status.HTTP_ERROR
    return status, f"HTTP {http_status}: {told}" if told else f"HTTP {http_status}"


def _cut_text(ending: Ending, reply: Reply) -> str:
    if ending.cut:
        return f"the server closed the connection after {len(reply.event_t_ns)} token-bearing events, before the end"
    return "the body ended without a finish reason and without an end marker"


