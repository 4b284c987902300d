"""PagedEngine: continuous batching under a budget of tokens a step, with a cache in blocks and preemption.

In one step every running row gets its next token and the rest of the budget goes to prompts, so that a long prompt is
computed in chunks beside the others' decodes. With blocks, a row takes room as its text grows; when there is none,
whoever joined last gives its room back, waits again, and computes its text anew when it returns. Only for executors
that compute nothing: the transformer cannot stop in the middle of a prompt.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

from engines.engine import JSON, OneTokenEach, Request, Step
from engines.executor import Batch, Executor, MixedCost, Mixture
from engines.policies import Policy, Row
from engines.waiting import check_size, kept_tokens, line_up, take
from results.slots import StepWork


@dataclass(slots=True, eq=False)
class Sequenced:
    """A row with what is computed of its text."""

    row: Row
    computed_tokens: int = 0
    """In the cache."""
    before_tokens: int = 0
    """The most it has had in the cache before it was preempted."""
    blocks: int = 0
    decodes: bool = False
    """Whether it has got a token since it last joined."""

    @property
    def needed_tokens(self) -> int:
        """To be computed before its next token comes: 1 in a decode."""
        return self.row.prompt_tokens + self.row.output_tokens - self.computed_tokens


@dataclass(slots=True)
class Plan:
    """What one step does."""

    chunks: list[tuple[Sequenced, int]]
    admitted: list[tuple[int, int]]
    preempted_requests: int = 0


class PagedEngine:
    """An engine of B slots, as `engines.engine.Engine` has it."""

    def __init__(self, policy: Policy, executor: Executor, cost_model: MixedCost) -> None:
        """ValueError for an executor that computes."""
        if executor.describe().get("computes_tokens", True):
            raise ValueError(f"engine {policy.name} needs an executor that computes nothing: executor=cost or roofline")
        self.total_slot_steps = 0
        self.wasted_slot_steps = 0
        self._policy, self._executor, self._cost_model = policy, executor, cost_model
        self._waiting: deque[Request] = deque()
        self._running: list[Sequenced] = []
        self._free_slots = list(range(policy.slots))
        self._preempted: dict[int, Sequenced] = {}
        self._steps = 0
        capacity = policy.cache_tokens or getattr(executor, "kv_capacity_tokens", None)
        self._block_tokens = policy.block_tokens or 1
        self._capacity_tokens = None if capacity is None else capacity // self._block_tokens * self._block_tokens

    def add_request(self, request: Request) -> None:
        """Queue a request in (due, id) order. ValueError when it can never fit."""
        check_size(request, self._executor.context_tokens, self._capacity_tokens)
        line_up(self._waiting, request)

    def has_work(self) -> bool:
        """Whether any request is waiting or in a slot."""
        return bool(self._running or self._waiting)

    def ready_ns(self, now_ns: int) -> int | None:
        """Now, while there is work: nothing is held back."""
        return now_ns if self.has_work() else None

    def flush(self) -> None:
        """Nothing is held back."""

    def abort(self, request_id: int) -> None:
        """Drop a request wherever it is."""
        self._preempted.pop(request_id, None)
        for position, request in enumerate(self._waiting):
            if request.request_id == request_id:
                take(self._waiting, [position])
                return
        for one in self._running:
            if one.row.request_id == request_id:
                self._leave(one)
                return

    def step(self, now_ns: int) -> Step:
        """Plan, compute, commit."""
        self._steps += 1
        plan = Plan([], [])
        left_tokens = self._go_on(plan)
        if not plan.preempted_requests:
            self._join(plan, left_tokens)
        work, mixture = self._work(plan)
        outputs = self._commit(plan)
        ended = list(outputs.finish_reasons)
        for one in [one for one in self._running if one.row.finished]:
            self._leave(one)
        return Step(outputs, plan.admitted, ended, ended, work, self._cost_model.mixed_cost_ps(work, mixture))

    def describe(self) -> Mapping[str, JSON]:
        """Policy with its options, executor and cost model."""
        executor = self._executor.describe()
        return {
            "policy": self._policy.name,
            "slots": self._policy.slots,
            "options": dict(self._policy.options),
            "returns": "stream",
            "context_tokens": self._executor.context_tokens,
            "kv_capacity_tokens": self._capacity_tokens,
            "executor": executor,
            "cost_model": self._cost_model.describe(),
            "reads_prompts": executor.get("reads_prompts", True),
            "computes_tokens": executor.get("computes_tokens", True),
            "cost_source": executor.get("cost_source", "wall"),
        }

    def _go_on(self, plan: Plan) -> int:
        """The running rows in the order in which they joined, as far as the budget and the cache go; what is left."""
        left_tokens = self._policy.budget_tokens or 0
        for one in list(self._running):
            tokens = min(one.needed_tokens, left_tokens)
            if tokens and one in self._running and self._make_room(one, tokens, plan):
                plan.chunks.append((one, tokens))
                left_tokens -= tokens
        return left_tokens

    def _make_room(self, one: Sequenced, tokens: int, plan: Plan) -> bool:
        """Preempt from the end until the row's text has room; False when the row itself had to go."""
        while not self._grow(one, tokens):
            last = self._running[-1]
            plan.preempted_requests += 1
            self._preempt(last)
            if last is one:
                return False
        return True

    def _grow(self, one: Sequenced, tokens: int) -> bool:
        """Take the blocks that so many more tokens need, if they are there."""
        if self._capacity_tokens is None or not self._policy.block_tokens:
            return True
        wanted = -(-(one.computed_tokens + tokens) // self._block_tokens)
        used = sum(other.blocks for other in self._running) - one.blocks
        if (used + wanted) * self._block_tokens > self._capacity_tokens:
            return False
        one.blocks = wanted
        return True

    def _join(self, plan: Plan, left_tokens: int) -> None:
        """Whoever waits, in the order of the queue, while there are slots, budget and room."""
        while left_tokens and self._waiting and self._free_slots:
            one = self._seated(self._waiting[0])
            tokens = min(one.needed_tokens, left_tokens)
            if not self._has_reserve(one) or not self._grow(one, tokens):
                return
            self._waiting.popleft()
            one.row.slot = self._free_slots.pop(0)
            if self._preempted.pop(one.row.request_id, None) is None:
                plan.admitted.append((one.row.request_id, one.row.slot))
            self._running.append(one)
            plan.chunks.append((one, tokens))
            left_tokens -= tokens

    def _seated(self, request: Request) -> Sequenced:
        """As it was when it was preempted, or new."""
        known = self._preempted.get(request.request_id)
        if known is not None:
            return known
        prompt_tokens, max_tokens = len(request.prompt_token_ids), request.params.max_tokens
        return Sequenced(
            Row(request, request.request_id, 0, prompt_tokens, max_tokens, frozenset(), self._steps - 1)
        )

    def _has_reserve(self, one: Sequenced) -> bool:
        """Without blocks, room for a whole answer is kept from the start."""
        if self._capacity_tokens is None or self._policy.block_tokens:
            return True
        kept = sum(kept_tokens(other.row.request) for other in self._running)
        return kept + kept_tokens(one.row.request) <= self._capacity_tokens

    def _work(self, plan: Plan) -> tuple[StepWork, Mixture]:
        mixture = Mixture()
        prefilling = decoding = prefill_tokens = recomputed = 0
        for one, tokens in plan.chunks:
            after = one.computed_tokens + tokens
            if one.decodes:
                decoding += 1
                mixture.decode_kv_tokens += after
                continue
            prefilling += 1
            prefill_tokens += tokens
            recomputed += max(0, min(after, one.before_tokens) - one.computed_tokens)
            mixture.prefill_kv_tokens += after
            mixture.attended_tokens += tokens * one.computed_tokens + tokens * (tokens + 1) // 2
        running, waiting = len(self._running), len(self._waiting)
        empty = self._policy.slots - running
        queued = min(empty, waiting)
        self.total_slot_steps += len(plan.chunks)
        kind = "mixed" if prefilling and decoding else "prefill" if prefilling else "decode"
        kv_tokens = sum(one.computed_tokens for one in self._running) + sum(tokens for _, tokens in plan.chunks)
        work = StepWork(
            kind, prefilling, decoding, 0, running - prefilling - decoding, queued, empty - queued, waiting,
            prefill_tokens, 0, kv_tokens, plan.preempted_requests, recomputed,
        )  # fmt: skip
        return work, mixture

    def _commit(self, plan: Plan) -> OneTokenEach:
        """What has been computed is in the cache; whose text is complete gets a token."""
        complete = []
        for one, tokens in plan.chunks:
            one.computed_tokens += tokens
            if one.needed_tokens == 0:
                complete.append(one)
        token_ids = self._executor.run(Batch("mixed", [one.row for one in complete]))
        reasons = {}
        for one, token in zip(complete, token_ids, strict=True):
            row = one.row
            row.output_tokens += 1
            one.decodes = True
            stopped = self._stops(row.request, token)
            if row.output_tokens >= row.max_tokens or stopped:
                row.finished = True
                reasons[row.request_id] = "stop" if stopped else "length"
        return OneTokenEach([one.row.request_id for one in complete], token_ids, reasons)

    def _stops(self, request: Request, token_id: int) -> bool:
        eos = self._executor.eos_token_id
        return token_id in request.params.stop_token_ids or (not request.params.ignore_eos and token_id == eos)

    def _preempt(self, one: Sequenced) -> None:
        self._leave(one)
        one.before_tokens = max(one.before_tokens, one.computed_tokens)
        one.computed_tokens, one.blocks, one.decodes = 0, 0, False
        self._preempted[one.row.request_id] = one
        line_up(self._waiting, one.row.request)

    def _leave(self, one: Sequenced) -> None:
        self._running.remove(one)
        self._free_slots.append(one.row.slot)
        self._free_slots.sort()
