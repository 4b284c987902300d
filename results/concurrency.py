"""Requests in flight, from the rows: every begin and every end is an event of a sweep over the run."""

from dataclasses import dataclass

import numpy as np

from results.columns import NULL, Int64, int64, is_null
from results.recording import Recording
from results.status import Status


@dataclass(frozen=True, slots=True)
class InFlight:
    """Over the measured window; requests of every phase count."""

    most_requests: int
    """At any moment. A request that ends when another begins makes room for it."""
    mean_requests: float | None
    """Over time; None for a window of no length."""


def in_flight(recording: Recording, begins: str, window_ns: tuple[int, int]) -> InFlight:
    """`begins`: the column a request is in flight from, due_ns or handed_ns. What has no end never leaves."""
    begin, end = _flights(recording, begins, window_ns)
    return InFlight(_most(begin, end, window_ns), _mean(begin, end, window_ns))


def mean_in_flight(recording: Recording, begins: str, window_ns: tuple[int, int]) -> float | None:
    """The mean alone, which needs no order."""
    return _mean(*_flights(recording, begins, window_ns), window_ns)


def _flights(recording: Recording, begins: str, window_ns: tuple[int, int]) -> tuple[Int64, Int64]:
    requests = recording.requests
    begin, end = int64(requests[begins]), int64(requests["end_ns"])
    sent = (requests["status"] != Status.NOT_DISPATCHED) & ~is_null(begin)
    begin = begin[sent]
    end = np.where(end[sent] == NULL, max(window_ns[1], int(begin.max(initial=0))) + 1, end[sent])
    return begin, int64(end)


def _mean(begin: Int64, end: Int64, window_ns: tuple[int, int]) -> float | None:
    span_ns = window_ns[1] - window_ns[0]
    inside = np.clip(end, *window_ns) - np.clip(begin, *window_ns)
    return float(np.maximum(inside, 0).sum()) / span_ns if span_ns > 0 else None


def _most(begin: Int64, end: Int64, window_ns: tuple[int, int]) -> int:
    """Highest count at any begin inside the window, or at its start."""
    starts, ends = np.sort(begin), np.sort(end)
    moments = np.append(starts[(starts >= window_ns[0]) & (starts <= window_ns[1])], window_ns[0])
    counts = np.searchsorted(starts, moments, side="right") - np.searchsorted(ends, moments, side="right")
    return int(counts.max(initial=0))
