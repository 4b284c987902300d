"""Builders and fakes: small schedules, engines of ours, a control, one call to play them in modelled time."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from engines.cost import DurationPs, HashExecutor, LinearCost
from engines.engine import Engine
from engines.executor import MixedCost
from engines.paged import PagedEngine
from engines.policies import Policy
from engines.slots import Batch, CostModel, Executor, SlotEngine
from loadgen.clock import Clock, ModelledClock
from loadgen.drive import Decision, play_engine
from results.columns import NULL
from results.recording import Recording, RecordingPart
from results.schedule import Schedule, make_schedule
from results.status import Status

NS = 1_000
"""Picoseconds."""


def schedule_of(
    outputs: Sequence[int],
    due_ns: Sequence[int | None] | int = 0,
    prompts: Sequence[int] | int = 4,
    after: Mapping[int, Sequence[int]] | None = None,
    think_ns: Mapping[int, int] | None = None,
    classes: Sequence[int] | None = None,
    **sampling: Any,
) -> Schedule:
    """One row an output length. A row in `after` waits for the rows it names; its due time counts for nothing."""
    rows = len(outputs)
    waits, think = after or {}, think_ns or {}
    due = [due_ns] * rows if isinstance(due_ns, int) else list(due_ns)
    return make_schedule(
        [NULL if row in waits else due[row] or 0 for row in range(rows)],
        [prompts] * rows if isinstance(prompts, int) else prompts,
        outputs,
        after=[list(waits.get(row, ())) for row in range(rows)],
        think_ns=[think.get(row, 0) if row in waits else NULL for row in range(rows)],
        request_class=classes,
        class_names=tuple(f"class-{one}" for one in range(1 + max(classes or [0]))) if classes else ("default",),
        recipe={"sampling": sampling} if sampling else None,
    )


def linear_ps(decode_base: int, decode_row: int, prefill_base: int, prefill_token: int) -> LinearCost:
    """A linear cost in picoseconds."""
    return LinearCost(*map(DurationPs, (decode_base, decode_row, prefill_base, prefill_token)))


EVERY_STEP_1_NS = linear_ps(NS, 0, NS, 0)
"""Step i then runs from i to i + 1 ns while the engine is never idle: times can be counted on fingers."""


def engine_of(policy: Policy, cost: CostModel | None = EVERY_STEP_1_NS, executor: Executor | None = None) -> SlotEngine:
    """A slot engine on the executor that computes nothing."""
    return SlotEngine(policy, executor or HashExecutor(), cost)


def paged_engine_of(policy: Policy, cost: MixedCost = EVERY_STEP_1_NS, executor: Executor | None = None) -> PagedEngine:
    """An engine for a policy with a budget of tokens a step."""
    return PagedEngine(policy, executor or HashExecutor(), cost)


class Numbering:
    """An executor whose tokens count: the n-th token (from 0) of request r is 100 r + n. Its context may be limited."""

    eos_token_id: int | None = None

    def __init__(self, context_tokens: int | None = None) -> None:
        self.context_tokens = context_tokens

    def run(self, batch: Batch) -> Sequence[int]:
        return [100 * row.request_id + row.output_tokens for row in batch.rows]

    def describe(self) -> Mapping[str, str]:
        return {"name": "numbering"}


class Runaway(BaseException):
    """The driver goes round and round: not an Exception, so that it is not taken for a fault of the engine."""


class Steering:
    """A control with limits that gives its decisions one after another, and then the last for ever."""

    def __init__(
        self, timeout_ns: int | None = None, drain_ns: int | None = None, decisions: Iterable[Decision] = ()
    ) -> None:
        self.timeout_ns = timeout_ns
        self.drain_ns = drain_ns
        self.seen: list[tuple[int, RecordingPart | None]] = []
        self._decisions = list(decisions) or [Decision.GO]

    def __call__(self, now_ns: int, newest: RecordingPart | None) -> Decision:
        self.seen.append((now_ns, newest))
        return self._decisions[min(len(self.seen), len(self._decisions)) - 1]


def play(
    schedule: Schedule,
    engine: Engine,
    control: Steering | None = None,
    clock: Clock | None = None,
    emit: Callable[[RecordingPart], None] | None = None,
) -> Recording:
    """Play it, in modelled time unless a clock is given."""
    return play_engine(schedule, engine, clock or ModelledClock(), emit or ignore, control or Steering())


def ignore(part: RecordingPart) -> None:
    """Emit to nowhere."""


def statuses(recording: Recording) -> list[str]:
    """Each request's status by name."""
    return [Status(int(status)).name.lower() for status in recording.requests["status"]]


def column(recording: Recording, name: str) -> list[Any]:
    """A column of the requests table, missing integers as None."""
    return [None if value == NULL else value for value in recording.requests[name].tolist()]


def deliveries(recording: Recording, request_id: int) -> list[tuple[int, int]]:
    """(step, tokens) of each delivery to a request."""
    assert recording.token_step is not None
    begin, end = recording.token_offsets[request_id : request_id + 2]
    steps, counts = recording.token_step[begin:end], recording.token_count[begin:end]
    return list(zip(steps.tolist(), counts.tolist(), strict=True))


def assert_identical(one: Recording, other: Recording) -> None:
    """Everything but what the wall clock had a hand in."""
    for table in ("requests", "steps"):
        columns, others = getattr(one, table), getattr(other, table)
        assert columns.keys() == others.keys()
        for name in columns.keys() - {"wall_ns"}:
            assert columns[name].dtype == others[name].dtype and columns[name].tolist() == others[name].tolist(), name
    for name in ("token_offsets", "token_step", "token_count", "token_ids"):
        assert getattr(one, name).tolist() == getattr(other, name).tolist(), name
    assert one.token_t_ns is None and other.token_t_ns is None
    assert one.in_flight_request_ns == other.in_flight_request_ns


def in_flight_request_ns(recording: Recording) -> int:
    """The integral of requests in flight from due to end, by a sweep over arrivals and departures."""
    changes = sorted(
        change
        for due_ns, end_ns in zip(column(recording, "due_ns"), column(recording, "end_ns"), strict=True)
        if end_ns is not None
        for change in ((due_ns, 1), (end_ns, -1))
    )
    area_ns = in_flight = since_ns = 0
    for at_ns, change in changes:
        area_ns += in_flight * (at_ns - since_ns)
        in_flight, since_ns = in_flight + change, at_ns
    assert in_flight == 0
    return area_ns
