"""Per-request and per-gap metrics: each a pure function of a recording's columns.

Latency starts at the scheduled time. A metric of requests is a float64 array in ns, one value a request: +inf
where the request failed, NaN where the metric is undefined for it (counted and left out). To add a metric: one
function here, one row in `results.summary.LATENCIES`.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from results.columns import NULL, Int64, int64, is_null
from results.recording import Recording
from results.schedule import MEASURE
from results.status import COMPLETED, NOT_FAILURES, Status
from results.steps import step_ends_ns

Float64 = NDArray[np.float64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Events:
    """The deliveries of a recording on the time axis."""

    t_ns: Int64
    """When each delivery arrived."""
    tokens: Int64
    first: Int64
    """Index of each request's first delivery; where it has none, of the next request's."""
    last: Int64
    """Index of its last delivery; one below `first` where it has none."""
    delivered: Mask
    """Which requests have any."""


def events_of(recording: Recording) -> Events:
    """Deliveries with their times: of a stepping engine, the end of the step they came from."""
    if recording.token_step is not None:
        t_ns = step_ends_ns(recording.steps, recording.token_step)
    else:
        t_ns = int64(recording.token_t_ns if recording.token_t_ns is not None else [])
    first, last = recording.token_offsets[:-1], recording.token_offsets[1:] - 1
    return Events(t_ns, recording.token_count, first, last, last >= first)


def measured(recording: Recording) -> Mask:
    """The requests that count: phase measure, due at some time, and by then the run had not been stopped."""
    requests = recording.requests
    chosen = (requests["phase"] == MEASURE) & ~is_null(requests["due_ns"])
    if recording.stopped_ns is not None:
        late = (requests["status"] == Status.NOT_DISPATCHED) & (int64(requests["due_ns"]) > recording.stopped_ns)
        chosen &= ~late
    return np.asarray(chosen)


def failed(recording: Recording) -> Mask:
    """Requests that ended in no way of their own."""
    return ~np.isin(recording.requests["status"], [int(status) for status in NOT_FAILURES])


def completed(recording: Recording) -> Mask:
    """Requests that came to an end by themselves, with or without a token."""
    return np.isin(recording.requests["status"], [int(status) for status in COMPLETED])


def ttft_ns(recording: Recording, events: Events) -> Float64:
    """First token - due; undefined for an empty answer."""
    return _from_due(recording, events, events.first)


def e2e_ns(recording: Recording, events: Events) -> Float64:
    """Last token - due; for an empty answer its end - due."""
    value = _from_due(recording, events, events.last)
    empty = recording.requests["status"] == Status.EMPTY
    ends = int64(recording.requests["end_ns"]) - int64(recording.requests["due_ns"])
    return np.asarray(np.where(empty, ends.astype(np.float64), value))


def tpot_ns(recording: Recording, events: Events) -> Float64:
    """(last - first delivery) / (tokens - tokens of the first delivery); undefined when all came at once."""
    output_tokens = int64(recording.requests["output_tokens"])
    value = np.full(len(output_tokens), np.nan)
    has = events.delivered
    decode = (events.t_ns[events.last[has]] - events.t_ns[events.first[has]]).astype(np.float64)
    later = output_tokens[has] - events.tokens[events.first[has]]
    with np.errstate(divide="ignore", invalid="ignore"):
        value[has] = np.where(later > 0, decode / later, np.nan)
    return _failures_as_infinite(recording, value)


def norm_ns(recording: Recording, events: Events) -> Float64:
    """E2E / output tokens: normalised latency, ns per token."""
    tokens = recording.requests["output_tokens"].astype(np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        value = np.where(tokens > 0, e2e_ns(recording, events) / tokens, np.nan)
    return _failures_as_infinite(recording, value)


def stall_ns(recording: Recording, events: Events) -> Float64:
    """The longest gap between two deliveries of a request; undefined below two deliveries."""
    gaps, owner = gaps_ns(recording, events, np.ones(len(events.first), dtype=np.bool_))
    value = np.full(len(events.first), -1.0)
    np.maximum.at(value, owner, gaps.astype(np.float64))
    return _failures_as_infinite(recording, np.where(value < 0, np.nan, value))


def gaps_ns(recording: Recording, events: Events, chosen: Mask) -> tuple[Int64, Int64]:
    """Every gap between two consecutive deliveries of the chosen requests, and whose it is."""
    owner = np.repeat(np.arange(len(chosen)), np.diff(recording.token_offsets))
    inside = (owner[1:] == owner[:-1]) & chosen[owner[1:]]
    return np.diff(events.t_ns)[inside], owner[1:][inside]


def lag_ns(recording: Recording) -> Float64:
    """Hand-over - due: in virtual time the wait for the running step; NaN where never handed over."""
    handed, due = int64(recording.requests["handed_ns"]), int64(recording.requests["due_ns"])
    return np.where(handed == NULL, np.nan, (handed - due).astype(np.float64))


def little_error_ns(recording: Recording) -> int:
    """Sum over the ended rows of (end - due), less the in-flight counter's integral: 0 when no row is lost."""
    requests = recording.requests
    ended = ~is_null(requests["end_ns"])
    rows = int((int64(requests["end_ns"])[ended] - int64(requests["due_ns"])[ended]).sum())
    return rows - recording.in_flight_request_ns


def _from_due(recording: Recording, events: Events, index: Int64) -> Float64:
    value = _undefined(recording)
    has = events.delivered
    value[has] = events.t_ns[index[has]] - int64(recording.requests["due_ns"])[has]
    return _failures_as_infinite(recording, value)


def _undefined(recording: Recording) -> Float64:
    return np.full(len(recording.schedule), np.nan)


def _failures_as_infinite(recording: Recording, value: Float64) -> Float64:
    return np.asarray(np.where(failed(recording), np.inf, value))
