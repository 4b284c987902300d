"""Overload: the statistics against their own oracles, and the verdict on queues played through the real driver."""

from dataclasses import replace
from functools import cache
from itertools import permutations, product

import numpy as np
import pytest

from engines.cost import DurationPs, HashExecutor, LinearCost
from engines.policies import continuous
from engines.slots import SlotEngine
from loadgen.arrivals import due_times_ns
from loadgen.clock import ModelledClock
from loadgen.drive import play_engine
from loadgen.streams import uniforms
from results.columns import NULL, int64
from results.recording import Recording, merge
from results.schedule import make_schedule
from results.status import Status
from results.verdicts.overload import LoadState, has_one_rate, in_flight, judge_load, judged, mann_kendall_p, rise
from results.verdicts.thresholds import Thresholds
from tests.engines.playing import Steering, ignore

STEADY = {"stationary": True, "window": {"kind": "schedule"}}
LINES = Thresholds()
STEP_NS = 1_000_000
MEAN_STEPS = 6


def recording_of(due_ns, end_ns, origin=STEADY) -> Recording:
    """Rows with these due and end times and nothing else."""
    rows = len(due_ns)
    ones = np.ones(rows, dtype=np.int64)
    recording = merge(make_schedule(due_ns, ones, ones, origin=origin), [])
    requests = dict(recording.requests)
    requests["end_ns"] = int64(end_ns)
    requests["status"] = np.full(rows, int(Status.OK), dtype=np.int64)
    return replace(recording, requests=requests)


def fluid(requests: int, rho: float) -> Recording:
    """A D/D/1 queue: arrivals each 1000 ns, served one after another in rho x 1000 ns each."""
    due = 1000 * np.arange(1, requests + 1)
    service = round(1000 * rho)
    ends = np.maximum(due, due[0] + service * np.arange(requests)) + service
    return recording_of(due, ends)


@cache
def _normal_quantiles() -> np.ndarray:
    from scipy.special import ndtri

    return np.asarray(ndtri((np.arange(100_000) + 0.5) / 100_000))


def service_steps(seed: int, requests: int) -> np.ndarray:
    """Lognormal with coefficient of variation 0.8 and mean 6, rounded to whole steps, at least 1."""
    normal = _normal_quantiles()[(uniforms(seed, "service", requests) * 100_000).astype(np.int64)]
    return _rounded(normal)


def _rounded(normal: np.ndarray) -> np.ndarray:
    sigma = np.sqrt(np.log(1 + 0.8**2))
    return np.maximum(1, np.rint(MEAN_STEPS * np.exp(sigma * normal - sigma**2 / 2))).astype(np.int64)


def simulate(rho: float, seed: int, slots: int, requests: int = 1000) -> Recording:
    """Poisson arrivals at utilisation rho of `slots` servers, through the real engine in modelled time.

    A prefill costs next to nothing and a decode one step, so a request that asks for n + 1 tokens is served for
    n steps, whoever is beside it.
    """
    mean_ns = float(_rounded(_normal_quantiles()).mean()) * STEP_NS
    due = due_times_ns("poisson", requests, rho * slots * 1e9 / mean_ns, seed)
    ones = np.ones(requests, dtype=np.int64)
    schedule = make_schedule(due, ones, service_steps(seed, requests) + 1, origin=STEADY)
    cost = LinearCost(DurationPs(1000 * STEP_NS), DurationPs(0), DurationPs(1), DurationPs(0))
    engine = SlotEngine(continuous(slots), HashExecutor(), cost)
    return play_engine(schedule, engine, ModelledClock(), ignore, Steering())


def rate_of(state: LoadState, rho: float, slots: int, seeds: range, requests: int = 1000) -> float:
    """Share of seeds that are judged so."""
    return float(np.mean([judge_load(simulate(rho, seed, slots, requests), LINES).state is state for seed in seeds]))


@pytest.mark.parametrize("rho", [1.1, 1.25, 2.0])
def test_growth_in_a_fluid_queue_is_one_minus_one_over_rho(rho):
    """g = 1 - 1/rho above capacity, and rho is found again."""
    load = judge_load(fluid(2000, rho), LINES)
    assert load.state is LoadState.OVERLOADED
    assert load.growth_ratio == pytest.approx(1 - 1 / rho, abs=0.002)
    assert load.rho_ratio == pytest.approx(rho, rel=0.005)
    assert load.arrivals_requests == 2000


def test_a_fluid_queue_below_capacity_does_not_grow():
    """g = 0 and no trend: one request is in flight or none."""
    load = judge_load(fluid(2000, 0.8), LINES)
    assert load.state is LoadState.STABLE
    assert abs(load.growth_ratio) < 0.002
    assert load.rho_ratio is None


def test_in_flight_is_counted_from_due_to_end():
    """A request is in flight from its due time, that moment included, to its end, that moment excluded."""
    q = in_flight(int64([0, 101]), int64([151, 300]), 400)
    grid = 2 * np.arange(200) + 1
    assert q.tolist() == [int(0 <= t < 151) + int(101 <= t < 300) for t in grid]


def test_rise_is_the_slope_of_least_squares_over_the_span():
    """Against numpy's own fit."""
    values = np.random.default_rng(1).normal(size=200)
    slope = np.polyfit((np.arange(200) + 0.5) / 200, values, 1)[0]
    assert rise(values) == pytest.approx(slope)
    assert rise(np.arange(200) / 200) == pytest.approx(1.0)


@pytest.mark.parametrize("values", [(1, 2, 3, 4, 5), (3, 1, 2, 5, 4), (1, 1, 2, 2, 3), (2, 2, 2), (1, 3, 3, 3, 2, 1)])
def test_mann_kendall_is_exact_with_and_without_ties(values):
    """The p value is the share of all orders with S as high, counted one by one."""

    def s(order):
        pairs = [(a, b) for at, a in enumerate(order) for b in order[at + 1 :]]
        return sum((b > a) - (b < a) for a, b in pairs)

    scores = [s(order) for order in permutations(values)]
    assert mann_kendall_p(values) == pytest.approx(np.mean([score >= s(values) for score in scores]))


def test_mann_kendall_meets_the_published_table():
    """Kendall's table, n = 10: P(S >= 27) = .0083, P(S >= 25) = .0143, P(S = 45) = 1/10!."""
    rising = list(range(10))
    assert mann_kendall_p(rising) == pytest.approx(1 / 3628800)
    assert mann_kendall_p([9, *range(9)]) == pytest.approx(0.0083, abs=5e-5)
    assert mann_kendall_p([9, 0, 1, 2, 3, 4, 5, 6, 8, 7]) == pytest.approx(0.0143, abs=5e-5)
    assert mann_kendall_p([0] * 10) == 1.0


@pytest.mark.parametrize(
    ("arrivals", "growth", "p", "state"),
    [
        (1000, 0.051, 0.009, "OVERLOADED"),
        (1000, 0.05, 0.009, "SUSPECT"),
        (1000, 0.051, 0.01, "SUSPECT"),
        (1000, 0.05, 0.01, "STABLE"),
        (999, 0.201, 0.009, "OVERLOADED"),
        (999, 0.20, 0.009, "NOT_JUDGED"),
        (999, 0.051, 0.5, "NOT_JUDGED"),
        (999, 0.05, 0.01, "STABLE"),
        (999, 0.05, 0.009, "NOT_JUDGED"),
        (200, 0.5, 0.0, "OVERLOADED"),
        (199, 0.5, 0.0, "NOT_JUDGED"),
        (199, 0.0, 1.0, "NOT_JUDGED"),
    ],
)
def test_the_bands_by_sample_size(arrivals, growth, p, state):
    """Each corner of the table in the specification."""
    assert judged(arrivals, growth, p, LINES) == state


@pytest.mark.parametrize(
    "origin",
    [
        {},
        {"stationary": False, "window": {"kind": "schedule"}},
        {"stationary": True, "window": {"kind": "makespan"}},
        {"stationary": False, "window": {"kind": "trace", "end_ns": 5}},
    ],
)
def test_only_a_schedule_of_one_rate_is_judged(origin):
    """Bursts, traces and ramps have no load verdict, however their queue grows."""
    due = 1000 * np.arange(2000)
    assert judge_load(recording_of(due, due * 3 + 1000), LINES).state is LoadState.OVERLOADED
    load = judge_load(recording_of(due, due * 3 + 1000, origin), LINES)
    assert load.state is LoadState.NOT_JUDGED
    assert load.growth_ratio is load.trend_p_fraction is load.rho_ratio is None


def test_a_schedule_with_followers_is_not_judged():
    """A request that waits for another follows the engine's own pace."""
    schedule = make_schedule([0, NULL], [1, 1], [1, 1], after=[[], [0]], think_ns=[NULL, 0], origin=STEADY)
    assert not has_one_rate(schedule)


def test_a_stop_ends_the_window():
    """What was due after the stop is neither an arrival nor missing growth."""
    whole = fluid(2000, 1.25)
    sent = np.arange(2000) < 1200
    requests = dict(whole.requests)
    requests["status"] = np.where(sent, requests["status"], int(Status.NOT_DISPATCHED))
    requests["end_ns"] = np.where(sent, requests["end_ns"], NULL)
    cut = judge_load(replace(whole, requests=requests), LINES, stop_ns=1_200_000)
    assert cut.arrivals_requests == 1200
    assert cut.growth_ratio == pytest.approx(0.2, abs=0.002)


def test_what_never_ends_stays_in_flight():
    """An engine that answers nobody: all arrivals are in flight at the end, g = 1, and no utilisation is named."""
    whole = fluid(2000, 1.25)
    requests = {**whole.requests, "end_ns": np.full(2000, NULL)}
    load = judge_load(replace(whole, requests=requests), LINES)
    assert load.growth_ratio == pytest.approx(1.0, abs=1e-3)
    assert load.state is LoadState.OVERLOADED
    assert load.rho_ratio is None or load.rho_ratio > 100


def test_an_empty_schedule_and_a_single_instant_are_not_judged():
    """Nothing to divide by."""
    assert judge_load(recording_of([], []), LINES).state is LoadState.NOT_JUDGED
    assert judge_load(recording_of([0, 0], [5, 5]), LINES).state is LoadState.NOT_JUDGED


@pytest.mark.slow
@pytest.mark.parametrize("slots", [1, 8])
def test_stable_queues_are_rarely_called_overloaded(slots):
    """N = 1000, 40 seeds a rate: rho .8 never, rho .9 at most twice (2 % allowed: P(more than 2) < 5 %)."""
    for rho, most in ((0.8, 0), (0.9, 2)):
        share = rate_of(LoadState.OVERLOADED, rho, slots, range(40))
        print(f"{slots} slots, rho {rho}: OVERLOADED in {share:.3f} of 40")
        assert share * 40 <= most


@pytest.mark.parametrize("slots", [1, 8])
def test_overload_is_found(slots):
    """N = 1000, 40 seeds: rho 1.25 always, and the estimate of rho is near."""
    loads = [judge_load(simulate(1.25, seed, slots), LINES) for seed in range(40)]
    assert all(load.state is LoadState.OVERLOADED for load in loads)
    assert np.mean([load.rho_ratio for load in loads]) == pytest.approx(1.25, rel=0.05)


@pytest.mark.slow
def test_rates_over_many_seeds():
    """400 seeds a cell: false alarms and detection as the specification gives them; prints the table."""
    seeds = range(1000, 1400)
    most = {0.8: 0.005, 0.9: 0.02, 0.95: 0.08}
    least = {1.1: 0.72, 1.25: 0.9999}
    for slots, rho in product((1, 8), (0.8, 0.9, 0.95, 1.0, 1.05, 1.1, 1.25)):
        states = [judge_load(simulate(rho, seed, slots), LINES).state for seed in seeds]
        shares = {str(state): states.count(state) / len(states) for state in LoadState}
        print(f"{slots} slots, rho {rho}: {shares}")
        assert shares["OVERLOADED"] <= most.get(rho, 1.0)
        assert shares["OVERLOADED"] >= least.get(rho, 0.0)


@pytest.mark.slow
def test_rates_of_small_runs_over_many_seeds():
    """N = 200 to 500, 400 seeds: at most 1 % false alarms up to rho .95; half found at 1.25 and nearly all at 1.5."""
    seeds = range(2000, 2400)
    for slots, requests in product((1, 8), (200, 500)):
        shares = {
            rho: rate_of(LoadState.OVERLOADED, rho, slots, seeds, requests) for rho in (0.8, 0.95, 1.1, 1.25, 1.5, 2.0)
        }
        print(f"{slots} slots, N {requests}: {shares}")
        assert max(shares[0.8], shares[0.95]) <= 0.02
        assert shares[2.0] >= 0.95
