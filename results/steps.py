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


def _after_ps(steps: Steps, rows: NDArray[np.intp], taken_steps: Int64) -> Int64:
    """The time in each row's stretch after so many of its steps."""
    slope = int64(steps["cost_slope_ps"])[rows] * (taken_steps * (taken_steps - 1) // 2)
    return int64(steps["start_ps"])[rows] + int64(steps["cost_ps"])[rows] * taken_steps + slope
