"""Quantiles and the floor below which they are not given."""

from math import ceil

import numpy as np
from numpy.typing import NDArray

from results.columns import Int64

N_TOO_SMALL = "N_TOO_SMALL"
FAILED_TAIL = "FAILED_TAIL"
NO_VALUES = "NO_VALUES"


def sample_floor(q: float) -> int:
    """The fewest values for which quantile q is given: ceil(1 / (1 - q)), 100 for p99, 2 for the median."""
    return ceil(round(1 / (1 - q), 9))


def quantile(values: NDArray[np.float64], q: float) -> tuple[float | None, str | None]:
    """Quantile q of the values (+inf: failed), or None with the reason.

    Hyndman and Fan's type 8, which is median-unbiased whatever the distribution ("Sample quantiles in
    statistical packages", 1996): position (n + 1/3) q + 1/3 among the sorted values.
    """
    if not len(values):
        return None, NO_VALUES
    if len(values) < sample_floor(q):
        return None, N_TOO_SMALL
    ordered = np.sort(values)
    position = (len(values) + 1 / 3) * q + 1 / 3
    below = int(np.clip(np.floor(position), 1, len(values)))
    above = min(below + 1, len(values))
    share = min(max(position - below, 0.0), 1.0)
    low, high = float(ordered[below - 1]), float(ordered[above - 1])
    if np.isinf(low) or (share > 0 and np.isinf(high)):
        return None, FAILED_TAIL
    return (low if share == 0 else low + share * (high - low)), None


def ordered_quantile(values: Int64, until: Int64, q: float) -> float | None:
    """Type 8 of finite values in rising order, None without any; `until`: how many there are up to each of them."""
    total = int(until[-1]) if len(until) else 0
    if not total:
        return None
    position = (total + 1 / 3) * q + 1 / 3
    below = int(np.clip(np.floor(position), 1, total))
    above = min(below + 1, total)
    low, high = (float(values[np.searchsorted(until, at)]) for at in (below, above))
    return low + min(max(position - below, 0.0), 1.0) * (high - low)
