"""The slot engine by itself: queue, joining and leaving, stop tokens, held answers, aborts, counters."""

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
import pytest

from engines.cost import HashExecutor, LinearCost
from engines.engine import OneTokenEach, Request, SamplingParams, Step, StepOutput, Stretch
from engines.policies import DurationNs, Policy, continuous, naive, one_by_one, static, static_bucketed
from engines.slots import Batch, SlotEngine
from results.slots import SLOT_STATES, StepWork
from tests.engines.playing import EVERY_STEP_1_NS, engine_of


def request(
    request_id: int,
    max_tokens: int = 3,
    prompt_tokens: int = 2,
    arrival_ns: int = 0,
    stop: Iterable[int] = (),
    ignore_eos: bool = True,
) -> Request:
    params = SamplingParams(max_tokens, ignore_eos, stop_token_ids=tuple(stop))
    return Request(request_id, range(prompt_tokens), params, arrival_ns)


def delivered(step: Step) -> list[tuple[int, tuple[int, ...], bool, str | None]]:
    """The outputs of a step, as plain tuples."""
    return [(one.request_id, tuple(one.token_ids), one.finished, one.finish_reason) for one in step.outputs]


class Counting:
    """An executor whose tokens count: the n-th token of request r is 100 r + n. It keeps the batches it ran."""

    def __init__(self, context_tokens: int | None = None, eos_token_id: int | None = None) -> None:
        self.context_tokens = context_tokens
        self.eos_token_id = eos_token_id
        self.batches: list[tuple[str, list[int]]] = []

    def run(self, batch: Batch) -> Sequence[int]:
        self.batches.append((batch.kind, [row.request_id for row in batch.rows]))
        return [100 * row.request_id + row.output_tokens for row in batch.rows]

    def describe(self) -> Mapping[str, str]:
        return {"name": "counting"}


def test_the_joint_prefill_gives_the_first_token_and_a_decode_each_further_one() -> None:
    """One pass a step; tokens come to the requests they belong to, in the order of the rows."""
    executor = Counting()
    engine = engine_of(static(4), executor=executor)
    for one in range(2):
        engine.add_request(request(one, max_tokens=3))
    assert delivered(engine.step(0)) == [(0, (0,), False, None), (1, (100,), False, None)]
    assert delivered(engine.step(1)) == [(0, (1,), False, None), (1, (101,), False, None)]
    assert delivered(engine.step(2)) == [(0, (2,), True, "length"), (1, (102,), True, "length")]
    assert executor.batches == [("prefill", [0, 1]), ("decode", [0, 1]), ("decode", [0, 1])]
    assert not engine.has_work() and engine.ready_ns(3) is None


def test_a_finished_row_stays_in_a_running_static_batch_and_gives_nothing() -> None:
    """It is computed, counted as finished, and its tokens reach nobody."""
    executor = Counting()
    engine = engine_of(static(2), executor=executor)
    engine.add_request(request(0, 1))
    engine.add_request(request(1, 2))
    engine.step(0)
    last = engine.step(1)
    assert executor.batches[-1] == ("decode", [0, 1])
    assert delivered(last) == [(1, (101,), True, "length")]
    assert last.work is not None and (last.work.decoding_slots, last.work.finished_slots) == (1, 1)


def test_a_finished_row_leaves_a_continuous_batch_at_once() -> None:
    """Nothing is computed for it any more."""
    executor = Counting()
    engine = engine_of(continuous(2), executor=executor)
    engine.add_request(request(0, 1))
    engine.add_request(request(1, 2))
    assert engine.step(0).released == [0]
    engine.step(1)
    assert executor.batches[-1] == ("decode", [1])


def test_a_request_of_one_token_ends_in_its_prefill() -> None:
    """Admitted, ended and released in one step."""
    engine = engine_of(one_by_one())
    engine.add_request(request(5, 1))
    step = engine.step(0)
    assert (step.admitted, step.ended, step.released) == ([(5, 0)], [5], [5])
    assert not engine.has_work()


@pytest.mark.parametrize("policy", [static(3), continuous(3), one_by_one()], ids=lambda policy: policy.name)
def test_a_stop_token_ends_a_request_and_is_delivered(policy: Policy) -> None:
    """The third token of request 1 is its stop token: it ends there, whatever it might have got."""
    engine = engine_of(policy, executor=Counting())
    engine.add_request(request(0, 6))
    engine.add_request(request(1, 9, stop=[102, 7]))
    engine.add_request(request(2, 6, stop=[100]))
    ends = dict[int, tuple[int, str | None]]()
    for now_ns in range(30):
        if engine.has_work():
            step = engine.step(now_ns)
            ends |= {one.request_id: (one.token_ids[-1], one.finish_reason) for one in step.outputs if one.finished}
    assert ends == {0: (5, "length"), 1: (102, "stop"), 2: (205, "length")}


def test_a_stop_token_as_last_token_allowed_is_a_stop() -> None:
    """The reason is the text's end, not the budget's."""
    engine = engine_of(one_by_one(), executor=Counting())
    engine.add_request(request(0, 2, stop=[1]))
    engine.step(0)
    assert delivered(engine.step(1)) == [(0, (1,), True, "stop")]


@pytest.mark.parametrize("policy", [static(3), continuous(3)], ids=lambda policy: policy.name)
def test_the_end_of_text_ends_only_those_that_do_not_ignore_it(policy: Policy) -> None:
    """EOS is 2, and everybody's third token is one: it stops request 0 and no other."""

    class Ending(Counting):
        def run(self, batch: Batch) -> Sequence[int]:
            return [row.output_tokens for row in batch.rows]

    engine = engine_of(policy, executor=Ending(eos_token_id=2))
    engine.add_request(request(0, 6, ignore_eos=False))
    engine.add_request(request(1, 6, ignore_eos=True))
    engine.add_request(request(2, 6, stop=[4], ignore_eos=True))
    ends = dict[int, StepOutput]()
    for now_ns in range(6):
        ends |= {one.request_id: one for one in engine.step(now_ns).outputs if one.finished}
    assert [(one, ends[one].token_ids[-1], ends[one].finish_reason) for one in range(3)] == [
        (0, 2, "stop"), (1, 5, "length"), (2, 4, "stop"),
    ]  # fmt: skip


def test_an_executor_without_an_end_of_text_never_ends_one() -> None:
    """Not ignoring it changes nothing then."""
    engine = engine_of(one_by_one(), executor=Counting())
    engine.add_request(request(0, 3, ignore_eos=False))
    assert [delivered(engine.step(now_ns))[0][2] for now_ns in range(3)] == [False, False, True]


def test_a_request_that_cannot_fit_the_context_is_refused() -> None:
    """In one line with both numbers; what just fits is taken."""
    engine = engine_of(static(2), executor=Counting(context_tokens=10))
    engine.add_request(request(0, max_tokens=8, prompt_tokens=2))
    with pytest.raises(ValueError, match=r"^request 1 needs 11 tokens, the context holds 10$"):
        engine.add_request(request(1, max_tokens=9, prompt_tokens=2))
    assert [admitted for admitted, _ in engine.step(0).admitted] == [0]


@pytest.mark.parametrize(("prompt_tokens", "max_tokens"), [(0, 3), (3, 0), (0, 0)])
def test_a_request_without_a_prompt_or_an_answer_is_refused(prompt_tokens: int, max_tokens: int) -> None:
    """There is nothing to prefill, or nothing to decode."""
    engine = engine_of(static(2))
    with pytest.raises(ValueError, match="at least one prompt and one output token"):
        engine.add_request(request(0, max_tokens, prompt_tokens))
    assert not engine.has_work()


def test_the_queue_is_in_the_order_of_due_time_then_id() -> None:
    """However they are handed over."""
    engine = engine_of(one_by_one())
    for one, due in ((4, 5), (2, 5), (3, 1), (0, 9), (1, 5)):
        engine.add_request(request(one, 1, arrival_ns=due))
    order = [engine.step(now_ns).admitted[0] for now_ns in range(5)]
    assert order == [(3, 0), (1, 0), (2, 0), (4, 0), (0, 0)]


def test_slots_are_given_from_the_lowest_free_one_on() -> None:
    """2 is free first, and 0 a step later: the next two get 0 and 2."""
    engine = engine_of(continuous(3))
    for one, tokens in enumerate((3, 9, 2)):
        engine.add_request(request(one, tokens))
    assert engine.step(0).admitted == [(0, 0), (1, 1), (2, 2)]
    assert engine.step(1).released == [2]
    assert engine.step(2).released == [0]
    for one in (3, 4):
        engine.add_request(request(one))
    assert engine.step(3).admitted == [(3, 0), (4, 2)]


def test_counters_count_what_has_been_computed() -> None:
    """Prefill steps included; stalled and empty slots are no slot-steps."""
    engine = engine_of(static(4))
    for one, tokens in enumerate((1, 2, 4)):
        engine.add_request(request(one, tokens))
    seen = []
    for now_ns in range(4):
        engine.step(now_ns)
        seen.append((engine.total_slot_steps, engine.wasted_slot_steps))
    assert seen == [(3, 0), (6, 1), (9, 3), (12, 5)]


def test_padding_makes_the_joint_prefill_a_rectangle() -> None:
    """Prompts of 2, 7 and 4: 13 real tokens and 8 of padding."""
    engine = engine_of(static(4))
    for one, prompt in enumerate((2, 7, 4)):
        engine.add_request(request(one, prompt_tokens=prompt))
    work = engine.step(0).work
    assert work is not None and (work.prefill_tokens, work.padding_tokens) == (13, 8)
    assert (work.kind, work.prefilling_slots, work.idle_slots, work.waiting_requests) == ("prefill", 3, 1, 0)


def test_rows_that_decode_are_stalled_by_anothers_prefill() -> None:
    """They get nothing in that step, and it is told apart from being empty or finished."""
    engine = engine_of(continuous(3))
    engine.add_request(request(0, 5))
    engine.step(0)
    engine.step(1)
    engine.add_request(request(1, 5))
    step = engine.step(2)
    assert [one.request_id for one in step.outputs] == [1]
    assert step.work is not None
    assert [getattr(step.work, state) for state in SLOT_STATES] == [1, 0, 0, 1, 0, 1]


def test_without_a_cache_every_token_is_a_forward_pass_over_everything() -> None:
    """Prompt of 4: passes over 4, 5, 6 tokens, and nothing is kept."""
    engine = engine_of(naive(), LinearCost())
    engine.add_request(request(0, 3, prompt_tokens=4))
    works = [engine.step(now_ns).work for now_ns in range(3)]
    assert [work.prefill_tokens for work in works if work] == [4, 5, 6]
    assert [work.kv_tokens for work in works if work] == [0, 0, 0]
    assert [(work.kind, work.prefilling_slots, work.decoding_slots) for work in works if work] == [
        ("prefill", 1, 0), ("decode", 0, 1), ("decode", 0, 1),
    ]  # fmt: skip


def test_the_cache_holds_all_but_the_newest_token_of_every_row() -> None:
    """Prompts of 2 and 5 in a static batch: 7, then one more for each row that still grows."""
    engine = engine_of(static(2))
    engine.add_request(request(0, 2, prompt_tokens=2))
    engine.add_request(request(1, 4, prompt_tokens=5))
    works = [engine.step(now_ns).work for now_ns in range(4)]
    assert [work.kv_tokens for work in works if work] == [7, 9, 10, 11]


def test_held_answers_come_whole_with_the_batchs_last_step() -> None:
    """return=end: ended is told when it happens, the tokens when all have finished."""
    engine = engine_of(static(2, return_="end"), executor=Counting())
    engine.add_request(request(0, 1))
    engine.add_request(request(1, 3))
    first, second, third = (engine.step(now_ns) for now_ns in range(3))
    assert (delivered(first), first.ended, first.released) == ([], [0], ())
    assert (delivered(second), second.ended) == ([], [])
    assert third.ended == [1] and third.released == [0, 1]
    assert delivered(third) == [(0, (0,), True, "length"), (1, (100, 101, 102), True, "length")]


def test_tokens_held_for_an_aborted_request_are_dropped() -> None:
    """The others get theirs, it gets nothing, and is not told as released."""
    engine = engine_of(static(3, return_="end"), executor=Counting())
    for one, tokens in enumerate((3, 1, 3)):
        engine.add_request(request(one, tokens))
    engine.step(0)
    engine.abort(1)
    engine.abort(2)
    engine.step(1)
    last = engine.step(2)
    assert delivered(last) == [(0, (0, 1, 2), True, "length")]
    assert last.released == [0]


def test_an_id_that_is_used_again_after_an_abort_starts_anew() -> None:
    """Nothing of what was held for its first life is delivered in its second."""
    engine = engine_of(static(1, return_="end"), executor=Counting())
    engine.add_request(request(0, 9))
    engine.step(0)
    engine.abort(0)
    engine.add_request(request(0, 1))
    assert delivered(engine.step(1)) == [(0, (0,), True, "length")]


def test_an_aborted_row_is_empty_from_the_next_step_on() -> None:
    """Also when it had finished: never finished, never released a second time."""
    engine = engine_of(static(3))
    for one, tokens in enumerate((1, 4, 4)):
        engine.add_request(request(one, tokens))
    first = engine.step(0)
    assert first.ended == [0]
    engine.abort(0)
    second = engine.step(1)
    assert second.work is not None
    assert [getattr(second.work, state) for state in SLOT_STATES] == [0, 2, 0, 0, 0, 1]
    engine.abort(1)
    third = engine.step(2)
    assert third.work is not None
    assert [getattr(third.work, state) for state in SLOT_STATES] == [0, 1, 0, 0, 0, 2]
    assert engine.step(3).released == [2]


def test_an_abort_in_the_queue_lets_the_others_move_up() -> None:
    """Who waits, waits in nobody's place."""
    engine = engine_of(static(2))
    for one in range(4):
        engine.add_request(request(one, 1))
    engine.abort(1)
    assert [admitted for admitted, _ in engine.step(0).admitted] == [0, 2]


def test_when_all_of_a_batch_are_aborted_the_next_batch_starts() -> None:
    """An engine with empty slots is idle."""
    engine = engine_of(static(2))
    for one in range(3):
        engine.add_request(request(one, 9))
    engine.step(0)
    engine.abort(0)
    engine.abort(1)
    assert [admitted for admitted, _ in engine.step(1).admitted] == [2]


@pytest.mark.parametrize("returned", ["stream", "end"])
def test_a_batch_whose_last_unfinished_member_is_aborted_comes_to_its_end(returned: str) -> None:
    """The finished ones are released, with what was held for them, and the queue is served."""
    engine = engine_of(static(2, return_="end" if returned == "end" else "stream"), executor=Counting())
    for one, tokens in enumerate((1, 9, 1)):
        engine.add_request(request(one, tokens))
    engine.step(0)
    engine.abort(1)
    steps = [engine.step(now_ns) for now_ns in (1, 2) if engine.has_work()]
    assert [one for step in steps for one in step.released] == [0, 2]
    assert [admitted for step in steps for admitted, _ in step.admitted] == [2]
    if returned == "end":
        assert [one for step in steps for one in delivered(step)] == [
            (0, (0,), True, "length"),
            (2, (200,), True, "length"),
        ]


def test_aborting_a_stranger_does_nothing() -> None:
    """Somebody who was never here, or has left."""
    engine = engine_of(continuous(2))
    engine.add_request(request(0, 1))
    engine.abort(7)
    engine.step(0)
    engine.abort(0)
    assert not engine.has_work()


POLICIES = [
    one_by_one(), naive(), static(4), static(4, "full"), static(4, "full", DurationNs(3)), static(4, until=5),
    static(4, return_="end"), static_bucketed(3, 7), continuous(4),
]  # fmt: skip


class Ledger:
    """What must be true of an engine, told step by step from outside."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.waiting: dict[int, Request] = {}
        self.held: dict[int, int] = {}
        self.tokens: dict[int, int] = {}
        self.ended: set[int] = set()
        self.requests: dict[int, Request] = {}
        self.delivered: dict[int, int] = {}

    def add(self, one: Request) -> None:
        self.waiting[one.request_id] = self.requests[one.request_id] = one

    def abort(self, request_id: int) -> None:
        for book in (self.waiting, self.held, self.delivered):
            book.pop(request_id, None)
        self.ended.discard(request_id)

    def check(self, step: Step) -> None:
        """One step, against everything known before it."""
        finished_before = len(self.ended)
        for request_id, slot in step.admitted:
            assert slot not in self.held.values() and 0 <= slot < self.policy.slots
            self.waiting.pop(request_id)
            self.held[request_id] = slot
            self.tokens[request_id] = 0
        kind = "prefill" if step.admitted else "decode"
        getting = [one for one, _ in step.admitted] or [one for one in self.held if one not in self.ended]
        for request_id in getting:
            self.tokens[request_id] += 1
        ends = {one for one in getting if self.tokens[one] == self.requests[one].params.max_tokens}
        assert set(step.ended) == ends and len(step.ended) == len(ends)
        self._check_work(step.work, kind, len(getting), finished_before)
        self.ended |= ends
        self._check_outputs(step, getting)
        for request_id in step.released:
            assert request_id in self.ended
            del self.held[request_id]
            self.ended.discard(request_id)

    def _check_work(self, work: StepWork | None, kind: str, getting: int, finished: int) -> None:
        assert work is not None and work.kind == kind
        empty, waiting = self.policy.slots - len(self.held), len(self.waiting)
        prefilling, decoding = (getting, 0) if kind == "prefill" else (0, getting)
        stalled = len(self.held) - getting - finished
        told = [getattr(work, state) for state in SLOT_STATES]
        assert told == [prefilling, decoding, finished, stalled, min(empty, waiting), empty - min(empty, waiting)]
        assert work.waiting_requests == waiting
        cached = sum(len(self.requests[one].prompt_token_ids) + self.tokens[one] - 1 for one in self.held)
        assert work.kv_tokens == (cached if self.policy.cached else 0)

    def _check_outputs(self, step: Step, getting: list[int]) -> None:
        assert all(one.request_id in self.held for one in step.outputs)
        if self.policy.deliver == "stream":
            assert [one.request_id for one in step.outputs] == getting
        for one in step.outputs:
            self.delivered[one.request_id] = self.delivered.get(one.request_id, 0) + len(one.token_ids)
            assert one.finished == (self.delivered[one.request_id] == self.requests[one.request_id].params.max_tokens)


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: f"{policy.name}-{policy.options}")
def test_books_kept_outside_agree_at_every_step_whoever_is_aborted_whenever(policy: Policy) -> None:
    """Slots, states, tokens, cache, ends and releases over random arrivals, aborts and flushes; all is served."""
    for seed in range(12):
        generator = np.random.default_rng(seed)
        engine, ledger, now_ns, added = engine_of(policy), Ledger(policy), 0, 0
        while added < 60 or engine.has_work():
            for _ in range(generator.integers(0, 4) if added < 60 else 0):
                one = request(added, int(generator.integers(1, 9)), int(generator.integers(1, 6)), now_ns)
                engine.add_request(one)
                ledger.add(one)
                added += 1
            if generator.random() < 0.15 and (ledger.waiting or ledger.held):
                victim = int(generator.choice([*ledger.waiting, *ledger.held]))
                engine.abort(victim)
                ledger.abort(victim)
            ready_ns = engine.ready_ns(now_ns)
            if ready_ns == now_ns:
                ledger.check(engine.step(now_ns))
            elif ready_ns is None and engine.has_work() and added >= 60:
                engine.flush()
                assert engine.ready_ns(now_ns) == now_ns
            now_ns += 1
        assert not ledger.waiting and not ledger.held


def test_an_engine_without_a_cost_model_does_not_tell_its_cost() -> None:
    """None, so that a modelled clock can refuse it."""
    engine = SlotEngine(one_by_one(), HashExecutor())
    engine.add_request(request(0, 1))
    assert engine.step(0).modelled_cost_ps is None
    assert engine.describe()["cost_model"] is None


def test_an_engine_describes_what_its_numbers_depend_on() -> None:
    """Policy with options, slots, executor and cost model; safe assumptions where an executor does not say."""
    engine = engine_of(static(5, "full", DurationNs(50)), executor=Counting(context_tokens=64))
    told = engine.describe()
    assert (told["policy"], told["slots"], told["returns"], told["context_tokens"]) == ("static", 5, "stream", 64)
    assert told["options"] == {"batch": 5, "wait": "full", "max_wait_ns": 50, "until_steps": None, "return": "stream"}
    assert told["executor"] == {"name": "counting"}
    assert told["cost_model"] == EVERY_STEP_1_NS.describe()
    assert (told["reads_prompts"], told["computes_tokens"], told["cost_source"]) == (True, True, "wall")
    assert engine_of(one_by_one()).describe()["reads_prompts"] is False


def test_one_token_each_reads_as_a_sequence_of_outputs() -> None:
    """Made when looked at: by index, by slice, in a loop, from the end."""
    outputs = OneTokenEach([4, 7, 9], [40, 70, 90])
    assert len(outputs) == 3
    assert list(outputs) == [StepOutput(4, (40,)), StepOutput(7, (70,)), StepOutput(9, (90,))]
    assert outputs[-1] == StepOutput(9, (90,), False, None)
    assert list(outputs[1:]) == [StepOutput(7, (70,)), StepOutput(9, (90,))]
    with pytest.raises(IndexError):
        outputs[3]


def test_outputs_stay_what_they_were_when_the_engine_goes_on() -> None:
    """A step kept for later still tells its own tokens."""
    engine = engine_of(continuous(2), executor=Counting())
    engine.add_request(request(0, 4))
    kept = [engine.step(0)]
    engine.add_request(request(1, 9))
    kept += [engine.step(now_ns) for now_ns in range(1, 7)]
    tokens: dict[int, list[int]] = {}
    for step in kept:
        for one in step.outputs:
            tokens.setdefault(one.request_id, []).extend(one.token_ids)
    assert tokens == {0: [0, 1, 2, 3], 1: [100, 101, 102, 103, 104]}


def test_a_stretch_tells_many_steps_in_one() -> None:
    """Steps, the first one's cost and work, and by how much each costs more than the one before."""
    work = StepWork("decode", 0, 2, 0, 0, 0, 0, 0, 0, 0, 10)
    stretch = Stretch(5, 1_000, 10, work, request_ids=[1, 2])
    assert (stretch.steps, stretch.ended, stretch.released) == (5, (), ())


@pytest.mark.parametrize("build", [lambda: static(2), lambda: continuous(2)])
def test_two_engines_share_nothing(build: Callable[[], Policy]) -> None:
    """Built from one policy, each keeps its own queue, slots and counters."""
    policy = build()
    one, other = engine_of(policy), engine_of(policy)
    one.add_request(request(0, 2))
    one.step(0)
    assert not other.has_work() and other.total_slot_steps == 0
