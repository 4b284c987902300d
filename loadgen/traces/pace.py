"""How fast and how unevenly a window's requests arrive. Pure functions of times; null where undefined."""

import numpy as np

from loadgen.units import NS_PER_S
from results.columns import Int64

BIN_NS = NS_PER_S


def rate_rps(at_ns: Int64, length_ns: int) -> float | None:
    """Arrivals in a window by its length; null for a window of no length."""
    return len(at_ns) * NS_PER_S / length_ns if length_ns > 0 else None


def gap_cv(at_ns: Int64) -> float | None:
    """Standard deviation of the gaps by their mean (1 for a Poisson process); null below two gaps, or all 0."""
    gaps = np.diff(at_ns)
    if len(gaps) < 2 or not gaps.any():  # noqa: PLR2004 - one gap has no spread
        return None
    return float(gaps.std() / gaps.mean())


def dispersion(at_ns: Int64, begin_ns: int, end_ns: int) -> float | None:
    """Variance by mean of the arrivals in each whole second of a window (1 for a Poisson process).

    Null below two whole seconds, or where these are empty.
    """
    bins = (end_ns - begin_ns) // BIN_NS
    if bins < 2:  # noqa: PLR2004 - one second has no spread
        return None
    number = (at_ns - begin_ns) // BIN_NS
    busy, counts = np.unique(number[(number >= 0) & (number < bins)], return_counts=True)
    if not len(busy):
        return None
    mean = float(counts.sum()) / bins
    return float(np.square(counts).sum() / bins - mean**2) / mean
