"""Steps advanced together against the same steps one by one: every row, every token's time, to the bit."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.cost import HashExecutor
from engines.engine import JSON, Request, SamplingParams, Step, Stretch
from engines.executor import CostModel, Executor
from engines.policies import (
    DurationNs,
    Joining,
    Policy,
    Row,
    SlotState,
    all_when_all_finished,
    continuous,
    finished_rows,
    naive,
    one_by_one,
    static,
    static_bucketed,
)
from engines.slots import SlotEngine
from engines.stretches import duration_ps, steps_before
from results.recording import Recording, RecordingPart
from results.slots import StepWork
from results.store import digest
from tests.engines.playing import (
    EVERY_STEP_1_NS,
    Numbering,
    Steering,
    assert_identical,
    engine_of,
    linear_ps,
    play,
    schedule_of,
)


class Stepwise:
    """A slot engine without `advance`: the driver must step it."""

    def __init__(self, engine: SlotEngine) -> None:
        self.add_request = engine.add_request
        self.has_work = engine.has_work
        self.ready_ns = engine.ready_ns
        self.step: Callable[[int], Step] = engine.step
        self.flush = engine.flush
        self.abort = engine.abort
        self.describe: Callable[[], Mapping[str, JSON]] = engine.describe


@dataclass(frozen=True)
class Crossing:
    """The greater of two laws: one of rows and one of cache, which overtakes it in the middle of a batch."""

    base_ps: int
    row_ps: int
    kv_ps: int
    rows_kv_ps: int

    def _laws(self, work: StepWork) -> tuple[tuple[int, int], tuple[int, int]]:
        rows, grows = work.decoding_slots + work.finished_slots, work.decoding_slots
        flat = self.base_ps + self.row_ps * rows + self.rows_kv_ps * work.kv_tokens
        return (flat, self.rows_kv_ps * grows), (1 + self.kv_ps * work.kv_tokens, self.kv_ps * grows)

    def cost_ps(self, work: StepWork) -> int:
        if work.prefill_tokens:
            return self.base_ps + self.row_ps * (work.prefill_tokens + work.padding_tokens)
        return max(cost for cost, _ in self._laws(work))

    def decode_slope_ps(self, work: StepWork) -> tuple[int, int | None]:
        one, other = sorted(self._laws(work), reverse=True)
        if other[1] <= one[1]:
            return one[1], None
        return one[1], (one[0] - other[0]) // (other[1] - one[1]) + 1

    def describe(self) -> Mapping[str, JSON]:
        return {"name": "crossing"}


class SmallCache(HashExecutor):
    """Nobody joins whose tokens have no room in the cache."""

    def __init__(self, kv_capacity_tokens: int) -> None:
        self.kv_capacity_tokens = kv_capacity_tokens


def shortest_first(batch: int) -> Policy:
    """A user's own: whoever asks for least, a prefill at most after every other step."""

    def join(state: SlotState) -> Joining:
        if state.last_kind == "prefill" and state.running:
            return Joining(holds_steps=1)
        order = sorted(range(len(state.waiting)), key=lambda at: state.waiting[at].params.max_tokens)
        return Joining(order[: state.slots - len(state.running)])

    return Policy("shortest-first", batch, join, finished_rows)


def when_half_done(batch: int) -> Policy:
    """Looks at the rows' tokens: nobody joins before every row has half of its answer."""

    def join(state: SlotState) -> Joining:
        if any(2 * row.output_tokens < row.max_tokens for row in state.running):
            return Joining(holds_steps=1)
        return Joining(range(min(len(state.waiting), state.slots - len(state.running))))

    return Policy("half-done", batch, join, finished_rows)


def by_the_clock(batch: int) -> Policy:
    """Asks to be asked at certain times: nobody joins but after multiples of 50 ns."""

    def join(state: SlotState) -> Joining:
        since_ns = state.now_ns % 50
        if state.running and since_ns > 10:
            return Joining(not_before_ns=state.now_ns - since_ns + 50)
        if state.running:
            return Joining(range(min(1, len(state.waiting), state.slots - len(state.running))), holds_steps=1)
        return Joining(range(min(len(state.waiting), state.slots)))

    return Policy("by-the-clock", batch, join, finished_rows)


def pairs_leave(batch: int) -> Policy:
    """A leave of its own: finished rows go two by two, or when nobody else is left."""

    def leave(rows: Sequence[Row]) -> Sequence[int]:
        done = [row.request_id for row in rows if row.finished]
        return done if len(done) > 1 or len(done) == len(rows) else ()

    def join(state: SlotState) -> Joining:
        return Joining(range(min(len(state.waiting), state.slots - len(state.running))))

    return Policy("pairs", batch, join, leave)


BUILDERS: dict[str, Callable[[int], Policy]] = {
    "one-by-one": lambda slots: one_by_one(),
    "naive": lambda slots: naive(),
    "static": static,
    "static-full": lambda slots: static(slots, "full"),
    "static-patient": lambda slots: static(slots, "full", DurationNs(40)),
    "static-until": lambda slots: static(slots, until=12),
    "static-end": lambda slots: static(slots, return_="end"),
    "static-bucketed": lambda slots: static_bucketed(slots, 6),
    "continuous": continuous,
    "shortest-first": shortest_first,
    "half-done": when_half_done,
    "by-the-clock": by_the_clock,
    "pairs": pairs_leave,
    "least-steps": lambda slots: Policy("least", slots, continuous(slots).join, finished_rows, least_steps=7),
    "together": lambda slots: Policy("together", slots, continuous(slots).join, all_when_all_finished),
}


@dataclass(frozen=True)
class Workload:
    """Requests, who waits for whom, what steps cost, and how long anybody may take."""

    due_ns: list[int]
    prompts: list[int]
    outputs: list[int]
    after: dict[int, list[int]]
    cost: CostModel
    slots: int
    timeout_ns: int | None
    drain_ns: int | None
    kv_capacity_tokens: int | None

    def play(self, policy: Policy, stepwise: bool) -> Recording:
        executor = HashExecutor() if self.kv_capacity_tokens is None else SmallCache(self.kv_capacity_tokens)
        engine = engine_of(policy, self.cost, executor)
        schedule = schedule_of(self.outputs, self.due_ns, self.prompts, self.after)
        steering = Steering(timeout_ns=self.timeout_ns, drain_ns=self.drain_ns)
        return play(schedule, Stepwise(engine) if stepwise else engine, steering)


COSTS = st.one_of(
    st.tuples(st.integers(1, 9_000), st.integers(0, 900), st.integers(1, 9_000), st.integers(0, 500)).map(
        lambda four: linear_ps(*four)
    ),
    st.builds(Crossing, st.integers(1, 9_000), st.integers(0, 900), st.integers(0, 400), st.integers(0, 40)),
    st.just(EVERY_STEP_1_NS),
)


@st.composite
def workloads(draw: st.DrawFn) -> Workload:
    """Up to 30 requests, scattered or at once, with ties, followers, limits of time and of the cache."""
    rows = draw(st.integers(1, 30))
    outputs = draw(st.lists(st.integers(1, draw(st.sampled_from([2, 9, 60]))), min_size=rows, max_size=rows))
    prompts = draw(st.lists(st.integers(1, 12), min_size=rows, max_size=rows))
    gap_ns = draw(st.sampled_from([0, 1, 4, 30, 200]))
    gaps = draw(st.lists(st.integers(0, gap_ns), min_size=rows, max_size=rows))
    followers = draw(st.sets(st.integers(1, max(1, rows - 1)), max_size=4)) if rows > 1 else set()
    return Workload(
        np.cumsum(gaps).tolist(), prompts, outputs, {one: [one - 1] for one in followers}, draw(COSTS),
        draw(st.integers(1, 8)), draw(st.none() | st.integers(1, 300)), draw(st.none() | st.integers(0, 200)),
        draw(st.none() | st.integers(60, 150)),
    )  # fmt: skip


def check(policy: Policy, workload: Workload) -> None:
    together, one_by_one_ = workload.play(policy, stepwise=False), workload.play(policy, stepwise=True)
    assert_identical(together, one_by_one_)
    assert digest(together) == digest(one_by_one_)


@pytest.mark.parametrize("name", BUILDERS)
@settings(max_examples=20, deadline=None, derandomize=True)
@given(workload=workloads())
def test_stretches_equal_single_steps(name: str, workload: Workload) -> None:
    """Steps, costs, counts, slots, ends and each token's time are the same, whatever happens on the way."""
    check(BUILDERS[name](workload.slots), workload)


@pytest.mark.slow
@pytest.mark.parametrize("name", BUILDERS)
@settings(max_examples=500, deadline=None)
@given(workload=workloads())
def test_stretches_equal_single_steps_at_length(name: str, workload: Workload) -> None:
    """The same on 500 workloads each, new ones each time."""
    check(BUILDERS[name](workload.slots), workload)


def stretched(policy: Policy, outputs: Sequence[int], cost: CostModel = EVERY_STEP_1_NS) -> list[int]:
    """n_steps of each row of the steps that the driver emits."""
    parts: list[RecordingPart] = []
    play(schedule_of(outputs), engine_of(policy, cost), emit=parts.append)
    return [int(steps) for part in parts for steps in part.tables["steps"]["n_steps"]]


def test_rows_grow_with_events_and_not_with_tokens() -> None:
    """A prefill and a stretch to each end, however long the answers are."""
    assert stretched(continuous(4), [3, 1_000, 50_000]) == [1, 2, 997, 49_000]
    assert stretched(static(4), [3, 1_000, 50_000]) == [1, 2, 997, 49_000]
    assert stretched(one_by_one(), [7, 1, 9]) == [1, 6, 1, 1, 8]


def test_a_stretch_ends_where_another_law_takes_over() -> None:
    """100 flat against 1 + 10 a token of the cache, 4 at first: the second rules from the seventh decode on."""
    assert stretched(one_by_one(), [30], Crossing(100, 0, 10, 0)) == [1, 5, 24]


class Growing(Crossing):
    """What a cost model without a word on its course looks like."""

    decode_slope_ps = None  # type: ignore[assignment]


@pytest.mark.parametrize(
    ("executor", "cost"), [(Numbering(), EVERY_STEP_1_NS), (HashExecutor(), Growing(1, 0, 0, 0))]
)
def test_an_engine_is_stepped_where_tokens_are_computed_or_the_cost_is_anybodys_guess(
    executor: Executor, cost: CostModel
) -> None:
    """advance() has nothing to say then."""
    engine = SlotEngine(continuous(2), executor, cost if isinstance(executor, Numbering) else None)
    engine.add_request(Request(0, [1], SamplingParams(9), 0))
    engine.step(0)
    assert engine.advance(1_000, 10**9) is None


def test_tokens_that_may_end_a_request_are_looked_at_one_by_one() -> None:
    """A row with a stop token, or one that minds its end of sequence, cannot be told in advance."""
    engine = engine_of(continuous(2))
    engine.add_request(Request(0, [1], SamplingParams(9, stop_token_ids=(300,)), 0))
    engine.step(0)
    assert engine.advance(1_000, 10**9) is None


def test_a_stretch_stops_before_the_step_that_would_start_too_late() -> None:
    """Steps of 1 ns until 5.5 ns: those that start at 1, 2, 3, 4 and 5."""
    engine = engine_of(continuous(2))
    engine.add_request(Request(0, [1], SamplingParams(99), 0))
    engine.step(0)
    stretch = engine.advance(1_000, 5_500)
    assert isinstance(stretch, Stretch)
    assert (stretch.steps, stretch.first_cost_ps, stretch.cost_slope_ps, stretch.ended) == (5, 1_000, 0, ())


@given(
    time_ps=st.integers(1, 10**9), cost_ps=st.integers(1, 10**6), slope_ps=st.integers(0, 10**4),
    most=st.integers(1, 10**5),
)  # fmt: skip
def test_the_steps_before_a_time_are_counted_exactly(time_ps: int, cost_ps: int, slope_ps: int, most: int) -> None:
    """The last of them starts before it, and the next would not."""
    steps = steps_before(time_ps, cost_ps, slope_ps, most)
    assert 1 <= steps <= most
    assert steps == 1 or duration_ps(steps - 1, cost_ps, slope_ps) < time_ps
    assert steps == most or duration_ps(steps, cost_ps, slope_ps) >= time_ps


def test_who_is_aborted_keeps_the_tokens_it_had() -> None:
    """They had got one in every step of the stretch before."""
    schedule = schedule_of([4_000, 9], [0, 700])
    together = play(schedule, engine_of(continuous(3)), Steering(drain_ns=50))
    assert_identical(together, play(schedule, Stepwise(engine_of(continuous(3))), Steering(drain_ns=50)))
    assert np.diff(together.token_offsets).tolist() == [749, 9]


def test_who_joins_after_a_stretch_has_its_own_count() -> None:
    """5 decodes for the first alone, 3 for both; when the second is aborted, the cache holds the first's 1 + 9."""
    engine = engine_of(continuous(2))
    engine.add_request(Request(0, [1], SamplingParams(99), 0))
    engine.step(0)
    assert engine.advance(1_000, 6_000) is not None
    engine.add_request(Request(1, [1] * 7, SamplingParams(99), 6))
    assert engine.advance(6_000, 9_000) is None
    engine.step(6)
    assert engine.advance(7_000, 10_000) is not None
    engine.abort(1)
    work = engine.step(10).work
    assert work is not None and work.kv_tokens == 1 + 5 + 3 + 1
