"""How figures are written: n, quantiles, mean and max of a latency; a reason beside every null."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from results.columns import Int64
from results.stats import N_TOO_SMALL, NO_VALUES, ordered_quantile, quantile, sample_floor

NS_PER_S = 1e9
NS_PER_MS = 1e6
QUANTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}
"""Those that the summary gives."""
NOT_TOLD = "NOT_OBSERVABLE"
NOT_ASKED = "NOT_ASKED"
NO_TIME = "NO_TIME"
Json = dict[str, Any]
Told = Mapping[str, tuple[Any, str | None]]
"""Name -> (value, why it is None where it is)."""


def latency(values_ns: NDArray[np.float64]) -> Json:
    """n, quantiles, mean and max in ms; undefined values (NaN) are counted, failures are +inf."""
    defined = values_ns[~np.isnan(values_ns)]
    figures: Json = {"n": len(defined), "undefined": int(np.isnan(values_ns).sum())}
    reasons: Json = {}
    for name, q in QUANTILES.items():
        value, reason = quantile(defined, q)
        figures[name] = None if value is None else value / NS_PER_MS
        if reason:
            reasons[name] = reason
    for name, function in (("mean", np.mean), ("max", np.max)):
        value = float(function(defined)) if len(defined) else None
        finite = value is not None and np.isfinite(value)
        figures[name] = value / NS_PER_MS if value is not None and finite else None
        if not finite:
            reasons[name] = "FAILED_TAIL" if len(defined) else NO_VALUES
    return {**figures, "reasons": reasons}


def counted_latency(values_ns: Int64, counts: Int64) -> Json:
    """The same of finite values that occur `counts` times each."""
    order = np.argsort(values_ns)
    ordered, until = values_ns[order], np.cumsum(counts[order])
    total = int(until[-1]) if len(until) else 0
    figures: Json = {"n": total, "undefined": 0}
    reasons: Json = {}
    for name, q in QUANTILES.items():
        value = ordered_quantile(ordered, until, q) if total >= sample_floor(q) else None
        figures[name] = None if value is None else value / NS_PER_MS
        if value is None:
            reasons[name] = N_TOO_SMALL if total else NO_VALUES
    mean_ns = float(values_ns.astype(np.float64) @ counts.astype(np.float64)) / total if total else None
    for name, found_ns in (("mean", mean_ns), ("max", float(ordered[-1]) if total else None)):
        figures[name] = None if found_ns is None else found_ns / NS_PER_MS
        if found_ns is None:
            reasons[name] = NO_VALUES
    return {**figures, "reasons": reasons}


class Rate:
    """Counts per second over a time that may be none."""

    def __init__(self, time_ns: int) -> None:
        """`time_ns`: how long it was counted."""
        self._time_ns = time_ns

    def __call__(self, count: float) -> tuple[float | None, str]:
        """The rate, or None and why."""
        return (count * NS_PER_S / self._time_ns if self._time_ns else None), NO_TIME


def share(count: float, of_rows: float) -> tuple[float | None, str]:
    """A count as a share of a whole that may be nothing."""
    return (count / of_rows if of_rows else None), NO_VALUES


def with_reasons(figures: Told) -> Json:
    """Values by name, and the reasons of those that are None."""
    reasons = {name: reason for name, (value, reason) in figures.items() if value is None}
    values = {name: value for name, (value, _) in figures.items()}
    return {**values, "reasons": reasons} if reasons else values
