"""Other people's engines: three methods are enough, and nothing they do ends in a traceback."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from engines.engine import JSON, Request, Step, StepOutput
from engines.policies import continuous
from loadgen.clock import ChargedClock
from results.metrics import e2e_ns, events_of, little_error_ns
from results.recording import Recording
from results.slots import StepWork, padding_fraction, unused_slot_fraction, wasted_slot_fraction
from results.waits import admission_waits, held_back_fraction
from targets.inprocess import InProcessEngine
from tests.engines.playing import (
    Numbering,
    Runaway,
    Steering,
    assert_identical,
    column,
    deliveries,
    engine_of,
    play,
    schedule_of,
    statuses,
)


class OneToken:
    """Three methods and no more: the oldest request gets a token a step, told as a tuple."""

    def __init__(self) -> None:
        self.queue: list[Request] = []
        self.given: dict[int, int] = {}

    def add_request(self, request: Request) -> None:
        self.queue.append(request)

    def has_work(self) -> bool:
        return bool(self.queue)

    def step(self) -> Any:
        return [self.serve()]

    def serve(self) -> tuple[int, list[int], bool, str | None]:
        """One token for the oldest."""
        one = self.queue[0].request_id
        self.given[one] = given = self.given.get(one, 0) + 1
        finished = given == self.queue[0].params.max_tokens
        if finished:
            del self.queue[0]
        return one, [100 * one + given - 1], finished, "length" if finished else None


def played(engine: Any, schedule: Any = None, slots: int | None = None, **limits: int) -> Recording:
    """Play it in charged time in which every step takes 10 ns. The default schedule: outputs 2, 3, 1."""
    readings = iter(range(0, 10**9, 10))
    schedule = schedule or schedule_of([2, 3, 1], [0, 0, 25])
    clock = ChargedClock(lambda: next(readings))
    return play(schedule, InProcessEngine(engine, slots), Steering(**limits), clock)


def engine_returning(make: Callable[[OneToken], Any]) -> OneToken:
    """A minimal engine whose step returns what is made of it."""

    class Returning(OneToken):
        def step(self) -> Any:
            return make(self)

    return Returning()


def as_step(one: OneToken) -> Step:
    return Step([StepOutput(*one.serve())])


@pytest.mark.parametrize(
    "make",
    [
        lambda one: [one.serve()],
        lambda one: (one.serve(),),
        lambda one: [StepOutput(*one.serve())],
        lambda one: iter([one.serve()]),
        as_step,
        lambda one: [(np.int64(row), np.array(tokens), *rest) for row, tokens, *rest in [one.serve()]],
    ],
    ids=["list of tuples", "tuple of tuples", "list of outputs", "iterator", "step", "numpy values"],
)
def test_a_step_may_return_its_outputs_in_any_of_these_forms(make: Callable[[OneToken], Any]) -> None:
    """Tuples in the order of StepOutput, StepOutputs, or a whole Step: the recording is the same."""
    recording = played(engine_returning(make))
    assert statuses(recording) == ["ok"] * 3
    assert column(recording, "end_ns") == [20, 50, 60]
    assert column(recording, "ended_step") == [1, 4, 5]
    assert column(recording, "finish_reason") == ["length"] * 3
    assert recording.token_ids.tolist() == [0, 1, 100, 101, 102, 200]
    assert little_error_ns(recording) == 0
    assert_identical(recording, played(OneToken()))


def test_step_is_given_the_time_when_it_takes_an_argument() -> None:
    """The time at which the step starts."""

    class Timed(OneToken):
        def __init__(self) -> None:
            super().__init__()
            self.times_ns: list[int] = []

        def step(self, now_ns: int) -> Any:
            self.times_ns.append(now_ns)
            return [self.serve()]

    engine = Timed()
    recording = played(engine)
    assert engine.times_ns == [0, 10, 20, 30, 40, 50]
    assert statuses(recording) == ["ok"] * 3


def test_a_step_may_give_nothing_or_many_tokens_or_several_requests_at_once() -> None:
    """None, an empty list, a short tuple, and everything in one go."""

    class Lumpy(OneToken):
        steps = 0

        def step(self) -> Any:
            self.steps += 1
            if self.steps < 3:
                return None if self.steps == 1 else []
            if self.steps == 3:
                return [(self.queue[0].request_id, (5,))]
            whole = [
                (one.request_id, [5] * (one.params.max_tokens - (at == 0)), True) for at, one in enumerate(self.queue)
            ]
            self.queue.clear()
            return whole

    recording = played(Lumpy(), schedule_of([2, 3]))
    assert statuses(recording) == ["ok"] * 2
    assert [deliveries(recording, row) for row in range(2)] == [[(2, 1), (3, 1)], [(3, 3)]]
    assert column(recording, "finish_reason") == [None, None]


def test_what_a_minimal_engine_does_not_tell_is_not_made_up() -> None:
    """No work, no slots, no admissions: the slot figures and the waits for a slot are null."""
    recording = played(OneToken())
    assert recording.steps["told"].tolist() == [0] * 6
    assert wasted_slot_fraction(recording.steps) is None
    assert admission_waits(recording) is None
    assert held_back_fraction(recording) is None
    assert column(recording, "admitted_step") == column(recording, "slot") == [None] * 3
    assert e2e_ns(recording, events_of(recording)).tolist() == [20.0, 50.0, 35.0]


@pytest.mark.parametrize("missing", ["add_request", "has_work", "step"])
def test_an_engine_without_one_of_the_three_is_refused(missing: str) -> None:
    """One line that names it and its class."""
    methods = {name: lambda self, *arguments: None for name in ("add_request", "has_work", "step") if name != missing}
    with pytest.raises(ValueError, match=f"^engine Half lacks {missing}: it needs add_request, has_work and step$"):
        InProcessEngine(type("Half", (), methods)())


def test_something_that_is_no_engine_at_all_is_refused() -> None:
    """All three are named."""
    with pytest.raises(ValueError, match="engine object lacks add_request, has_work, step"):
        InProcessEngine(object())  # type: ignore[arg-type]


def test_an_engine_is_described_by_its_class_and_by_what_it_says() -> None:
    """Its own word on slots goes before the one given for it; whether it can abort is told."""
    assert InProcessEngine(OneToken()).describe() == {"policy": "OneToken", "slots": None, "aborts": False}
    assert InProcessEngine(OneToken(), 8).describe()["slots"] == 8

    class Telling(OneToken):
        def describe(self) -> Mapping[str, JSON]:
            return {"policy": "mine", "slots": 3, "colour": "red"}

        def abort(self, request_id: int) -> None: ...

    told = InProcessEngine(Telling(), 8).describe()
    assert told == {"policy": "mine", "slots": 3, "colour": "red", "aborts": True}


def test_one_of_our_engines_is_the_same_behind_this_door() -> None:
    """What an engine has of the protocol is used: the recording does not change."""
    schedule = schedule_of([3, 5, 2, 4], [0, 0, 1, 9], after={3: [0]})
    ours = play(schedule, engine_of(continuous(2), executor=Numbering()))
    behind = play(schedule, InProcessEngine(engine_of(continuous(2), executor=Numbering())))
    assert_identical(ours, behind)


def test_ready_and_flush_are_passed_on() -> None:
    """An engine that holds back is asked when, and flushed for its tail."""

    class Patient(OneToken):
        flushed = False

        def ready_ns(self, now_ns: int) -> int | None:
            if not self.queue:
                return None
            return now_ns if self.flushed or now_ns >= 40 else None if len(self.queue) < 2 else 40

        def flush(self) -> None:
            self.flushed = True

    recording = played(Patient(), schedule_of([1, 1], [0, 5]))
    assert recording.steps["start_ns"].tolist() == [40, 50]
    recording = played(Patient(), schedule_of([1]))
    assert recording.steps["start_ns"].tolist() == [0]


def test_without_flush_an_engine_that_holds_back_is_given_up() -> None:
    """A reason, not a loop."""

    class Holding(OneToken):
        def ready_ns(self, now_ns: int) -> int | None:
            return None

    recording = played(Holding(), schedule_of([1]))
    assert statuses(recording) == ["engine_error"]


def test_without_abort_later_tokens_of_an_aborted_request_are_dropped() -> None:
    """Its place may stay busy until it is done; the next one is served then."""
    recording = played(OneToken(), schedule_of([5, 1], [0, 10]), timeout_ns=40)
    assert statuses(recording) == ["timeout_total", "timeout_total"]
    assert column(recording, "output_tokens") == [4, 0]
    assert column(recording, "end_ns") == [40, 50]
    recording = played(OneToken(), schedule_of([5, 1], [0, 35]), timeout_ns=40)
    assert statuses(recording) == ["timeout_total", "ok"]
    assert column(recording, "end_ns") == [40, 60]


def test_with_abort_the_place_is_free_at_once() -> None:
    """And whatever still comes of it is dropped all the same."""

    class Aborting(OneToken):
        late: int | None = None

        def step(self) -> Any:
            outputs: list[Any] = [self.serve()] if self.queue else []
            if self.late is not None:
                outputs.append((self.late, [9]))
                self.late = None
            return outputs

        def abort(self, request_id: int) -> None:
            self.queue = [one for one in self.queue if one.request_id != request_id]
            self.late = request_id

    recording = played(Aborting(), schedule_of([5, 1], [0, 35]), timeout_ns=40)
    assert statuses(recording) == ["timeout_total", "ok"]
    assert column(recording, "end_ns") == [40, 50]
    assert column(recording, "output_tokens") == [4, 1]


def test_an_answer_shorter_or_longer_than_asked_or_empty_is_told_apart() -> None:
    """2, 3 and 1 tokens were asked for."""
    counts = {0: 1, 1: 0, 2: 4}

    class Wrong(OneToken):
        def step(self) -> Any:
            one = self.queue.pop(0).request_id
            return [(one, [7] * counts[one], True, "stop")]

    recording = played(Wrong())
    assert statuses(recording) == ["wrong_length", "empty", "wrong_length"]
    assert column(recording, "output_tokens") == [1, 0, 4]
    free = schedule_of([2, 3, 1], [0, 0, 25], ignore_eos=False)
    assert statuses(played(Wrong(), free)) == ["ok", "empty", "ok"]


def test_a_request_an_engine_refuses_is_a_row_with_its_reason() -> None:
    """ValueError from add_request: the run goes on without it."""

    class Choosy(OneToken):
        def add_request(self, request: Request) -> None:
            if request.params.max_tokens == 3:
                raise ValueError("no threes")
            super().add_request(request)

    recording = played(Choosy())
    assert statuses(recording) == ["ok", "engine_error", "ok"]
    assert column(recording, "error") == [None, "no threes", None]
    assert column(recording, "end_ns") == [20, 0, 35]


def test_a_lost_request_is_an_engine_error_when_the_engine_has_no_work_left() -> None:
    """The others keep what they have got."""

    class Losing(OneToken):
        def step(self) -> Any:
            told = self.serve()
            return [] if told[0] == 1 else [told]

    recording = played(Losing())
    assert statuses(recording) == ["ok", "engine_error", "ok"]
    assert column(recording, "error")[1] == "the engine has no work left and never finished the request"
    assert little_error_ns(recording) == 0


def work_of(slots: int = 1, **told: Any) -> StepWork:
    """One slot decodes, the others are idle, unless told otherwise."""
    counts: dict[str, Any] = dict.fromkeys(
        ("prefilling_slots", "finished_slots", "stalled_slots", "empty_queued_slots", "prefill_tokens",
         "padding_tokens", "kv_tokens"), 0,
    )  # fmt: skip
    counts |= {"kind": "mixed", "decoding_slots": 1, "idle_slots": slots - 1, "waiting_requests": None}
    return StepWork(**(counts | told))


def engine_telling(**told: Any) -> OneToken:
    """An engine that returns Steps in which it tells so."""
    return engine_returning(lambda one: Step([StepOutput(*one.serve())], **told))


def test_slots_told_by_a_foreign_engine_are_counted() -> None:
    """One mixed step a call; what it leaves out is null."""
    recording = played(engine_telling(work=work_of(4)), slots=4)
    assert statuses(recording) == ["ok"] * 3
    assert recording.steps["told"].tolist() == [1] * 6
    assert recording.steps["decoding_slots"].tolist() == [1] * 6
    assert wasted_slot_fraction(recording.steps) == 0


@pytest.mark.parametrize(
    "left_out",
    ["waiting_requests", "prefill_tokens", "padding_tokens", "kv_tokens", "stalled_slots", "empty_queued_slots"],
)
def test_any_count_of_a_foreign_step_may_be_left_out(left_out: str) -> None:
    """None is "not told": the run is none the worse for it."""
    recording = played(engine_telling(work=work_of(4, **{left_out: None})), slots=4)
    assert statuses(recording) == ["ok"] * 3
    assert len(recording.steps["step"]) == 6


@pytest.mark.parametrize(
    ("left_out", "figure"),
    [
        ("prefill_tokens", padding_fraction),
        ("padding_tokens", padding_fraction),
        ("finished_slots", wasted_slot_fraction),
        ("decoding_slots", unused_slot_fraction),
    ],
)
def test_a_figure_made_from_a_count_that_was_left_out_is_null(
    left_out: str, figure: Callable[[Any], float | None]
) -> None:
    """Missing is never a number."""
    recording = played(engine_telling(work=work_of(4, **{left_out: None})), schedule_of([2, 3]), 4)
    assert statuses(recording) == ["ok"] * 2
    assert figure(recording.steps) is None


def test_slots_that_do_not_add_up_are_the_engines_error() -> None:
    """The six states are told to sum to 8 slots, and sum to 4."""
    recording = played(engine_telling(work=work_of(4)), slots=8)
    assert statuses(recording) == ["engine_error", "engine_error", "not_dispatched"]
    assert "told of 4 slots in the six states, the engine has 8" in column(recording, "error")[0]


def test_admissions_told_by_a_foreign_engine_give_waits() -> None:
    """(request, slot) at the step's start, and who is released after it."""

    class Admitting(OneToken):
        def step(self) -> Any:
            new = self.queue[0].request_id not in self.given
            told = self.serve()
            admitted = [(told[0], 0)] if new else []
            return Step([StepOutput(*told)], admitted=admitted, released=[told[0]] if told[2] else [])

    recording = played(Admitting())
    assert column(recording, "admitted_step") == [0, 2, 5]
    assert column(recording, "released_step") == [1, 4, 5]
    waits = admission_waits(recording)
    assert waits is not None
    assert waits.all_ns.tolist() == [0, 20, 25]
    assert waits.step_ns.tolist() == [0, 0, 5]


def test_a_cost_told_by_a_foreign_engine_is_billed_in_modelled_time() -> None:
    """3 ns a step; without one, modelled time says what to do instead."""
    told = play(schedule_of([2]), InProcessEngine(engine_telling(modelled_cost_ps=3_000)))
    assert column(told, "end_ns") == [6]
    silent = play(schedule_of([2]), InProcessEngine(OneToken()))
    assert statuses(silent) == ["engine_error"]
    assert "use --clock real or charged" in column(silent, "error")[0]


FOREIGN = {
    "tokens for a stranger": lambda one: [(99, [1])],
    "tokens for a negative id": lambda one: [(-1, [1])],
    "tokens after the end": lambda one: [one.serve(), (0, [1])] if one.given.get(0) == 2 else [one.serve()],
    "something that is no output": lambda one: [5],
    "a number for outputs": lambda one: 5,
    "an output with too much": lambda one: [(*one.serve(), 1, 2)],
    "one that ends twice": lambda one: [(0, [1, 2], True), (0, [1, 2], True)],
    "a number for tokens": lambda one: [(0, 5)],
    "no tokens at all": lambda one: [(0, None)],
    "text for tokens": lambda one: [(0, ["a"])],
    "an end of a stranger": lambda one: Step([StepOutput(*one.serve())], ended=[99]),
    "a slot for a stranger": lambda one: Step([StepOutput(*one.serve())], admitted=[(99, 0)]),
    "a release of a stranger": lambda one: Step([StepOutput(*one.serve())], released=[-1]),
    "a kind of step of its own": lambda one: Step([StepOutput(*one.serve())], work=work_of(kind="verify")),
}


@pytest.mark.parametrize("fault", FOREIGN)
def test_whatever_a_foreign_step_returns_the_run_ends_in_rows(fault: str) -> None:
    """No traceback: who is in the engine has status engine_error and a reason, and what came before is kept."""
    recording = played(engine_returning(FOREIGN[fault]))
    told = statuses(recording)
    assert "engine_error" in told
    assert set(told) <= {"ok", "engine_error", "not_dispatched"}
    for row, status in enumerate(told):
        assert (column(recording, "error")[row] is not None) == (status == "engine_error")
    assert little_error_ns(recording) == 0


def test_an_engine_that_never_gives_up_a_lost_cause_does_not_keep_the_run_going() -> None:
    """It cannot abort and never finishes anything: when the time of all its requests is up, the run is over."""

    class Hanging(OneToken):
        steps = 0

        def step(self) -> Any:
            self.steps += 1
            if self.steps > 1_000:
                raise Runaway
            return []

    recording = played(Hanging(), schedule_of([2, 2], [0, 30]), timeout_ns=50)
    assert statuses(recording) == ["timeout_total"] * 2
    assert column(recording, "end_ns") == [50, 80]


def test_outputs_of_one_step_reach_their_requests_whatever_their_order() -> None:
    """Several deliveries to one request in one step, between those of others."""

    class Interleaving(OneToken):
        def step(self) -> Sequence[Any]:
            ids = [one.request_id for one in self.queue]
            self.queue.clear()
            first: Iterable[Any] = [(one, [one]) for one in reversed(ids)]
            return [*first, *((one, [50 + one], True) for one in ids)]

    recording = played(Interleaving(), schedule_of([2, 2, 2]))
    assert statuses(recording) == ["ok"] * 3
    assert recording.token_ids.tolist() == [0, 50, 1, 51, 2, 52]
