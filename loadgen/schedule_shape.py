"""What a schedule looks like in figures: rate, spread of gaps, lengths, arrivals over time."""

from typing import Any

import numpy as np

from loadgen.traces.pace import dispersion, gap_cv
from loadgen.units import NS_PER_S
from results.columns import Int64, is_null
from results.schedule import Schedule
from results.stats import quantile

HISTOGRAM_BINS = 60
TOO_FEW = "TOO_FEW_ARRIVALS_IN_TIME"
"""Nobody is due, all are due at once, or there are too few gaps or seconds for the figure."""


def shape_of(schedule: Schedule) -> dict[str, Any]:
    """Figures of the schedule; null where there is nothing to compute one from."""
    due_ns = schedule.due_ns[~is_null(schedule.due_ns)]
    span_ns = int(due_ns[-1] - due_ns[0]) if len(due_ns) else 0
    figures = {
        "requests": len(schedule),
        "waiting_for_others": int(is_null(schedule.due_ns).sum()),
        "first_due_s": int(due_ns[0]) / NS_PER_S if len(due_ns) else None,
        "last_due_s": int(due_ns[-1]) / NS_PER_S if len(due_ns) else None,
        "offered_rps": schedule.origin.get("rate_rps"),
        "realised_rps": (len(due_ns) - 1) * NS_PER_S / span_ns if span_ns else None,
        "gap_cv": gap_cv(due_ns),
        "dispersion_1s": dispersion(due_ns, 0, int(due_ns[-1])) if len(due_ns) else None,
        "lag1_correlation": _lag1(due_ns),
        "prompt_tokens": _lengths(schedule.prompt_tokens),
        "output_tokens": _lengths(schedule.output_tokens),
        "arrivals_histogram": _histogram(due_ns).tolist(),
        "origin": schedule.origin,
        "sha256": schedule.sha256,
    }
    return {**figures, "reasons": {name: TOO_FEW for name, value in figures.items() if value is None}}


def _lag1(due_ns: Int64) -> float | None:
    """Correlation of each gap with the next: 0 for independent gaps."""
    gaps = np.diff(due_ns).astype(np.float64)
    if len(gaps) < 3 or not gaps.std():  # noqa: PLR2004 - two pairs at least
        return None
    centred = gaps - gaps.mean()
    return float((centred[1:] * centred[:-1]).sum() / (centred**2).sum())


def _lengths(tokens: Int64) -> dict[str, Any]:
    values = tokens.astype(np.float64)
    found = {name: quantile(values, q) for name, q in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99))}
    extremes = {"min": int(tokens.min()), "max": int(tokens.max())}
    figures: dict[str, Any] = {"sum": int(tokens.sum()), "mean": float(values.mean()), **extremes}
    figures.update((name, value) for name, (value, _) in found.items())
    reasons = {name: reason for name, (_, reason) in found.items() if reason}
    return {**figures, "reasons": reasons} if reasons else figures


def _histogram(due_ns: Int64) -> Int64:
    """Arrivals in equal parts of the time to the last one."""
    if not len(due_ns) or not due_ns[-1]:
        return np.array([len(due_ns)], dtype=np.int64)
    at = np.minimum(due_ns * HISTOGRAM_BINS // int(due_ns[-1]), HISTOGRAM_BINS - 1)
    return np.bincount(at, minlength=HISTOGRAM_BINS).astype(np.int64)
