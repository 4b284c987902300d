"""The cheapest fleet within an SLO."""

from dataclasses import replace

import numpy as np
import pytest

from loadgen.plan_options import PlanOptions
from loadgen.planning import Plan, Tried, plan, setups
from results.schedule import Schedule, make_schedule
from results.slo import parse_slo

ONE_KIND = PlanOptions(hardware=("h100-sxm",), price_per_h=(2.0,), engine=("continuous",), batches=(64,), degrees=(1,))


def busy_hour(rows: int = 150, rate_rps: float = 60.0) -> Schedule:
    generator = np.random.default_rng(5)
    due = np.cumsum(generator.exponential(1e9 / rate_rps, rows)).astype(int)
    return make_schedule(due, generator.integers(400, 1_200, rows), generator.integers(50, 400, rows))


def tried_of(found: Plan) -> list[tuple[int, bool]]:
    return [(one.replicas, one.meets) for one in found.tried]


def test_replicas_are_doubled_and_bisected_to_the_fewest_that_do() -> None:
    """Whoever has one less misses the SLO, and the answer meets it."""
    found = plan(busy_hour(), parse_slo("ttft<=100ms,tpot<=6ms"), ONE_KIND)
    assert found.cheapest is not None and found.cheapest.replicas == 8
    assert tried_of(found) == [(1, False), (2, False), (4, False), (8, True), (6, False), (7, False)]
    assert found.cheapest.price_per_h == 16.0 and found.cheapest.devices == 8


def test_meeting_is_exactly_the_attainment() -> None:
    """The ratio to the limits is at most 1 where the share of requests within all limits is reached, and only there."""
    schedule, limits = busy_hour(), parse_slo("ttft<=100ms,tpot<=6ms")
    for share in (0.5, 0.9, 0.99, 1.0):
        for one in plan(schedule, limits, replace(ONE_KIND, attainment_fraction=share)).tried:
            assert one.attainment_fraction is not None and one.limit_ratio is not None
            assert one.meets == (one.attainment_fraction >= share) == (one.limit_ratio <= 1)


def test_the_cheapest_of_several_kinds_of_hardware_is_found() -> None:
    """Where the slow one costs next to nothing it wins, and loses where it costs as much."""
    schedule, limits = busy_hour(60, 0.5), parse_slo("e2e<=60s")
    for slow_price, winner in ((0.1, "l4"), (9.0, "h100-sxm")):
        both = replace(ONE_KIND, hardware=("h100-sxm", "l4"), price_per_h=(2.0, slow_price))
        found = plan(schedule, limits, both)
        assert found.cheapest is not None and found.cheapest.setup.hardware == winner


def test_a_model_that_does_not_fit_takes_more_devices() -> None:
    """70 B weights of two bytes need two devices of 80 GB; the reason of the first is kept."""
    options = replace(ONE_KIND, model="llama-3.1-70b", degrees=(1, 2, 4))
    found = plan(busy_hour(30, 1), parse_slo("e2e<=60s"), options)
    first, *others = found.tried
    assert first.reason is not None and "take more of them" in first.reason and not first.meets
    assert all(one.reason is None for one in others)
    assert found.cheapest is not None and found.cheapest.setup.tp > 1


def test_nothing_dearer_than_asked_is_tried() -> None:
    """Twice the cheapest by default; at 1 nothing above it."""
    schedule, limits = busy_hour(60, 1), parse_slo("e2e<=60s")
    for ratio, most in ((1.0, 2.0), (4.0, 8.0)):
        options = replace(ONE_KIND, degrees=(1, 2, 4, 8), dearer_ratio=ratio)
        assert max(one.price_per_h for one in plan(schedule, limits, options).tried) == most


def test_the_front_gets_dearer_and_faster() -> None:
    """None of it is beaten in price and distance by anything that was tried."""
    options = replace(ONE_KIND, batches=(8, 64), degrees=(1, 2), dearer_ratio=4.0, engine=("continuous", "static"))
    found = plan(busy_hour(), parse_slo("ttft<=300ms,tpot<=20ms"), options)
    front = found.pareto
    assert len(front) > 1

    def beats(one: Tried, other: Tried) -> bool:
        pair = (one.limit_ratio or np.inf, other.limit_ratio or np.inf)
        return one.price_per_h <= other.price_per_h and pair[0] < pair[1]

    assert not [1 for one in found.tried for other in front if beats(one, other)]
    assert found.cheapest is not None


def test_no_fleet_is_an_answer_too() -> None:
    """A limit that a single step exceeds is met by nobody, within any number of devices."""
    found = plan(busy_hour(40), parse_slo("tpot<=1us"), replace(ONE_KIND, most_devices=5))
    assert found.cheapest is None
    assert [one.replicas for one in found.tried] == [1, 2, 4, 5]


def test_a_policy_without_a_batch_and_one_with_its_own_are_tried_once() -> None:
    """Batch sizes are for those that leave it open."""
    options = replace(ONE_KIND, engine=("one-by-one", "static,batch=4", "continuous"), batches=(8, 16))
    assert [one.engine.partition(",executor")[0] for one in setups(options)] == [
        "one-by-one", "static,batch=4", "continuous,batch=16", "continuous,batch=8",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("options", "slo", "line"),
    [
        (replace(ONE_KIND, price_per_h=()), "ttft<=1s", "--price is given 0 times for 1"),
        (replace(ONE_KIND, engine=("fast",)), "ttft<=1s", "unknown engine 'fast'"),
        (replace(ONE_KIND, engine=("static,executor=cost",)), "ttft<=1s", "names an executor"),
        (replace(ONE_KIND, hardware=("h99",)), "ttft<=1s", "unknown hardware 'h99'"),
        (replace(ONE_KIND, model="llama-3.1-405b"), "ttft<=1s", "take more of them"),
        (ONE_KIND, "ttft<=1s,tpot<=50ms,fluidity>=0.9", "leave fluidity out"),
    ],
)
def test_what_cannot_be_planned_is_one_line(options: PlanOptions, slo: str, line: str) -> None:
    """The value and the remedy."""
    with pytest.raises(ValueError, match=line):
        plan(busy_hour(10), parse_slo(slo), options)
