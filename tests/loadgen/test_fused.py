"""The driver and the engine in one loop, against the two of them."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.cost import DurationPs, HashExecutor, LinearCost
from engines.executor import StretchCost
from engines.hardware import Hardware
from engines.policies import continuous, one_by_one, static
from engines.roofline import Roofline
from engines.shapes import Shape
from engines.slots import SlotEngine
from loadgen.clock import ModelledClock
from loadgen.drive import play_compact
from loadgen.fleet import GoOn
from loadgen.fused import play_fused
from results.columns import NULL
from results.compact import Compact
from results.schedule import Schedule, make_schedule
from results.slots import StepWork
from tests.engines.playing import EVERY_STEP_1_NS, Numbering, engine_of, schedule_of
from tests.engines.test_stretches import Crossing, SmallCache

SMALL_MACHINE = Hardware("small", 1.2e12, 1e12, 1e9, "none")
SMALL_MODEL = Shape("small", layers=2, width=8, heads=2, kv_heads=1, head_dim=4, ffn=16, vocabulary=30, source="none")
"""A step of some nanoseconds; with one row the maths overtake the reading at 25 tokens of context."""
COSTS = st.one_of(
    st.just(EVERY_STEP_1_NS),
    st.just(LinearCost(*map(DurationPs, (3_000, 200, 5_000, 300, 7)))),
    st.just(Roofline(SMALL_MACHINE, SMALL_MODEL)),
    st.builds(Crossing, st.integers(1, 3_000), st.integers(0, 300), st.integers(0, 60), st.integers(0, 60)),
)


@st.composite
def schedules(draw: st.DrawFn) -> Schedule:
    """Ties, gaps far smaller and far larger than a step."""
    rows = draw(st.integers(1, 25))
    gap_ns = draw(st.sampled_from([0, 1, 4, 30, 200]))
    due = np.cumsum(draw(st.lists(st.integers(0, gap_ns), min_size=rows, max_size=rows))).tolist()
    lengths = st.lists(st.integers(1, draw(st.sampled_from([3, 40]))), min_size=rows, max_size=rows)
    return make_schedule(due, draw(lengths), draw(lengths))


def both(schedule: Schedule, make: Callable[[], SlotEngine]) -> tuple[Compact, Compact]:
    apart = play_compact(schedule, make(), ModelledClock(), lambda part: None, GoOn())
    return apart, play_fused(schedule, make())


def assert_same(one: Compact, other: Compact) -> None:
    for name in ("requests", "steps"):
        first, second = getattr(one, name), getattr(other, name)
        assert first.keys() == second.keys()
        for column in first:
            assert first[column].tolist() == second[column].tolist(), column
    assert one.in_flight_request_ns == other.in_flight_request_ns


@pytest.mark.parametrize("name", ["one-by-one", "continuous"])
@settings(max_examples=100, deadline=None, derandomize=True)
@given(schedule=schedules(), cost=COSTS, slots=st.integers(1, 8), room=st.none() | st.integers(20, 150))
def test_one_loop_makes_the_rows_of_two(
    name: str, schedule: Schedule, cost: StretchCost, slots: int, room: int | None
) -> None:
    """Every column of requests and stretches, whatever the costs, the ties and the room in the cache."""

    def make() -> SlotEngine:
        policy = continuous(slots) if name == "continuous" else one_by_one()
        return SlotEngine(policy, HashExecutor() if room is None else SmallCache(room), cost)

    assert_same(*both(schedule, make))


def test_long_runs_are_the_same_too() -> None:
    """3,000 requests on 16 slots at a cost that grows with the cache."""
    generator = np.random.default_rng(6)
    due = np.cumsum(generator.exponential(900, 3_000)).astype(int)
    schedule = make_schedule(due, generator.integers(1, 200, 3_000), generator.integers(1, 120, 3_000))
    assert_same(*both(schedule, lambda: engine_of(continuous(16), Crossing(9_000, 900, 3, 1))))


@pytest.mark.parametrize(
    ("schedule", "engine"),
    [
        (schedule_of([3]), engine_of(static(2))),
        (schedule_of([3], stop_token_ids=(5,)), engine_of(continuous(2))),
        (make_schedule([0, NULL], [1, 1], [1, 1], after=[(), (0,)], think_ns=[NULL, 0]), engine_of(continuous(2))),
        (schedule_of([3]), SlotEngine(continuous(2), Numbering(), None)),
    ],
    ids=["a policy that is asked", "stop tokens", "followers", "tokens that are computed"],
)
def test_what_must_be_asked_is_refused(schedule: Schedule, engine: SlotEngine) -> None:
    """Such runs are for the driver and the engine apart."""
    with pytest.raises(ValueError, match="a fused run needs"):
        play_fused(schedule, engine)


def test_a_schedule_without_requests_is_a_run_without_steps() -> None:
    """Nothing happens."""
    run = play_fused(make_schedule([], [], []), engine_of(continuous(2)))
    assert len(run.steps["step"]) == 0


@pytest.mark.parametrize("cost", [Roofline(SMALL_MACHINE, SMALL_MODEL), LinearCost(decode_kv=DurationPs(7))])
def test_the_laws_of_a_decode_are_its_cost_and_how_that_goes_on(cost: Roofline | LinearCost) -> None:
    """The greater of the two for any rows and any cache, and both are the greater somewhere where there are two."""
    ruling = set()
    for rows in range(1, 9):
        base_ps, token_ps, other_base_ps, other_token_ps = cost.decode_laws_ps(rows)
        for kv_tokens in (rows, 20, 24, 25, 26, 5_000):
            work = StepWork("decode", 0, rows, 0, 0, 0, 0, 0, 0, 0, kv_tokens)
            laws = (base_ps + token_ps * kv_tokens, other_base_ps + other_token_ps * kv_tokens)
            assert cost.cost_ps(work) == max(laws)
            ruling.add(laws.index(max(laws)))
            slope_ps, _ = cost.decode_slope_ps(work)
            assert slope_ps == (token_ps, other_token_ps)[laws.index(max(laws))] * rows
    assert ruling == ({0, 1} if isinstance(cost, Roofline) else {0})
