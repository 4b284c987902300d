"""SlotEngine: slots, a policy that fills and frees them, an executor that computes, a cost model that bills.

One step is one forward pass, prefill or decode: who joins is prefilled together; when nobody joins, every row in
a slot is decoded, the finished ones too, because a running batch does not shrink. Reads no clock.
"""

from bisect import insort
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Protocol

from engines.engine import JSON, OneTokenEach, Request, SamplingParams, Step, StepOutput
from engines.policies import Joining, Policy, Row, SlotState
from results.slots import StepWork

NO_STOPS: frozenset[int] = frozenset()
NOBODY_FINISHED: Mapping[int, str] = MappingProxyType({})


@dataclass(slots=True)
class Batch:
    """What an executor runs in one step."""

    kind: str
    """prefill: the rows are new and their prompts are computed together; decode: each gets its next token."""
    rows: Sequence[Row]


class Executor(Protocol):
    """Where a step's tokens come from. It keeps what it needs (cache, last tokens) by `row.slot`."""

    context_tokens: int | None
    """Prompt and output of a request must fit into so many tokens; None: no limit."""
    eos_token_id: int | None
    """Ends a request that does not ignore it; None: there is none."""

    def run(self, batch: Batch) -> Sequence[int]:
        """The next token id of each row; what it gives for a finished row is not delivered."""
        ...

    def describe(self) -> Mapping[str, JSON]:
        """Model, weights, threads; `reads_prompts`: whether it ever looks at a prompt's token ids."""
        ...


class CostModel(Protocol):
    """What a step costs in modelled time, from its counts alone."""

    def cost_ps(self, work: StepWork) -> int:
        """Integer picoseconds, above 0."""
        ...

    def describe(self) -> Mapping[str, JSON]:
        """Its coefficients."""
        ...


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
        self._running: list[Row] = []
        self._free_slots = list(range(policy.slots))
        self._state = SlotState(policy.slots, self._waiting, self._running)
        self._decode_batch = Batch("decode", self._running)
        self._run = executor.run
        self._cost_ps = cost_model.cost_ps if cost_model else _cost_not_told
        self._holds = policy.deliver == "end"
        self._held: dict[int, StepOutput] = {}
        self._finished_rows = 0
        self._steps = 0
        self._quiet_steps = 0
        self._running_ids: list[int] = []
        self._stoppable_rows = 0
        self._kv_tokens = 0

    def add_request(self, request: Request) -> None:
        """Queue a request in (due, id) order. ValueError when it can never fit the context."""
        limit = self._executor.context_tokens
        prompt_tokens = len(request.prompt_token_ids)
        output_tokens = request.params.max_tokens
        if limit is not None and prompt_tokens + output_tokens > limit:
            raise ValueError(
                f"request {request.request_id} needs {prompt_tokens + output_tokens} tokens, the context holds {limit}"
            )
        if not prompt_tokens or output_tokens < 1:
            raise ValueError(f"request {request.request_id} needs at least one prompt and one output token")
        waiting = self._waiting
        if waiting and _queue_key(request) < _queue_key(waiting[-1]):
            ordered = list(waiting)
            insort(ordered, request, key=_queue_key)
            waiting.clear()
            waiting.extend(ordered)
        else:
            waiting.append(request)

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

    def abort(self, request_id: int) -> None:
        """Drop a request wherever it is; nobody joins a running static batch in its place."""
        self._held.pop(request_id, None)
        for position, request in enumerate(self._waiting):
            if request.request_id == request_id:
                self._take([position])
                return
        for row in self._running:
            if row.request_id == request_id:
                self._remove((request_id,))
                return

    def describe(self) -> Mapping[str, JSON]:
        """Policy with its options, executor and cost model."""
        executor = self._executor.describe()
        return {
            "policy": self._policy.name,
            "slots": self._policy.slots,
            "options": dict(self._policy.options),
            "returns": self._policy.deliver,
            "context_tokens": self._executor.context_tokens,
            "executor": executor,
            "cost_model": self._cost_model.describe() if self._cost_model else None,
            "reads_prompts": executor.get("reads_prompts", True),
            "computes_tokens": executor.get("computes_tokens", True),
            "cost_source": executor.get("cost_source", "wall"),
        }

    def step(self, now_ns: int) -> Step:
        """One forward pass: a joint prefill of those who join, else a decode of every row in a slot."""
        self._steps += 1
        if self._waiting and self._free_slots:
            joined = self._join(now_ns)
            if joined:
                return self._prefill(joined)
        if self._quiet_steps > 1:
            self._quiet_steps -= 1
            return self._decode_quietly()
        return self._decode()

    def _prefill(self, rows: list[Row]) -> Step:
        """The joint prefill of the rows that have just joined; each gets its first token."""
        outputs = self._commit(rows, self._run(Batch("prefill", rows)))
        work = self._prefill_work(rows)
        admitted = [(row.request_id, row.slot) for row in rows]
        return self._settle(Step(outputs, admitted, list(outputs.finish_reasons), (), work, self._cost_ps(work)))

    def _decode(self) -> Step:
        """Every row in a slot is computed; those that have not finished yield a token."""
        outputs = self._commit(self._running, self._run(self._decode_batch))
        work = self._decode_work(len(outputs.request_ids))
        return self._settle(Step(outputs, (), list(outputs.finish_reasons), (), work, self._cost_ps(work)))

    def _decode_quietly(self) -> Step:
        """`_decode` for a step in which no row has finished and none can: the hot path."""
        rows = self._running
        token_ids = self._run(self._decode_batch)
        for row in rows:
            row.output_tokens += 1
        work = self._decode_work(len(rows))
        return Step(OneTokenEach(self._running_ids, token_ids, NOBODY_FINISHED), (), (), (), work, self._cost_ps(work))

    def _settle(self, step: Step) -> Step:
        """Let go of whom the policy lets go, and work out for how long nobody can finish."""
        if self._finished_rows or step.ended:
            self._finished_rows += len(step.ended)
            step.released = self._release()
        if self._holds:
            step.outputs = self._hold(step.outputs, step.released)
        self._quiet_steps = self._steps_without_an_end()
        return step

    def _steps_without_an_end(self) -> int:
        """1 above the number of decodes in which surely nobody finishes; 0 where that is not worth knowing."""
        rows = self._running
        if self._finished_rows or self._stoppable_rows or self._holds or not rows:
            return 0
        self._running_ids = [row.request_id for row in rows]
        return min([row.max_tokens - row.output_tokens for row in rows])

    def _joining(self, now_ns: int) -> Joining:
        self._state.now_ns = now_ns
        return self._policy.join(self._state)

    def _join(self, now_ns: int) -> list[Row]:
        joining = self._joining(now_ns)
        if not joining.positions:
            return []
        self._state.planned = joining.planned
        rows = []
        for request in self._take(joining.positions):
            params = request.params
            stops = self._stops(params) if params.stop_token_ids or not params.ignore_eos else NO_STOPS
            rows.append(
                Row(
                    request,
                    request.request_id,
                    self._free_slots.pop(0),
                    len(request.prompt_token_ids),
                    params.max_tokens,
                    stops,
                    self._steps - 1,
                )
            )
            if stops:
                self._stoppable_rows += 1
        self._running.extend(rows)
        return rows

    def _stops(self, params: SamplingParams) -> frozenset[int]:
        eos = self._executor.eos_token_id
        ends = () if params.ignore_eos or eos is None else (eos,)
        return frozenset((*params.stop_token_ids, *ends))

    def _take(self, positions: Sequence[int]) -> list[Request]:
        """Remove and return those at the positions, in the positions' order."""
        waiting = self._waiting
        if len(positions) == 1 and not positions[0] and not self._state.flushed_requests:
            return [waiting.popleft()]
        front = [waiting.popleft() for _ in range(max(positions) + 1)]
        taken = [front[position] for position in positions]
        if len(taken) < len(front):
            chosen = set(positions)
            waiting.extendleft(front[at] for at in range(len(front) - 1, -1, -1) if at not in chosen)
        flushed = self._state.flushed_requests
        if flushed:
            self._state.flushed_requests = flushed - sum(position < flushed for position in positions)
        return taken

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
        self._kv_tokens = kv_tokens = self._kv_tokens + yielding_slots
        if self._cached:
            return StepWork("decode", 0, yielding_slots, finished, 0, queued, empty - queued, waiting, 0, 0, kv_tokens)
        tokens = self._recomputed()
        return StepWork("decode", 0, yielding_slots, finished, 0, queued, empty - queued, waiting, tokens, 0, 0)

    def _prefill_work(self, rows: Sequence[Row]) -> StepWork:
        """The counts of a joint prefill: the rows are those who joined, everybody else in a slot is stalled."""
        self._state.last_kind = "prefill"
        joined = len(rows)
        running = len(self._running)
        waiting = len(self._waiting)
        empty = self._slots - running
        queued = min(empty, waiting)
        finished = self._finished_rows
        self.total_slot_steps += joined + finished
        self.wasted_slot_steps += finished
        lengths = [row.prompt_tokens for row in rows]
        real = sum(lengths)
        padding = max(lengths) * joined - real
        self._kv_tokens += real
        kv_tokens = self._kv_tokens if self._cached else 0
        stalled = running - joined - finished
        return StepWork(
            "prefill", joined, 0, finished, stalled, queued, empty - queued, waiting, real, padding, kv_tokens
        )

    def _recomputed(self) -> int:
        return sum(row.prompt_tokens + row.output_tokens - 1 for row in self._running)

    def _release(self) -> Sequence[int]:
        if self._running and self._steps - self._running[0].joined_step < self._policy.least_steps:
            return ()
        leaving = self._policy.leave(self._running)
        if leaving:
            self._remove(leaving)
        return leaving

    def _remove(self, request_ids: Sequence[int]) -> None:
        staying = []
        for row in self._running:
            if row.request_id not in request_ids:
                staying.append(row)
                continue
            self._kv_tokens -= row.prompt_tokens + row.output_tokens - 1
            self._finished_rows -= row.finished
            self._stoppable_rows -= bool(row.stop_token_ids)
            insort(self._free_slots, row.slot)
        self._running[:] = staying
        self._quiet_steps = 0

    def _hold(self, outputs: Sequence[StepOutput], released: Sequence[int]) -> list[StepOutput]:
        """Keep what would be delivered now; deliver what the released have got since they joined."""
        for output in outputs:
            held = self._held.setdefault(output.request_id, StepOutput(output.request_id, ()))
            held.token_ids = (*held.token_ids, *output.token_ids)
            held.finished, held.finish_reason = output.finished, output.finish_reason
        return [self._held.pop(request_id) for request_id in released]


def _cost_not_told(work: StepWork) -> None:
    return None


def _queue_key(request: Request) -> tuple[int, int]:
    return request.arrival_ns, request.request_id
