"""Laws that a simulator of queues and batches must obey, played by the engines in modelled time."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from engines.cost import DurationPs, HashExecutor, LinearCost
from engines.policies import Policy, chunked, continuous, one_by_one, paged, shortest_first, static
from engines.slots import SlotEngine
from loadgen.config import from_texts
from loadgen.engine_spec import make_engine
from loadgen.fleet import play_fleet
from loadgen.traces.neutral import write_neutral
from loadgen.workload import build_schedule
from results.schedule import Schedule, make_schedule

MS = 1_000_000_000
COST = (1_950_000_000, 205_000_000, 2_000_000_000, 128_000_000)
"""Decode 1.95 ms + 0.205 ms a row, prefill 2 ms + 0.128 ms a token."""


def engine(policy: Policy, costs: tuple[int, ...] = COST) -> SlotEngine:
    return SlotEngine(policy, HashExecutor(), LinearCost(*map(DurationPs, costs)))


def e2e_ns(schedule: Schedule, policy: Policy, costs: tuple[int, ...] = COST) -> np.ndarray:
    return play_fleet(schedule, lambda: engine(policy, costs), 1).values_ns["e2e"]


def burst(rows: int = 4_000, seed: int = 3) -> Schedule:
    generator = np.random.default_rng(seed)
    return make_schedule([0] * rows, generator.integers(32, 97, rows), generator.integers(16, 49, rows))


def tokens_per_s(policy: Policy) -> float:
    schedule = burst()
    return float(schedule.output_tokens.sum()) * 1e9 / float(e2e_ns(schedule, policy).max())


def test_one_by_one_saturates_at_one_over_the_mean_service_time() -> None:
    """Exactly: a burst takes the sum of what each request takes alone."""
    schedule = burst()
    decode, prefill = COST[0] + COST[1], COST[2] + COST[3] * schedule.prompt_tokens
    service_ps = prefill + (schedule.output_tokens - 1) * decode
    assert e2e_ns(schedule, one_by_one()).max() == int(service_ps.sum()) // 1_000


def test_static_saturates_at_the_batch_over_its_longest() -> None:
    """B outputs for one padded prefill and as many decodes of B rows as the longest needs: to the nanosecond."""
    schedule = burst()
    longest_prompt = schedule.prompt_tokens.reshape(-1, 8).max(axis=1)
    longest_output = schedule.output_tokens.reshape(-1, 8).max(axis=1)
    batch_ps = COST[2] + COST[3] * 8 * longest_prompt + (longest_output - 1) * (COST[0] + 8 * COST[1])
    assert e2e_ns(schedule, static(8)).max() == int(batch_ps.sum()) // 1_000


def test_continuous_saturates_below_its_bound_and_not_far_from_it() -> None:
    """No batch of 8 can give a token faster than 8 full slots, each request prefilled alone, would."""
    schedule = burst()
    prefill = COST[2] / 8 + COST[3] * schedule.prompt_tokens.mean()
    decode = (schedule.output_tokens.mean() - 1) * (COST[0] + 8 * COST[1]) / 8
    bound = schedule.output_tokens.mean() * 1e12 / (prefill + decode)
    assert 0.8 * bound < tokens_per_s(continuous(8)) <= bound


@pytest.mark.parametrize("policy", [one_by_one(), static(8), continuous(8), shortest_first(8)], ids=lambda p: p.name)
def test_a_rate_k_times_as_high_and_costs_k_times_as_low_shrink_every_time_by_k(policy: Policy) -> None:
    """To the picosecond that is cut off when times are written in nanoseconds."""
    generator = np.random.default_rng(4)
    due = np.cumsum(generator.integers(0, 40_000, 300)) * 4_000
    lengths = generator.integers(32, 97, 300), generator.integers(16, 49, 300)
    slow = e2e_ns(make_schedule(due, *lengths), policy)
    fast = e2e_ns(make_schedule(due // 4, *lengths), policy, tuple(cost // 4 for cost in COST))
    assert np.abs(slow - 4 * fast).max() <= 4


@pytest.mark.parametrize("rho", [0.5, 0.8])
@pytest.mark.parametrize("slots", [1, 2, 4])
def test_waits_for_one_of_c_servers_are_those_of_an_m_m_c_queue(slots: int, rho: float) -> None:
    """Erlang's C formula, where a decode costs the same for any number of rows.

    Answers are geometric with a mean of 200 steps of 1 ms; an arrival waits half a step more until its slot is seen.
    """
    mean_steps, waits = 200, []
    for seed in range(6):
        generator = np.random.default_rng(seed)
        outputs = np.maximum(np.ceil(generator.exponential(mean_steps, 6_000)), 1).astype(int)
        gaps = generator.exponential(mean_steps * 1e6 / (rho * slots), len(outputs))
        schedule = make_schedule(np.cumsum(gaps).astype(int), [1] * len(outputs), outputs)
        served = play_fleet(schedule, lambda: engine(continuous(slots), (MS, 0, MS, 0)), 1)
        waits.append(float(served.values_ns["ttft"][500:].mean()) / 1e6 - 1)
    load = rho * slots
    terms = np.cumprod([1.0, *(load / k for k in range(1, slots + 1))])
    busy = terms[-1] / (1 - rho) / (terms[:-1].sum() + terms[-1] / (1 - rho))
    expected = busy * mean_steps / (slots * (1 - rho))
    error = float(np.std(waits, ddof=1) / np.sqrt(len(waits)))
    assert abs(float(np.mean(waits)) - expected) < 4.8 * error + 2.5


def test_a_fleet_of_c_behind_a_router_waits_longer_than_one_queue_of_c() -> None:
    """Round robin above least loaded above a common queue."""
    generator = np.random.default_rng(9)
    outputs = np.maximum(np.ceil(generator.exponential(100, 3_000)), 1).astype(int)
    schedule = make_schedule(np.cumsum(generator.exponential(31e6, 3_000)).astype(int), [1] * 3_000, outputs)
    common = play_fleet(schedule, lambda: engine(continuous(4), (MS, 0, 1_000, 0)), 1).values_ns["ttft"].mean()
    apart = [
        play_fleet(schedule, lambda: engine(one_by_one(), (MS, 0, 1_000, 0)), 4, router).values_ns["ttft"].mean()
        for router in ("least-loaded", "round-robin")
    ]
    assert all(one < other for one, other in pairwise([common, *apart]))


@pytest.mark.parametrize("policy", [static(8), continuous(8), chunked(8), paged(8)], ids=lambda policy: policy.name)
def test_a_run_is_the_replay_of_its_exported_schedule(policy: Policy, tmp_path: Path) -> None:
    """Written as a trace and read again, every request has the same latency."""
    config = from_texts({"rate": "20", "requests": "80", "clock": "modelled"})
    schedule = build_schedule(config)
    write_neutral(schedule, tmp_path / "again.jsonl")
    again = build_schedule(from_texts({"trace": str(tmp_path / "again.jsonl"), "clock": "modelled"}))
    first, second = (
        play_fleet(one, lambda: make_engine(f"{policy.name},batch=8", "modelled", schedule), 1).values_ns
        for one in (schedule, again)
    )
    assert all(first[name].tolist() == second[name].tolist() for name in first)
