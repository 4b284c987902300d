"""The streaming driver: sends what is due to a target that owns its own time, and waits for no reply.

An open loop: every request goes out at its moment, whatever has become of the others. A cap on requests in flight
can be asked for; then the run is no open loop, and the wait for a place counts into its latencies.
"""

import asyncio
import sys
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Protocol

from loadgen.drive import (
    CONTROL_EVERY_NS,
    EMIT_EVERY_NS,
    EMIT_EVERY_ROWS,
    HOST_EVERY_NS,
    Control,
    Decision,
    no_garbage_collection,
)
from loadgen.due import NEVER_NS, DueQueue, InFlight
from loadgen.host import sample_host
from loadgen.pacer import Pacer, make_pacer
from loadgen.reply_recorder import Kept, Pause, ReplyRecorder
from results.columns import NULL, Int64
from results.recording import Recording, RecordingPart, merge
from results.schedule import Schedule
from results.status import Status
from targets.target import PlannedRequest, Reply, Target
from targets.transport.messages import one_line

LEAD_NS = 20_000_000
"""From the decision to start to time 0."""
SWITCH_S = 1e-4
"""For so long at most the thread that writes parts keeps the interpreter from the driver."""
PAUSE: Pause = partial(time.sleep, 5e-5)
"""Between the columns of a part: who waits for the interpreter, or for the core, gets it."""
TURNS = 4
"""Client processes make their parts at different times: each takes a core for some milliseconds."""
LAST_REPLIES_NS = 1_000_000_000
"""How long an aborted request may take to say so."""
Emit = Callable[[RecordingPart], None]


class StreamControl(Control, Protocol):
    """Steers a run against a target."""

    max_requests: int | None
    """At most so many in flight; None: an open loop."""

    def ended(self, reply: Reply, now_ns: int) -> None:
        """Told of each end as it comes, so that a dead server is noticed."""


async def play_target(
    schedule: Schedule,
    target: Target,
    planned: Sequence[PlannedRequest],
    emit: Emit,
    control: StreamControl,
    *,
    mine: Int64 | None = None,
    origin_ns: int | None = None,
    begin: Callable[[int], None] = lambda origin_ns: None,
    count_tokens: Callable[[str], int] | None = None,
    worker_id: int = 0,
) -> Recording:
    """Play a schedule against a target that is open. `planned[i]` is request i.

    `mine`: the ids of this process, where several share the schedule. `origin_ns`: time 0 on
    `time.perf_counter_ns()`, where it is agreed upon; `begin` is told it. `count_tokens`: a tokenizer.
    `worker_id`: which of those processes this is.
    """
    switch_s = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_S)
    starts_ns = origin_ns if origin_ns is not None else time.perf_counter_ns() + LEAD_NS
    try:
        with no_garbage_collection():
            begin(starts_ns)
            play = _Play(schedule, target, planned, emit, control, mine, starts_ns, count_tokens, worker_id)
            await play.run()
    finally:
        sys.setswitchinterval(switch_s)
    return replace(merge(schedule, play.parts), stopped_ns=play.stopped_ns)


class _Play:
    def __init__(
        self,
        schedule: Schedule,
        target: Target,
        planned: Sequence[PlannedRequest],
        emit: Emit,
        control: StreamControl,
        mine: Int64 | None,
        origin_ns: int,
        count_tokens: Callable[[str], int] | None,
        worker_id: int,
    ) -> None:
        self.parts: list[RecordingPart] = []
        self.stopped_ns: int | None = None
        self._target = target
        self._begin_send: Callable[[PlannedRequest], Awaitable[Reply]] = getattr(target, "start", target.send)
        self._planned = planned
        self._emit = emit
        self._control = control
        self._arrivals = DueQueue(schedule, mine)
        self._flight = InFlight()
        self._origin_ns = origin_ns
        self._worker_id = worker_id
        self._recorder = ReplyRecorder(self._origin_ns, count_tokens)
        self._open: dict[int, int] = {}
        """request id -> due_ns of those due and not ended, in the order of due times."""
        self._waiting: deque[tuple[int, int]] = deque()
        """(request id, released at) of those due and held back by the cap."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._aborted: set[int] = set()
        self._over = asyncio.Event()
        self._failure: BaseException | None = None
        self._pacer: Pacer | None = None
        self._emit_at_ns = worker_id % TURNS * EMIT_EVERY_NS // TURNS
        self._host_at_ns = 0

    async def run(self) -> None:
        """To the end of the schedule, or of the patience of its control."""
        loop = asyncio.get_running_loop()
        self._pacer = make_pacer(loop, self._dispatch)
        try:
            self._arm()
            await self._look_around()
        finally:
            self._pacer.close()
            await self._last_replies()
        now_ns = self._now_ns()
        self._recorder.host(sample_host(now_ns, self._worker_id))
        self._publish(self._recorder.take(now_ns, self._flight.taken(now_ns)))
        if self._failure is not None:
            raise self._failure

    def _now_ns(self) -> int:
        return time.perf_counter_ns() - self._origin_ns

    def _arm(self) -> None:
        if self._pacer is not None and self._arrivals.next_due_ns < NEVER_NS:
            self._pacer.arm(self._arrivals.next_due_ns + self._origin_ns)

    def _dispatch(self) -> None:
        """Everything due by now, in the order of (due, id); then sleep until the next."""
        arrivals, now_ns = self._arrivals, self._now_ns()
        while arrivals.next_due_ns <= now_ns:
            due_ns, request_id = arrivals.pop()
            self._flight.enter(due_ns, now_ns)
            self._open[request_id] = due_ns
            if self._is_full():
                self._waiting.append((request_id, now_ns))
            else:
                self._start(request_id, due_ns, now_ns)
        self._arm()

    def _is_full(self) -> bool:
        most = self._control.max_requests
        return most is not None and len(self._tasks) >= most

    def _start(self, request_id: int, due_ns: int, released_ns: int) -> None:
        under_way = self._sent(request_id)
        task = asyncio.get_running_loop().create_task(self._carry(under_way, request_id, due_ns, released_ns))
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _sent(self, request_id: int) -> Awaitable[Reply]:
        """Begun at once where the target can; a fault, which it should not have, comes with the reply."""
        try:
            return self._begin_send(self._planned[request_id])
        except Exception as error:
            failed: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
            failed.set_exception(error)
            return failed

    async def _carry(self, under_way: Awaitable[Reply], request_id: int, due_ns: int, dispatched_ns: int) -> None:
        try:
            reply = await under_way
        except Exception as error:  # a target of somebody else that breaks its promise
            reply = Reply(request_id, Status.ENGINE_ERROR, error=one_line(f"{type(error).__name__}: {error}"))
        if reply.end_ns == NULL:
            reply.end_ns = time.perf_counter_ns()
        self._end(reply, due_ns, dispatched_ns)

    def _end(self, reply: Reply, due_ns: int, dispatched_ns: int) -> None:
        end_ns = reply.end_ns - self._origin_ns
        del self._open[reply.request_id]
        self._flight.leave(end_ns)
        self._recorder.reply(reply, due_ns, dispatched_ns)
        next_due_ns = self._arrivals.next_due_ns
        self._arrivals.ended(reply.request_id, end_ns)
        if self._arrivals.next_due_ns != next_due_ns:
            self._arm()
        self._control.ended(reply, end_ns)

    def _done(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self._failure = task.exception()
        while self._waiting and not self._is_full():
            request_id, released_ns = self._waiting.popleft()
            self._start(request_id, self._open[request_id], released_ns)
        if not self._open and self._arrivals.next_due_ns == NEVER_NS:
            self._over.set()

    async def _look_around(self) -> None:
        """Ten times a second: emit, sample, ask the control, give up on who takes too long."""
        while not self._over.is_set() and self._failure is None:
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._over.wait(), CONTROL_EVERY_NS / 1e9)
            now_ns = self._now_ns()
            if now_ns >= self._host_at_ns:
                self._host_at_ns = now_ns + HOST_EVERY_NS
                self._recorder.host(sample_host(now_ns, self._worker_id))
            if now_ns >= self._emit_at_ns or self._recorder.pending_rows >= EMIT_EVERY_ROWS:
                self._emit_at_ns = now_ns + EMIT_EVERY_NS
                kept = self._recorder.take(now_ns, self._flight.taken(now_ns))
                await asyncio.get_running_loop().run_in_executor(None, self._publish, kept, PAUSE)
            if not self._steer(now_ns):
                return

    def _steer(self, now_ns: int) -> bool:
        """False when all is cancelled, or nobody is left to wait for."""
        decision = self._control(now_ns, self.parts[-1] if self.parts else None)
        if decision is not Decision.GO and self.stopped_ns is None:
            self.stopped_ns = now_ns
        if decision is Decision.CANCEL:
            self._arrivals.stop()
            self._give_up(list(self._open), Status.CANCELLED)
            return False
        if decision is Decision.STOP and not self._arrivals.stopped:
            self._arrivals.stop(now_ns)
            if not self._open:
                return False
        return self._within_limits(now_ns)

    def _within_limits(self, now_ns: int) -> bool:
        control, arrivals = self._control, self._arrivals
        if control.timeout_ns is not None:
            late = [request_id for request_id, due_ns in self._open.items() if due_ns + control.timeout_ns <= now_ns]
            self._give_up(late, Status.TIMEOUT_TOTAL)
        drained_ns = NEVER_NS if control.drain_ns is None else arrivals.last_due_ns + control.drain_ns
        if arrivals.all_handed_over and now_ns >= drained_ns and self._open:
            arrivals.stop()
            self._give_up(list(self._open), Status.UNFINISHED)
            return False
        return True

    def _give_up(self, request_ids: list[int], status: Status) -> None:
        held_back = dict(self._waiting)
        self._waiting = deque(one for one in self._waiting if one[0] not in set(request_ids))
        for request_id in request_ids:
            if request_id in held_back:
                now_ns = time.perf_counter_ns()
                self._end(Reply(request_id, status, end_ns=now_ns), self._open[request_id], held_back[request_id])
            elif request_id not in self._aborted:
                self._aborted.add(request_id)
                self._target.abort(request_id, status)

    async def _last_replies(self) -> None:
        """Aborted requests say what had arrived; whoever does not is cancelled."""
        if self._tasks:
            _, stuck = await asyncio.wait(set(self._tasks), timeout=LAST_REPLIES_NS / 1e9)
            for task in stuck:
                task.cancel()

    def _publish(self, kept: Kept, pause: Pause = lambda: None) -> None:
        """In a thread of its own while the run lasts, with pauses; one at a time."""
        part = kept.part(pause)
        self.parts.append(part)
        self._emit(part)
