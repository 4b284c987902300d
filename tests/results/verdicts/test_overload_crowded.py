"""Overload of targets with many requests in flight, whose filling looks like growth: latencies must rise as well."""

import heapq
from dataclasses import replace

import numpy as np
import pytest

from results.columns import NULL, int64
from results.recording import Recording
from results.status import Status
from results.verdicts.overload import Load, LoadState, judge_load, latency_trend_p
from results.verdicts.thresholds import Thresholds
from tests.results.streams import Stream, streamed
from tests.results.verdicts.test_overload import STEADY, fluid, recording_of

LINES = Thresholds()
WITHOUT = LINES.override({"crowd_requests": 10**9})
"""As if nobody asked for rising latencies."""
S = 10**9
MANY, VERY_MANY = 100, 200


def queue(rho: float, seed: int, slots: int = MANY, requests: int = 1000) -> Recording:
    """First come, first served: Poisson arrivals, lognormal service of 1 s on average with cv 0.8."""
    chance = np.random.default_rng(seed)
    due = np.cumsum(chance.exponential(1 / (rho * slots), requests))
    sigma = np.sqrt(np.log(1 + 0.8**2))
    service = np.exp(sigma * chance.standard_normal(requests) - sigma**2 / 2)
    free, ends = [0.0] * slots, []
    for at, takes in zip(due.tolist(), service.tolist(), strict=True):
        end = max(at, heapq.heappop(free)) + takes
        heapq.heappush(free, end)
        ends.append(end)
    return recording_of(int64(due * S), int64(np.array(ends) * S))


def overloaded(load: Load) -> bool:
    """Whether it was called so."""
    return load.state is LoadState.OVERLOADED


def rates(rho: float, slots: int, seeds: range) -> tuple[float, float]:
    """Shares of seeds called OVERLOADED, with and without the test on latencies."""
    found = [queue(rho, seed, slots) for seed in seeds]
    with_latencies, without = (
        float(np.mean([overloaded(judge_load(one, lines)) for one in found])) for lines in (LINES, WITHOUT)
    )
    return with_latencies, without


def test_a_system_that_fills_is_not_overloaded() -> None:
    """200 slots, rho .9: 1,000 requests little more than fill it; what grows is no queue, and no run is called so."""
    with_latencies, without = rates(0.9, VERY_MANY, range(40))
    assert with_latencies == 0
    assert without > 0.25


def test_an_overload_of_many_slots_is_found() -> None:
    """rho 1.25: latencies rise with the queue, in every run."""
    loads = [judge_load(queue(1.25, seed), LINES) for seed in range(40)]
    assert all(overloaded(load) for load in loads)
    assert all(load.latency_p_fraction is not None and load.latency_p_fraction < 0.01 for load in loads)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("slots", "rho", "least", "most"),
    [
        (MANY, 0.8, 0, 0.01), (MANY, 0.9, 0, 0.035), (MANY, 1.1, 0.75, 1), (MANY, 1.25, 0.99, 1),
        (VERY_MANY, 0.8, 0, 0.01), (VERY_MANY, 0.9, 0, 0.01), (VERY_MANY, 1.25, 0.95, 1),
    ],
)  # fmt: skip
def test_rates_over_many_seeds(slots: int, rho: float, least: float, most: float) -> None:
    """400 seeds a cell; prints the table."""
    with_latencies, without = rates(rho, slots, range(1000, 1400))
    print(f"{slots} slots, rho {rho}: {with_latencies:.4f}, without the test on latencies {without:.4f}")
    assert least <= with_latencies <= most


def test_few_in_flight_are_judged_by_their_number_alone() -> None:
    """Below 50 in flight on average nobody asks for latencies; at any rate of a fluid queue both signs agree."""
    small = judge_load(fluid(1000, 1.05), LINES)
    assert small.latency_p_fraction is None
    crowded = judge_load(fluid(2000, 1.25), LINES)
    assert crowded.latency_p_fraction is not None
    assert crowded.state is LoadState.OVERLOADED
    assert crowded.to_json()["p_latency"] == crowded.latency_p_fraction


def flat(status_from: int | None = None) -> Recording:
    """1,000 requests of equal latency; from that one on they never end, or fail."""
    recording = recording_of(S * np.arange(1, 1001), S * np.arange(1, 1001) + 7)
    if status_from is None:
        return recording
    status = recording.requests["status"].copy()
    status[status_from:] = int(Status.TIMEOUT_TOTAL)
    return replace(recording, requests={**recording.requests, "status": status})


@pytest.mark.parametrize(("failed_from", "rises"), [(None, False), (0, True), (500, True), (960, False)])
def test_what_failed_is_slower_than_everything(failed_from: int | None, rises: bool) -> None:
    """Half of a batch failed: its median is beyond all bounds, and ever further; a few failures change no median."""
    assert (latency_trend_p(flat(failed_from), 10**15) < 0.01) is rises


def test_a_crowd_that_is_never_answered_is_an_overload() -> None:
    """Nothing ends: in flight grows by every arrival, and there is no latency to look at."""
    whole = queue(0.9, 1)
    requests = {**whole.requests, "end_ns": np.full(1000, NULL)}
    assert overloaded(judge_load(replace(whole, requests=requests), LINES))


def test_what_was_not_sent_has_no_latency() -> None:
    """Nor has what is due after the window."""
    streams = [Stream([10 * at + at], 10 * at, 1, Status.OK if at < 90 else None) for at in range(100)]
    assert latency_trend_p(streamed(*streams, origin=STEADY), 10**9) < 0.01
    assert latency_trend_p(streamed(*streams, origin=STEADY), 0) == 1.0
