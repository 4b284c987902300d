"""The engine's thread: order, waiting, aborts, failures."""

import threading
import time
from collections.abc import Mapping
from typing import Any

from engines.engine import Request, SamplingParams, Step
from engines.policies import DurationNs, continuous, static
from targets.inprocess import InProcessEngine
from targets.serve.journal import Journal
from targets.serve.stepper import Delivery, Pace, Stepper
from targets.serve.tally import Tally
from tests.engines.playing import engine_of
from tests.targets.serve.conversing import Gated, speaking

ENOUGH_S = 30
MS = 1_000_000


class Stepped:
    """A stepper, and what it delivered."""

    def __init__(self, engine: Any) -> None:
        self.news: list[Delivery] = []
        self.batches = 0
        self.tally, self.journal = Tally(), Journal(1_000)
        self._more = threading.Condition()
        self.stepper = Stepper(engine, self._deliver, self.tally, self.journal)

    def __enter__(self) -> "Stepped":
        self.stepper.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stepper.join(ENOUGH_S)

    def _deliver(self, news: list[Delivery]) -> None:
        with self._more:
            self.news += news
            self.batches += 1
            self._more.notify()

    def submit(self, *request_ids: int, max_tokens: int = 2) -> None:
        for request_id in request_ids:
            now_ns = time.monotonic_ns()
            self.stepper.submit(Request(request_id, [1, 2, 3], SamplingParams(max_tokens), now_ns))

    def wait(self, ends: int) -> list[Delivery]:
        """Until so many requests have ended; their last news."""
        with self._more:
            assert self._more.wait_for(lambda: len(self.ended()) >= ends, ENOUGH_S)
        return self.ended()

    def ended(self) -> list[Delivery]:
        return [one for one in self.news if one.finish_reason is not None or one.error is not None]

    def tokens(self, request_id: int) -> list[int]:
        return [token_id for one in self.news if one.request_id == request_id for token_id in one.token_ids]


def test_requests_keep_their_order() -> None:
    """With one slot, requests are served in the order in which they were submitted."""
    with Stepped(engine_of(continuous(1))) as stepped:
        stepped.submit(*range(20))
        assert [one.request_id for one in stepped.wait(20)] == list(range(20))


def test_a_step_is_one_delivery() -> None:
    """The outputs of all slots come out together."""
    engine = Gated(speaking(policy=continuous(4)))
    with Stepped(engine) as stepped:
        stepped.submit(0, 1, 2, 3, max_tokens=5)
        engine.let(100)
        stepped.wait(4)
        assert stepped.batches == engine.steps


def test_a_batch_that_waits_is_begun_when_its_time_has_come() -> None:
    """max-wait is kept: the step of a lonely request begins no earlier, and without anything coming."""
    with Stepped(engine_of(static(8, "full", DurationNs(50 * MS)))) as stepped:
        submitted_ns = time.monotonic_ns()
        stepped.submit(0)
        stepped.wait(1)
    assert stepped.journal.since(0)["start_ns"][0] >= submitted_ns + 50 * MS


def test_draining_serves_what_is_held_back() -> None:
    """Once nobody else can come, a batch that waits to be full is served."""
    with Stepped(engine_of(static(8, "full"))) as stepped:
        stepped.submit(0, 1)
        stepped.stepper.drain()
        assert {one.finish_reason for one in stepped.wait(2)} == {"length"}


def test_an_idle_engine_is_left_alone() -> None:
    """While nothing comes, the engine is asked nothing."""

    class Asked(Gated):
        asked = 0

        def ready_ns(self, now_ns: int) -> int | None:
            self.asked += 1
            return super().ready_ns(now_ns)

    engine = Asked(engine_of(continuous(2)))
    engine.let(1_000)
    with Stepped(engine) as stepped:
        stepped.submit(0)
        stepped.wait(1)
        time.sleep(0.2)
        assert engine.asked <= engine.steps + 5


def test_what_comes_just_before_the_thread_sleeps_wakes_it() -> None:
    """A request that is submitted after the thread has looked, and before it sleeps, is not slept over."""

    class Late(Gated):
        def ready_ns(self, now_ns: int) -> int | None:
            ready_ns = super().ready_ns(now_ns)
            if not self.calls:
                stepped.submit(0)
                self.calls.append("late")
            return ready_ns

    engine = Late(engine_of(continuous(1)))
    engine.let(10)
    stepped = Stepped(engine)
    with stepped:
        assert stepped.wait(1)[0].finish_reason == "length"


def test_an_aborted_request_gets_nothing_more() -> None:
    """Wherever it is, waiting or in a slot, and whoever waits gets the slot."""
    engine = Gated(speaking(policy=continuous(1)))
    with Stepped(engine) as stepped:
        stepped.submit(0, 1, 2, max_tokens=4)
        engine.let(2)
        while len(stepped.tokens(0)) < 2:
            time.sleep(0.001)
        stepped.stepper.abort(0)
        stepped.stepper.abort(1)
        stepped.stepper.abort(99)
        engine.let(100)
        assert [one.request_id for one in stepped.wait(1)] == [2]
        assert (len(stepped.tokens(0)), stepped.tokens(1), len(stepped.tokens(2))) == (3, [], 4)
    assert engine.calls == ["add 0", "add 1", "add 2", "abort 0", "abort 1"]
    assert stepped.tally.snapshot().finished_requests == {"stop": 0, "length": 1, "abort": 2, "error": 0}


def test_a_refused_request_is_told_why() -> None:
    """The engine's own line, and the others are served."""
    with Stepped(speaking(context_tokens=10)) as stepped:
        stepped.submit(0, max_tokens=8)
        stepped.submit(1)
        first, second = stepped.wait(2)
    assert (first.request_id, first.refused) == (0, True)
    assert "the context holds 10" in (first.error or "")
    assert (second.request_id, second.finish_reason) == (1, "length")


class Minimal:
    """Somebody else's engine: what its step does is given."""

    def __init__(self, step: Any, loses: bool = False) -> None:
        self.requests: list[Request] = []
        self._step, self._loses = step, loses

    def add_request(self, request: Request) -> None:
        self.requests.append(request)

    def has_work(self) -> bool:
        return not self._loses and bool(self.requests)

    def step(self) -> Any:
        return self._step(self.requests)


def broken(requests: list[Request]) -> Any:
    raise RuntimeError("no more\nmemory " + "x" * 1_000)


def test_an_engine_that_fails_is_told_to_everybody() -> None:
    """Those in it and those who come later get its one-line reason."""
    with Stepped(InProcessEngine(Minimal(broken))) as stepped:
        stepped.submit(0, 1)
        told = stepped.wait(2)
        stepped.submit(2)
        told = stepped.wait(3)
    assert sorted(one.request_id for one in told) == [0, 1, 2]
    assert all((one.error or "").startswith("RuntimeError: no more memory xxx") for one in told)
    assert all(len(one.error or "") <= 200 and not one.refused for one in told)
    assert stepped.stepper.failure == told[0].error


def test_a_failure_while_a_request_is_handed_over_loses_none() -> None:
    """Also those behind it in the queue are told."""

    class Choosy(Minimal):
        def add_request(self, request: Request) -> None:
            raise TypeError("not this one")

    with Stepped(InProcessEngine(Choosy(None))) as stepped:
        stepped.submit(0, 1, 2)
        assert sorted(one.request_id for one in stepped.wait(3)) == [0, 1, 2]


def test_an_engine_that_loses_a_request_is_found_out() -> None:
    """No work left and a request unfinished: it is told, and does not wait for ever."""
    with Stepped(InProcessEngine(Minimal(None, loses=True))) as stepped:
        stepped.submit(0)
        (told,) = stepped.wait(1)
    assert told.error == "the engine has no work left and never finished the request"


def test_several_outputs_of_one_step_all_count() -> None:
    """An engine may tell of a request more than once in a step."""

    def twice(requests: list[Request]) -> Any:
        requests.clear()
        return [(0, [1, 2], False, None), (0, [3], True, "length")]

    with Stepped(InProcessEngine(Minimal(twice))) as stepped:
        stepped.submit(0)
        stepped.wait(1)
        assert stepped.tokens(0) == [1, 2, 3]


def test_a_step_that_computes_nothing_takes_as_long_as_modelled() -> None:
    """Late wake-ups do not add up; a rest begins anew; what is over already is not waited for."""
    pace = Pace()
    assert pace.due_ns(100, 10_000) == 110
    assert pace.due_ns(113, 10_000) == 120
    assert pace.due_ns(121, 10_000) == 130
    pace.rest()
    assert pace.due_ns(200, 10_000) == 210
    assert pace.due_ns(500, 10_000) == 220
    assert pace.due_ns(501, 10_000) == 511


def test_only_an_engine_that_computes_nothing_is_paced() -> None:
    """A step of the cost executor lasts at least its cost; one that computes is not held up."""

    class Costly(Gated):
        computes = False

        def describe(self) -> Mapping[str, Any]:
            return {"computes_tokens": self.computes}

        def step(self, now_ns: int) -> Step:
            step = super().step(now_ns)
            step.modelled_cost_ps = 30 * MS * 1_000 if not self.computes else 10**18
            return step

    for computes in (False, True):
        engine = Costly(engine_of(continuous(1)))
        engine.computes = computes
        engine.let(10)
        with Stepped(engine) as stepped:
            stepped.submit(0, max_tokens=2)
            stepped.wait(1)
        table = stepped.journal.since(0)
        if not computes:
            assert table["end_ns"][-1] - table["start_ns"][0] >= 60 * MS
