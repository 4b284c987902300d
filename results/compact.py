"""A long modelled run without a row a token: stretches, requests, and every token's time as it follows from them.

What is asked of tokens is computed from the stretches (`results.spans`), with the same results as `results.metrics`
has from a row for each. `as_recording` makes of it what summaries, verdicts and files are made from.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from results.columns import NULL, Int64, Table, concatenate, int64
from results.recording import PART_TABLES, Recording, RecordingPart
from results.remote import ENGINE, LENGTH
from results.schedule import Schedule
from results.slots import SlotEvent
from results.spans import TokenSpans, spans_of
from results.status import Status
from results.unroll import IMPLIED, seat_spans

Float64 = NDArray[np.float64]
REQUEST_COLUMNS = ("due_ns", "handed_ns", "end_ns", "status")
GIVEN_COLUMNS = ("phase", "session", "turn", "request_class")
"""Columns of the requests that are the schedule's."""


@dataclass(frozen=True)
class Compact:
    """One run: a row a request, and a row a stretch or prefill."""

    schedule: Schedule
    requests: Table
    steps: Table
    in_flight_request_ns: int
    stopped_ns: int | None = None
    errors: Mapping[int, str] = field(default_factory=dict)
    """Request id -> why it failed, where somebody told."""

    @cached_property
    def tokens(self) -> TokenSpans:
        """When they came."""
        return spans_of(self.steps, int64(self.requests["admitted_step"]), int64(self.requests["last_step"]))


def compact(schedule: Schedule, parts: Sequence[RecordingPart], stopped_ns: int | None = None) -> Compact:
    """The parts of a run in modelled time, put together as they are; their columns are used up."""
    in_flight = sum(int(part.tables["flight"]["request_ns"].sum()) for part in parts)
    tables = {name: _used_up([part.tables[name] for part in parts]) for name in ("requests", "steps", "slot_events")}
    steps = {name: values for name, values in tables["steps"].items() if name != IMPLIED}
    told = tables["requests"]
    failed = np.flatnonzero(told["status"] != Status.OK).tolist()
    errors = {int(told["request_id"][at]): text for at in failed if (text := told["error"][at]) is not None}
    return Compact(schedule, _requests(schedule, tables), steps, in_flight, stopped_ns, errors)


def as_recording(run: Compact, host: Sequence[Table] = ()) -> Recording:
    """The run as everything else knows runs, its tokens implied. `host`: samples of the machine, in any order."""
    spans = run.tokens
    samples = concatenate(host) if host else {name: int64([]) for name in PART_TABLES["host"]}
    in_time = np.argsort(samples["t_ns"], kind="stable")
    return Recording(
        schedule=run.schedule,
        requests=_all_columns(run),
        token_offsets=np.concatenate([[0], np.cumsum(spans.tokens)]).astype(np.int64),
        token_step=None,
        token_t_ns=None,
        token_count=int64([]),
        token_ids=int64([]),
        steps=run.steps,
        host={name: values[in_time] for name, values in samples.items()},
        in_flight_request_ns=run.in_flight_request_ns,
        stopped_ns=run.stopped_ns,
        spans=spans,
    )


def _all_columns(run: Compact) -> Table:
    """The requests' columns under the names and in the order that a recording has them."""
    told, schedule, ended = run.requests, run.schedule, run.requests["status"] == Status.OK
    reasons, errors = (np.full(len(schedule), None, dtype=object) for _ in range(2))
    reasons[ended] = LENGTH
    for request_id, text in run.errors.items():
        errors[request_id] = text
    columns: Table = {name: told[name] for name in ("request_id", *REQUEST_COLUMNS)}
    columns |= {"finish_reason": reasons, "error": errors}
    columns |= {name: told[name] for name in ("admitted_step", "slot", "ended_step", "released_step")}
    columns |= {name: told[name] for name in ("prompt_tokens", "output_tokens_asked")}
    columns |= {name: getattr(schedule, name) for name in GIVEN_COLUMNS}
    tokens = run.tokens.tokens
    return {**columns, "output_tokens": tokens, "token_source": int64(np.where(tokens > 0, ENGINE, NULL))}


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
    for name, ids, values in _places(tables["slot_events"]):
        requests[name] = np.full(rows, NULL, dtype=np.int64)
        requests[name][ids] = values
    requests["prompt_tokens"], requests["output_tokens_asked"] = schedule.prompt_tokens, schedule.output_tokens
    return requests


def _places(events: Table) -> list[tuple[str, Int64, Int64]]:
    """What the slot events say of requests, as (column, request ids, values)."""
    kinds, ids, steps = (int64(events[name]) for name in ("event", "request_id", "step"))
    admitted, ended, released = (kinds == event for event in (SlotEvent.ADMITTED, SlotEvent.ENDED, SlotEvent.RELEASED))
    request_id, begin, last = seat_spans(events)
    return [
        ("admitted_step", request_id, begin),
        ("last_step", request_id, last),
        ("slot", request_id, int64(events["slot"])[admitted]),
        ("ended_step", ids[ended], steps[ended]),
        ("released_step", ids[released], steps[released]),
    ]


def output_tokens(run: Compact) -> Int64:
    """How many each request got."""
    return run.tokens.tokens


def ttft_ns(run: Compact) -> Float64:
    """First token - due; +inf where the request failed."""
    return _of_seated(run, (run.tokens.first_ns - _due(run)).astype(np.float64))


def e2e_ns(run: Compact) -> Float64:
    """Last token - due."""
    return _of_seated(run, (run.tokens.last_ns - _due(run)).astype(np.float64))


def tpot_ns(run: Compact) -> Float64:
    """(last - first token) / (tokens - 1); undefined for one token."""
    spans = run.tokens
    later = spans.high - spans.low
    with np.errstate(divide="ignore", invalid="ignore"):
        return _of_seated(run, np.where(later > 0, (spans.last_ns - spans.first_ns) / later, np.nan))


def stall_ns(run: Compact) -> Float64:
    """The longest gap between two tokens of a request."""
    return _of_seated(run, run.tokens.stall_ns)


def _due(run: Compact) -> Int64:
    return int64(run.requests["due_ns"])[run.tokens.seated]


def _of_seated(run: Compact, values: Float64) -> Float64:
    """Values of the seated as values of all: undefined for the others, infinite where the request failed."""
    everyone = run.tokens.of_all(values)
    return np.asarray(np.where(run.requests["status"] == Status.OK, everyone, np.inf))
