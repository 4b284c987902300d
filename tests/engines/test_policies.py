"""Every policy, step for step, against plain loops written from the words of the specification."""

import importlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.catalog import EXECUTORS, POLICIES
from engines.engine import Request, SamplingParams
from engines.policies import (
    DurationNs,
    Policy,
    SlotState,
    continuous,
    naive,
    one_by_one,
    priority,
    shortest_first,
    static,
    static_bucketed,
)
from results.recording import Recording
from results.slots import SLOT_STATES
from results.steps import step_ends_ns
from tests.engines import reference
from tests.engines.playing import (
    Steering,
    column,
    deliveries,
    engine_of,
    in_flight_request_ns,
    linear_ps,
    paged_engine_of,
    play,
    schedule_of,
    statuses,
)
from tests.engines.reference import Load, Story

COUNTED = (
    "start_ps", "cost_ps", *SLOT_STATES, "waiting_requests", "prefill_tokens", "padding_tokens", "kv_tokens",
)  # fmt: skip


@dataclass(frozen=True)
class Case:
    """A policy and the loop that says what it must do."""

    policy: Callable[[int], Policy]
    """From the number of slots."""
    story: Callable[[Load, int], Story]
    at_the_end: bool = False


CASES = {
    "one-by-one": Case(lambda slots: one_by_one(), lambda load, slots: reference.one_by_one(load)),
    "naive": Case(lambda slots: naive(), lambda load, slots: reference.one_by_one(load, cached=False)),
    "static": Case(lambda slots: static(slots), reference.static),
    "static-full": Case(
        lambda slots: static(slots, "full"), lambda load, slots: reference.static(load, slots, wait_full=True)
    ),
    "static-patient": Case(
        lambda slots: static(slots, "full", DurationNs(7)),
        lambda load, slots: reference.static(load, slots, wait_full=True, max_wait_ns=7),
    ),
    "static-at-once": Case(
        lambda slots: static(slots, "full", DurationNs(0)),
        lambda load, slots: reference.static(load, slots, wait_full=True, max_wait_ns=0),
    ),
    "static-until": Case(
        lambda slots: static(slots, until=6), lambda load, slots: reference.static(load, slots, until=6)
    ),
    "static-end": Case(lambda slots: static(slots, return_="end"), reference.static, at_the_end=True),
    "static-until-end": Case(
        lambda slots: static(slots, "full", until=5, return_="end"),
        lambda load, slots: reference.static(load, slots, wait_full=True, until=5),
        at_the_end=True,
    ),
    "static-bucketed": Case(
        lambda slots: static_bucketed(slots, 6), lambda load, slots: reference.static_bucketed(load, slots, 6)
    ),
    "continuous": Case(continuous, reference.continuous),
}


def compare(case: Case, load: Load, slots: int) -> Recording:
    """Play the load and hold everything the recording tells against the story."""
    policy = case.policy(slots)
    story = case.story(load, policy.slots)
    engine = engine_of(policy, linear_ps(*load.cost_ps))
    recording = play(schedule_of(load.outputs, load.due_ns, load.prompts), engine)
    told = zip(*(recording.steps[name].tolist() for name in COUNTED), strict=True)
    assert list(told) == story.steps
    rows = range(len(load.due_ns))
    for name, expected in (("admitted", story.admitted), ("ended", story.ended), ("released", story.released)):
        assert column(recording, f"{name}_step") == [expected[row] for row in rows]
    for row in rows:
        given_out = deliveries(recording, row)
        if case.at_the_end:
            assert given_out == [(story.released[row], load.outputs[row])]
        else:
            assert given_out == [(step, 1) for step in story.tokens[row]]
    assert recording.token_step is not None
    ends = [(start + cost) // 1_000 for start, cost, *_ in story.steps]
    assert step_ends_ns(recording.steps, recording.token_step).tolist() == [ends[at] for at in recording.token_step]
    last = [deliveries(recording, row)[-1][0] for row in rows]
    assert column(recording, "end_ns") == [ends[step] for step in last]
    assert statuses(recording) == ["ok"] * len(rows)
    assert in_flight_request_ns(recording) == recording.in_flight_request_ns
    assert engine.total_slot_steps == sum(sum(step[2:5]) for step in story.steps)
    assert engine.wasted_slot_steps == sum(step[4] for step in story.steps)
    return recording


@st.composite
def loads(draw: st.DrawFn) -> Load:
    """Up to 24 requests of 1 to 9 tokens, in one burst or scattered, some at the same time, at any small cost."""
    rows = draw(st.integers(1, 24))
    lengths = st.lists(st.integers(1, 9), min_size=rows, max_size=rows)
    gap = draw(st.sampled_from([0, 1, 4, 30]))
    gaps = draw(st.lists(st.integers(0, gap), min_size=rows, max_size=rows))
    cost = (
        draw(st.integers(1, 9_000)),
        draw(st.integers(0, 900)),
        draw(st.integers(1, 9_000)),
        draw(st.integers(0, 500)),
    )
    return Load(np.cumsum(gaps).tolist(), draw(lengths), draw(lengths), cost)


@pytest.mark.parametrize("name", CASES)
@settings(max_examples=20, deadline=None, derandomize=True)
@given(load=loads(), slots=st.integers(1, 8))
def test_every_slot_of_every_step_is_as_a_plain_loop_has_it(name: str, load: Load, slots: int) -> None:
    """States, costs, waiting, KV, who joined, ended and left when, and every token's time equal the loop's exactly."""
    compare(CASES[name], load, slots)


@pytest.mark.parametrize("rho", [0.0, 0.5, 0.9])
@pytest.mark.parametrize("name", CASES)
def test_poisson_and_bursts_agree_with_the_plain_loop_too(name: str, rho: float) -> None:
    """The same on longer Poisson workloads at shares of what one slot can carry (0: a burst), three seeds each."""
    for seed in range(3):
        generator = np.random.default_rng(seed)
        rows = 80
        prompts, outputs = generator.integers(1, 13, rows), generator.integers(1, 13, rows)
        cost = (1_950_007, 205_003, 2_000_011, 128_001)
        service_ns = 2_000 + 128 * 6.5 + 5.5 * 2_155
        gaps = generator.exponential(service_ns / rho, rows) if rho else np.zeros(rows)
        due = np.rint(np.cumsum(gaps)).astype(int).tolist()
        compare(CASES[name], Load(due, prompts.tolist(), outputs.tolist(), cost), 1 + seed % 8)


@pytest.mark.parametrize("name", POLICIES)
def test_every_policy_of_the_catalogue_serves_everything(name: str) -> None:
    """A new row of the table is held to this at once: all finish, slots are shared by nobody, states add up."""
    module, _, builder = POLICIES[name][0].partition(":")
    policy = getattr(importlib.import_module(module), builder)()
    generator = np.random.default_rng(1)
    outputs = generator.integers(1, 20, 150)
    due = np.cumsum(generator.integers(0, 40_000, 150))
    schedule = schedule_of(outputs.tolist(), due.tolist(), generator.integers(1, 30, 150).tolist())
    build = engine_of if policy.budget_tokens is None else paged_engine_of
    recording = play(schedule, build(policy, linear_ps(3_000_000, 100_000, 2_000_000, 50_000)))
    assert statuses(recording) == ["ok"] * 150
    assert column(recording, "output_tokens") == outputs.tolist()
    states = np.stack([recording.steps[state] for state in SLOT_STATES])
    assert (states >= 0).all() and (states.sum(axis=0) == policy.slots).all()
    held = dict[int, int]()
    admitted, released, slot = (column(recording, f"{one}") for one in ("admitted_step", "released_step", "slot"))
    for step in range(len(recording.steps["step"])):
        for row in [row for row in range(150) if admitted[row] == step]:
            assert 0 <= slot[row] < policy.slots and slot[row] not in held
            held[slot[row]] = row
        assert sum(int(recording.steps[state][step]) for state in SLOT_STATES[:4]) == len(held)
        held = {place: row for place, row in held.items() if released[row] != step}
    assert not held


@pytest.mark.parametrize("table", [POLICIES, EXECUTORS])
def test_every_row_of_the_catalogue_says_what_it_is(table: dict[str, tuple[str, str]]) -> None:
    """A place to import from, and one line of help."""
    for name, (place, text) in table.items():
        module, _, builder = place.partition(":")
        if name != "tinygpt":
            assert callable(getattr(importlib.import_module(module), builder))
        assert text and "\n" not in text


def request(request_id: int, max_tokens: int = 4, prompt_tokens: int = 3, arrival_ns: int = 0) -> Request:
    return Request(request_id, [1] * prompt_tokens, SamplingParams(max_tokens), arrival_ns)


def test_wait_full_takes_the_tail_only_when_flushed() -> None:
    """Three of a batch of four wait for ever; flushed, they go, and whoever comes later waits again."""
    engine = engine_of(static(4, "full"))
    for one in range(3):
        engine.add_request(request(one, max_tokens=1))
    assert engine.ready_ns(0) is None and engine.has_work()
    engine.flush()
    assert engine.ready_ns(0) == 0
    assert [admitted for admitted, _ in engine.step(0).admitted] == [0, 1, 2]
    engine.add_request(request(3, max_tokens=1))
    assert engine.ready_ns(5) is None
    for one in range(4, 7):
        engine.add_request(request(one, max_tokens=1))
    assert [admitted for admitted, _ in engine.step(5).admitted] == [3, 4, 5, 6]


def test_a_flush_lasts_until_those_it_was_for_are_served() -> None:
    """Five waiting behind a batch of four: the flush covers the fifth, too, and nobody after it."""
    engine = engine_of(static(4, "full"))
    for one in range(5):
        engine.add_request(request(one, max_tokens=1))
    engine.flush()
    assert len(engine.step(0).admitted) == 4
    assert engine.ready_ns(1) == 1
    assert [admitted for admitted, _ in engine.step(1).admitted] == [4]
    engine.add_request(request(5))
    assert engine.ready_ns(2) is None


def test_a_flush_dies_with_those_it_was_for() -> None:
    """When all that were held back are aborted, the next to come are held back again."""
    engine = engine_of(static(4, "full"))
    engine.add_request(request(0))
    engine.flush()
    engine.abort(0)
    assert not engine.has_work()
    engine.add_request(request(1))
    assert engine.ready_ns(0) is None


def test_max_wait_is_counted_from_the_due_time_of_the_oldest() -> None:
    """It asks to be asked again at exactly that time, and starts a partial batch then."""
    engine = engine_of(static(4, "full", DurationNs(50)))
    engine.add_request(request(0, arrival_ns=10))
    engine.add_request(request(1, arrival_ns=30))
    assert engine.ready_ns(30) == 60
    assert engine.ready_ns(59) == 60
    assert engine.ready_ns(60) == 60
    assert [admitted for admitted, _ in engine.step(60).admitted] == [0, 1]


def test_a_closed_loop_of_4_users_on_a_full_batch_of_8_finishes_everything() -> None:
    """Four can never fill eight places: they are flushed round after round."""
    rows = 40
    schedule = schedule_of([3] * rows, after={row: [row - 4] for row in range(4, rows)})
    recording = play(schedule, engine_of(static(8, "full")))
    assert statuses(recording) == ["ok"] * rows
    assert column(recording, "end_ns") == [3 * (1 + row // 4) for row in range(rows)]


def test_wait_full_without_max_wait_serves_its_tail() -> None:
    """Ten requests on batches of four: two full ones, and the last two when nobody is due any more."""
    recording = play(schedule_of([2] * 10, range(0, 100, 10)), engine_of(static(4, "full")))
    assert statuses(recording) == ["ok"] * 10
    starts = recording.steps["start_ps"].tolist()
    assert [starts[step] for step in column(recording, "admitted_step")] == [30_000] * 4 + [70_000] * 4 + [90_000] * 2


def test_max_wait_starts_a_partial_batch_at_exactly_the_oldest_due_plus_max_wait() -> None:
    """Nobody else is due, and still it waits out its time: 7 + 50 ns."""
    recording = play(schedule_of([2, 2], [7, 20]), engine_of(static(4, "full", DurationNs(50))))
    assert recording.steps["start_ps"].tolist() == [57_000, 58_000]
    assert column(recording, "admitted_step") == [0, 0]


def test_nobody_joins_a_running_static_batch_for_an_aborted_request() -> None:
    """The place stays empty, queued for, until all others have finished."""
    engine = engine_of(static(2))
    for one, tokens in enumerate((3, 3, 1)):
        engine.add_request(request(one, tokens))
    engine.step(0)
    engine.abort(0)
    second, third = engine.step(1), engine.step(2)
    for step in (second, third):
        assert step.work is not None and not step.admitted
        assert (step.work.decoding_slots, step.work.empty_queued_slots, step.work.finished_slots) == (1, 1, 0)
        assert 0 not in step.released
    assert third.released == [1]
    assert [admitted for admitted, _ in engine.step(3).admitted] == [2]


def test_a_continuous_batch_fills_an_aborted_place_after_the_next_decode() -> None:
    """Two prefills never follow each other while anybody decodes."""
    engine = engine_of(continuous(2))
    for one in range(3):
        engine.add_request(request(one))
    engine.step(0)
    engine.abort(1)
    decode = engine.step(1)
    assert decode.work is not None and decode.work.kind == "decode" and decode.work.empty_queued_slots == 1
    assert engine.step(2).admitted == [(2, 1)]


def test_a_bucketed_window_is_served_to_its_end_before_the_queue_is_looked_at_again() -> None:
    """Four of lengths 9 1 8 2 in batches of two: 1 2, then 9 8, although a shorter one has come meanwhile."""
    engine = engine_of(static_bucketed(2, window=4))
    for one, tokens in enumerate((9, 1, 8, 2)):
        engine.add_request(request(one, tokens))
    assert [admitted for admitted, _ in engine.step(0).admitted] == [1, 3]
    engine.add_request(request(4, 1, arrival_ns=1))
    assert engine.step(1).released == [1, 3]
    assert [admitted for admitted, _ in engine.step(2).admitted] == [2, 0]
    for now_ns in range(3, 11):
        last = engine.step(now_ns)
    assert last.released == [2, 0]
    assert [admitted for admitted, _ in engine.step(11).admitted] == [4]


def test_a_bucketed_window_does_without_whom_it_has_lost() -> None:
    """Aborted while planned for a later batch: the others of that batch are served without it."""
    engine = engine_of(static_bucketed(2, window=4))
    for one, tokens in enumerate((4, 1, 3, 2)):
        engine.add_request(request(one, tokens))
    engine.step(0)
    engine.abort(2)
    engine.step(1)
    assert [admitted for admitted, _ in engine.step(2).admitted] == [0]


def test_equal_outputs_are_sorted_by_prompt_then_due_time_then_id() -> None:
    """(max_tokens, prompt_tokens, due, id) decides the order inside a window."""
    engine = engine_of(static_bucketed(1, window=8))
    for one, tokens, prompt, due in ((0, 2, 9, 0), (1, 2, 3, 5), (2, 2, 3, 4), (3, 1, 9, 9), (4, 2, 3, 4)):
        engine.add_request(request(one, tokens, prompt, due))
    order = []
    while engine.has_work():
        order += [admitted for admitted, _ in engine.step(9).admitted]
    assert order == [3, 2, 4, 1, 0]


def test_until_runs_every_batch_to_at_least_so_many_steps() -> None:
    """Batches of 2 and 5 steps with until=4: 4 and 5, prefill included."""
    recording = play(schedule_of([1, 2, 5, 1]), engine_of(static(2, until=4)))
    assert column(recording, "admitted_step") == [0, 0, 4, 4]
    assert column(recording, "ended_step") == [0, 1, 8, 4]
    assert column(recording, "released_step") == [3, 3, 8, 8]
    assert recording.steps["finished_slots"].tolist() == [0, 1, 2, 2, 0, 1, 1, 1, 1]


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: static(0), "batch=0"),
        (lambda: continuous(-1), "batch=-1"),
        (lambda: static_bucketed(8, 0), "window=0"),
        (lambda: static(8, max_wait=DurationNs(5)), "wait=full"),
    ],
)
def test_a_policy_that_cannot_be_is_refused_in_one_line(build: Callable[[], Policy], words: str) -> None:
    """ValueError names the option."""
    with pytest.raises(ValueError, match=words) as caught:
        build()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("policy", [static(4), static(4, "full"), static_bucketed(4)], ids=lambda policy: policy.name)
def test_a_static_policy_has_nobody_to_take_when_nobody_waits_or_a_batch_runs(policy: Policy) -> None:
    """Its answer is then: nobody, ask again after an arrival or a flush."""
    row = engine_of(policy)
    assert row.ready_ns(0) is None and not row.has_work()
    joining = policy.join(SlotState(4, [], []))
    assert not joining.positions and joining.not_before_ns is None


def test_little_holds_and_everything_ends_for_every_policy_under_timeouts() -> None:
    """Requests in flight, integrated apart from the rows, equal the rows' sum, whoever is aborted on the way."""
    generator = np.random.default_rng(3)
    rows = 120
    due = np.cumsum(generator.integers(0, 4, rows)).tolist()
    schedule = schedule_of(generator.integers(1, 15, rows).tolist(), due, generator.integers(1, 9, rows).tolist())
    for name, case in CASES.items():
        recording = play(schedule, engine_of(case.policy(4)), Steering(timeout_ns=25))
        told = set(statuses(recording))
        assert told <= {"ok", "timeout_total"}, name
        assert "timeout_total" in told, name
        assert in_flight_request_ns(recording) == recording.in_flight_request_ns, name


def test_the_shortest_answers_join_first_and_of_equals_who_waits_longest() -> None:
    """One slot, five at once: 2, 2, 4, 7 and 9 tokens, in this order."""
    recording = play(schedule_of([9, 4, 2, 7, 2]), engine_of(shortest_first(1)))
    assert sorted(range(5), key=column(recording, "admitted_step").__getitem__) == [2, 4, 1, 3, 0]


def test_classes_join_in_the_order_in_which_the_schedule_names_them() -> None:
    """One slot: within a class as they came; who is in the slot already is not put out for a better class."""
    schedule = schedule_of([3, 3, 3, 3, 3], [0, 1, 1, 2, 4], classes=[2, 2, 1, 0, 0])
    recording = play(schedule, engine_of(priority(1)))
    assert column(recording, "admitted_step") == [0, 12, 9, 3, 6]


def test_a_class_changes_nothing_where_the_policy_does_not_look_at_it() -> None:
    """Continuous batching serves a class of its own like any other."""
    outputs, due = [5, 9, 2, 7, 4], [0, 0, 3, 3, 9]
    plain = play(schedule_of(outputs, due), engine_of(continuous(2)))
    classed = play(schedule_of(outputs, due, classes=[1, 0, 1, 0, 1]), engine_of(continuous(2)))
    assert column(plain, "end_ns") == column(classed, "end_ns")
    assert column(play(schedule_of(outputs, due, classes=[1, 0, 1, 0, 1]), engine_of(priority(2))), "end_ns") != column(
        plain, "end_ns"
    )
