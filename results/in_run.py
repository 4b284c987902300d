"""How sure one run is of its own figures: bounds by sectioning, and certificates that take requests for independent.

Both are too narrow wherever requests queue, which is why the first is called a lower bound of the uncertainty, and
the second is withheld as soon as neighbouring requests tell the same. What holds comes from independent runs.
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from results.figure_json import NS_PER_MS, Json, with_reasons
from results.intervals import LOWER_BOUND, SECTIONS, Interval, in_run, order_statistics, wilson
from results.recording import Recording
from results.stats import quantile
from results.verdicts.overload import has_one_rate

NON_STATIONARY = "NON_STATIONARY"
"""There is no steady state whose figures could be uncertain."""
QUANTILES = {"ttft_p50": ("ttft", 0.5), "ttft_p99": ("ttft", 0.99), "tpot_p50": ("tpot", 0.5), "e2e_p99": ("e2e", 0.99)}
ATTAINMENT = "attainment"
Float64 = NDArray[np.float64]
Mask = NDArray[np.bool_]


def uncertainty(
    recording: Recording, values_ns: Mapping[str, Float64], chosen: Mask, attained: Mask | None
) -> dict[str, Json]:
    """Figure -> bounds from this run alone, in ms or as a fraction, with a certificate under its own name.

    `attained`: which requests meet the SLO; None: there is none.
    """
    names = (*QUANTILES, *((ATTAINMENT,) if attained is not None else ()))
    if not has_one_rate(recording.schedule):
        return {name: no_bounds(NON_STATIONARY) for name in names}
    order = np.argsort(recording.requests["due_ns"][chosen], kind="stable")
    found = {}
    for name, (metric, q) in QUANTILES.items():
        in_order = values_ns[metric][chosen][order] / NS_PER_MS
        found[name] = _of_quantile(in_order[~np.isnan(in_order)], q)
    if attained is not None:
        found[ATTAINMENT] = _of_share(attained[chosen][order])
    return found


def _of_quantile(values: Float64, q: float) -> Json:
    bounds = _possible(in_run(values, lambda part: quantile(part, q)[0]))
    certificate = order_statistics(values, q)
    evidence = {
        "autocorrelations": list(certificate.autocorrelations),
        "effective_requests": certificate.effective_requests,
    }
    return {**_json(bounds), "sections": SECTIONS, "certificate": {**_json(certificate.interval), **evidence}}


def _of_share(attained: Mask) -> Json:
    """A share has Wilson's interval as its certificate, which the queue spoils just as much: it is labelled."""
    values = attained.astype(np.float64)
    bounds = _possible(in_run(values, lambda part: float(part.mean()) if len(part) else None), 1.0)
    return {
        **_json(bounds),
        "sections": SECTIONS,
        "certificate": _json(wilson(int(attained.sum()), len(attained))),
    }


def no_bounds(reason: str) -> Json:
    """Neither figure nor bounds, and why."""
    return _json(Interval(None, None, None, LOWER_BOUND, reason))


def _possible(bounds: Interval, most: float = float("inf")) -> Interval:
    """No further than the figure itself can be: no latency is below 0, and no share above 1."""
    if bounds.low is None or bounds.high is None:
        return bounds
    return replace(bounds, low=max(bounds.low, 0.0), high=min(bounds.high, most))


def _json(interval: Interval) -> Json:
    """With the reason beside each null, as everywhere in a summary."""
    numbers = {name: (getattr(interval, name), interval.reason) for name in ("value", "low", "high")}
    return {**with_reasons(numbers), "label": interval.label}
