"""Intervals: how far a figure may be off, said only as far as the data allow.

Requests of one run share its queue and are not independent: an interval from one run is a lower bound of the
uncertainty. An honest one takes several independent runs, and estimates what a run of this length gives.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from results.stats import N_TOO_SMALL, NO_VALUES, quantile

Float64 = NDArray[np.float64]
Statistic = Callable[[Float64], float | None]
"""Of values in the order of their arrival; None where it is undefined."""
NO_CI = "NO_CI"
AUTOCORRELATED = "AUTOCORRELATED"
CONFIDENCE_FRACTION = 0.95
SECTIONS = 10
LEAST_RUNS = 3
EFFECTIVE_FRACTION = 0.8
"""Below so many independent values a value, an interval that takes them for independent is withheld."""
SHOWN_LAGS = 10
UNSTABLE_CV_RATIO = 0.10
FINITE_HORIZON = "mean over runs of this length"
POOLED = "of the rows of all runs together"
LOWER_BOUND = "lower bound of the uncertainty, from one run"
IID_ONLY = "holds for independent requests only"


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate, its bounds, and what they mean."""

    value: float | None
    low: float | None
    high: float | None
    label: str
    """The estimand, or what the bounds rest on."""
    reason: str | None = None
    """Why something is None."""

    def to_json(self) -> dict[str, float | str | None]:
        """By name; the reason only where there is one."""
        told = {"value": self.value, "low": self.low, "high": self.high, "label": self.label}
        return {**told, "reason": self.reason} if self.reason else told


@dataclass(frozen=True, slots=True)
class Certificate:
    """An interval for a quantile that takes the requests for independent, and the evidence for and against that."""

    interval: Interval
    autocorrelations: tuple[float, ...]
    """Of the ranks, at lags 1, 2, 3 ..."""
    effective_requests: float
    """So many independent ones would tell as much."""


def student_t(share_fraction: float, freedom: float) -> float:
    """The t value below which this share of the distribution lies."""
    from scipy.special import stdtrit

    return float(stdtrit(freedom, share_fraction))


def over_runs(values: Sequence[float | None], confidence_fraction: float = CONFIDENCE_FRACTION) -> Interval:
    """Finite horizon: the expected figure of a run of this length, mean +- t(K - 1) s / sqrt K over independent runs.

    One run without the figure leaves all without it: leaving that run out would be choosing. Below three runs
    there are no bounds.
    """
    known = np.array([value for value in values if value is not None], dtype=np.float64)
    if not len(values) or len(known) < len(values) or not np.isfinite(known).all():
        return Interval(None, None, None, FINITE_HORIZON, NO_VALUES)
    mean = float(known.mean())
    if len(known) < LEAST_RUNS:
        return Interval(mean, None, None, FINITE_HORIZON, NO_CI)
    half = _half_width(float(known.std(ddof=1)), len(known), confidence_fraction)
    return Interval(mean, mean - half, mean + half, FINITE_HORIZON)


def pooled(runs: Sequence[Float64], statistic: Statistic, confidence_fraction: float = CONFIDENCE_FRACTION) -> Interval:
    """Steady state: the statistic of all rows together, with a jackknife that leaves out a run at a time.

    Never a mean of the runs' own quantiles, which is far too low for a tail of a queue.
    """
    whole = statistic(np.concatenate(runs)) if runs else None
    if whole is None or not np.isfinite(whole):
        return Interval(None, None, None, POOLED, NO_VALUES)
    if len(runs) < LEAST_RUNS:
        return Interval(whole, None, None, POOLED, NO_CI)
    left = [statistic(np.concatenate([*runs[:at], *runs[at + 1 :]])) for at in range(len(runs))]
    if any(one is None or not np.isfinite(one) for one in left):
        return Interval(whole, None, None, POOLED, NO_CI)
    pseudo = len(runs) * whole - (len(runs) - 1) * np.array(left, dtype=np.float64)
    centre = float(pseudo.mean())
    half = _half_width(float(pseudo.std(ddof=1)), len(runs), confidence_fraction)
    return Interval(whole, centre - half, centre + half, POOLED)


def in_run(values: Float64, statistic: Statistic, confidence_fraction: float = CONFIDENCE_FRACTION) -> Interval:
    """Sectioning: the statistic of all values, spread by how ten consecutive sections differ from it, t(9).

    Asmussen and Glynn, "Stochastic Simulation" (2007), III.5. The least wrong of the intervals from one run, and
    still too narrow wherever a queue remembers for longer than a section.
    """
    whole = statistic(values)
    if whole is None or not np.isfinite(whole):
        return Interval(None, None, None, LOWER_BOUND, NO_VALUES)
    parts = [statistic(part) for part in np.array_split(values, SECTIONS)] if len(values) >= SECTIONS else [None]
    if any(one is None or not np.isfinite(one) for one in parts):
        return Interval(whole, None, None, LOWER_BOUND, N_TOO_SMALL)
    spread = float(np.sqrt(np.square(np.array(parts, dtype=np.float64) - whole).sum() / (SECTIONS - 1)))
    half = _half_width(spread, SECTIONS, confidence_fraction)
    return Interval(whole, whole - half, whole + half, LOWER_BOUND)


def order_statistics(values: Float64, q: float, confidence_fraction: float = CONFIDENCE_FRACTION) -> Certificate:
    """Two of the values between which quantile q lies, if they are independent: no shape of distribution assumed.

    Ranks by the binomial distribution: a two-sided 95 % interval of p99 takes 368 values. Withheld when the
    values' order shows that they tell no more than 80 % of as many independent ones.
    """
    lags, effective_requests = independence(values)
    estimate, reason = quantile(values, q)
    low = high = None
    if reason is None:
        reason = N_TOO_SMALL
        ranks = _ranks(len(values), q, confidence_fraction)
        if effective_requests < EFFECTIVE_FRACTION * len(values):
            reason = AUTOCORRELATED
        elif ranks is not None:
            ordered = np.sort(values)
            low, high = float(ordered[ranks[0] - 1]), float(ordered[ranks[1] - 1])
            reason = None if np.isfinite(high) else "FAILED_TAIL"
            high = high if np.isfinite(high) else None
    return Certificate(Interval(estimate, low, high, IID_ONLY, reason), lags, effective_requests)


def independence(values: Float64) -> tuple[tuple[float, ...], float]:
    """Autocorrelations of the values' ranks at the first lags, and how many independent values tell as much.

    Ranks, so that one failure or a heavy tail is not the whole answer. n / (1 + 2 sum of the autocorrelations),
    summed in pairs of neighbours (Geyer, 1992) as long as a pair stands out of the noise, and never above n.
    """
    count = len(values)
    if count < LEAST_RUNS or (values == values[0]).all():
        return (), float(count)
    correlation = _autocorrelation(_middle_ranks(values))
    total, noise = 0.0, float(np.sqrt(8 / count))
    for at in range(0, count - 1, 2):
        pair = float(correlation[at] + correlation[at + 1])
        if pair <= noise:
            break
        total += pair
    return tuple(correlation[1 : SHOWN_LAGS + 1].tolist()), min(float(count), count / max(2 * total - 1, 1.0))


def wilson(count: int, of_requests: int, confidence_fraction: float = CONFIDENCE_FRACTION) -> Interval:
    """Wilson's interval (1927) for a share, `count` of `of_requests`: for independent requests only."""
    from scipy.special import ndtri

    if not of_requests:
        return Interval(None, None, None, IID_ONLY, NO_VALUES)
    share, z = count / of_requests, float(ndtri((1 + confidence_fraction) / 2))
    weight = 1 + z * z / of_requests
    centre = (share + z * z / (2 * of_requests)) / weight
    half = z * float(np.sqrt(share * (1 - share) / of_requests + z * z / (4 * of_requests**2))) / weight
    return Interval(share, max(0.0, centre - half), min(1.0, centre + half), IID_ONLY)


def run_cv(values: Sequence[float]) -> float | None:
    """Standard deviation / mean over runs; above 10 % the runs are UNSTABLE. None below two runs or at mean 0."""
    known = np.array(values, dtype=np.float64)
    if len(known) < 2 or not np.isfinite(known).all() or not known.mean():  # noqa: PLR2004 - no spread of one
        return None
    return float(known.std(ddof=1) / abs(known.mean()))


def _half_width(spread: float, count: int, confidence_fraction: float) -> float:  # spread: in the values' own unit
    return student_t((1 + confidence_fraction) / 2, count - 1) * spread / float(np.sqrt(count))


def _ranks(count: int, q: float, confidence_fraction: float) -> tuple[int, int] | None:
    """Ranks from 1, or None where the upper or the lower would lie outside the values."""
    from scipy.special import bdtr

    outside = (1 - confidence_fraction) / 2
    cumulated = bdtr(np.arange(count + 1), count, q)
    low = int(np.searchsorted(cumulated, outside))
    high = int(np.searchsorted(cumulated, 1 - outside)) + 1
    return (low, high) if low >= 1 and high <= count else None


def _middle_ranks(values: Float64) -> Float64:
    """Equal values share the mean of their ranks."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return np.asarray((last - (counts - 1) / 2.0)[inverse], dtype=np.float64)


def _autocorrelation(values: Float64) -> Float64:
    """At every lag from 0."""
    centred = values - values.mean()
    padded = np.fft.rfft(centred, 2 * len(values))
    covariance = np.fft.irfft(padded * np.conj(padded))[: len(values)]
    return np.asarray(covariance / covariance[0])
