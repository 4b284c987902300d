"""Requests in flight over time, from the rows: due and not ended."""

from dataclasses import dataclass

import numpy as np

from results.columns import int64, is_null
from results.recording import Recording
from results.status import Status

MOST_PLACES = 400
NS_PER_S = 1e9
NS_PER_MS = 1_000_000


@dataclass(frozen=True, slots=True)
class Flight:
    """Counts at times, on an even grid."""

    t_s: tuple[float, ...]
    requests: tuple[int, ...]


def in_flight(recording: Recording) -> Flight:
    """From 0 to the last end, at up to 400 times; whoever never ended stays.

    Of a run that was stopped or died, up to then: what it never sent was never in flight.
    """
    due = int64(recording.requests["due_ns"])
    if recording.stopped_ns is not None:
        unsent = recording.requests["status"] == Status.NOT_DISPATCHED
        due = due[~unsent | (due <= recording.stopped_ns)]
    ends = int64(recording.requests["end_ns"])
    arrived = np.sort(due[~is_null(due)])
    ended = np.sort(ends[~is_null(ends)])
    last = max(int(arrived[-1]) if len(arrived) else 0, int(ended[-1]) if len(ended) else 0)
    grid = np.linspace(0, last, MOST_PLACES).astype(np.int64)
    counts = np.searchsorted(arrived, grid, side="right") - np.searchsorted(ended, grid, side="right")
    return Flight(tuple((grid // NS_PER_MS / (NS_PER_S / NS_PER_MS)).tolist()), tuple(counts.tolist()))
