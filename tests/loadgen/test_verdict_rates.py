"""The simulation behind `tests/benchmarks/verdicts.py`: it is the engine's queue, and it decides by the same rules."""

import sys
from pathlib import Path

import numpy as np
import pytest

from engines.cost import DurationPs, LinearCost
from engines.policies import one_by_one
from results import metrics
from results.meets import meets
from results.recording import Recording
from results.schedule import Schedule
from results.slo import parse_slo
from results.verdicts.judged import judged
from results.verdicts.overload import judge_load
from results.verdicts.run_facts import RunFacts
from results.verdicts.thresholds import Thresholds
from tests.engines.playing import engine_of, play

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))
import verdicts
from fifo import Cost, exponential_outputs, play_fifo, poisson_schedule


def engine_run(schedule: Schedule, cost: Cost) -> Recording:
    """One-by-one at this cost."""
    picoseconds = (cost.decode_ns, 0, cost.prefill_base_ns, cost.prefill_token_ns)
    return play(schedule, engine_of(one_by_one(), LinearCost(*(DurationPs(1_000 * ns) for ns in picoseconds))))


WORKLOADS = {
    "default at rho .8": (poisson_schedule(300, 10.4, 3), Cost()),
    "overloaded": (poisson_schedule(300, 16.0, 4), Cost()),
    "exponential": (poisson_schedule(300, 3.4, 5, exponential_outputs(300, 5, 200), (1, 1)), verdicts.TOKEN_COST),
}


@pytest.mark.parametrize("name", WORKLOADS)
def test_the_simulation_is_the_engine(name: str) -> None:
    """Every TTFT, E2E and end of 300 requests to the nanosecond, and the same judgement of the load."""
    schedule, cost = WORKLOADS[name]
    simulated, engine = play_fifo(schedule, cost), engine_run(schedule, cost)
    for metric in (metrics.ttft_ns, metrics.e2e_ns, metrics.tpot_ns):
        found = [metric(one, metrics.events_of(one)) for one in (simulated, engine)]
        np.testing.assert_array_equal(found[0], found[1])
    assert (simulated.requests["end_ns"] == engine.requests["end_ns"]).all()
    assert simulated.in_flight_request_ns == engine.in_flight_request_ns
    assert judge_load(simulated, Thresholds()) == judge_load(engine, Thresholds())


@pytest.mark.parametrize("rate", [2.0, 3.3, 3.6, 6.0])
def test_the_short_judgement_of_a_probe_is_the_long_one(rate: float) -> None:
    """Attainment and load as `judged` gives them, and so the same answer."""
    schedule = poisson_schedule(1_000, rate, 11, exponential_outputs(1_000, 11, 200), (1, 1))
    recording = play_fifo(schedule, verdicts.TOKEN_COST)
    limit_ns = round(verdicts.true_capacity()[1])
    short = verdicts.light_judgement(recording, limit_ns)
    summary, verdict = judged(recording, parse_slo(f"e2e<={limit_ns}ns"), RunFacts("modelled", schedule.sha256))
    assert summary["slo"]["attainment"] == short[0]["slo"]["attainment"]
    assert verdict.to_json()["load"] == short[1]["load"]
    assert meets(summary, verdict.to_json(), 0.9)[0] is meets(*short, 0.9)[0]


def test_the_true_capacity_is_that_of_an_m_m_1_queue() -> None:
    """At the rate of the closed form nine of ten of 200,000 requests are served within its limit."""
    rate_rps, limit_ns = verdicts.true_capacity()
    schedule = poisson_schedule(200_000, rate_rps, 1, exponential_outputs(200_000, 1, 200), (1, 1))
    first, whole = verdicts.TOKEN_COST.service_ns(schedule)
    recording = play_fifo(schedule, verdicts.TOKEN_COST)
    assert rate_rps * float(whole.mean()) / 1e9 == pytest.approx(0.7, rel=0.01)
    assert (first == 1_000_000).all()
    attained = float((metrics.e2e_ns(recording, metrics.events_of(recording)) <= limit_ns).mean())
    assert attained == pytest.approx(0.9, abs=0.008)


def test_a_few_sessions_decide_as_many_do() -> None:
    """Four of each kind: no false finding of an equal pair to speak of, every slower side and overload found."""
    found = verdicts.everything(lambda function, numbers: [function(number) for number in numbers], 4)
    assert found["aa_false_rate"] <= 0.25
    assert found["power_10pct"] >= 0.75
    assert found["overload_detected"] == 1
    assert abs(found["capacity_bias"]) < 0.08
