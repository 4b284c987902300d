"""PagedEngine: continuous batching under a budget of tokens a step, with a cache in blocks and preemption.

In one step every running row gets its next token and the rest of the budget goes to prompts, so that a long prompt is
computed in chunks beside the others' decodes. With blocks, a row takes room as its text grows; when there is none,
whoever joined last gives its room back, waits again, and computes its text anew when it returns. While all rows decode
their steps are advanced together, but not with drafts, where it is a matter of chance what a step gives to whom. Only
for executors that compute nothing: the transformer cannot stop in the middle of a prompt.
"""

from collections import deque
from collections.abc import Mapping, Sequence

from engines.cache_room import CacheRoom, Sequenced
from engines.chunks import Plan, work_of
from engines.drafts import right_tokens
from engines.engine import JSON, OneTokenEach, Request, Step, StepOutput, Stretch
from engines.executor import Batch, Executor, MixedCost, Mixture, StretchCost, description
from engines.policies import Policy, Row
from engines.stretches import steps_before
from engines.waiting import check_size, line_up, take
from results.slots import StepWork


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
        self._budget_tokens = policy.budget_tokens or 0
        capacity_tokens = policy.cache_tokens or getattr(executor, "kv_capacity_tokens", None)
        self._room = CacheRoom(capacity_tokens, policy.block_tokens)
        self._slope_of = cost_model.decode_slope_ps if isinstance(cost_model, StretchCost) else None

    def add_request(self, request: Request) -> None:
        """Queue a request in (due, id) order. ValueError when it can never fit."""
        check_size(request, self._executor.context_tokens, self._room.capacity_tokens)
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
        ended = self._finished()
        return Step(outputs, plan.admitted, ended, ended, work, self._cost_model.mixed_cost_ps(work, mixture))

    def advance(self, now_ps: int, until_ps: int) -> Stretch | None:
        """All decodes that start before `until_ps`, up to the first in which somebody finishes.

        None: only `step` can say what comes next, since a prompt is under way, somebody joins or must give room back.
        """
        rows, slope_of = self._running, self._slope_of
        most_steps = self._decodes_alone() if slope_of else 0
        if not most_steps or slope_of is None or self._next_joins():
            return None
        work, mixture = self._work(Plan([(one, 1) for one in rows], []))
        cost_ps = self._cost_model.mixed_cost_ps(work, mixture)
        slope_ps, holds_steps = slope_of(work)
        if holds_steps is not None and holds_steps < most_steps:
            most_steps = holds_steps
        steps = steps_before(until_ps - now_ps, cost_ps, slope_ps, most_steps)
        ids = [one.row.request_id for one in rows] if self._preempted else None
        stretch = Stretch(steps, cost_ps, slope_ps, work, ids)
        self._decoded(steps)
        stretch.ended = stretch.released = self._finished()
        return stretch

    def describe(self) -> Mapping[str, JSON]:
        """Policy with its options, executor, cost model, and the cache's size."""
        told = description(self._policy, self._executor, self._cost_model)
        return {**told, "chunks_prompts": True, "kv_capacity_tokens": self._room.capacity_tokens}

    def _decodes_alone(self) -> int:
        """In how many steps from now on every row decodes and nobody need give its room back, up to the first end."""
        rows = self._running
        if self._policy.draft_tokens or not rows or len(rows) > self._budget_tokens:
            return 0
        if any(not one.decodes for one in reversed(rows)):
            return 0
        if any(self._may_stop(one.row.request) for one in rows):
            return 0
        to_end = min(one.row.max_tokens - one.row.output_tokens for one in rows)
        return self._room.decodes_with_room(rows, to_end)

    def _next_joins(self) -> bool:
        """Whether who waits longest joins in the next step; if not, nobody does while the rows only grow."""
        left_tokens = self._budget_tokens - len(self._running)
        if not left_tokens or not self._waiting or not self._free_slots:
            return False
        one = self._seated(self._waiting[0])
        return self._room.has_room_beside(self._running, one, min(one.needed_tokens, left_tokens))

    def _decoded(self, steps: int) -> None:
        """Every row has got a token in each of so many steps, the first of which is counted."""
        self._steps += steps
        self.total_slot_steps += (steps - 1) * len(self._running)
        for one in self._running:
            one.computed_tokens += steps
            one.row.output_tokens += steps
            one.row.finished = one.row.output_tokens == one.row.max_tokens
        self._room.decoded(self._running)

    def _finished(self) -> list[int]:
        """Who has its last token leaves."""
        finished = [one for one in self._running if one.row.finished]
        for one in finished:
            self._leave(one)
        return [one.row.request_id for one in finished]

    def _go_on(self, plan: Plan) -> int:
        """The running rows in the order in which they joined, as far as the budget and the cache go; what is left."""
        left_tokens, drafts = self._budget_tokens, self._policy.draft_tokens > 0
        for one in list(self._running):
            tokens = min(one.needed_tokens, left_tokens)
            gone = plan.preempted_requests and one not in self._running
            if tokens and not gone and self._make_room(one, tokens, plan):
                if drafts and one.decodes:
                    tokens += self._draft(one, left_tokens - tokens)
                plan.chunks.append((one, tokens))
                left_tokens -= tokens
        return left_tokens

    def _draft(self, one: Sequenced, left_tokens: int) -> int:
        """How many tokens are drafted beside the row's next: none beyond its answer, and nobody gives room for them."""
        row = one.row
        drafted = min(self._policy.draft_tokens, row.max_tokens - row.output_tokens - 1, left_tokens)
        if not self._room.grow(one, 1 + drafted):
            drafted = 0
        share = self._policy.accepted_fraction
        one.wrong_tokens = drafted - right_tokens(row.request_id, row.output_tokens, drafted, share)
        return drafted

    def _make_room(self, one: Sequenced, tokens: int, plan: Plan) -> bool:
        """Preempt from the end until the row's text has room; False when the row itself had to go."""
        while not self._room.grow(one, tokens):
            last = self._running[-1]
            plan.preempted_requests += 1
            self._preempt(last)
            if last is one:
                return False
        return True

    def _join(self, plan: Plan, left_tokens: int) -> None:
        """Whoever waits, in the order of the queue, while there are slots, budget and room."""
        while left_tokens and self._waiting and self._free_slots:
            one = self._seated(self._waiting[0])
            tokens = min(one.needed_tokens, left_tokens)
            if not self._room.keep(one.row.request) or not self._room.grow(one, tokens):
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
        row = Row(request, request.request_id, 0, prompt_tokens, max_tokens, frozenset(), self._steps - 1)
        return Sequenced(row, prompt_tokens - 1, decodes=True) if self._policy.prefilled else Sequenced(row)

    def _work(self, plan: Plan) -> tuple[StepWork, Mixture]:
        self.total_slot_steps += len(plan.chunks)
        return work_of(plan, self._running, self._policy.slots, len(self._waiting))

    def _commit(self, plan: Plan) -> Sequence[StepOutput]:
        """What has been computed is in the cache; whose text is complete gets a token, and the right drafts."""
        complete, several = [], False
        for one, tokens in plan.chunks:
            one.computed_tokens += tokens - one.wrong_tokens
            if one.needed_tokens <= 0:
                complete.append(one)
                several = several or one.needed_tokens < 0
        outputs = self._give(complete)
        return outputs if not several else self._give_more(complete, outputs)

    def _give(self, rows: list[Sequenced]) -> OneTokenEach:
        """The next token of each."""
        token_ids = self._executor.run(Batch("mixed", [one.row for one in rows]))
        reasons = {}
        for one, token in zip(rows, token_ids, strict=True):
            row = one.row
            row.output_tokens += 1
            one.decodes = True
            stopped = self._stops(row.request, token)
            if row.output_tokens >= row.max_tokens or stopped:
                row.finished = True
                reasons[row.request_id] = "stop" if stopped else "length"
        return OneTokenEach([one.row.request_id for one in rows], token_ids, reasons)

    def _give_more(self, rows: list[Sequenced], first: OneTokenEach) -> list[StepOutput]:
        """To those in whose cache there are right drafts beyond their next token, unless that one has ended them."""
        outputs = {output.request_id: output for output in first}
        while rows := [one for one in rows if one.needed_tokens <= 0 and not one.row.finished]:
            for more in self._give(rows):
                output = outputs[more.request_id]
                output.token_ids = (*output.token_ids, *more.token_ids)
                output.finished, output.finish_reason = more.finished, more.finish_reason
        return list(outputs.values())

    def _may_stop(self, request: Request) -> bool:
        """Whether a token may end it before its time."""
        minds_eos = not request.params.ignore_eos and self._executor.eos_token_id is not None
        return minds_eos or bool(request.params.stop_token_ids)

    def _stops(self, request: Request, token_id: int) -> bool:
        eos = self._executor.eos_token_id
        return token_id in request.params.stop_token_ids or (not request.params.ignore_eos and token_id == eos)

    def _preempt(self, one: Sequenced) -> None:
        self._leave(one)
        one.before_tokens = max(one.before_tokens, one.computed_tokens)
        one.computed_tokens, one.wrong_tokens, one.decodes = 0, 0, False
        self._preempted[one.row.request_id] = one
        line_up(self._waiting, one.row.request)

    def _leave(self, one: Sequenced) -> None:
        self._running.remove(one)
        self._room.leave(one)
        self._free_slots.append(one.row.slot)
        self._free_slots.sort()
