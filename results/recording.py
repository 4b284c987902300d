"""The recording: what happened, as rows. Parts are appended during a run, `merge` makes one recording of them.

`merge` is the same function for a run in one process, for shards of many, and for the parts that a killed run
left behind: every scheduled request comes out exactly once, sorted by id.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from results.columns import NULL, Int64, Table, int64, is_null
from results.remote import ENGINE, REMOTE_COLUMNS, REMOTE_TEXT_COLUMNS, account, judge_ends
from results.schedule import Schedule
from results.slots import WORK_COLUMNS
from results.slots import SlotEvent as SlotEvent
from results.spans import TokenSpans
from results.status import Status
from results.unroll import unrolled

KINDS = ("prefill", "decode", "mixed")


PART_TABLES: dict[str, tuple[str, ...]] = {
    "requests": ("request_id", "due_ns", "handed_ns", "end_ns", "status", "finish_reason", "error"),
    "tokens": ("request_id", "step", "tokens"),
    "token_ids": ("token_id",),
    "slot_events": ("request_id", "event", "step", "slot"),
    "steps": ("step", "n_steps", "kind", "told", *WORK_COLUMNS),
    "host": (
        "t_ns", "wall_ns", "process_cpu_ns", "involuntary_switches", "run_queue_wait_ns", "load_average_milli",
        "max_rss_bytes", "worker_id",
    ),
    "flight": ("until_ns", "request_ns"),
}  # fmt: skip
"""Tables of a part and the columns each has at least.

requests: of streaming targets with REMOTE_COLUMNS and REMOTE_TEXT_COLUMNS beside these. tokens: one row a delivery;
of streaming targets `t_ns` in place of `step`. token_ids: flat, in the order of `tokens`; empty when the target's
ids mean nothing. steps: with start_ps, cost_ps and cost_slope_ps in modelled time, with start_ns and end_ns
otherwise; a row of the former may be a stretch of steps, with its deliveries implied (`results.unroll`), which
`merge` takes apart. host: worker_id tells the client process that sampled, 0 where there is one. flight: requests in
flight, integrated over the part's time, by a counter that sees no row.
"""
TEXT_COLUMNS = ("finish_reason", "error", *REMOTE_TEXT_COLUMNS)


@dataclass(frozen=True, slots=True)
class RecordingPart:
    """Rows of one stretch of a run, append-only."""

    tables: Mapping[str, Table]


@dataclass(frozen=True, slots=True)
class Recording:
    """One run as columns."""

    schedule: Schedule
    requests: Table
    """One row a scheduled request, sorted by id."""
    token_offsets: Int64
    """Deliveries of request i are rows token_offsets[i]:token_offsets[i + 1] of the token columns."""
    token_step: Int64 | None
    """The step each came from; None for streaming targets, and where they are implied."""
    token_t_ns: Int64 | None
    """When each arrived; None for stepping engines, whose step table has the times."""
    token_count: Int64
    """Tokens in each delivery."""
    token_ids: Int64
    """All token ids in that order, or empty."""
    steps: Table
    host: Table
    in_flight_request_ns: int
    """Requests in flight, integrated over the run by a counter of its own: the check on the rows."""
    stopped_ns: int | None = None
    """When the run was stopped, or how far the rows of a killed one reach; None: it ran to its end."""
    spans: TokenSpans | None = None
    """Of a long modelled run, in place of rows of the token columns, which are empty: one token a delivery."""


def merge(schedule: Schedule, parts: Iterable[RecordingPart]) -> Recording:
    """One recording from parts in any number and order. A request told of twice counts as first told.

    A scheduled request that no part knows the end of is `not_dispatched`. A delivery without a token (an end that
    comes after the last one) is no delivery.
    """
    ordered = sorted(parts, key=_place) or [empty_part()]
    tables = unrolled({name: _joined([part.tables[name] for part in ordered]) for name in PART_TABLES})
    in_steps = not _is_streamed(tables)
    if not in_steps and "t_ns" not in tables["tokens"]:
        tables["tokens"]["t_ns"] = tables["tokens"].pop("step")
    bearing = tables["tokens"]["tokens"] != 0
    tables["tokens"] = {name: values[bearing] for name, values in tables["tokens"].items()}
    offsets, order = _group(tables["tokens"], len(schedule))
    counts = int64(tables["tokens"]["tokens"])
    requests = _requests(schedule, tables)
    _count_tokens(requests, _sums(counts[order], offsets), in_steps)
    pinned = schedule.recipe.get("sampling", {}).get("ignore_eos", True)
    judge_ends(requests, np.diff(offsets), pinned)
    in_time = np.argsort(tables["host"]["t_ns"], kind="stable")
    times = int64(tables["tokens"]["step" if in_steps else "t_ns"])[order]
    return Recording(
        schedule=schedule,
        requests=requests,
        token_offsets=offsets,
        token_step=times if in_steps else None,
        token_t_ns=None if in_steps else times,
        token_count=counts[order],
        token_ids=_regrouped(int64(tables["token_ids"]["token_id"]), counts, order),
        steps=tables["steps"],
        host={name: values[in_time] for name, values in tables["host"].items()},
        in_flight_request_ns=int(tables["flight"]["request_ns"].sum()),
    )


def empty_part() -> RecordingPart:
    """No rows at all, of a run in nanoseconds."""
    times = ("start_ns", "end_ns")
    names = {**PART_TABLES, "steps": (*PART_TABLES["steps"], *times)}
    return RecordingPart(
        {
            table: {name: np.empty(0, dtype=object if name in TEXT_COLUMNS else np.int64) for name in columns}
            for table, columns in names.items()
        }
    )


def _place(part: RecordingPart) -> tuple[int, int]:
    """Stepping engines' parts in the order of steps, all others in the order of time."""
    steps, until_ns = part.tables["steps"]["step"], part.tables["flight"]["until_ns"]
    return (int(steps[0]) if len(steps) else -1), (int(until_ns[0]) if len(until_ns) else -1)


def _joined(tables: Sequence[Table]) -> Table:
    """All rows, in order; a column that only some of them have is missing in the rows of the others."""
    bearing = [table for table in tables if len(next(iter(table.values())))]
    names = dict.fromkeys(name for table in bearing or tables for name in table)
    if "t_ns" in names:
        names.pop("step", None)
    return {name: np.concatenate([_column(table, name) for table in bearing or tables]) for name in names}


def _is_streamed(tables: Mapping[str, Table]) -> bool:
    """Whether a streaming target's parts these are, though it may have sent nothing yet."""
    return "t_ns" in tables["tokens"] or (
        not len(tables["tokens"]["tokens"]) and any(name in tables["requests"] for name in REMOTE_COLUMNS)
    )


def _column(table: Table, name: str) -> NDArray[np.generic]:
    return table[name] if name in table else _missing(name, len(next(iter(table.values()))))


def _missing(name: str, rows: int) -> NDArray[np.generic]:
    if name in TEXT_COLUMNS:
        return np.full(rows, None, dtype=object)
    return np.full(rows, NULL, dtype=np.int64)


def _group(tokens: Table, requests: int) -> tuple[Int64, NDArray[np.intp]]:
    """Offsets by request, and the order that groups rows by request: as they stand, or by their own times."""
    ids = int64(tokens["request_id"])
    order = np.lexsort((tokens["t_ns"], ids)) if "t_ns" in tokens else np.argsort(ids, kind="stable")
    counts = np.bincount(ids, minlength=requests) if len(ids) else np.zeros(requests, dtype=np.int64)
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64), order


def _sums(values: Int64, offsets: Int64) -> Int64:
    total: Int64 = np.concatenate([[0], np.cumsum(values)]).astype(np.int64)
    sums: Int64 = total[offsets[1:]] - total[offsets[:-1]]
    return sums


def _regrouped(flat: Int64, counts: Int64, order: NDArray[np.intp]) -> Int64:
    """Values that stand `counts` to a row, put into the rows' new order."""
    if not len(flat):
        return flat
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]]).astype(np.int64)
    lengths = counts[order]
    within = np.arange(len(flat)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    return int64(flat[np.repeat(starts[order], lengths) + within])


def _requests(schedule: Schedule, tables: Mapping[str, Table]) -> Table:
    rows = len(schedule)
    requests: Table = {"request_id": np.arange(rows, dtype=np.int64)}
    told = tables["requests"]
    ids, first = np.unique(told["request_id"], return_index=True)
    kept = [name for name in (*REMOTE_COLUMNS, *REMOTE_TEXT_COLUMNS) if name in told]
    for name in (*PART_TABLES["requests"][1:], *kept):
        requests[name] = _missing(name, rows)
        requests[name][int64(ids)] = told[name][first]
    requests["status"][is_null(requests["status"])] = np.int64(Status.NOT_DISPATCHED)
    missing = is_null(requests["due_ns"])
    requests["due_ns"][missing] = schedule.due_ns[missing]
    events = tables["slot_events"]
    for name, event, column_name in (
        ("admitted_step", SlotEvent.ADMITTED, "step"),
        ("slot", SlotEvent.ADMITTED, "slot"),
        ("ended_step", SlotEvent.ENDED, "step"),
        ("released_step", SlotEvent.RELEASED, "step"),
    ):
        chosen = events["event"] == event
        requests[name] = np.full(rows, NULL, dtype=np.int64)
        requests[name][int64(events["request_id"][chosen])] = events[column_name][chosen]
    requests["prompt_tokens"] = schedule.prompt_tokens
    requests["output_tokens_asked"] = schedule.output_tokens
    for name in ("phase", "session", "turn", "request_class"):
        requests[name] = getattr(schedule, name)
    return requests


def _count_tokens(requests: Table, event_tokens: Int64, by_engine: bool) -> None:
    """Columns output_tokens and token_source; of streaming targets streamed_tokens too."""
    if by_engine:
        requests["output_tokens"] = event_tokens
        requests["token_source"] = int64(np.where(event_tokens > 0, ENGINE, NULL))
        return
    counted = account(requests, event_tokens)
    requests["output_tokens"] = counted.output_tokens
    requests["token_source"] = counted.token_source
    requests["streamed_tokens"] = counted.streamed_tokens
