"""Figures by name: where each stands in a summary, in which unit, and which way is better.

The one list behind gates, comparisons and reproduction. To add a figure: one row.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import log1p
from typing import Any

from results.stats import NO_VALUES

MS, PER_S, FRACTION = "ms", "/s", "fraction"
LATENCIES = {
    "ttft": "TTFT", "tpot": "TPOT", "itl": "ITL", "e2e": "E2E", "norm": "E2E per token", "stall": "longest gap",
    "queue_wait": "queue wait", "admission_wait": "admission wait",
}  # fmt: skip
STATISTICS = ("p50", "p90", "p95", "p99", "mean", "max")
PRACTICAL_RATIO, PRACTICAL_TAIL_RATIO = 0.03, 0.10
TAIL = ("p99", "max")
NOT_IN_SUMMARY = "NOT_IN_SUMMARY"


@dataclass(frozen=True, slots=True)
class Figure:
    """One number of a summary."""

    title: str
    path: tuple[str, ...]
    unit: str
    higher_is_better: bool = False
    practical_ratio: float = PRACTICAL_RATIO
    """The smallest relative difference that matters."""
    of_server: tuple[str, ...] = ()
    """Where it stands when a server was under load and tells it."""

    @property
    def practical_log_ratio(self) -> float:
        """The same either way: x times as much, or as little."""
        return log1p(self.practical_ratio)


def _latencies() -> dict[str, Figure]:
    return {
        f"{name}_{statistic}": Figure(
            f"{title} {statistic}",
            (f"{name}_ms", statistic),
            MS,
            practical_ratio=PRACTICAL_TAIL_RATIO if statistic in TAIL else PRACTICAL_RATIO,
        )
        for name, title in LATENCIES.items()
        for statistic in STATISTICS
    }


FIGURES: dict[str, Figure] = {
    **_latencies(),
    "goodput": Figure("goodput", ("slo", "goodput_rps"), PER_S, True),
    "attainment": Figure("attainment", ("slo", "attainment"), FRACTION, True),
    "throughput": Figure("output tokens", ("rates", "output_tokens_per_s"), PER_S, True),
    "total_throughput": Figure("all tokens", ("rates", "total_tokens_per_s"), PER_S, True),
    "completed": Figure("requests completed", ("rates", "completed_rps"), PER_S, True),
    "wasted_slots": Figure(
        "wasted slots",
        ("slots", "wasted_slot_fraction"),
        FRACTION,
        of_server=("server", "own_steps", "wasted_slot_fraction"),
    ),
    "unused_slots": Figure(
        "unused slots", ("slots", "unused_slot_fraction"), FRACTION, of_server=("server", "unused_slot_fraction")
    ),
    "failed": Figure("failed requests", ("requests", "failed_fraction"), FRACTION),
}
HEADLINE = ("ttft_p50", "ttft_p99", "tpot_p50", "e2e_p99", "goodput")
"""What a comparison decides on: fixed before anything is measured, so that nothing can be picked afterwards."""


def read(summary: Mapping[str, Any], name: str) -> tuple[float | None, str | None]:
    """The figure, or None and why: withheld, too few values, failures, not asked for."""
    if name == "failed":
        return _failed_fraction(summary)
    figure = FIGURES[name]
    value, reason = _at(summary, figure.path)
    return _at(summary, figure.of_server) if reason == NOT_IN_SUMMARY and figure.of_server else (value, reason)


def _at(summary: Mapping[str, Any], path: tuple[str, ...]) -> tuple[float | None, str | None]:
    group: Any = summary
    *above, last = path
    for key in above:
        group = group.get(key) if isinstance(group, Mapping) else None
    if not isinstance(group, Mapping) or last not in group:
        return None, NOT_IN_SUMMARY
    value = group[last]
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value), None
    reasons = group.get("reasons")
    told = reasons.get(last) if isinstance(reasons, Mapping) else None
    return None, str(told or group.get("withheld") or NO_VALUES)


def shown(name: str, value: float | None) -> str:
    """With its unit, in about four digits."""
    if value is None:
        return "-"
    unit = FIGURES[name].unit
    return f"{100 * value:.4g} %" if unit == FRACTION else f"{value:.4g} {'ms' if unit == MS else unit}"


def _failed_fraction(summary: Mapping[str, Any]) -> tuple[float | None, str | None]:
    counts = summary.get("requests")
    scheduled = counts.get("scheduled") if isinstance(counts, Mapping) else None
    if not isinstance(counts, Mapping) or not scheduled:
        return None, NO_VALUES
    return float(counts["failed"]) / float(scheduled), None
