"""The cheapest fleet within an SLO."""

from dataclasses import replace

import numpy as np
import pytest

from loadgen.plan_options import PlanOptions
from loadgen.planning import Plan, Tried, plan, setups
from results.schedule import COOLDOWN, FILL, MEASURE, Schedule, make_schedule
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


def test_hardware_without_a_link_is_tried_alone_and_does_not_end_the_plan() -> None:
    """Its degrees above 1 are kept with their reason; other kinds are tried on each."""
    options = replace(
        ONE_KIND, hardware=("cpu-core", "h100-sxm"), price_per_h=(0.1, 2.0), model="tinygpt", degrees=(1, 2)
    )
    found = plan(busy_hour(10, 1), parse_slo("e2e<=60s"), options)
    reasons = {(one.setup.hardware, one.setup.tp): one.reason or "" for one in found.tried}
    assert "cpu-core has no link" in reasons["cpu-core", 2] and not reasons["cpu-core", 1]
    assert found.cheapest is not None and found.cheapest.setup.hardware == "cpu-core"


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
        (replace(ONE_KIND, engine=("decode-only",)), "ttft<=1s", "computes no prompts: give --pools"),
        (replace(ONE_KIND, pools=((1, 1),), prefill_engine="fast"), "ttft<=1s", "unknown engine 'fast'"),
        (replace(ONE_KIND, pools=((1, 1),), prefill_engine="decode-only"), "ttft<=1s", "prompts: give another"),
        (replace(ONE_KIND, engine=("static,tp=2",)), "ttft<=1s", "names a tp: a plan runs on"),
        (replace(ONE_KIND, engine=("static,hardware=l4",)), "ttft<=1s", "names a hardware"),
        (replace(ONE_KIND, degrees=(2,), most_devices=1), "ttft<=1s", "--devices 1 is too few for any fleet"),
        (
            replace(ONE_KIND, hardware=("l4", "l4"), price_per_h=(1.0, 2.0)), "ttft<=1s",
            "--hardware l4,l4: give each kind once",
        ),
        (replace(ONE_KIND, dearer_ratio=0.9), "ttft<=1s", "--dearer 0.9 would leave out"),
        (replace(ONE_KIND, hardware=("h99",)), "ttft<=1s", "unknown hardware 'h99'"),
        (replace(ONE_KIND, model="llama-3.1-405b"), "ttft<=1s", "take more of them"),
        (ONE_KIND, "ttft<=1s,tpot<=50ms,fluidity>=0.9", "leave fluidity out"),
    ],
)
def test_what_cannot_be_planned_is_one_line(options: PlanOptions, slo: str, line: str) -> None:
    """The value and the remedy."""
    with pytest.raises(ValueError, match=line):
        plan(busy_hour(10), parse_slo(slo), options)


POOLS = replace(ONE_KIND, pools=((1, 1), (1, 3)), batches=(64,))


def test_pools_are_tried_beside_replicas_that_do_both() -> None:
    """Each proportion on each degree, bought as a whole."""
    told = [
        (one.words.split(",")[0], one.devices, one.price_per_h) for one in setups(replace(POOLS, degrees=(1, 2)))
    ]
    assert told == [
        ("continuous", 1, 2.0), ("(1 x chunked", 2, 4.0), ("(1 x chunked", 4, 8.0),
        ("continuous", 2, 4.0), ("(1 x chunked", 4, 8.0), ("(1 x chunked", 8, 16.0),
    ]  # fmt: skip


def test_pools_win_where_a_stalled_token_is_what_costs() -> None:
    """A limit on TPOT just above a decode step: prompts of 4,000 tokens beside it need far more replicas."""
    generator = np.random.default_rng(5)
    due = np.cumsum(generator.exponential(1e9 / 12, 120)).astype(int)
    schedule = make_schedule(due, [4_000] * 120, generator.integers(20, 60, 120))
    found = plan(schedule, parse_slo("ttft<=2s,tpot<=8ms"), replace(POOLS, dearer_ratio=4.0))
    assert found.cheapest is not None and found.cheapest.setup.prefill_engine is not None
    assert found.cheapest.devices == found.cheapest.replicas * found.cheapest.setup.devices
    whole = [one for one in found.tried if one.meets and one.setup.prefill_engine is None]
    assert all(one.price_per_h > found.cheapest.price_per_h for one in whole)


def test_requests_around_the_measured_ones_are_played_and_not_judged() -> None:
    """A fill of prompts that are far too late by themselves: the measured one alone decides, and waits for them."""
    told = []
    for fills in (0, 2):
        phases = [FILL] * fills + [MEASURE, COOLDOWN]
        prompts = [30_000] * fills + [100, 30_000]
        schedule = make_schedule([0] * fills + [1, 2], prompts, [5] * len(prompts), phase=phases)
        (one,) = plan(schedule, parse_slo("ttft<=1500ms"), replace(ONE_KIND, batches=(1,), most_devices=1)).tried
        assert one.limit_ratio is not None and one.attainment_fraction == (0.0 if fills else 1.0)
        told.append(one.limit_ratio)
    assert told[0] < 0.01 and told[1] > 1


def test_a_slow_link_is_felt() -> None:
    """A cache of 4,000 x 128 KiB over 1 GB/s is more than half a second under way."""
    schedule, limits = make_schedule([0], [4_000], [5]), parse_slo("ttft<=60s")
    late = []
    for link_bytes in (1_000_000_000, 50_000_000_000):
        found = plan(schedule, limits, replace(POOLS, engine=(), link_bytes=link_bytes))
        assert found.cheapest is not None and found.cheapest.figures_ms is not None
        late.append(found.cheapest.limit_ratio)
    assert late[0] is not None and late[1] is not None
    assert (late[0] - late[1]) * 60 == pytest.approx(4_000 * 131_072 * (1e-9 - 2e-11), rel=1e-6)
