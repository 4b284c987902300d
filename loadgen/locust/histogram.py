"""Histograms with logarithmic bins: any quantile of any number of values, within a share of itself, in fixed memory.

Knows no locust and no rows.
"""

from collections.abc import Mapping
from math import log, log1p

import numpy as np
from numpy.typing import NDArray

from results.columns import Int64
from results.stats import FAILED_TAIL, N_TOO_SMALL, NO_VALUES, sample_floor

Float64 = NDArray[np.float64]
EXACT_FRACTION = 0.002
"""A quantile is off by no more than this share of itself."""
LARGEST = 1e14
"""Larger values (more than a day, in ns) are counted in the last bin."""


class LogHistogram:
    """Counts of values from 1 on, zeros and infinities apart; beside them the exact sum, least and largest."""

    def __init__(self, error_fraction: float = EXACT_FRACTION) -> None:
        """`error_fraction`: how far a quantile may be off, as a share of itself."""
        self._log_growth_ratio = 2 * log1p(error_fraction)
        self._bins = np.zeros(2 + int(log(LARGEST) / self._log_growth_ratio), dtype=np.int64)
        """The first is of zeros; bin i + 1 begins at growth ** i."""
        self.count = 0
        """Of all values, infinite ones too."""
        self.infinite_count = 0
        self.sum = 0.0
        self.least: float | None = None
        self.largest: float | None = None

    def add(self, values: Float64) -> None:
        """Count them: 0 or more, +inf for what never came. What is not a number is left out."""
        values = values[~np.isnan(values)]
        finite = values[np.isfinite(values)]
        self.count += len(values)
        self.infinite_count += len(values) - len(finite)
        if not len(finite):
            return
        finite = np.maximum(finite, 0.0)
        least, largest = float(finite.min()), float(finite.max())
        self.sum += float(finite.sum())
        self.least = least if self.least is None else min(least, self.least)
        self.largest = largest if self.largest is None else max(largest, self.largest)
        np.add.at(self._bins, self._places(finite), 1)

    def merge(self, other: "LogHistogram") -> None:
        """Count what the other has counted; it has the same error."""
        self._bins += other._bins
        self.count += other.count
        self.infinite_count += other.infinite_count
        self.sum += other.sum
        self.least = min((one for one in (self.least, other.least) if one is not None), default=None)
        self.largest = max((one for one in (self.largest, other.largest) if one is not None), default=None)

    @property
    def mean(self) -> float | None:
        """Of the finite values."""
        finite = self.count - self.infinite_count
        return self.sum / finite if finite else None

    def quantile(self, q: float) -> tuple[float | None, str | None]:
        """As `results.stats.quantile` gives it, within the error; None with the same reasons."""
        if not self.count:
            return None, NO_VALUES
        if self.count < sample_floor(q):
            return None, N_TOO_SMALL
        value = self.at(q)
        return (value, None) if value is not None else (None, FAILED_TAIL)

    def at(self, q: float) -> float | None:
        """Quantile q whatever the number of values; None where it lies among the infinite, or nothing was counted."""
        if not self.count:
            return None
        position = min(max((self.count + 1 / 3) * q + 1 / 3, 1.0), float(self.count))
        below = int(position)
        low, high = self._ranked(below), self._ranked(min(below + 1, self.count))
        share = position - below
        if low is None or share == 0:
            return low
        return None if high is None else low + share * (high - low)

    def _ranked(self, rank: int) -> float | None:
        """The rank-th smallest, from 1 on, as the middle of its bin; the extremes exactly."""
        finite = self.count - self.infinite_count
        if rank > finite or self.least is None or self.largest is None:
            return None
        if rank == finite:
            return self.largest
        place = int(np.searchsorted(np.cumsum(self._bins), rank))
        middle = float(np.exp((place - 0.5) * self._log_growth_ratio)) if place else 0.0
        return min(max(middle, self.least), self.largest)

    def _places(self, finite: Float64) -> NDArray[np.intp]:
        with np.errstate(divide="ignore"):
            place = np.floor(np.log(finite) / self._log_growth_ratio) + 1
        return np.clip(np.where(finite < 1, 0, place), 0, len(self._bins) - 1).astype(np.intp)


def bins_of(values: Float64, error_fraction: float = EXACT_FRACTION) -> dict[float, int]:
    """Values above 0 as {middle of a bin: count}: equal values of any two calls fall on equal keys."""
    growth = 2 * log1p(error_fraction)
    places, counts = np.unique(np.floor(np.log(values[values > 0]) / growth), return_counts=True)
    middles = np.exp((places + 0.5) * growth)
    bins = {float(middle): int(count) for middle, count in zip(middles, counts, strict=True)}
    zeros = int((values <= 0).sum())
    return {0.0: zeros, **bins} if zeros else bins


def quantile_of_bins(bins: Mapping[float, int], q: float) -> float | None:
    """Quantile q (type 8) of what `bins_of` counted; None of nothing."""
    values = np.array(sorted(bins), dtype=np.float64)
    counts = np.cumsum(np.array([bins[value] for value in values.tolist()], dtype=np.int64))
    if not len(values) or not counts[-1]:
        return None
    total = int(counts[-1])
    position = min(max((total + 1 / 3) * q + 1 / 3, 1.0), float(total))
    below = int(position)
    low, high = (float(values[np.searchsorted(counts, rank)]) for rank in (below, min(below + 1, total)))
    return low + (position - below) * (high - low)


class Curves:
    """Quantiles over time: one histogram a stretch of time, few enough stretches for a picture."""

    MOST_STRETCHES = 240
    ERROR_FRACTION = 0.01

    def __init__(self) -> None:
        """Empty; stretches are of one second until there are too many, then of two, and so on."""
        self.width_ns = 1_000_000_000
        self._stretches: dict[int, LogHistogram] = {}

    def add(self, values: Float64, at_ns: Int64) -> None:
        """Count finite values at their moments; what lies before time 0 belongs to the first stretch."""
        kept = np.isfinite(values)
        values, at_ns = values[kept], np.maximum(at_ns[kept], 0)
        if not len(values):
            return
        while int(at_ns.max()) // self.width_ns >= self.MOST_STRETCHES:
            self._widen()
        stretches = at_ns // self.width_ns
        for stretch in np.unique(stretches).tolist():
            found = self._stretches.get(stretch)
            if found is None:
                found = self._stretches[stretch] = LogHistogram(self.ERROR_FRACTION)
            found.add(values[stretches == stretch])

    def quantiles(self, *q: float) -> tuple[list[float], list[list[float | None]]]:
        """Middles of the stretches in seconds, and a curve for each of the q."""
        stretches = sorted(self._stretches)
        middles = [(stretch + 0.5) * self.width_ns / 1e9 for stretch in stretches]
        return middles, [[self._stretches[stretch].at(one) for stretch in stretches] for one in q]

    def _widen(self) -> None:
        """Twice as wide: two neighbours become one."""
        self.width_ns *= 2
        before, self._stretches = self._stretches, {}
        for stretch, histogram in before.items():
            found = self._stretches.setdefault(stretch // 2, histogram)
            if found is not histogram:
                found.merge(histogram)
