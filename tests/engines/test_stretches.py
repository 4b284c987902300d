"""Steps advanced together against the same steps one by one: every row, every token's time, to the bit."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.cost import HashExecutor
from engines.engine import JSON, Request, SamplingParams, Step, Stretch
from engines.executor import CostModel, Executor, Mixture
from engines.hardware import HARDWARE
from engines.paged import PagedEngine
from engines.policies import (
    DurationNs,
    Joining,
    Policy,
    Row,
    SlotState,
    all_when_all_finished,
    chunked,
    continuous,
    decode_only,
    finished_rows,
    naive,
    one_by_one,
    paged,
    priority,
    speculative,
    static,
    static_bucketed,
)
from engines.roofline import Roofline
from engines.shapes import SHAPES
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
    deliveries,
    engine_of,
    linear_ps,
    paged_engine_of,
    play,
    schedule_of,
)


class Stepwise:
    """An engine of ours without `advance`: the driver must step it."""

    def __init__(self, engine: SlotEngine | PagedEngine) -> None:
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

    def mixed_cost_ps(self, work: StepWork, mixture: Mixture) -> int:
        if not work.prefill_tokens:
            return self.cost_ps(work)
        return self.base_ps + self.row_ps * work.prefill_tokens + self.kv_ps * mixture.decode_kv_tokens

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


@dataclass(frozen=True)
class Workload:
    """Requests, who waits for whom, what steps cost, and how long anybody may take."""

    due_ns: list[int]
    prompts: list[int]
    outputs: list[int]
    after: dict[int, list[int]]
    cost: Any
    slots: int
    timeout_ns: int | None
    drain_ns: int | None
    kv_capacity_tokens: int | None
    classes: list[int]
    budget_tokens: int
    block_tokens: int

    def play(self, policy: Policy, stepwise: bool) -> Recording:
        executor = HashExecutor() if self.kv_capacity_tokens is None else SmallCache(self.kv_capacity_tokens)
        build = engine_of if policy.budget_tokens is None else paged_engine_of
        engine = build(policy, self.cost, executor)
        schedule = schedule_of(self.outputs, self.due_ns, self.prompts, self.after, classes=self.classes)
        steering = Steering(timeout_ns=self.timeout_ns, drain_ns=self.drain_ns)
        return play(schedule, Stepwise(engine) if stepwise else engine, steering)


BUILDERS: dict[str, Callable[[Workload], Policy]] = {
    "one-by-one": lambda load: one_by_one(),
    "naive": lambda load: naive(),
    "static": lambda load: static(load.slots),
    "static-full": lambda load: static(load.slots, "full"),
    "static-patient": lambda load: static(load.slots, "full", DurationNs(40)),
    "static-until": lambda load: static(load.slots, until=12),
    "static-end": lambda load: static(load.slots, return_="end"),
    "static-bucketed": lambda load: static_bucketed(load.slots, 6),
    "continuous": lambda load: continuous(load.slots),
    "chunked": lambda load: chunked(load.slots, load.budget_tokens),
    "paged": lambda load: paged(load.slots, load.budget_tokens, load.block_tokens),
    "paged-tight": lambda load: paged(load.slots, load.budget_tokens, load.block_tokens, cache_tokens=82),
    "speculative": lambda load: speculative(load.slots, 3, 0.6, load.budget_tokens, load.block_tokens),
    "decode-only": lambda load: decode_only(load.slots, load.budget_tokens, load.block_tokens, cache_tokens=82),
    "shortest-first": lambda load: shortest_first(load.slots),
    "priority": lambda load: priority(load.slots),
    "half-done": lambda load: when_half_done(load.slots),
    "by-the-clock": lambda load: by_the_clock(load.slots),
    "pairs": lambda load: pairs_leave(load.slots),
    "least-steps": lambda load: Policy(
        "least", load.slots, continuous(load.slots).join, finished_rows, least_steps=7
    ),
    "together": lambda load: Policy("together", load.slots, continuous(load.slots).join, all_when_all_finished),
}


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
        draw(st.none() | st.integers(60, 150)), draw(st.lists(st.integers(0, 2), min_size=rows, max_size=rows)),
        draw(st.integers(1, 30)), draw(st.integers(1, 9)),
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
    check(BUILDERS[name](workload), workload)


@pytest.mark.slow
@pytest.mark.parametrize("name", BUILDERS)
@settings(max_examples=500, deadline=None)
@given(workload=workloads())
def test_stretches_equal_single_steps_at_length(name: str, workload: Workload) -> None:
    """The same on 500 workloads each, new ones each time."""
    check(BUILDERS[name](workload), workload)


@pytest.mark.parametrize("name", ["continuous", "static", "chunked", "paged", "decode-only"])
def test_stretches_on_a_roofline_equal_single_steps(name: str) -> None:
    """Where reading rules at first, and arithmetic once contexts are long: 30 requests on a machine slow at sums."""
    slow_at_sums = replace(HARDWARE["h100-sxm"], peak_flop_per_s=1.4e13)
    model = Roofline(slow_at_sums, replace(SHAPES["llama-3.1-8b"], heads=1_024))
    generator = np.random.default_rng(4)
    due_ns = np.cumsum(generator.integers(0, 10**9, 30)).tolist()
    prompts, outputs = generator.integers(1, 60, 30).tolist(), generator.integers(1, 900, 30).tolist()
    load = Workload(due_ns, prompts, outputs, {}, model, 4, None, None, None, [0] * 30, 64, 16)
    check(BUILDERS[name](load), load)
    ruled_by = {part.read_ps >= part.maths_ps for part in (model.parts(decode(4, kv)) for kv in (40, 2_000))}
    assert ruled_by == {True, False}


def decode(rows: int, kv_tokens: int) -> StepWork:
    return StepWork("decode", 0, rows, 0, 0, 0, 0, 0, 0, 0, kv_tokens)


def stretched(policy: Policy, outputs: Sequence[int], cost: Any = EVERY_STEP_1_NS, prompts: int = 4) -> list[int]:
    """n_steps of each row of the steps that the driver emits."""
    parts: list[RecordingPart] = []
    build = engine_of if policy.budget_tokens is None else paged_engine_of
    play(schedule_of(outputs, prompts=prompts), build(policy, cost), emit=parts.append)
    return [int(steps) for part in parts for steps in part.tables["steps"]["n_steps"]]


def test_rows_grow_with_events_and_not_with_tokens() -> None:
    """A prefill and a stretch to each end, however long the answers are."""
    assert stretched(continuous(4), [3, 1_000, 50_000]) == [1, 2, 997, 49_000]
    assert stretched(static(4), [3, 1_000, 50_000]) == [1, 2, 997, 49_000]
    assert stretched(one_by_one(), [7, 1, 9]) == [1, 6, 1, 1, 8]


def test_a_stretch_ends_where_another_law_takes_over() -> None:
    """100 flat against 1 + 10 a token of the cache, 4 at first: the second rules from the seventh decode on."""
    assert stretched(one_by_one(), [30], Crossing(100, 0, 10, 0)) == [1, 5, 24]


def test_prompts_in_chunks_are_stepped_and_the_decodes_between_them_are_not() -> None:
    """10 + 10 tokens, 4 a step: 4, 4, 2 + 2, and, beside a decode, 3, 3 and 2."""
    assert stretched(chunked(2, budget_tokens=4), [900, 50], prompts=10) == [1, 1, 1, 1, 1, 1, 49, 847]
    assert stretched(chunked(2, budget_tokens=64), [900, 50], prompts=10) == [1, 49, 850]


def test_a_stretch_stops_before_the_step_that_needs_a_block_too_many() -> None:
    """Two of 4 tokens in 8 blocks of 4: from 16 tokens each on, the second must go.

    It comes back when the first has ended, and computes its 17 tokens anew.
    """
    assert stretched(paged(2, 64, block_tokens=4, cache_tokens=32), [20, 20]) == [1, 12, 1, 6, 1, 6]


def test_who_was_preempted_gets_nothing_of_the_steps_in_which_it_waits() -> None:
    """The last has 9 tokens when it goes; the others' next 6 steps, and the rest, are as step by step."""
    policy, schedule = paged(3, 64, block_tokens=4, cache_tokens=40), schedule_of([16, 30, 30])
    together = play(schedule, paged_engine_of(policy))
    assert_identical(together, play(schedule, Stepwise(paged_engine_of(policy))))
    assert [step for step, _ in deliveries(together, 2)][:10] == [*range(9), 16]


def test_decodes_are_advanced_while_somebody_waits_for_a_block() -> None:
    """7 blocks of 4: two of 8 tokens take 3 each for their next token, and 3 are free when the first has ended."""
    parts: list[RecordingPart] = []
    policy = paged(3, 64, block_tokens=4, cache_tokens=28)
    play(schedule_of([4, 5, 2], [0, 0, 1], [8, 8, 12]), paged_engine_of(policy), emit=parts.append)
    assert [int(steps) for part in parts for steps in part.tables["steps"]["n_steps"]] == [1, 3, 1, 1]


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
