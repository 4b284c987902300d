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
from results.remote import column
from results.schedule import MEASURE
from results.spans import TokenSpans
from results.status import COMPLETED, NOT_FAILURES, Status
from results.steps import step_ends_ns

Float64 = NDArray[np.float64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Events:
    """The deliveries of a recording on the time axis; with `spans`, in place of rows, which there are none of."""

    t_ns: Int64
    """When each delivery arrived."""
    tokens: Int64
    first: Int64
    """Index of each request's first delivery; where it has none, of the next request's."""
    last: Int64
    """Index of its last delivery; one below `first` where it has none."""
    delivered: Mask
    """Which requests have any."""
    spans: TokenSpans | None = None

    @property
    def firsts_ns(self) -> Int64:
        """When the first delivery of each request came that has any."""
        return self.spans.first_ns if self.spans is not None else self.t_ns[self.first[self.delivered]]

    @property
    def lasts_ns(self) -> Int64:
        """When the last one came."""
        return self.spans.last_ns if self.spans is not None else self.t_ns[self.last[self.delivered]]

    @property
    def first_tokens(self) -> Int64:
        """Tokens of the first delivery of each request that has any."""
        return self.tokens[self.first[self.delivered]] if self.spans is None else np.ones_like(self.spans.low)

    @property
    def latest_ns(self) -> int:
        """When the last delivery of all came; 0 without any."""
        return int((self.t_ns if self.spans is None else self.lasts_ns).max(initial=0))


def events_of(recording: Recording) -> Events:
    """Deliveries with their times: of a stepping engine, the end of the step they came from."""
    if recording.spans is not None:
        no_rows = int64([])
        return Events(no_rows, no_rows, no_rows, no_rows, recording.spans.seated, recording.spans)
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
    return _from_due(recording, events, events.firsts_ns)


def e2e_ns(recording: Recording, events: Events) -> Float64:
    """Last token - due; for an empty answer its end - due."""
    value = _from_due(recording, events, events.lasts_ns)
    empty = recording.requests["status"] == Status.EMPTY
    ends = int64(recording.requests["end_ns"]) - int64(recording.requests["due_ns"])
    return np.asarray(np.where(empty, ends.astype(np.float64), value))


def tpot_ns(recording: Recording, events: Events) -> Float64:
    """(last - first delivery) / (tokens - tokens of the first delivery); undefined when all came at once.

    Of a server that counts tokens it never sent, those that it sent.
    """
    return _per_later_token(recording, events, events.first_tokens)


def tpot_std_ns(recording: Recording, events: Events) -> Float64:
    """(last - first delivery) / (tokens - 1): what most tools call TPOT, for comparison with them alone."""
    return _per_later_token(recording, events, np.ones_like(events.first_tokens))


def ttft_net_ns(recording: Recording, events: Events) -> Float64:
    """First token - hand-over: without the client's lateness. A diagnostic."""
    return ttft_ns(recording, events) - np.nan_to_num(lag_ns(recording), nan=0.0)


def ttat_ns(recording: Recording, events: Events) -> Float64:
    """First token of the answer proper - due, for requests that streamed reasoning before it; else undefined."""
    answer, reasoning = column(recording.requests, "answer_ns"), column(recording.requests, "reasoning_events")
    value = _undefined(recording)
    has = (answer != NULL) & (reasoning > 0)
    value[has] = answer[has] - int64(recording.requests["due_ns"])[has]
    seen = np.asarray(reasoning > 0)
    return np.asarray(np.where(seen & failed(recording), np.inf, value))


def tail_ns(recording: Recording, events: Events) -> Float64:
    """End of the reply - last token: what came after the text, and is in no other latency."""
    value = _undefined(recording)
    ends = int64(recording.requests["end_ns"])
    has = events.delivered & (ends != NULL)
    value[has] = ends[has] - events.t_ns[events.last[has]]
    return _failures_as_infinite(recording, value)


def streamed_tokens(recording: Recording) -> Int64:
    """Output tokens of each request that were delivered: the n of TPOT."""
    requests = recording.requests
    return int64(requests["streamed_tokens"] if "streamed_tokens" in requests else requests["output_tokens"])


def decode_speed_tokens_per_s(recording: Recording, events: Events, chosen: Mask) -> float | None:
    """Tokens after each first delivery / time after it, both summed over requests: a ratio of sums.

    None where there is no such time. The mean of each request's speed, and the inverse of the mean TPOT, are
    other figures, and higher.
    """
    good = (chosen & ~failed(recording))[events.delivered]
    decode_ns = int((events.lasts_ns - events.firsts_ns)[good].sum())
    later = (streamed_tokens(recording)[events.delivered] - events.first_tokens)[good]
    return float(np.maximum(later, 0).sum()) * 1e9 / decode_ns if decode_ns else None


def tokens_by_event(recording: Recording, events: Events) -> Int64:
    """Tokens of each delivery such that a request's add up to its streamed tokens.

    As told, where they do; else what was counted is spread over its deliveries in proportion, in whole tokens.
    """
    if recording.token_t_ns is None:
        return events.tokens
    ends = np.cumsum(events.tokens)
    owner = np.repeat(np.arange(len(events.first)), np.diff(recording.token_offsets))
    before = np.concatenate([[0], ends])[recording.token_offsets[:-1]]
    told = np.concatenate([[0], ends])[recording.token_offsets[1:]] - before
    counted = streamed_tokens(recording)
    if (told == counted).all():
        return events.tokens
    reach = (ends - before[owner]) * counted[owner] // np.maximum(told, 1)[owner]
    first = np.zeros(len(reach), dtype=np.bool_)
    first[events.first[events.delivered]] = True
    return int64(np.where(first, reach, np.diff(reach, prepend=0)))


def norm_ns(recording: Recording, events: Events) -> Float64:
    """E2E / output tokens: normalised latency, ns per token."""
    tokens = recording.requests["output_tokens"].astype(np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        value = np.where(tokens > 0, e2e_ns(recording, events) / tokens, np.nan)
    return _failures_as_infinite(recording, value)


def stall_ns(recording: Recording, events: Events) -> Float64:
    """The longest gap between two deliveries of a request; undefined below two deliveries."""
    if events.spans is not None:
        stalls = events.spans.of_all(events.spans.stall_ns)
        return _failures_as_infinite(recording, stalls.astype(np.float64))
    gaps, owner = gaps_ns(recording, events, np.ones(len(events.first), dtype=np.bool_))
    value = np.full(len(events.first), -1.0)
    np.maximum.at(value, owner, gaps.astype(np.float64))
    return _failures_as_infinite(recording, np.where(value < 0, np.nan, value))


def gaps_ns(recording: Recording, events: Events, chosen: Mask) -> tuple[Int64, Int64]:
    """Every gap between two consecutive deliveries of the chosen requests, and whose it is."""
    owner = np.repeat(np.arange(len(chosen)), np.diff(recording.token_offsets))
    inside = (owner[1:] == owner[:-1]) & chosen[owner[1:]]
    return np.diff(events.t_ns)[inside], owner[1:][inside]


def tokens_within(recording: Recording, events: Events, window_ns: tuple[int, int]) -> int:
    """How many tokens came in a window; both ends belong to it."""
    if events.spans is not None:
        return events.spans.tokens_until(window_ns[1]) - events.spans.tokens_until(window_ns[0] - 1)
    inside = (events.t_ns >= window_ns[0]) & (events.t_ns <= window_ns[1])
    return int(tokens_by_event(recording, events)[inside].sum())


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


def _per_later_token(recording: Recording, events: Events, first_tokens: Int64) -> Float64:
    """Time from first to last delivery / (tokens - those that count as of the first delivery)."""
    value = _undefined(recording)
    has = events.delivered
    decode = (events.lasts_ns - events.firsts_ns).astype(np.float64)
    later = streamed_tokens(recording)[has] - first_tokens
    several = np.diff(recording.token_offsets)[has] > 1
    with np.errstate(divide="ignore", invalid="ignore"):
        value[has] = np.where((later > 0) & several, decode / later, np.nan)
    return _failures_as_infinite(recording, value)


def _from_due(recording: Recording, events: Events, t_ns: Int64) -> Float64:
    """`t_ns`: of each request that has a delivery."""
    value = _undefined(recording)
    has = events.delivered
    value[has] = t_ns - int64(recording.requests["due_ns"])[has]
    return _failures_as_infinite(recording, value)


def _undefined(recording: Recording) -> Float64:
    return np.full(len(recording.schedule), np.nan)


def _failures_as_infinite(recording: Recording, value: Float64) -> Float64:
    return np.asarray(np.where(failed(recording), np.inf, value))
