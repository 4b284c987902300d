"""The headline of a point: each figure over its independent runs, with the interval that may be believed.

Finite horizon: what one run of this length gives on average. For quantiles the same of all rows together stands
beside it, since a mean of the runs' own quantiles is not the quantile.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from results.figure_json import NS_PER_MS, Json, with_reasons
from results.figures import FIGURES, HEADLINE, read
from results.intervals import LEAST_RUNS, Interval, over_runs, pooled, run_cv
from results.stats import quantile

SHOWN = (*HEADLINE, "attainment", "throughput")
POOLED = {"ttft_p50": ("ttft", 0.5), "ttft_p99": ("ttft", 0.99), "tpot_p50": ("tpot", 0.5), "e2e_p99": ("e2e", 0.99)}
LOOK, INTERVAL, PUBLISHED = "a quick look: no interval", "an interval from few runs", "enough runs to be published"
PUBLISHED_RUNS = 5
Float64 = NDArray[np.float64]


def headline(summaries: Sequence[Mapping[str, Any]], rows: Sequence[Mapping[str, Float64]] = ()) -> Json:
    """Over the summaries of a point's runs, with what their verdicts withhold withheld.

    `rows`: metrics of each run's measured requests in ns, for the pooled figures; none where there are no rows.
    """
    return {
        "runs": len(summaries),
        "label": runs_label(len(summaries)),
        "figures": {name: _figure(name, summaries, rows) for name in SHOWN},
        **with_reasons({"run_cv_ratio": (largest_cv(summaries), "NO_CI")}),
    }


def runs_label(count: int) -> str:
    """What so many independent runs suffice for."""
    return LOOK if count < LEAST_RUNS else INTERVAL if count < PUBLISHED_RUNS else PUBLISHED


def largest_cv(summaries: Sequence[Mapping[str, Any]]) -> float | None:
    """Of the headline figures that every run gives, the largest variation from run to run; None below two runs."""
    found = []
    for name in HEADLINE:
        values = [read(summary, name)[0] for summary in summaries]
        known = [value for value in values if value is not None]
        cv = run_cv(known) if len(known) == len(summaries) else None
        found += [cv] if cv is not None else []
    return max(found, default=None)


def _figure(name: str, summaries: Sequence[Mapping[str, Any]], rows: Sequence[Mapping[str, Float64]]) -> Json:
    found = [read(summary, name) for summary in summaries]
    over = over_runs([value for value, _ in found])
    why = next((reason for _, reason in found if reason is not None), over.reason)
    values = [value for value, _ in found if value is not None]
    cv = run_cv(values) if len(values) == len(found) else None
    told = {
        "value": (over.value, why),
        "low": (over.low, why),
        "high": (over.high, why),
        "cv_ratio": (cv, why or "NO_CI"),
    }
    return {**with_reasons(told), "unit": FIGURES[name].unit, "label": over.label, **_beside(name, over, rows)}


def _beside(name: str, over: Interval, rows: Sequence[Mapping[str, Float64]]) -> Json:
    """The quantile of all rows together, where the runs' own are given."""
    if name not in POOLED or over.value is None or not rows:
        return {}
    metric, q = POOLED[name]
    runs = [one[metric][~np.isnan(one[metric])] / NS_PER_MS for one in rows]
    found = pooled(runs, lambda values: quantile(values, q)[0])
    told = {key: (getattr(found, key), found.reason) for key in ("value", "low", "high")}
    return {"pooled": {**with_reasons(told), "label": found.label}}
