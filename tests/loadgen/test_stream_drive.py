"""The streaming driver against targets in memory: nothing waits for a reply, and every request is one row."""

import asyncio
import time
from array import array
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import uvloop

from loadgen.config import from_texts
from loadgen.planned import planned_requests
from loadgen.shards import shard
from loadgen.steering import Steering
from loadgen.stream_drive import play_target
from loadgen.workload import build_schedule
from results.columns import NULL
from results.metrics import little_error_ns
from results.recording import Recording, RecordingPart, merge
from results.schedule import Schedule
from results.status import Status
from results.store import digest
from targets.target import PlannedRequest, Reply

pytestmark = pytest.mark.realtime
MS_NS = 1_000_000


@dataclass
class MemoryTarget:
    """Answers each request with its tokens after a wait, or as `answer` says."""

    wait_s: float = 0.002
    answer: Callable[[PlannedRequest], Awaitable[Reply]] | None = None
    sent: list[tuple[int, int]] = field(default_factory=list)
    """(request id, when) in the order of sending."""
    in_flight: int = 0
    most_in_flight: int = 0
    aborted: dict[int, Status] = field(default_factory=dict)
    ends: dict[int, asyncio.Event] = field(default_factory=dict)

    def describe(self) -> Mapping[str, Any]:
        """Nothing to tell."""
        return {}

    async def open(self, requests: Sequence[PlannedRequest]) -> None:
        """Nothing to open."""

    async def close(self) -> None:
        """Nothing to close."""

    def abort(self, request_id: int, status: Status) -> None:
        """As asked."""
        self.aborted[request_id] = status
        self.ends[request_id].set()

    async def send(self, request: PlannedRequest) -> Reply:
        """One event a token, all at the end of the wait."""
        self.sent.append((request.request_id, time.perf_counter_ns()))
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            return await (self.answer or self._answer)(request)
        finally:
            self.in_flight -= 1

    async def _answer(self, request: PlannedRequest) -> Reply:
        sent_ns = time.perf_counter_ns()
        end = self.ends[request.request_id] = asyncio.Event()
        try:
            await asyncio.wait_for(end.wait(), self.wait_s)
        except TimeoutError:
            now_ns = time.perf_counter_ns()
            times = array("q", [now_ns] * request.max_tokens)
            return Reply(request.request_id, Status.OK, sent_ns=sent_ns, end_ns=now_ns, event_t_ns=times,
                         finish_reason="length", text="a" * request.max_tokens)  # fmt: skip
        now_ns = time.perf_counter_ns()
        return Reply(request.request_id, self.aborted[request.request_id], sent_ns=sent_ns, end_ns=now_ns,
                     event_t_ns=array("q", [now_ns]), text="a")  # fmt: skip


def schedule_of(**texts: str) -> Schedule:
    """From options."""
    return build_schedule(from_texts({"target": "http://a", "output-tokens": "3", "prompt-tokens": "2", **texts}))


def play(
    schedule: Schedule,
    target: Any,
    control: Steering | None = None,
    emit: Callable[[RecordingPart], None] = lambda part: None,
    **more: Any,
) -> Recording:
    """In an event loop of its own."""
    steering = control or control_of()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        planned = planned_requests(schedule, as_ids=False)
        return runner.run(play_target(schedule, target, planned, emit, steering, **more))


def control_of(drain_ns: int | None = None, **texts: str) -> Steering:
    """A steering from options."""
    return Steering(from_texts({"target": "http://a", "rate": "1", **texts}), lambda ended: None, drain_ns)


def by_status(recording: Recording) -> dict[str, int]:
    """How many rows have each status."""
    codes, counts = np.unique(recording.requests["status"], return_counts=True)
    return {Status(int(code)).name.lower(): int(count) for code, count in zip(codes, counts, strict=True)}


def test_every_request_is_one_row_with_its_tokens() -> None:
    """All ok, times in order, and the in-flight counter agrees with the rows to the nanosecond."""
    schedule = schedule_of(rate="300", requests="60")
    recording = play(schedule, MemoryTarget())
    assert by_status(recording) == {"ok": 60}
    assert recording.token_t_ns is not None and len(recording.token_t_ns) == 180
    requests = recording.requests
    for earlier, later in [("due_ns", "dispatched_ns"), ("dispatched_ns", "handed_ns"), ("handed_ns", "end_ns")]:
        assert np.all(requests[earlier] <= requests[later]), (earlier, later)
    assert np.array_equal(requests["due_ns"], schedule.due_ns)
    assert little_error_ns(recording) == 0


def test_nothing_waits_for_a_reply() -> None:
    """An open loop has as many in flight as have come and not been answered: here all of them."""
    target = MemoryTarget(wait_s=0.3)
    play(schedule_of(rate="400", requests="40"), target)
    assert target.most_in_flight == 40
    assert [request_id for request_id, _ in target.sent] == list(range(40))


def test_a_cap_holds_requests_back_and_their_wait_counts() -> None:
    """With --max-concurrency no more are in flight; due times stay, so the wait for a place is in the latency."""
    target = MemoryTarget(wait_s=0.01)
    control = control_of(**{"max-concurrency": "2"})
    recording = play(schedule_of(rate="1000", requests="20"), target, control)
    assert target.most_in_flight == 2
    assert by_status(recording) == {"ok": 20}
    assert int((recording.requests["handed_ns"] - recording.requests["due_ns"]).max()) > 50 * MS_NS
    assert little_error_ns(recording) == 0


def test_a_closed_loop_has_as_many_in_flight_as_users() -> None:
    """The next request of a user is due when the last has ended."""
    target = MemoryTarget(wait_s=0.004)
    recording = play(schedule_of(arrival="closed", users="3", requests="15"), target)
    assert target.most_in_flight == 3
    ends, due = recording.requests["end_ns"], recording.requests["due_ns"]
    assert all(int(due[request_id]) == int(ends[request_id - 3]) for request_id in range(3, 15))


def test_shards_make_the_recording_of_one_process() -> None:
    """Two players with a common start, merged, give the digest and the due times of one."""
    schedule = schedule_of(rate="300", requests="40")
    whole = play(schedule, MemoryTarget())
    parts: list[RecordingPart] = []
    for rank in range(2):
        play(schedule, MemoryTarget(), emit=parts.append, mine=shard(schedule, rank, 2))
    both = merge(schedule, parts)
    assert digest(both) == digest(whole)
    assert little_error_ns(both) == 0


def test_a_request_over_its_time_is_aborted_with_what_had_come() -> None:
    """--timeout ends a request so long after it was due; the other rows are untouched."""

    async def answer(request: PlannedRequest) -> Reply:
        if request.request_id == 3:
            target.wait_s = 30
        else:
            target.wait_s = 0.002
        return await target._answer(request)

    target = MemoryTarget(answer=answer)
    recording = play(schedule_of(rate="100", requests="8"), target, control_of(timeout="200ms"))
    assert by_status(recording) == {"ok": 7, "timeout_total": 1}
    assert recording.token_offsets[4] - recording.token_offsets[3] == 1


def test_the_drain_has_an_end() -> None:
    """What has not ended so long after the last due time is unfinished."""
    recording = play(schedule_of(rate="100", requests="4"), MemoryTarget(wait_s=60), control_of(100 * MS_NS))
    assert by_status(recording) == {"unfinished": 4}
    assert little_error_ns(recording) == 0


@pytest.mark.parametrize(("second", "status"), [(False, "ok"), (True, "cancelled")])
def test_a_stop_drains_and_a_second_one_aborts(second: bool, status: str) -> None:
    """After the first nothing more is sent; after the second nothing more is waited for."""
    control = control_of()
    target = MemoryTarget(wait_s=0.5)

    def emit(part: RecordingPart) -> None:
        if len(target.sent) >= 2:
            control.interrupt(2, None)
            if second:
                control.interrupt(2, None)

    recording = play(schedule_of(rate="10", requests="40"), target, control, emit)
    counts = by_status(recording)
    assert counts.pop("not_dispatched") + counts.get(status, 0) >= 35
    assert set(counts) <= {"ok", status}
    assert recording.stopped_ns is not None


def test_a_server_that_is_gone_ends_the_run() -> None:
    """When nobody has answered for two seconds the run ends early, with the moment and the reason."""
    control = control_of()

    async def answer(request: PlannedRequest) -> Reply:
        now_ns = time.perf_counter_ns()
        if request.request_id < 5:
            return await target._answer(request)
        return Reply(request.request_id, Status.TRANSPORT_ERROR, end_ns=now_ns, error="connection refused")

    target = MemoryTarget(answer=answer)
    recording = play(schedule_of(rate="20", requests="400"), target, control)
    assert control.reason is not None and "has not answered since" in control.reason
    counts = by_status(recording)
    assert counts["ok"] == 5
    assert counts["not_dispatched"] > 200
    assert recording.stopped_ns is not None


def test_too_many_failures_end_the_run_where_asked() -> None:
    """--stop-after-failures counts every failure, whatever its kind."""
    control = control_of(**{"stop-after-failures": "3"})

    async def answer(request: PlannedRequest) -> Reply:
        return Reply(request.request_id, Status.HTTP_ERROR, end_ns=time.perf_counter_ns(), error="500")

    recording = play(schedule_of(rate="50", requests="100"), MemoryTarget(answer=answer), control)
    assert control.reason is not None and control.reason.startswith("3 requests had failed")
    assert by_status(recording)["not_dispatched"] > 50


def test_a_target_that_raises_is_a_row() -> None:
    """A foreign target's exception is the reason of that request's failure, and of no other's."""

    async def answer(request: PlannedRequest) -> Reply:
        if request.request_id == 1:
            raise RuntimeError("boom")
        return await target._answer(request)

    target = MemoryTarget(answer=answer)
    recording = play(schedule_of(rate="100", requests="4"), target)
    assert by_status(recording) == {"ok": 3, "engine_error": 1}
    assert recording.requests["error"][1] == "RuntimeError: boom"


def test_a_tokenizer_counts_every_text() -> None:
    """counted_tokens stands beside what the server tells, so that the two can be compared; usage wins."""

    async def answer(request: PlannedRequest) -> Reply:
        reply = await target._answer(request)
        reply.told_output_tokens = 7 if request.request_id == 0 else NULL
        return reply

    target = MemoryTarget(answer=answer)
    recording = play(schedule_of(rate="100", requests="3"), target, count_tokens=len)
    assert recording.requests["counted_tokens"].tolist() == [3, 3, 3]
    assert recording.requests["output_tokens"].tolist() == [7, 3, 3]


def test_parts_are_emitted_while_the_run_lasts() -> None:
    """A part comes at least every half second, and the parts together are the recording."""
    parts: list[RecordingPart] = []
    recording = play(schedule_of(rate="20", requests="40"), MemoryTarget(), emit=parts.append)
    assert len(parts) >= 3
    assert sum(len(part.tables["requests"]["request_id"]) for part in parts) == 40
    assert digest(recording) == digest(merge(recording.schedule, parts))
    assert len(recording.host["t_ns"]) >= 2


@dataclass
class PromptTarget(MemoryTarget):
    """Begins when it is called, and knows whether a task had to come to its turn for that."""

    begun_outside_tasks: list[int] = field(default_factory=list)
    refuses: frozenset[int] = frozenset()

    def start(self, request: PlannedRequest) -> Coroutine[Any, Any, Reply]:
        """At once."""
        if request.request_id in self.refuses:
            raise RuntimeError("it breaks its promise")
        if asyncio.current_task() is None:
            self.begun_outside_tasks.append(request.request_id)
        return self.send(request)


def test_a_target_that_can_begins_at_once() -> None:
    """No task has to come to its turn first; one that cannot begin is a row like any other that fails."""
    target = PromptTarget(refuses=frozenset((3,)))
    recording = play(schedule_of(rate="500", requests="8"), target)
    assert target.begun_outside_tasks == [0, 1, 2, 4, 5, 6, 7]
    assert by_status(recording) == {"ok": 7, "engine_error": 1}
