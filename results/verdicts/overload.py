"""Whether the load outran the engine: the growth of requests in flight over the measured window.

Q(t), the requests in flight from due to end, comes exactly from the rows. Two signs are read from it: its growth
g as a share of the arrivals, which in a fluid queue is 1 - 1/rho above capacity and 0 below, and a rank test for
a rising trend. Either alone is fooled by a queue that merely wanders; a slope test on latencies flags half of all
stable runs. Where many requests are in flight even without a queue, Q rises while the system fills: there latencies
must rise as well, by the same rank test on the medians of ten batches in the order of arrival. Judges only
schedules of one rate: no bursts, no closed loops, no traces.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from results.columns import NULL, Int64, int64, is_null
from results.metrics import failed
from results.recording import Recording
from results.schedule import FILL, Schedule
from results.status import Status
from results.verdicts.thresholds import Thresholds
from results.window import planned_window_ns, window_kind

GRID = 200
BATCHES = 10
LATE = 1e30
"""Longer than any latency in ns."""


class LoadState(StrEnum):
    """What the load was to the engine."""

    OVERLOADED = "OVERLOADED"
    SUSPECT = "SUSPECT"
    STABLE = "STABLE"
    NOT_JUDGED = "NOT_JUDGED"


@dataclass(frozen=True, slots=True)
class Load:
    """The judgement, and what it stands on. None: there was nothing to compute it from."""

    state: LoadState
    arrivals_requests: int = 0
    """In the window."""
    growth_ratio: float | None = None
    """g: in-flight growth over the window / arrivals."""
    trend_p_fraction: float | None = None
    """One-sided p of the Mann-Kendall test for a rising Q."""
    rho_ratio: float | None = None
    """Estimated utilisation 1 / (1 - g), when OVERLOADED."""
    latency_p_fraction: float | None = None
    """One-sided p of the same test for rising latencies; None: too few were in flight for it to be asked."""

    def to_json(self) -> dict[str, str | float | None]:
        """With the customary short names."""
        return {
            "state": str(self.state),
            "g": self.growth_ratio,
            "p": self.trend_p_fraction,
            "rho_hat": self.rho_ratio,
            "p_latency": self.latency_p_fraction,
        }


def has_one_rate(schedule: Schedule) -> bool:
    """Whether the schedule offers one constant rate to an open system, so that a steady state could exist."""
    by_time = window_kind(schedule) == "schedule"
    return bool(schedule.origin.get("stationary")) and by_time and not len(schedule.after_ids)


def judge_load(recording: Recording, thresholds: Thresholds, stop_ns: int | None = None) -> Load:
    """The verdict on the measured window, or what there is of it by the stop: after a fill, before a cool-down."""
    if not has_one_rate(recording.schedule):
        return Load(LoadState.NOT_JUDGED)
    begin_ns, end_ns = _flights(recording)
    from_ns, until_ns = _window_ns(recording.schedule, stop_ns)
    filled = bool((recording.schedule.phase == FILL).any())
    before = np.searchsorted(begin_ns, from_ns, side="right") if filled else 0
    arrivals = int(np.searchsorted(begin_ns, until_ns, side="right") - before)
    if until_ns <= from_ns or arrivals <= 0:
        return Load(LoadState.NOT_JUDGED)
    q = in_flight(begin_ns, end_ns, until_ns, from_ns)
    growth = rise(q) / arrivals
    p = mann_kendall_p(q.reshape(BATCHES, -1).sum(axis=1).tolist())
    crowded = float(q.mean()) > thresholds.crowd_requests
    p_latency = latency_trend_p(recording, until_ns, from_ns) if crowded else None
    state = judged(arrivals, growth, max(p, p_latency or 0.0), thresholds)
    rho = 1 / (1 - growth) if state is LoadState.OVERLOADED and growth < 1 else None
    return Load(state, arrivals, growth, p, rho, p_latency)


def judged(arrivals_requests: int, growth_ratio: float, trend_p_fraction: float, thresholds: Thresholds) -> LoadState:
    """The bands by sample size: below the full size only a growth that no stable queue shows is called overload.

    `trend_p_fraction`: the larger p, where two trends are asked for.
    """
    grows = growth_ratio > thresholds.growth_fraction
    rises = trend_p_fraction < thresholds.trend_p_fraction
    if arrivals_requests < thresholds.load_requests:
        return LoadState.NOT_JUDGED
    if not grows and not rises:
        return LoadState.STABLE
    if arrivals_requests >= thresholds.load_full_requests:
        return LoadState.OVERLOADED if grows and rises else LoadState.SUSPECT
    certain = rises and growth_ratio > thresholds.growth_small_run_fraction
    return LoadState.OVERLOADED if certain else LoadState.NOT_JUDGED


def in_flight(begin_ns: Int64, end_ns: Int64, until_ns: int, from_ns: int = 0) -> Int64:
    """Q in the middle of each of 200 equal parts of [from, until]; both columns sorted, ends excluded from flight."""
    grid_ns = from_ns + (until_ns - from_ns) * (2 * np.arange(GRID, dtype=np.float64) + 1) / (2 * GRID)
    begun = np.searchsorted(begin_ns, grid_ns, side="right")
    return int64(begun - np.searchsorted(end_ns, grid_ns, side="right"))


def rise(q: NDArray[np.generic]) -> float:
    """By how much the least-squares line through equally spaced values rises over the whole of their span."""
    values = q.astype(np.float64)
    t = (np.arange(len(values)) + 0.5) / len(values) - 0.5
    return float(t @ (values - values.mean()) / (t @ t))


def latency_trend_p(recording: Recording, until_ns: int, from_ns: int = 0) -> float:
    """p of rising latencies over ten batches in the order of arrival.

    What failed or never ended is slower than everything. A batch of which half is that has no finite median; such
    batches count as slower and slower: were they a steady state, the requests in flight would not grow.
    """
    requests = recording.requests
    due, end = int64(requests["due_ns"]), int64(requests["end_ns"])
    sent = (requests["status"] != Status.NOT_DISPATCHED) & ~is_null(due) & (due >= from_ns) & (due <= until_ns)
    latency = np.where(failed(recording) | (end == NULL), np.inf, (end - due).astype(np.float64))
    in_order = latency[sent][np.argsort(due[sent], kind="stable")]
    medians = [float(np.median(batch)) for batch in np.array_split(in_order, BATCHES) if len(batch)]
    return mann_kendall_p([median if np.isfinite(median) else LATE * (at + 1) for at, median in enumerate(medians)])


def mann_kendall_p(values: Sequence[float]) -> float:
    """Exact one-sided p of a rising trend: the share of all orders of these values with a statistic S as high.

    Mann (1945), Kendall (1975). S = pairs in rising order less pairs in falling order; among the orders of values
    with ties the falling pairs are distributed as the coefficients of the Gaussian multinomial (MacMahon 1915).
    """
    falling = sum(values[j] < values[i] for j in range(len(values)) for i in range(j))
    orders = _orders_by_falling_pairs([list(values).count(value) for value in sorted(set(values))])
    return sum(orders[: falling + 1]) / sum(orders)


def _orders_by_falling_pairs(ties: Sequence[int]) -> list[int]:
    """How many distinct orders of a multiset have 0, 1, 2 ... falling pairs: [n]! / prod [ties]! in powers of q.

    Built group by group: k more equal values among n earlier ones multiply by the Gaussian binomial (n + k, k).
    """
    orders, placed = [1], 0
    for copies in ties:
        for one in range(1, copies + 1):
            orders = _times_one_less(orders, placed + one)
            orders = _divided_by_one_less(orders, one)
        placed += copies
    return orders


def _times_one_less(polynomial: Sequence[int], number: int) -> list[int]:
    """Times (1 - q^number)."""
    longer = [*polynomial, *[0] * number]
    return [value - (longer[at - number] if at >= number else 0) for at, value in enumerate(longer)]


def _divided_by_one_less(polynomial: Sequence[int], number: int) -> list[int]:
    """By (1 - q^number), which divides it."""
    quotient: list[int] = []
    for at, value in enumerate(polynomial[: len(polynomial) - number]):
        quotient.append(value + (quotient[at - number] if at >= number else 0))
    return quotient


def _flights(recording: Recording) -> tuple[Int64, Int64]:
    """Sorted begins and ends of everything sent; what has no end is in flight for ever."""
    requests = recording.requests
    sent = (requests["status"] != Status.NOT_DISPATCHED) & ~is_null(requests["due_ns"])
    ends = int64(requests["end_ns"])[sent]
    return np.sort(int64(requests["due_ns"])[sent]), np.sort(ends[~is_null(ends)])


def _window_ns(schedule: Schedule, stop_ns: int | None) -> tuple[int, int]:
    begin_ns, end_ns = planned_window_ns(schedule)
    end_ns = end_ns or 0
    return begin_ns, end_ns if stop_ns is None else min(end_ns, stop_ns)
