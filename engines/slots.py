"""SlotEngine: slots, a policy that fills and frees them, an executor that computes, a cost model that bills.

One step is one forward pass, prefill or decode: who joins is prefilled together; when nobody joins, every row in
a slot is decoded, the finished ones too, because a running batch does not shrink. Reads no clock.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from engines.engine import JSON, OneTokenEach, Request, SamplingParams, Step, StepOutput, Stretch
from engines.executor import Batch, CostModel, Executor, StretchCost, description
from engines.policies import Joining, Policy, Row, SlotState, all_when_all_finished, finished_rows
from engines.seats import Seats
from engines.stretches import steps_before
from engines.waiting import check_size, fitting, line_up, take
from results.slots import StepWork

__all__ = ["Batch", "CostModel", "Executor", "SlotEngine"]
PS_PER_NS = 1_000
NO_STOPS: frozenset[int] = frozenset()
NOBODY_FINISHED: Mapping[int, str] = MappingProxyType({})


class SlotEngine:
    """An engine of B slots. `total_slot_steps` and `wasted_slot_steps` count what its steps have computed."""

    def __init__(self, policy: Policy, executor: Executor, cost_model: CostModel | None = None) -> None:
        """cost_model None: its steps cannot be billed in modelled time."""
        self.total_slot_steps = 0
        self.wasted_slot_steps = 0
        self._policy = policy
        self._slots, self._cached = policy.slots, policy.cached
        self._executor = executor
        self._cost_model = cost_model
        self._waiting: deque[Request] = deque()
        self._seats = Seats(policy.slots)
        self._running = self._seats.rows
        self._state = SlotState(policy.slots, self._waiting, self._running)
        self._decode_batch = Batch("decode", self._running)
        self._run = executor.run
        self._cost_ps = cost_model.cost_ps if cost_model else _cost_not_told
        self._holds = policy.deliver == "end"
        self._held: dict[int, StepOutput] = {}
        self._steps = 0
        self._quiet_steps = 0
        self._running_ids: list[int] | None = None
        self._kv_capacity_tokens = getattr(executor, "kv_capacity_tokens", None)
        self._leaves_at_once = policy.leave is finished_rows and not policy.least_steps
        self._leaves_together = policy.leave is all_when_all_finished
        self._answer: Joining | None = None
        self._advances = False
        self._stretch_cost = cost_model if isinstance(cost_model, StretchCost) and self._can_advance() else None

    @property
    def first_come(self) -> tuple[int, StretchCost, int | None] | None:
        """Slots, costs and size of the cache, where nobody need be asked how it goes on; None where somebody must."""
        limits, cost = (self._executor.eos_token_id, self._executor.context_tokens), self._stretch_cost
        plain = self._policy.first_come and limits == (None, None)
        return (self._slots, cost, self._kv_capacity_tokens) if plain and cost else None

    def add_request(self, request: Request) -> None:
        """Queue a request in (due, id) order. ValueError when it can never fit the context."""
        check_size(request, self._executor.context_tokens, self._kv_capacity_tokens)
        line_up(self._waiting, request)
        self._answer = None

    def has_work(self) -> bool:
        """Whether any request is waiting or in a slot."""
        return bool(self._running or self._waiting)

    def ready_ns(self, now_ns: int) -> int | None:
        """Now while a batch runs or can be formed; else when the policy wants to be asked again."""
        if self._running:
            return now_ns
        if not self._waiting:
            return None
        joining = self._joining(now_ns)
        return now_ns if joining.positions else joining.not_before_ns

    def flush(self) -> None:
        """Whoever waits now is not held back for a fuller batch."""
        self._state.flushed_requests = len(self._waiting)
        self._answer = None

    def abort(self, request_id: int) -> None:
        """Drop a request wherever it is; nobody joins a running static batch in its place."""
        self._answer = None
        self._held.pop(request_id, None)
        for position, request in enumerate(self._waiting):
            if request.request_id == request_id:
                self._take([position])
                return
        for row in self._running:
            if row.request_id == request_id:
                self._seats.remove((request_id,))
                self._running_ids = None
                self._quiet_steps = 0
                return

    def describe(self) -> Mapping[str, JSON]:
        """Policy with its options, executor and cost model."""
        return description(self._policy, self._executor, self._cost_model)

    def step(self, now_ns: int) -> Step:
        """One forward pass: a joint prefill of those who join, else a decode of every row in a slot."""
        self._steps += 1
        if self._waiting and self._seats.free_slots:
            joined = self._join(now_ns)
            if joined:
                return self._prefill(joined)
        self._seats.decoded()
        if self._quiet_steps > 1:
            self._quiet_steps -= 1
            return self._decode_quietly()
        return self._decode()

    def advance(self, now_ps: int, until_ps: int) -> Stretch | None:
        """All decodes that start before `until_ps`, up to the first in which somebody finishes or may join.

        None: only `step` can say what comes next. The steps are those that `step` would make, to the bit.
        """
        seats, cost_model = self._seats, self._stretch_cost
        finished = seats.finished_rows
        if cost_model is None or not self._running or seats.stoppable_rows or (finished and not self._leaves_together):
            return None
        self._advances, self._quiet_steps = True, 0
        most_steps = to_end = seats.steps_to_an_end() or self._steps_to_release()
        if self._waiting and seats.free_slots:
            joining = self._asked(now_ps // PS_PER_NS)
            if joining.positions:
                self._answer = joining  # `step` comes next and need not ask again
                return None
            if joining.holds_steps is not None and joining.holds_steps < most_steps:
                most_steps = joining.holds_steps
            if joining.not_before_ns is not None:
                until_ps = min(until_ps, joining.not_before_ns * PS_PER_NS)
        rows = len(self._running)
        work = self._decode_work(rows - finished)
        cost_ps = cost_model.cost_ps(work)
        slope_ps, holds_steps = cost_model.decode_slope_ps(work)
        if holds_steps is not None and holds_steps < most_steps:
            most_steps = holds_steps
        steps = steps_before(until_ps - now_ps, cost_ps, slope_ps, most_steps)
        self._decoded_more(steps - 1, rows, finished)
        stretch = Stretch(steps, cost_ps, slope_ps, work)
        if steps == to_end:
            self._end(stretch)
        return stretch

    def _can_advance(self) -> bool:
        """Nothing is computed that somebody would miss, nothing is held back."""
        return self._cached and not self._holds and not self._executor.describe().get("computes_tokens", True)

    def _decoded_more(self, more_steps: int, rows: int, finished_rows: int) -> None:
        """Count a stretch: its first step's work has been counted, `more_steps` like it follow."""
        self._seats.advance(more_steps + 1)
        self._steps += more_steps + 1
        if more_steps:
            self._seats.kv_tokens += more_steps * (rows - finished_rows)
            self.total_slot_steps += more_steps * rows
            self.wasted_slot_steps += more_steps * finished_rows

    def _end(self, stretch: Stretch) -> None:
        """In its last step somebody gets the last token, or all who have finished may leave at last."""
        stretch.ended = ended = self._seats.end(self._leaves_at_once)
        self._running_ids = None
        stretch.released = ended if self._leaves_at_once else self._release()

    def _steps_to_release(self) -> int:
        """When all have finished: after how many steps the batch has run as long as it must."""
        return max(1, self._policy.least_steps - self._steps + self._running[0].joined_step)

    def _prefill(self, rows: list[Row]) -> Step:
        """The joint prefill of the rows that have just joined; each gets its first token."""
        outputs = self._commit(rows, self._run(Batch("prefill", rows)))
        self._seats.first_token(rows)
        work = self._prefill_work(rows)
        admitted = [(row.request_id, row.slot) for row in rows]
        return self._settle(Step(outputs, admitted, list(outputs.finish_reasons), (), work, self._cost_ps(work)))

    def _decode(self) -> Step:
        """Every row in a slot is computed; those that have not finished yield a token."""
        self._seats.catch_up()
        outputs = self._commit(self._running, self._run(self._decode_batch))
        work = self._decode_work(len(outputs.request_ids))
        return self._settle(Step(outputs, (), list(outputs.finish_reasons), (), work, self._cost_ps(work)))

    def _decode_quietly(self) -> Step:
        """`_decode` for a step in which no row has finished and none can: the hot path."""
        rows = self._running
        if self._seats.pending_steps:
            self._seats.catch_up()
        ids = self._running_ids
        if ids is None:
            ids = self._running_ids = [row.request_id for row in rows]
        token_ids = self._run(self._decode_batch)
        for row in rows:
            row.output_tokens += 1
        work = self._decode_work(len(rows))
        return Step(OneTokenEach(ids, token_ids, NOBODY_FINISHED), (), (), (), work, self._cost_ps(work))

    def _settle(self, step: Step) -> Step:
        """Let go of whom the policy lets go, and work out for how long nobody can finish."""
        if self._seats.finished_rows or step.ended:
            self._seats.finished_rows += len(step.ended)
            step.released = self._release()
        if self._holds:
            step.outputs = self._hold(step.outputs, step.released)
        self._quiet_steps = 0 if self._advances else self._steps_without_an_end()
        return step

    def _steps_without_an_end(self) -> int:
        """1 above the number of decodes in which surely nobody finishes; 0 where that is not worth knowing."""
        seats = self._seats
        if seats.finished_rows or seats.stoppable_rows or self._holds or not seats.rows:
            return 0
        return seats.steps_to_an_end()

    def _joining(self, now_ns: int) -> Joining:
        self._state.now_ns = now_ns
        return self._policy.join(self._state)

    def _asked(self, now_ns: int) -> Joining:
        """The policy's answer, as far as the cache has room for those who would join."""
        if self._policy.reads_rows:
            self._seats.catch_up()
        joining = self._joining(now_ns)
        if not joining.positions or self._kv_capacity_tokens is None:
            return joining
        return fitting(joining, self._waiting, self._kv_capacity_tokens - self._seats.reserved_tokens)

    def _join(self, now_ns: int) -> list[Row]:
        joining, self._answer = self._answer or self._asked(now_ns), None
        if not joining.positions:
            return []
        self._state.planned = joining.planned
        self._running_ids = None
        return [self._seat(request) for request in self._take(joining.positions)]

    def _seat(self, request: Request) -> Row:
        params = request.params
        stops = self._stops(params) if params.stop_token_ids or not params.ignore_eos else NO_STOPS
        return self._seats.take(request, stops, self._steps - 1)

    def _stops(self, params: SamplingParams) -> frozenset[int]:
        eos = self._executor.eos_token_id
        ends = () if params.ignore_eos or eos is None else (eos,)
        return frozenset((*params.stop_token_ids, *ends))

    def _take(self, positions: Sequence[int]) -> list[Request]:
        """Remove and return those at the positions, in the positions' order."""
        flushed = self._state.flushed_requests
        if flushed:
            self._state.flushed_requests = flushed - sum(position < flushed for position in positions)
        return take(self._waiting, positions)

    def _commit(self, rows: Sequence[Row], tokens: Sequence[int]) -> OneTokenEach:
        """Give each unfinished row its token, and see who has finished with it."""
        request_ids = []
        token_ids = []
        reasons = {}
        for row, token in zip(rows, tokens, strict=True):
            if row.finished:
                continue
            row.output_tokens += 1
            request_ids.append(row.request_id)
            token_ids.append(token)
            if row.output_tokens >= row.max_tokens or token in row.stop_token_ids:
                row.finished = True
                reasons[row.request_id] = "stop" if token in row.stop_token_ids else "length"
        return OneTokenEach(request_ids, token_ids, reasons)

    def _decode_work(self, yielding_slots: int) -> StepWork:
        """The counts of a decode: each row in a slot yields a token or has finished."""
        self._state.last_kind = "decode"
        running = len(self._running)
        waiting = len(self._waiting)
        empty = self._slots - running
        queued = empty if empty < waiting else waiting
        finished = running - yielding_slots
        self.total_slot_steps += running
        if finished:
            self.wasted_slot_steps += finished
        self._seats.kv_tokens = kv_tokens = self._seats.kv_tokens + yielding_slots
        if self._cached:
            return StepWork("decode", 0, yielding_slots, finished, 0, queued, empty - queued, waiting, 0, 0, kv_tokens)
        tokens = self._recomputed()
        return StepWork("decode", 0, yielding_slots, finished, 0, queued, empty - queued, waiting, tokens, 0, 0)

    def _prefill_work(self, rows: Sequence[Row]) -> StepWork:
        """The counts of a joint prefill: the rows are those who joined, everybody else in a slot is stalled."""
        self._state.last_kind = "prefill"
        joined, running, waiting = len(rows), len(self._running), len(self._waiting)
        empty = self._slots - running
        queued = min(empty, waiting)
        finished = self._seats.finished_rows
        self.total_slot_steps += joined + finished
        self.wasted_slot_steps += finished
        if joined == 1:
            real, padding = rows[0].prompt_tokens, 0
        else:
            lengths = [row.prompt_tokens for row in rows]
            real = sum(lengths)
            padding = max(lengths) * joined - real
        kv_tokens = self._seats.kv_tokens if self._cached else 0
        stalled = running - joined - finished
        return StepWork(
            "prefill", joined, 0, finished, stalled, queued, empty - queued, waiting, real, padding, kv_tokens
        )

    def _recomputed(self) -> int:
        return sum(row.prompt_tokens + row.output_tokens - 1 for row in self._running)

    def _release(self) -> Sequence[int]:
        if self._running and self._steps - self._running[0].joined_step < self._policy.least_steps:
            return ()
        self._seats.catch_up()
        leaving = self._policy.leave(self._running)
        if leaving:
            self._seats.remove(leaving)
            self._running_ids = None
            self._quiet_steps = 0
        return leaving

    def _hold(self, outputs: Sequence[StepOutput], released: Sequence[int]) -> list[StepOutput]:
        """Keep what would be delivered now; deliver what the released have got since they joined."""
        for output in outputs:
            held = self._held.setdefault(output.request_id, StepOutput(output.request_id, ()))
            held.token_ids = (*held.token_ids, *output.token_ids)
            held.finished, held.finish_reason = output.finished, output.finish_reason
        return [self._held.pop(request_id) for request_id in released]


def _cost_not_told(work: StepWork) -> None:
    return None

