"""A long modelled run without a row a token: stretches, requests, and every token's time as it follows from them.

Valid for engines that stream and give every row in a slot one token in each decode. A run of 10^6 requests of 200
tokens is 2 x 10^8 deliveries, but only some 10^6 stretches; what is asked of the former is computed from the latter,
with the same results as `results.metrics` has from the deliveries.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from results.columns import NULL, Int64, Table, int64
from results.recording import RecordingPart
from results.schedule import Schedule
from results.slots import SlotEvent
from results.status import Status
from results.steps import step_ends_ns
from results.unroll import IMPLIED, seat_spans, step_numbers

Float64 = NDArray[np.float64]
REQUEST_COLUMNS = ("due_ns", "handed_ns", "end_ns", "status")


@dataclass(frozen=True)
class Compact:
    """One run: a row a request, and a row a stretch or prefill."""

    schedule: Schedule
    requests: Table
    steps: Table
    in_flight_request_ns: int
    stopped_ns: int | None = None

    @cached_property
    def decode_ends_ns(self) -> Int64:
        """When each decode of the run ended."""
        return step_ends_ns(self.steps, self._decodes)

    @cached_property
    def _decodes(self) -> Int64:
        decoding = int64(self.steps["decoding_slots"]) > 0
        return step_numbers(int64(self.steps["step"])[decoding], int64(self.steps["n_steps"])[decoding])

    @cached_property
    def seated(self) -> NDArray[np.bool_]:
        """Which requests ever had a slot, and so a token."""
        return np.asarray(self.requests["admitted_step"] != NULL)

    @cached_property
    def first_ns(self) -> Int64:
        """When each seated request got its first token."""
        return step_ends_ns(self.steps, int64(self.requests["admitted_step"])[self.seated])

    @cached_property
    def spans(self) -> tuple[Int64, Int64]:
        """Of each seated request its first decode, and one past its last, as indices into the run's decodes."""
        low = np.searchsorted(self._decodes, int64(self.requests["admitted_step"])[self.seated], side="right")
        high = np.searchsorted(self._decodes, int64(self.requests["last_step"])[self.seated], side="right")
        return int64(low), int64(np.maximum(low, high))

    def token_times_ns(self, request_id: int) -> Int64:
        """When a request's tokens came."""
        if not self.seated[request_id]:
            return int64([])
        at = int(self.seated[:request_id].sum())
        low, high = self.spans
        return np.concatenate([self.first_ns[at : at + 1], self.decode_ends_ns[low[at] : high[at]]])


def compact(schedule: Schedule, parts: Sequence[RecordingPart], stopped_ns: int | None = None) -> Compact:
    """The parts of a run in modelled time, put together as they are; their columns are used up."""
    in_flight = sum(int(part.tables["flight"]["request_ns"].sum()) for part in parts)
    tables = {name: _used_up([part.tables[name] for part in parts]) for name in ("requests", "steps", "slot_events")}
    steps = {name: values for name, values in tables["steps"].items() if name != IMPLIED}
    return Compact(schedule, _requests(schedule, tables), steps, in_flight, stopped_ns)


def _used_up(tables: Sequence[Table]) -> Table:
    """Rows of all tables. Each column is given up once it is copied, so that the run is never held twice."""
    return {name: np.concatenate([table.pop(name) for table in tables]) for name in list(tables[0])}


def _requests(schedule: Schedule, tables: dict[str, Table]) -> Table:
    rows = len(schedule)
    requests: Table = {"request_id": np.arange(rows, dtype=np.int64)}
    told = tables["requests"]
    for name in REQUEST_COLUMNS:
        requests[name] = np.full(rows, NULL, dtype=np.int64)
        requests[name][int64(told["request_id"])] = told[name]
    requests["status"][requests["status"] == NULL] = np.int64(Status.NOT_DISPATCHED)
    missing = requests["due_ns"] == NULL
    requests["due_ns"][missing] = schedule.due_ns[missing]
    events = tables["slot_events"]
    admitted = events["event"] == SlotEvent.ADMITTED
    request_id, begin, last = seat_spans(events)
    columns = {"admitted_step": begin, "last_step": last, "slot": int64(events["slot"])[admitted]}
    for name, values in columns.items():
        requests[name] = np.full(rows, NULL, dtype=np.int64)
        requests[name][request_id] = values
    requests["prompt_tokens"], requests["output_tokens_asked"] = schedule.prompt_tokens, schedule.output_tokens
    return requests


def output_tokens(run: Compact) -> Int64:
    """How many each request got."""
    low, high = run.spans
    tokens = np.zeros(len(run.schedule), dtype=np.int64)
    tokens[run.seated] = 1 + high - low
    return tokens


def ttft_ns(run: Compact) -> Float64:
    """First token - due; +inf where the request failed."""
    return _of_seated(run, (run.first_ns - _due(run)).astype(np.float64))


def e2e_ns(run: Compact) -> Float64:
    """Last token - due."""
    return _of_seated(run, (_last_ns(run) - _due(run)).astype(np.float64))


def tpot_ns(run: Compact) -> Float64:
    """(last - first token) / (tokens - 1); undefined for one token."""
    low, high = run.spans
    with np.errstate(divide="ignore", invalid="ignore"):
        return _of_seated(run, np.where(high > low, (_last_ns(run) - run.first_ns) / (high - low), np.nan))


def stall_ns(run: Compact) -> Float64:
    """The longest gap between two tokens of a request: by range maximum over the gaps between decodes."""
    low, high = run.spans
    longest = np.full(len(low), np.nan)
    several = high > low
    longest[several] = run.decode_ends_ns[low[several]] - run.first_ns[several]
    many = high > low + 1
    gaps = np.diff(run.decode_ends_ns)
    longest[many] = np.maximum(longest[many], _range_maxima(gaps, low[many], high[many] - 1))
    return _of_seated(run, longest)


def gaps_ns(run: Compact) -> tuple[Int64, Int64]:
    """Every gap between two tokens of a request that did not fail, as (length, how many had it).

    Who decodes in two decodes one after the other has the gap between them; after its first token comes one gap of
    its own.
    """
    good = (run.requests["status"] == Status.OK)[run.seated]
    low, high = (one[good] for one in run.spans)
    several = high > low
    ends = run.decode_ends_ns
    change = np.bincount(low[several], minlength=len(ends) + 1) - np.bincount(
        high[several] - 1, minlength=len(ends) + 1
    )
    counts = np.cumsum(change)[: max(len(ends) - 1, 0)]
    own = ends[low[several]] - run.first_ns[good][several]
    values = np.concatenate([np.diff(ends), own])
    weights = np.concatenate([counts, np.ones(len(own), dtype=np.int64)])
    return int64(values[weights > 0]), int64(weights[weights > 0])


def counted_quantile(values: Int64, counts: Int64, q: float) -> float | None:
    """Hyndman and Fan's type 8 of values that occur `counts` times each; None without any."""
    total = int(counts.sum())
    if not total:
        return None
    order = np.argsort(values, kind="stable")
    until = np.cumsum(counts[order])
    position = (total + 1 / 3) * q + 1 / 3
    below = int(np.clip(np.floor(position), 1, total))
    above = min(below + 1, total)
    low, high = (float(values[order][np.searchsorted(until, at)]) for at in (below, above))
    return low + min(max(position - below, 0.0), 1.0) * (high - low)


def tokens_until(run: Compact, until_ns: int) -> int:
    """How many tokens came by then."""
    low, high = run.spans
    decodes = int(np.searchsorted(run.decode_ends_ns, until_ns, side="right"))
    return int((run.first_ns <= until_ns).sum() + np.maximum(np.minimum(high, decodes) - low, 0).sum())


def _due(run: Compact) -> Int64:
    return int64(run.requests["due_ns"])[run.seated]


def _last_ns(run: Compact) -> Int64:
    low, high = run.spans
    several = high > low
    last_ns = run.first_ns.copy()
    last_ns[several] = run.decode_ends_ns[high[several] - 1]
    return last_ns


def _of_seated(run: Compact, values: Float64) -> Float64:
    """Values of the seated as values of all: undefined for the others, infinite where the request failed."""
    everyone = np.full(len(run.schedule), np.nan)
    everyone[run.seated] = values
    return np.where(run.requests["status"] == Status.OK, everyone, np.inf)


def _range_maxima(values: Int64, low: Int64, high: Int64) -> Float64:
    """The largest of values[low:high] for each pair, none of which is empty.

    Level k of a sparse table, made out of the one before it, has the largest of 2^k values in a row.
    """
    longest = np.zeros(len(low))
    for level, table in _levels(values, int((high - low).max(initial=0))):
        width = 2**level
        here = (high - low >= width) & (high - low < 2 * width)
        longest[here] = np.maximum(table[low[here]], table[high[here] - width])
    return longest


def _levels(values: Int64, most_rows: int) -> Iterator[tuple[int, Int64]]:
    level, table = 0, values
    while 2**level <= most_rows:
        yield level, table
        half = 2**level
        table = np.maximum(table[:-half], table[half:]) if len(table) > half else table
        level += 1
