"""The stepping driver and an engine of slots in one loop, for very long runs of continuous batching in modelled time.

What `play_compact` does with a slot engine, written as one function over numbers: no object is made for a step or a
request. It is a second way to the same rows, which a test compares to the bit, and knows only what needs no policy to
be asked: first come, first served, out as soon as finished; nobody waits for others, nobody is aborted.
"""

from array import array
from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush

import numpy as np

from engines.engine import Engine, Request, SamplingParams
from engines.executor import StretchCost
from engines.slots import SlotEngine
from engines.stretches import duration_ps, steps_before
from engines.waiting import check_size
from loadgen.drive import Decision, no_garbage_collection
from loadgen.due import NEVER_NS
from loadgen.fused_rows import CHUNK_NUMBERS, FusedRows
from results.columns import NULL, Table
from results.compact import Compact
from results.schedule import Schedule
from results.slots import StepWork
from results.status import Status

PS_PER_NS = 1_000
UNLIMITED_TOKENS = 2**62
Poll = Callable[[int, int], Decision]
"""(time of the run in ns, requests ended by then) -> how to go on; asked every few thousand stretches."""
Laws = tuple[int, int, int, int]
"""Of a decode of so many rows: `StretchCost` says what they mean."""


def can_fuse(schedule: Schedule, engine: Engine) -> bool:
    """Whether `play_fused` can play it."""
    stops = schedule.recipe.get("sampling", {}).get("stop_token_ids")
    plain = not stops and not len(schedule.after_ids)
    return plain and isinstance(engine, SlotEngine) and engine.first_come is not None


def play_fused(schedule: Schedule, engine: Engine, poll: Poll = lambda now_ns, ended_requests: Decision.GO) -> Compact:
    """The run of a fresh engine. ValueError for one that has to be asked."""
    if not can_fuse(schedule, engine) or not isinstance(engine, SlotEngine) or engine.first_come is None:
        raise ValueError("a fused run needs an engine that serves whoever comes first, and nobody who waits for others")
    loop = _Loop(schedule, poll, *engine.first_come)
    with no_garbage_collection():
        loop.run()
    return loop.result()


class _Loop:
    """The state of a run, and what comes out of it."""

    def __init__(
        self, schedule: Schedule, poll: Poll, slots: int, cost_model: StretchCost, capacity_tokens: int | None
    ) -> None:
        self._schedule, self._poll = schedule, poll
        self._slots, self._cost_model = slots, cost_model
        self._laws_of: Callable[[int], Laws] | None = getattr(cost_model, "decode_laws_ps", None)
        self._laws: dict[int, Laws] = {}
        self._capacity_tokens = UNLIMITED_TOKENS if capacity_tokens is None else capacity_tokens
        self._due_ns, self._prompts, self._outputs, self._kept = (
            array("q", column.tobytes())
            for column in (
                schedule.due_ns, schedule.prompt_tokens, schedule.output_tokens,
                schedule.prompt_tokens + schedule.output_tokens - 1,
            )
        )  # fmt: skip
        """Kept: tokens in the cache when a request finishes, everything but its last."""
        rows = len(schedule)
        self._handed_ns, self._end_ns, self._admitted, self._last, self._slot = (
            array("q", [NULL]) * rows for _ in range(5)
        )
        self._errors: dict[int, str] = {}
        self._unlike_ok: dict[int, Status] = {}
        self._stopped_ns: int | None = None
        self._polls = False
        self._flight_ns = self._ended_requests = 0
        self._rows = FusedRows()
        self._free = list(range(slots))
        self._ends: list[tuple[int, int, int]] = []
        """(count of decodes in which its last token comes, order of joining, request id)."""
        self._waiting: deque[int] = deque()
        self._now_ps = self._step = self._decodes = self._running = self._joined = 0
        self._kv_tokens = self._reserved_tokens = 0
        self._work = StepWork("decode", 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)

    def run(self) -> None:
        """To the last token, or until somebody stops it."""
        due_ns, waiting, pointer, rows = self._due_ns, self._waiting, 0, len(self._due_ns)
        prefilled = False
        while True:
            now_ns = self._now_ps // PS_PER_NS
            while pointer < rows and due_ns[pointer] <= now_ns:
                self._take(pointer, now_ns)
                pointer += 1
            if self._polls:
                rows = self._asked_on(now_ns, pointer, rows)
            if not self._running and not waiting:
                if pointer == rows:
                    return
                self._now_ps = max(self._now_ps, due_ns[pointer] * PS_PER_NS)
                continue
            asks = bool(waiting) and self._running < self._slots
            if asks and not (prefilled and self._running):
                joining = self._fitting()
                if joining:
                    self._prefill(joining)
                    prefilled = True
                    continue
            until_ns = due_ns[pointer] if pointer < rows else NEVER_NS
            self._decode(until_ns, 1 if asks and prefilled else UNLIMITED_TOKENS)
            prefilled = False

    def result(self) -> Compact:
        """The rows, as `results.compact.compact` has them."""
        table = self._rows.table(self._slots)
        schedule, rows = self._schedule, len(self._schedule)
        columns = {"handed_ns": self._handed_ns, "end_ns": self._end_ns, "admitted_step": self._admitted,
                   "last_step": self._last, "slot": self._slot}  # fmt: skip
        requests: Table = {name: np.array(values, dtype=np.int64) for name, values in columns.items()}
        requests["request_id"], requests["due_ns"] = np.arange(rows, dtype=np.int64), schedule.due_ns.copy()
        requests["ended_step"] = requests["last_step"].copy()
        requests["ended_step"][[*self._unlike_ok]] = NULL
        requests["released_step"] = requests["ended_step"].copy()
        requests["status"] = np.full(rows, int(Status.OK), dtype=np.int64)
        requests["status"][[*self._unlike_ok]] = [*self._unlike_ok.values()]
        requests["status"][requests["handed_ns"] == NULL] = int(Status.NOT_DISPATCHED)
        requests["prompt_tokens"], requests["output_tokens_asked"] = schedule.prompt_tokens, schedule.output_tokens
        return Compact(schedule, requests, table, self._flight_ns, self._stopped_ns, self._errors)

    def _asked_on(self, now_ns: int, handed_requests: int, rows: int) -> int:
        """How many requests will be handed over in all: no more than there are now, once somebody stops the run."""
        self._polls = False
        decision = self._poll(now_ns, self._ended_requests)
        if decision is Decision.GO:
            return rows
        if self._stopped_ns is None:
            self._stopped_ns = now_ns
        if decision is Decision.CANCEL:
            self._give_up(now_ns)
        return handed_requests

    def _give_up(self, now_ns: int) -> None:
        """Whoever waits or runs is cancelled."""
        seated = [request_id for _, _, request_id in self._ends]
        for request_id in (*self._waiting, *seated):
            self._end_ns[request_id], self._unlike_ok[request_id] = now_ns, Status.CANCELLED
        for request_id in seated:
            self._last[request_id] = self._step - 1
        self._flight_ns += now_ns * (len(self._waiting) + len(seated))
        self._waiting.clear()
        self._ends.clear()
        self._running = 0

    def _take(self, request_id: int, now_ns: int) -> None:
        """Queue it, or refuse what can never fit."""
        self._handed_ns[request_id] = now_ns
        self._flight_ns -= self._due_ns[request_id]
        if self._kept[request_id] <= self._capacity_tokens:
            self._waiting.append(request_id)
            return
        request = Request(request_id, range(self._prompts[request_id]), SamplingParams(self._outputs[request_id]), 0)
        try:
            check_size(request, None, self._capacity_tokens)
        except ValueError as error:
            self._errors[request_id] = str(error)
        self._end_ns[request_id], self._unlike_ok[request_id] = now_ns, Status.ENGINE_ERROR
        self._flight_ns += now_ns
        self._ended_requests += 1

    def _fitting(self) -> int:
        """How many of the waiting, from the first on, have a slot and room for their whole answer."""
        free = self._slots - self._running
        if self._capacity_tokens == UNLIMITED_TOKENS:
            return min(free, len(self._waiting))
        room_tokens = self._capacity_tokens - self._reserved_tokens
        count = 0
        for request_id in self._waiting:
            room_tokens -= self._kept[request_id]
            if count == free or room_tokens < 0:
                break
            count += 1
        return count

    def _prefill(self, joining_requests: int) -> None:
        """They join, and get their first tokens."""
        step, real_tokens, longest_tokens, finished = self._step, 0, 0, []
        for _ in range(joining_requests):
            request_id = self._waiting.popleft()
            prompt_tokens, output_tokens = self._prompts[request_id], self._outputs[request_id]
            self._slot[request_id], self._admitted[request_id] = heappop(self._free), step
            real_tokens += prompt_tokens
            if prompt_tokens > longest_tokens:
                longest_tokens = prompt_tokens
            self._reserved_tokens += self._kept[request_id]
            if output_tokens == 1:
                finished.append(request_id)
            else:
                heappush(self._ends, (self._decodes + output_tokens - 1, self._joined, request_id))
            self._joined += 1
        padding_tokens = longest_tokens * joining_requests - real_tokens
        cost_ps = self._bill_prefill(joining_requests, real_tokens, padding_tokens)
        self._now_ps += cost_ps
        self._step += 1
        if finished:
            self._leave(finished)

    def _bill_prefill(self, joining_requests: int, real_tokens: int, padding_tokens: int) -> int:
        """What it costs, with a row for it."""
        stalled, waiting, work = self._running, len(self._waiting), self._work
        self._kv_tokens += real_tokens
        self._running = running_slots = stalled + joining_requests
        empty = self._slots - running_slots
        work.kind, work.prefilling_slots, work.decoding_slots, work.stalled_slots = (
            "prefill", joining_requests, 0, stalled,
        )  # fmt: skip
        work.empty_queued_slots = queued = empty if empty < waiting else waiting
        work.idle_slots, work.waiting_requests = empty - queued, waiting
        work.prefill_tokens, work.padding_tokens, work.kv_tokens = real_tokens, padding_tokens, self._kv_tokens
        cost_ps = self._cost_model.cost_ps(work)
        self._rows.prefills += (
            self._step, self._now_ps, cost_ps, joining_requests, stalled, waiting, real_tokens, padding_tokens,
            self._kv_tokens,
        )  # fmt: skip
        return cost_ps

    def _decode(self, until_ns: int, most_steps: int) -> None:
        """All decodes that start before then, up to the first in which somebody finishes."""
        running_slots, to_end = self._running, self._ends[0][0] - self._decodes
        self._kv_tokens = kv_tokens = self._kv_tokens + running_slots
        cost_ps, slope_ps, holds_steps = self._bill_decode(running_slots, kv_tokens)
        most = to_end if to_end < most_steps else most_steps
        if holds_steps is not None and holds_steps < most:
            most = holds_steps
        now_ps = self._now_ps
        steps = steps_before(until_ns * PS_PER_NS - now_ps, cost_ps, slope_ps, most) if most > 1 else most
        decodes = self._rows.decodes
        decodes += (self._step, steps, now_ps, cost_ps, slope_ps, running_slots, len(self._waiting), kv_tokens)
        self._now_ps = now_ps + (duration_ps(steps, cost_ps, slope_ps) if slope_ps else cost_ps * steps)
        self._step += steps
        self._decodes += steps
        self._kv_tokens = kv_tokens + (steps - 1) * running_slots
        if steps == to_end:
            ends, finished = self._ends, []
            while ends and ends[0][0] == self._decodes:
                finished.append(heappop(ends)[2])
            self._leave(finished)
        if len(decodes) >= CHUNK_NUMBERS:
            self._rows.condense()
            self._polls = True

    def _bill_decode(self, running_slots: int, kv_tokens: int) -> tuple[int, int, int | None]:
        """What a decode costs, by how much more each after it, and for how many that holds (None: for ever)."""
        laws = self._laws.get(running_slots)
        if laws is None:
            if self._laws_of is None:
                return self._asked_cost(running_slots, kv_tokens)
            laws = self._laws[running_slots] = self._laws_of(running_slots)
        base_ps, token_ps, other_base_ps, other_token_ps = laws
        cost_ps, other_ps = base_ps + token_ps * kv_tokens, other_base_ps + other_token_ps * kv_tokens
        if cost_ps < other_ps:
            cost_ps, other_ps, token_ps, other_token_ps = other_ps, cost_ps, other_token_ps, token_ps
        if other_token_ps <= token_ps:
            return cost_ps, token_ps * running_slots, None
        gains_ps = (other_token_ps - token_ps) * running_slots
        return cost_ps, token_ps * running_slots, (cost_ps - other_ps) // gains_ps + 1

    def _asked_cost(self, running_slots: int, kv_tokens: int) -> tuple[int, int, int | None]:
        """The same of a cost model that has to be asked each time."""
        work, waiting, empty = self._work, len(self._waiting), self._slots - running_slots
        queued = min(empty, waiting)
        work.kind, work.prefilling_slots, work.decoding_slots, work.stalled_slots = "decode", 0, running_slots, 0
        work.empty_queued_slots, work.idle_slots, work.waiting_requests = queued, empty - queued, waiting
        work.prefill_tokens, work.padding_tokens, work.kv_tokens = 0, 0, kv_tokens
        return self._cost_model.cost_ps(work), *self._cost_model.decode_slope_ps(work)

    def _leave(self, finished: list[int]) -> None:
        """Their last tokens came in the last step."""
        now_ns, last = self._now_ps // PS_PER_NS, self._step - 1
        for request_id in finished:
            self._end_ns[request_id], self._last[request_id] = now_ns, last
            kept_tokens = self._kept[request_id]
            self._kv_tokens -= kept_tokens
            self._reserved_tokens -= kept_tokens
            heappush(self._free, self._slot[request_id])
        self._running -= len(finished)
        self._ended_requests += len(finished)
        self._flight_ns += now_ns * len(finished)
