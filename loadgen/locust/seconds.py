"""Counts by the second of a run, grown as it goes on: what happened when, without a row each."""

import numpy as np
from numpy.typing import NDArray

from results.columns import Int64

S_NS = 1_000_000_000
Float64 = NDArray[np.float64]


class Seconds:
    """One sum a second, from second 0; what lies before counts into the first."""

    def __init__(self) -> None:
        """Nothing yet."""
        self._sums = np.zeros(64)

    def add(self, at_ns: Int64, amounts: Float64 | Int64 | float = 1.0) -> None:
        """Add each amount to the second of its moment."""
        if not len(at_ns):
            return
        second = np.maximum(at_ns, 0) // S_NS
        self._reach(int(second.max()) + 1)
        np.add.at(self._sums, second, amounts)

    def spread(self, from_ns: int, until_ns: int, value: float) -> None:
        """Add a value that is spread evenly over a stretch of time."""
        from_ns, until_ns = max(from_ns, 0), max(until_ns, 0)
        if until_ns <= from_ns:
            return
        first, last = from_ns // S_NS, (until_ns - 1) // S_NS
        self._reach(last + 1)
        edges = np.clip(np.arange(first, last + 2) * S_NS, from_ns, until_ns)
        self._sums[first : last + 1] += value * np.diff(edges) / (until_ns - from_ns)

    def cut(self, at_ns: int) -> None:
        """Forget what lies after the second of this moment."""
        self._sums[max(at_ns, 0) // S_NS + 1 :] = 0.0

    def over(self, first_s: int, end_s: int) -> Float64:
        """The sums of these seconds, the end excluded."""
        self._reach(end_s)
        return self._sums[first_s:end_s]

    def total(self, first_s: int, end_s: int) -> float:
        """Their sum."""
        return float(self.over(first_s, end_s).sum())

    def _reach(self, until_s: int) -> None:
        if until_s > len(self._sums):
            grown = np.zeros(max(2 * len(self._sums), until_s))
            grown[: len(self._sums)] = self._sums
            self._sums = grown
