"""The stepping driver: one synchronous loop that hands over what is due, steps the engine and records.

No threads, so generator and engine cannot disturb each other. The same loop runs in real, charged and modelled
time: only the clock differs.
"""

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from enum import Enum
from functools import partial
from typing import Protocol

from engines.engine import Engine, OneTokenEach, Request, SamplingParams, Step, Stretch
from loadgen.clock import Advance, Clock, ModelledClock
from loadgen.due import NEVER_NS, DueQueue, InFlight
from loadgen.host import sample_host
from loadgen.prompts import prompt_source
from loadgen.recorder import Recorder
from results.compact import Compact, compact
from results.recording import Recording, RecordingPart, merge
from results.schedule import Schedule
from results.status import Status

CONTROL_EVERY_NS = 100_000_000
EMIT_EVERY_NS = 500_000_000
EMIT_EVERY_ROWS = 100_000
CONDENSE_EVERY_STEPS = 1_000
"""Few enough that what the recorder turns into columns is still in the processor's cache."""
HOST_EVERY_NS = 1_000_000_000


class Decision(Enum):
    """What the driver is told to do next."""

    GO = "go"
    STOP = "stop"
    """Hand over nothing more; drain."""
    CANCEL = "cancel"
    """Abort everything now."""


class Control(Protocol):
    """Steers a run; asked at most 10 times a second of wall time."""

    timeout_ns: int | None
    """A request is aborted when it has not ended so long after it was due."""
    drain_ns: int | None
    """Everything is aborted so long after the last request was due, or after a stop."""

    def __call__(self, now_ns: int, newest: RecordingPart | None) -> Decision:
        """`newest`: the last part emitted."""
        ...


def play_engine(
    schedule: Schedule,
    engine: Engine,
    clock: Clock,
    emit: Callable[[RecordingPart], None],
    control: Control,
) -> Recording:
    """Play a schedule against an engine. `emit` gets each part as soon as it exists; the parts are the recording.

    An engine that raises, loses a request or gets stuck ends the run: its requests are rows with status
    engine_error, and nothing is lost of what came before.
    """
    play = _Play(schedule, engine, clock, emit, control)
    with no_garbage_collection():
        play.run()
    return replace(merge(schedule, play.parts), stopped_ns=play.stopped_ns)


def play_compact(
    schedule: Schedule,
    engine: Engine,
    clock: ModelledClock,
    emit: Callable[[RecordingPart], None],
    control: Control,
) -> Compact:
    """`play_engine` for very long runs in modelled time: no row is made for a token, each one's time is kept.

    ValueError for an engine that cannot be told so: see `can_compact`.
    """
    if not can_compact(engine):
        raise ValueError("a compact run needs an engine that advances many steps at once, streams its tokens and "
                         "computes prompts whole")  # fmt: skip
    play = _Play(schedule, engine, clock, emit, control)
    with no_garbage_collection():
        play.run()
    return compact(schedule, play.parts, play.stopped_ns)


def can_compact(engine: Engine) -> bool:
    """Whether it makes many steps at once, and whoever it admits gets a token then and in each decode after that."""
    told = engine.describe()
    return hasattr(engine, "advance") and told.get("returns") == "stream" and not told.get("chunks_prompts", False)


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Nothing is collected, and what is there already never looked at; inside of another one it does nothing."""
    if not gc.isenabled():
        yield
        return
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.unfreeze()
        gc.enable()


class _Play:
    def __init__(
        self,
        schedule: Schedule,
        engine: Engine,
        clock: Clock,
        emit: Callable[[RecordingPart], None],
        control: Control,
    ) -> None:
        told = engine.describe()
        self.parts: list[RecordingPart] = []
        self.stopped_ns: int | None = None
        self._engine = engine
        self._clock = clock
        self._emit = emit
        self._control = control
        self._arrivals = DueQueue(schedule)
        self._prompt_of = prompt_source(schedule, lazy=not told.get("reads_prompts", True))
        self._params_of = sampling_source(schedule)
        self._classes: list[int] = schedule.request_class.tolist()
        advance: Advance | None = getattr(engine, "advance", None)
        self._stride = partial(clock.bill_stretch, advance) if advance and isinstance(clock, ModelledClock) else None
        self._recorder = Recorder(clock, bool(told.get("computes_tokens", True)), self._stride is not None)
        self._flight = InFlight()
        self._open: dict[int, tuple[int, int]] = {}
        """request id -> (due_ns, handed_ns), in the order of due times."""
        self._deadline_ns = NEVER_NS
        self._drain_until_ns = NEVER_NS
        self._drained = self._aborted = False
        self._limited = control.timeout_ns is not None or control.drain_ns is not None
        self._outside = False
        """Whether somebody else's code runs, control or emit, whose faults are not the engine's."""
        self._control_at_ns = self._host_at_ns = time.perf_counter_ns()
        self._emit_at_ns = self._control_at_ns + EMIT_EVERY_NS

    def run(self) -> None:
        """To the end of the schedule, of the engine, or of the patience of its control."""
        try:
            self._loop()
        except Exception as error:
            if self._outside:
                raise
            self._fault(error)
        now_ns = self._clock.now_ns()
        self._recorder.host(sample_host(now_ns))
        self._publish(now_ns)

    def _loop(self) -> None:
        """What is done at every step is spelled out here, without a call that could be saved."""
        clock, engine, arrivals = self._clock, self._engine, self._arrivals
        log, steps_to_poll, stride = self._recorder.log, 0, self._stride
        going = True
        while going:
            now_ns = clock.now_ns()
            if arrivals.next_due_ns <= now_ns:
                self._hand_over(now_ns)
            steps_to_poll -= 1
            if steps_to_poll <= 0:
                steps_to_poll = clock.steps_per_poll
                if not self._poll(now_ns):
                    break
            if self._deadline_ns <= now_ns and not self._expire(now_ns):
                break
            ready_ns = engine.ready_ns(now_ns)
            if ready_ns is None:
                going = self._idle(now_ns)
            elif ready_ns <= now_ns:
                if stride is not None and self._advance(stride):
                    continue
                step = clock.bill(engine)
                log.append((step, clock.step_start, clock.step_end, clock.step_wall_ns))
                if step.ended or step.released or step.admitted:
                    self._came_and_went(step)
            else:
                clock.wait_until(min(ready_ns, arrivals.next_due_ns, self._deadline_ns))

    def _advance(self, stride: Callable[[int], Stretch | None]) -> bool:
        """Let the engine make all its steps until the next arrival at once; False when it must be stepped."""
        stretch = stride(min(self._arrivals.next_due_ns, self._deadline_ns))
        if stretch is None:
            return False
        self._recorder.stretch(stretch)
        if stretch.ended or stretch.released:
            self._recorder.membership(stretch)
            now_ns = self._clock.now_ns()
            for request_id in stretch.ended:
                self._end(request_id, Status.OK, now_ns, "length")
        return True

    def _hand_over(self, now_ns: int) -> None:
        """Everything due at or before now, in the order of (due, id)."""
        arrivals = self._arrivals
        while arrivals.next_due_ns <= now_ns:
            due_ns, request_id = arrivals.pop()
            self._flight.enter(due_ns, now_ns)
            self._open[request_id] = (due_ns, now_ns)
            prompt, params = self._prompt_of(request_id), self._params_of(request_id)
            request = Request(request_id, prompt, params, due_ns, self._classes[request_id])
            try:
                self._engine.add_request(request)
            except ValueError as error:
                self._end(request_id, Status.ENGINE_ERROR, now_ns, error=str(error))
        if self._limited:
            self._set_deadline()

    def _came_and_went(self, step: Step) -> None:
        self._recorder.membership(step)
        now_ns = self._clock.now_ns()
        outputs = step.outputs
        if type(outputs) is OneTokenEach:
            for request_id, reason in outputs.finish_reasons.items():
                self._end(request_id, Status.OK, now_ns, reason)
            return
        for output in outputs:
            if output.finished:
                self._end(output.request_id, Status.OK, now_ns, output.finish_reason)

    def _end(
        self, request_id: int, status: Status, now_ns: int, reason: str | None = None, error: str | None = None
    ) -> None:
        due_ns, handed_ns = self._open.pop(request_id)
        self._flight.leave(now_ns)
        self._recorder.request(request_id, due_ns, handed_ns, now_ns, status, reason, error)
        if status is not Status.OK:
            self._recorder.dropped(request_id)
        self._arrivals.ended(request_id, now_ns)

    def _idle(self, now_ns: int) -> bool:
        """The engine waits for an arrival: go to the next one, or let it serve what it holds back."""
        arrivals = self._arrivals
        if arrivals.next_due_ns < NEVER_NS:
            self._clock.wait_until(min(arrivals.next_due_ns, self._deadline_ns))
            return True
        if self._engine.has_work():
            self._engine.flush()
            if self._engine.ready_ns(now_ns) is not None:
                return True
            self._give_up(now_ns, Status.ENGINE_ERROR, "the engine holds the request back even after flush()")
        else:
            self._give_up(now_ns, Status.ENGINE_ERROR, "the engine has no work left and never finished the request")
        return arrivals.next_due_ns < NEVER_NS

    def _fault(self, error: Exception) -> None:
        """The engine cannot go on: who is in it ends with the reason, nobody comes any more."""
        self._arrivals.stop()
        self._give_up(self._clock.now_ns(), Status.ENGINE_ERROR, f"{type(error).__name__}: {error}")

    def _give_up(self, now_ns: int, status: Status, error: str | None = None) -> None:
        """Abort everything in the engine, whatever it says to that."""
        for request_id in list(self._open):
            with suppress(Exception):
                self._engine.abort(request_id)
            self._end(request_id, status, now_ns, error=error)

    def _expire(self, now_ns: int) -> bool:
        """Abort who is over the time limit; False when nobody is left, or the drain's limit is reached."""
        if now_ns >= self._drain_until_ns and not self._drained:
            self._drained = True
            if self._open:
                self._arrivals.stop()
                self._give_up(now_ns, Status.UNFINISHED)
                return False
        timeout_ns = self._control.timeout_ns
        while timeout_ns is not None and self._open:
            request_id, (due_ns, _) = next(iter(self._open.items()))
            if due_ns + timeout_ns > now_ns:
                break
            self._aborted = True
            self._engine.abort(request_id)
            self._end(request_id, Status.TIMEOUT_TOTAL, now_ns)
        self._set_deadline()
        return bool(self._open) or self._arrivals.next_due_ns < NEVER_NS or not self._aborted

    def _set_deadline(self) -> None:
        """When the oldest request runs out of time, or the drain does."""
        control = self._control
        if control.drain_ns is not None and self._drain_until_ns == NEVER_NS and self._arrivals.all_handed_over:
            self._drain_until_ns = self._arrivals.last_due_ns + control.drain_ns
        self._deadline_ns = NEVER_NS if self._drained else self._drain_until_ns
        if control.timeout_ns is not None and self._open:
            due_ns, _ = next(iter(self._open.values()))
            self._deadline_ns = min(self._deadline_ns, due_ns + control.timeout_ns)

    def _poll(self, now_ns: int) -> bool:
        """Look at the wall clock: emit, sample, ask the control; False when all is cancelled."""
        if len(self._recorder.log) >= CONDENSE_EVERY_STEPS:
            self._recorder.condense()
        wall_ns = time.perf_counter_ns()
        if wall_ns >= self._host_at_ns:
            self._host_at_ns = wall_ns + HOST_EVERY_NS
            self._recorder.host(sample_host(now_ns))
        if wall_ns >= self._emit_at_ns or self._recorder.pending_rows >= EMIT_EVERY_ROWS:
            self._emit_at_ns = wall_ns + EMIT_EVERY_NS
            self._publish(now_ns)
        if wall_ns < self._control_at_ns:
            return True
        self._control_at_ns = wall_ns + CONTROL_EVERY_NS
        self._outside = True
        decision = self._control(now_ns, self.parts[-1] if self.parts else None)
        self._outside = False
        if decision is not Decision.GO and self.stopped_ns is None:
            self.stopped_ns = now_ns
        if decision is Decision.CANCEL:
            self._arrivals.stop()
            self._give_up(now_ns, Status.CANCELLED)
            return False
        if decision is Decision.STOP and not self._arrivals.stopped:
            self._arrivals.stop(now_ns)
            self._set_deadline()
        return True

    def _publish(self, now_ns: int) -> None:
        part = self._recorder.part(now_ns, self._flight.taken(now_ns))
        self.parts.append(part)
        self._outside = True
        self._emit(part)
        self._outside = False


def sampling_source(schedule: Schedule) -> Callable[[int], SamplingParams]:
    """Request id -> its parameters, from the recipe."""
    sampling = schedule.recipe.get("sampling", {})
    lengths = schedule.output_tokens.tolist()
    by_length: dict[int, SamplingParams] = {}

    def params_of(request_id: int) -> SamplingParams:
        max_tokens = lengths[request_id]
        params = by_length.get(max_tokens)
        if params is None:
            params = by_length[max_tokens] = SamplingParams(max_tokens, **sampling)
        return params

    return params_of
