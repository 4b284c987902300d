"""The engine's own thread: takes in what has come, asks when to step, steps, hands the outputs out.

The engine is touched by this thread alone. Requests keep the order in which they were submitted. While there is
nothing to do the thread sleeps; it wakes for a request, an abort, or the moment the engine named.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from engines.engine import Engine, Request, Step
from targets.serve.journal import Journal
from targets.serve.tally import ABORTED, FAILED, Tally

NS_PER_S = 1_000_000_000
PS_PER_NS = 1_000
LONGEST_SLEEP_NS = 100_000_000
"""Of a paced step, so that an end is noticed."""
LONGEST_ERROR_CHARACTERS = 200


@dataclass(slots=True)
class Delivery:
    """News of one request. Without tokens and unfinished: it has got its slot."""

    request_id: int
    token_ids: Sequence[int] = ()
    finish_reason: str | None = None
    error: str | None = None
    """The engine will give nothing more; one line."""
    refused: bool = False
    """The engine would not take it: the fault is the request's."""


@dataclass(slots=True)
class _Abort:
    request_id: int
    reason: str


class Pace:
    """Lets a step that computes nothing take as long as it is modelled to.

    The next step of a busy engine is counted from when the last should have ended, so that late wake-ups of the
    thread do not add up.
    """

    def __init__(self) -> None:
        """At rest."""
        self._until_ns: int | None = None

    def rest(self) -> None:
        """No step follows at once."""
        self._until_ns = None

    def due_ns(self, start_ns: int, cost_ps: int) -> int:
        """When a step begun at `start_ns` ends."""
        begin_ns = start_ns if self._until_ns is None else self._until_ns
        due_ns = begin_ns + cost_ps // PS_PER_NS
        self._until_ns = due_ns if due_ns > start_ns else None
        return due_ns


class Stepper:
    """One engine on one thread. Everything but `start` and `join` may be called from any thread."""

    def __init__(
        self,
        engine: Engine,
        deliver: Callable[[list[Delivery]], None],
        tally: Tally,
        journal: Journal,
        now_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        """`deliver` is called on the engine's thread, once a step. The thread is not started yet."""
        self.failure: str | None = None
        """Why the engine cannot go on; None: it can."""
        self._engine = engine
        self._deliver = deliver
        self._tally = tally
        self._journal = journal
        self._now_ns = now_ns
        self._pace = None if engine.describe().get("computes_tokens", True) else Pace()
        self._inbox: deque[Request | _Abort] = deque()
        self._wake = threading.Condition()
        self._news = self._draining = self._ended = False
        self._thread = threading.Thread(target=self._loop, name="engine", daemon=True)

    def start(self) -> None:
        """Begin to step."""
        self._thread.start()

    def join(self, timeout_s: float) -> None:
        """End after the step that is running; wait for that, but not for ever."""
        self._ended = True
        self._tell()
        if self._thread.is_alive():
            self._thread.join(timeout_s)

    def submit(self, request: Request) -> None:
        """Hand a request over."""
        self._tell(request)

    def abort(self, request_id: int, reason: str = ABORTED) -> None:
        """Its slot is free after the step that is running, and nothing more of it is delivered."""
        self._tell(_Abort(request_id, reason))

    def drain(self) -> None:
        """Nothing more will be submitted: serve what is held back."""
        self._draining = True
        self._tell()

    def _tell(self, *messages: Request | _Abort) -> None:
        with self._wake:
            self._inbox.extend(messages)
            self._news = True
            self._wake.notify()

    def _loop(self) -> None:
        try:
            while not self._ended:
                self._turn()
        except Exception as error:  # somebody else's engine may raise anything
            self._fail(f"{type(error).__name__}: {error}")

    def _turn(self) -> None:
        """Take in, and then one step, or sleep."""
        self._take_in()
        now_ns = self._now_ns()
        ready_ns = self._engine.ready_ns(now_ns)
        if self._draining and self._engine.has_work() and (ready_ns is None or ready_ns > now_ns):
            self._engine.flush()
            ready_ns = self._engine.ready_ns(now_ns)
        if ready_ns is None:
            self._idle()
        elif ready_ns > now_ns:
            self._sleep(ready_ns - now_ns)
        else:
            self._step()

    def _take_in(self) -> None:
        """One message after the other, so that none is lost should the engine fail on one."""
        while True:
            with self._wake:
                if not self._inbox:
                    self._news = False
                    return
                message = self._inbox.popleft()
            if isinstance(message, _Abort):
                self._drop(message)
            else:
                self._add(message)

    def _add(self, request: Request) -> None:
        self._tally.entered(request.request_id, len(request.prompt_token_ids))
        try:
            self._engine.add_request(request)
        except ValueError as error:
            self._tally.left(request.request_id, FAILED)
            self._deliver([Delivery(request.request_id, error=_one_line(str(error)), refused=True)])

    def _drop(self, abort: _Abort) -> None:
        if self._tally.holds(abort.request_id):
            self._engine.abort(abort.request_id)
            self._tally.left(abort.request_id, abort.reason)

    def _idle(self) -> None:
        """The engine asks for nothing: until something comes, if it still can serve what it has."""
        lost = self._tally.open_ids()
        if lost and not self._engine.has_work():
            self._give_up(lost, "the engine has no work left and never finished the request")
        elif lost and self._draining:
            self._give_up(lost, "the engine holds the request back even after flush()")
        self._sleep(None)

    def _sleep(self, timeout_ns: int | None) -> None:
        if self._pace:
            self._pace.rest()
        with self._wake:
            if not self._news:
                self._wake.wait(None if timeout_ns is None else timeout_ns / NS_PER_S)

    def _step(self) -> None:
        start_ns = self._now_ns()
        step = self._engine.step(start_ns)
        if self._pace and step.modelled_cost_ps:
            self._wait_until(self._pace.due_ns(start_ns, step.modelled_cost_ps))
        self._journal.stepped(step, start_ns, self._now_ns())
        self._tally.stepped(step)
        self._deliver(_deliveries(step))

    def _wait_until(self, until_ns: int) -> None:
        while not self._ended and (left_ns := until_ns - self._now_ns()) > 0:
            time.sleep(min(left_ns, LONGEST_SLEEP_NS) / NS_PER_S)

    def _give_up(self, request_ids: Sequence[int], error: str) -> None:
        for request_id in request_ids:
            self._tally.left(request_id, FAILED)
        self._deliver([Delivery(request_id, error=error) for request_id in request_ids])

    def _fail(self, error: str) -> None:
        """The engine cannot go on: whoever is in it or still comes is told so."""
        self.failure = _one_line(error)
        self._give_up(self._tally.open_ids(), self.failure)
        while not self._ended:
            with self._wake:
                if not self._news:
                    self._wake.wait()
                lost = [message.request_id for message in self._inbox if isinstance(message, Request)]
                self._inbox.clear()
                self._news = False
            self._give_up(lost, self.failure)


def _deliveries(step: Step) -> list[Delivery]:
    """A step's news: everybody's tokens, and who got a slot without a token."""
    news = [
        Delivery(output.request_id, output.token_ids, (output.finish_reason or "stop") if output.finished else None)
        for output in step.outputs
    ]
    told = {delivery.request_id for delivery in news}
    return news + [Delivery(request_id) for request_id, _ in step.admitted if request_id not in told]


def _one_line(text: str) -> str:
    return " ".join(text.split())[:LONGEST_ERROR_CHARACTERS]
