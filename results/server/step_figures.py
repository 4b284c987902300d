"""Figures of the server's own steps: the slot accounting of an engine in this process, for one behind HTTP."""

from typing import Any

from results.columns import Table, int64
from results.figure_json import NOT_TOLD, with_reasons
from results.server.step_table import ServerSteps
from results.slot_figures import slot_figures
from results.steps import started_between
from results.window import WHOLE_RUN, span_name

Json = dict[str, Any]
FRACTIONS = ("wasted_slot_fraction", "unused_slot_fraction", "padding_fraction", "held_back_fraction")
FIGURES = ("total_slot_steps", "wasted_slot_steps", "slot_steps", *FRACTIONS, "slot_time_share")
BY_TIME, BY_STEP = "time", "step number"
RECORD = "tokenload serve --record FOLDER keeps them all"
HELD_BACK = "steps do not tell which request waits"


def own_steps(told: ServerSteps, span_ns: tuple[int, int | None]) -> Json:
    """Of the steps that started in the span; of all since time 0, by their numbers, where clocks do not compare.

    Figures are null, with the reason, unless every one of those steps is there.
    """
    by_time = told.same_clock
    steps = started_between(_since_0(told), *span_ns) if by_time else _since_0(told)
    document = {
        "span": span_name(span_ns) if by_time else WHOLE_RUN,
        "chosen_by": BY_TIME if by_time else BY_STEP,
        "steps": int(steps["n_steps"].sum()),
        "missed_steps": told.missed_steps,
    }
    why = _why_not(told, span_ns[0])
    if why:
        nothing = with_reasons(dict.fromkeys(FIGURES, (None, NOT_TOLD)))
        return {**document, "busy_ns": None, **nothing, "advice": dict.fromkeys(FIGURES, why)}
    return {**document, **slot_figures(steps, None, NOT_TOLD), "advice": {"held_back_fraction": HELD_BACK}}


def _since_0(told: ServerSteps) -> Table:
    """Without those of the warm-up."""
    if told.same_clock:
        kept = int64(told.steps["start_ns"]) >= 0
    else:
        kept = int64(told.steps["step"]) >= (told.begin_step or 0)
    return {name: values[kept] for name, values in told.steps.items()}


def _why_not(told: ServerSteps, begin_ns: int) -> str:
    """Steps that count are missing: why, with what to do about it."""
    if told.reason:
        return told.reason
    start = int64(told.steps["start_ns"])
    from_before = told.same_clock and len(start) > 0 and int(start[0]) <= begin_ns and not told.left_out_steps
    if told.missed_steps and not from_before:
        return f"the server had dropped {told.missed_steps} steps by then, it keeps the newest: {RECORD}"
    return ""
