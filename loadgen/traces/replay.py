"""Replay: from a trace and options to a schedule, each step on the way recorded with its rows in and out.

The window is what was asked for; without one it is the whole recording, from its first row (or an earlier
arrival) to its last arrival or declared end. A limit ends it where the first row left out was due. Offered
rate, the rate asked for, and the start of each loop all refer to this window's length.
"""

from collections import Counter
from dataclasses import replace

import numpy as np

from loadgen.traces.flow import Excluded, Flow, flow_of
from loadgen.traces.options import Replay
from loadgen.traces.pace import dispersion, gap_cv, rate_rps
from loadgen.traces.rows import Json, Trace, span_ns
from loadgen.traces.transforms import STEPS, seconds
from results.columns import NULL, Int64, is_null
from results.schedule import Schedule, make_schedule

__all__ = ["Replay", "replay"]


def replay(trace: Trace, options: Replay, recipe: Json) -> Schedule:
    """The schedule. ValueError in one line when the options do not fit the trace, or leave no row."""
    flow = flow_of(trace)
    steps: list[Json] = []
    for name, step in STEPS.items():
        outcome = step(flow, options)
        if outcome is not None:
            left, excluded, parameters = outcome
            _check_balance(name, flow, left, excluded)
            steps.append({"step": name, "rows_in": len(flow), "rows_out": len(left), "excluded": excluded,
                          **_pace(left), **parameters})  # fmt: skip
            flow = left
    return _schedule(flow, recipe, _origin(flow, options, steps))


def _check_balance(name: str, flow: Flow, left: Flow, excluded: Excluded) -> None:
    """Rows in are rows out and rows excluded by reason. ValueError when none are out."""
    per_copy = len(left) * flow.copies // left.copies
    assert len(flow) == per_copy + sum(excluded.values()), f"step {name} lost rows"
    if not len(left):
        begin_ns, end_ns = span_ns(flow.trace)
        reasons = ", ".join(f"{rows:,} {reason}" for reason, rows in excluded.items())
        raise ValueError(f"step {name} leaves no rows ({reasons or 'there were none'}): ask for less to be left "
                         f"out; the trace spans {seconds(begin_ns)}..{seconds(end_ns)}")  # fmt: skip


def _pace(flow: Flow) -> Json:
    at_ns = flow.at_ns[~is_null(flow.at_ns)]
    return {
        "rate_rps": rate_rps(at_ns, flow.end_ns - flow.begin_ns),
        "cv": gap_cv(at_ns),
        "dispersion": dispersion(at_ns, flow.begin_ns, flow.end_ns),
        "mean_prompt_tokens": _known_mean(flow.prompt_tokens),
        "mean_output_tokens": _known_mean(flow.output_tokens),
    }


def _known_mean(column: Int64) -> float | None:
    known = column[~is_null(column)]
    return float(known.mean()) if len(known) else None


def _origin(flow: Flow, options: Replay, steps: list[Json]) -> Json:
    excluded: Counter[str] = Counter()
    for step in steps:
        excluded.update(step["excluded"])
    return {
        "process": "trace",
        "parameters": options.parameters(),
        "rate_rps": steps[-1]["rate_rps"],
        "window": {"kind": "trace", "end_ns": flow.end_ns},
        "stationary": False,
        "trace": flow.trace.header,
        "steps": steps,
        "rows": {"source": len(flow.trace), "excluded": dict(excluded), "copies": flow.copies, "sent": len(flow),
                 "waiting": int(is_null(flow.at_ns).sum())},
        "warnings": _warnings(flow, options),
    }  # fmt: skip


def _warnings(flow: Flow, options: Replay) -> list[str]:
    warnings = list(flow.trace.header.get("warnings", []))
    end_ns = span_ns(flow.trace)[1]
    if options.window_ns is not None and options.window_ns[1] > end_ns:
        warnings.append(f"the window reaches past the end of the trace and is cut there, at {seconds(end_ns)}")
    return warnings


def _schedule(flow: Flow, recipe: Json, origin: Json) -> Schedule:
    trace, rows = flow.trace, flow.rows
    after = _after(flow)
    schedule = make_schedule(
        flow.at_ns,
        flow.prompt_tokens,
        flow.output_tokens,
        after=after,
        think_ns=_think_ns(flow),
        session=_sessions(flow),
        turn=None if trace.turn is None else trace.turn[rows],
        request_class=None if trace.request_class is None else trace.request_class[rows],
        class_names=trace.class_names,
        recipe=recipe,
        origin=origin,
    )
    return schedule if trace.phase is None else replace(schedule, phase=trace.phase[rows])


def _after(flow: Flow) -> list[tuple[int, ...]] | None:
    """Request ids that each waits for, within its own copy; a row with a time of its own waits for none."""
    waits = is_null(flow.at_ns)
    after = flow.trace.after
    if after is None or not waits.any():
        return None
    copy_rows = len(flow) // flow.copies
    source_row = flow.trace.source_row[flow.rows[:copy_rows]].tolist()
    ids = {row: request_id for request_id, row in enumerate(source_row)}
    lists: list[tuple[int, ...]] = [()] * len(flow)
    for position in np.flatnonzero(waits).tolist():
        first_id = position - position % copy_rows
        lists[position] = tuple(first_id + ids[row] for row in after[flow.rows[position]])
    return lists


def _think_ns(flow: Flow) -> Int64 | None:
    """As recorded; 0 for a row that waits and whose think time is unknown (counted in step `select`)."""
    waits = is_null(flow.at_ns)
    think_ns = flow.trace.think_ns
    if think_ns is None:
        return np.where(waits, 0, NULL) if waits.any() else None
    think_ns = think_ns[flow.rows]
    return np.where(waits & is_null(think_ns), 0, think_ns)


def _sessions(flow: Flow) -> Int64 | None:
    """As in the trace; in a loop each copy has sessions of its own, numbered in the order of their labels."""
    if flow.trace.session is None or flow.copies == 1:
        return None if flow.trace.session is None else flow.trace.session[flow.rows]
    labels, number = np.unique(flow.trace.session[flow.rows], return_inverse=True)
    copy = np.arange(len(flow), dtype=np.int64) // (len(flow) // flow.copies)
    return np.where(is_null(labels[number]), NULL, number + copy * len(labels)).astype(np.int64)
