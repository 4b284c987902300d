"""Stretches taken apart: rows of many steps become rows of one, and the tokens they imply become deliveries.

A stretch says nothing of single requests: in each of its steps everybody who sits in a slot and has not ended gets
one token. Who that is follows from the slot events. What comes out is, row for row, what single steps would have
told.
"""

from collections.abc import Mapping

import numpy as np

from results.columns import Int64, Table, int64, is_null
from results.slots import SlotEvent

IMPLIED = "implied"
"""Column of the steps of a part: 1 where the row's deliveries are not among the tokens."""


def unrolled(tables: Mapping[str, Table]) -> dict[str, Table]:
    """The tables of a recording without stretches; the same tables where there are none."""
    steps = tables["steps"]
    if IMPLIED not in steps:
        return dict(tables)
    implied = steps[IMPLIED] == 1
    single = single_steps({name: values for name, values in steps.items() if name != IMPLIED})
    n_steps = int64(steps["n_steps"])
    decodes = single["step"][np.repeat(implied, n_steps)]
    tokens = _with_implied(tables["tokens"], tables["slot_events"], int64(decodes))
    return {**tables, "steps": single, "tokens": tokens}


def implied_tokens(steps: Table) -> int:
    """How many tokens the stretches among the steps stand for."""
    if IMPLIED not in steps:
        return 0
    return int((int64(steps["n_steps"]) * int64(steps["decoding_slots"]))[steps[IMPLIED] == 1].sum())


def single_steps(steps: Table) -> Table:
    """A row for every step. Costs grow by the slope, the cache by one token for each slot that decodes."""
    n_steps = int64(steps["n_steps"])
    if (n_steps == 1).all():
        return {**steps, "cost_slope_ps": np.zeros(len(n_steps), dtype=np.int64)}
    rows = np.repeat(np.arange(len(n_steps)), n_steps)
    within = np.arange(len(rows)) - np.repeat(np.cumsum(n_steps) - n_steps, n_steps)
    single: Table = {name: values[rows] for name, values in steps.items()}
    first, slope = int64(steps["cost_ps"])[rows], int64(steps["cost_slope_ps"])[rows]
    single["step"] = int64(steps["step"])[rows] + within
    single["n_steps"] = np.ones(len(rows), dtype=np.int64)
    single["start_ps"] = int64(steps["start_ps"])[rows] + first * within + slope * (within * (within - 1) // 2)
    single["cost_ps"] = first + slope * within
    single["cost_slope_ps"] = np.zeros(len(rows), dtype=np.int64)
    kv_tokens, grows = int64(steps["kv_tokens"])[rows], int64(steps["decoding_slots"])[rows]
    single["kv_tokens"] = np.where(is_null(kv_tokens), kv_tokens, kv_tokens + within * grows)
    return single


def seat_spans(events: Table) -> tuple[Int64, Int64, Int64]:
    """Of each request that got a slot: its id, the step it was admitted in, and the last that may have given it
    anything (where neither its end nor its abort is told, the largest number there is)."""
    kinds, ids, at = (int64(events[name]) for name in ("event", "request_id", "step"))
    admitted = kinds == SlotEvent.ADMITTED
    request_id, begin = ids[admitted], at[admitted]
    most = int(ids.max(initial=-1)) + 1
    last = np.full(most, np.iinfo(np.int64).max)
    for event in (SlotEvent.DROPPED, SlotEvent.ENDED):
        last[ids[kinds == event]] = at[kinds == event]
    return request_id, begin, last[request_id]


def _with_implied(tokens: Table, events: Table, decodes: Int64) -> Table:
    """The deliveries and, in the order of steps, those of the implied decodes."""
    request_id, begin, last = seat_spans(events)
    low = np.searchsorted(decodes, begin, side="right")
    counts = np.maximum(np.searchsorted(decodes, last, side="right") - low, 0)
    total = int(counts.sum())
    within = np.arange(total) - np.repeat(np.cumsum(counts) - counts, counts)
    ids = np.concatenate([int64(tokens["request_id"]), np.repeat(request_id, counts)])
    step = np.concatenate([int64(tokens["step"]), decodes[np.repeat(low, counts) + within]])
    count = np.concatenate([int64(tokens["tokens"]), np.ones(total, dtype=np.int64)])
    order = np.argsort(step, kind="stable")
    return {"request_id": ids[order], "step": step[order], "tokens": count[order]}
