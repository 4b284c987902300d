"""MSER-5: where a run's beginning seems to differ from the rest of it. A diagnostic, never a cut.

White, "An effective truncation heuristic for bias reduction in simulation output" (1997). On a clean series it
cuts as well, and lowers the tail by doing so: that is why nothing here removes a row.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Float64 = NDArray[np.float64]
BATCH = 5
LEAST_BATCHES = 4
HALVES_RATIO = 1.10


@dataclass(frozen=True, slots=True)
class Mser:
    """What MSER-5 says of a series."""

    cut_requests: int
    """So many of the first values seem to belong to a beginning."""
    failed: bool
    """The cut fell into the second half: the series has no part that looks settled."""


def mser5(values: Float64) -> Mser | None:
    """The cut that minimises sum (Z - mean)^2 / count^2 over the batch means Z behind it; None below 20 values."""
    count = len(values) // BATCH
    if count < LEAST_BATCHES or not np.isfinite(values).all():
        return None
    means = values[: count * BATCH].reshape(count, BATCH).mean(axis=1)
    left = np.arange(count, 0, -1, dtype=np.float64)
    centred = means - means.mean()
    sums, squares = np.cumsum(centred[::-1])[::-1], np.cumsum(centred[::-1] ** 2)[::-1]
    scores = (squares - sums**2 / left) / left**2
    cut = int(np.argmin(scores[: count - 1]))
    return Mser(cut * BATCH, cut >= count / 2)


def settles_late(values: Float64, planned_requests: int = 0) -> str | None:
    """In words, when the cut lies behind the planned one and the halves differ by 10 % the same way; else None."""
    found = mser5(values)
    if found is None or found.cut_requests <= planned_requests:
        return None
    half = len(values) // 2
    first, second = float(np.median(values[:half])), float(np.median(values[half:]))
    before, behind = float(np.median(values[: found.cut_requests])), float(np.median(values[found.cut_requests :]))
    apart = min(first, second) > 0 and max(first, second) > HALVES_RATIO * min(first, second)
    if not apart or (first > second) != (before > behind):
        return None
    return (
        f"MSER-5 sees a beginning of {found.cut_requests} values, and the medians of the two halves are "
        f"{first:.4g} and {second:.4g}"
    )
