"""When each step began and ended. A row of the step table is a stretch of n_steps steps; most are of one.

In modelled time a stretch starts at start_ps and its step j (from 0) costs cost_ps + j x cost_slope_ps; other
clocks give start_ns and end_ns of each step. Picoseconds are floored to nanoseconds once, here.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from results.columns import Int64, int64

PS_PER_NS = 1_000
Steps = Mapping[str, NDArray[np.generic]]


def starts_ns(steps: Steps) -> Int64:
    """Start of each row of the step table."""
    return int64(steps["start_ps"]) // PS_PER_NS if "start_ps" in steps else int64(steps["start_ns"])


def ends_ns(steps: Steps) -> Int64:
    """End of each row of the step table: of its last step."""
    if "start_ps" not in steps:
        return int64(steps["end_ns"])
    return _after_ps(steps, np.arange(len(steps["step"])), int64(steps["n_steps"])) // PS_PER_NS


def durations(steps: Steps) -> Int64:
    """Length of each row of the step table, in ps in modelled time, in ns otherwise."""
    if "start_ps" not in steps:
        return int64(steps["end_ns"]) - int64(steps["start_ns"])
    return _after_ps(steps, np.arange(len(steps["step"])), int64(steps["n_steps"])) - int64(steps["start_ps"])


def step_ends_ns(steps: Steps, step: Int64) -> Int64:
    """When the given steps ended, wherever in a stretch they lie. The step table is in the order of steps."""
    if not len(step):
        return int64([])
    rows = np.searchsorted(int64(steps["step"]), step, side="right") - 1
    if "start_ps" not in steps:
        return int64(steps["end_ns"])[rows]
    return _after_ps(steps, rows, step - int64(steps["step"])[rows] + 1) // PS_PER_NS


def step_starts_ns(steps: Steps, step: Int64) -> Int64:
    """When the given steps started."""
    if not len(step):
        return int64([])
    rows = np.searchsorted(int64(steps["step"]), step, side="right") - 1
    if "start_ps" not in steps:
        return int64(steps["start_ns"])[rows]
    return _after_ps(steps, rows, step - int64(steps["step"])[rows]) // PS_PER_NS


def started_between(steps: Steps, begin_ns: int, end_ns: int | None) -> Steps:
    """The table of the steps that started in [begin, end), end None: ever; a stretch across an edge is cut there."""
    if begin_ns <= 0 and end_ns is None:
        return steps
    rows = len(steps["step"])
    low, skipped_steps = _place(steps, begin_ns) if begin_ns > 0 else (0, 0)
    high, taken_steps = _place(steps, end_ns) if end_ns is not None else (rows, 0)
    last = min(high + bool(taken_steps), rows)
    cut = {name: values[low:last].copy() for name, values in steps.items()}
    if not len(cut["step"]):
        return cut
    if taken_steps:
        cut["n_steps"][-1] = taken_steps
    if skipped_steps:
        at = np.array([low])
        if "start_ps" in cut:
            cut["start_ps"][:1] = _after_ps(steps, at, int64([skipped_steps]))
            cut["cost_ps"][:1] = int64(cut["cost_ps"])[:1] + int64(cut["cost_slope_ps"])[:1] * skipped_steps
        cut["step"][:1] = int64(cut["step"])[:1] + skipped_steps
        cut["n_steps"][:1] = int64(cut["n_steps"])[:1] - skipped_steps
    return cut


def _place(steps: Steps, edge_ns: int) -> tuple[int, int]:
    """(row, n): all rows before this one started before the edge, and so did its first n steps, not all of them."""
    row = int(np.searchsorted(starts_ns(steps), edge_ns, side="left")) - 1
    if row < 0:
        return 0, 0
    count = int(steps["n_steps"][row])
    begun = 1
    if "start_ps" in steps:
        each = _after_ps(steps, np.full(count, row), np.arange(count)) // PS_PER_NS
        begun = int(np.searchsorted(each, edge_ns, side="left"))
    return (row + 1, 0) if begun == count else (row, begun)


def _after_ps(steps: Steps, rows: NDArray[np.intp], taken_steps: Int64) -> Int64:
    """The time in each row's stretch after so many of its steps."""
    slope = int64(steps["cost_slope_ps"])[rows] * (taken_steps * (taken_steps - 1) // 2)
    return int64(steps["start_ps"])[rows] + int64(steps["cost_ps"])[rows] * taken_steps + slope
