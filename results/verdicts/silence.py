"""When a server was last heard of, for runs in which it died or could not be reached."""

from dataclasses import dataclass

import numpy as np

from results.columns import NULL, Int64, int64, is_null
from results.metrics import Mask, completed, events_of
from results.recording import Recording
from results.remote import column
from results.status import Status

UNANSWERED = (Status.TRANSPORT_ERROR, Status.TIMEOUT_CONNECT, Status.TIMEOUT_FIRST, Status.TIMEOUT_TOTAL)


@dataclass(frozen=True, slots=True)
class Silence:
    """From some time on to the end of the run, no request brought a sign of life."""

    since_ns: int | None
    """The last sign of life; None: there never was one."""
    requests: int
    """Due after it, and all of them failed without an answer."""


def silence(recording: Recording, expected: Mask) -> Silence | None:
    """None where something answered to the last, or where it was another kind of failure."""
    requests = recording.requests
    due = int64(requests["due_ns"])
    tried = expected & ~is_null(due) & (requests["status"] != Status.NOT_DISPATCHED)
    life_ns = _life_ns(recording)[tried]
    since_ns = int(life_ns.max()) if len(life_ns) and life_ns.max() != NULL else None
    after = tried if since_ns is None else tried & (due > since_ns)
    unanswered = np.isin(requests["status"], [int(status) for status in UNANSWERED])
    count = int(after.sum())
    return Silence(since_ns, count) if count and bool(unanswered[after].all()) else None


def _life_ns(recording: Recording) -> Int64:
    """Of each request the last moment at which the server showed that it lives; NULL: it never did."""
    events, requests = events_of(recording), recording.requests
    life_ns = column(requests, "header_ns").copy()
    life_ns[events.delivered] = np.maximum(life_ns, events.t_ns[events.last] if len(events.t_ns) else NULL)[
        events.delivered
    ]
    ended = completed(recording)
    life_ns[ended] = np.maximum(life_ns, int64(requests["end_ns"]))[ended]
    return life_ns
