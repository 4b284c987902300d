"""The stepping driver and an engine of slots in one loop, for very long runs of continuous batching in modelled time.

What `play_compact` does with a slot engine, written as one function over numbers: no object is made for a step or a
request. It is a second way to the same rows, which a test compares to the bit, and knows only what needs no policy to
be asked: first come, first served, out as soon as finished; nobody waits for others, nobody is aborted.
"""

from array import array
from collections import deque
from heapq import heappop, heappush

import numpy as np

from engines.engine import Engine
from engines.executor import StretchCost
from engines.slots import SlotEngine
from engines.stretches import duration_ps, steps_before
from loadgen.drive import no_garbage_collection
from loadgen.due import NEVER_NS
from results.columns import NULL, Int64, Table, int64
from results.compact import Compact
from results.recording import KINDS
from results.schedule import Schedule
from results.slots import WORK_COLUMNS, StepWork
from results.status import Status

PS_PER_NS = 1_000
PREFILL, DECODE = KINDS.index("prefill"), KINDS.index("decode")
COLUMNS = ("step", "n_steps", "kind", "start_ps", "cost_ps", "cost_slope_ps", *WORK_COLUMNS)
CHUNK_NUMBERS = 50_000 * len(COLUMNS)
UNLIMITED_TOKENS = 2**62


def can_fuse(schedule: Schedule, engine: Engine) -> bool:
    """Whether `play_fused` can play it."""
    stops = schedule.recipe.get("sampling", {}).get("stop_token_ids")
    plain = not stops and not len(schedule.after_ids)
    return plain and isinstance(engine, SlotEngine) and engine.first_come is not None


def play_fused(schedule: Schedule, engine: Engine) -> Compact:
    """The run of a fresh engine. ValueError for one that has to be asked."""
    if not can_fuse(schedule, engine) or not isinstance(engine, SlotEngine) or engine.first_come is None:
        raise ValueError("a fused run needs an engine that serves whoever comes first, and nobody who waits for others")
    loop = _Loop(schedule, *engine.first_come)
    with no_garbage_collection():
        loop.run()
    return loop.result()


class _Loop:
    """The state of a run, and what comes out of it."""

    def __init__(self, schedule: Schedule, slots: int, cost_model: StretchCost, capacity_tokens: int | None) -> None:
        self._schedule = schedule
        self._slots, self._cost_ps, self._slope_ps = slots, cost_model.cost_ps, cost_model.decode_slope_ps
        self._capacity_tokens = UNLIMITED_TOKENS if capacity_tokens is None else capacity_tokens
        self._due_ns: list[int] = schedule.due_ns.tolist()
        self._prompts: list[int] = schedule.prompt_tokens.tolist()
        self._outputs: list[int] = schedule.output_tokens.tolist()
        rows = len(schedule)
        self._handed_ns, self._end_ns, self._admitted, self._last, self._slot = (
            array("q", [NULL]) * rows for _ in range(5)
        )
        self._refused: list[int] = []
        self._numbers: list[int] = []
        self._columns: dict[str, list[Int64]] = {name: [] for name in COLUMNS}
        self._free = list(range(slots))
        self._ends: list[tuple[int, int, int]] = []
        """(count of decodes in which its last token comes, order of joining, request id)."""
        self._waiting: deque[int] = deque()
        self._now_ps = self._step = self._decodes = self._running = self._joined = 0
        self._kv_tokens = self._reserved_tokens = 0
        self._work = StepWork("decode", 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)

    def run(self) -> None:
        """To the last token."""
        due_ns, waiting, pointer, rows = self._due_ns, self._waiting, 0, len(self._due_ns)
        prefilled = False
        while True:
            now_ns = self._now_ps // PS_PER_NS
            while pointer < rows and due_ns[pointer] <= now_ns:
                self._take(pointer, now_ns)
                pointer += 1
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
        self._flush()
        table: Table = {}
        for name in COLUMNS:
            table[name] = np.concatenate([np.array([], dtype=np.int64), *self._columns.pop(name)])
        table["told"] = np.ones(len(table["step"]), dtype=np.int64)
        schedule, rows = self._schedule, len(self._schedule)
        columns = {"handed_ns": self._handed_ns, "end_ns": self._end_ns, "admitted_step": self._admitted,
                   "last_step": self._last, "slot": self._slot}  # fmt: skip
        requests: Table = {name: np.array(values, dtype=np.int64) for name, values in columns.items()}
        requests["request_id"], requests["due_ns"] = np.arange(rows, dtype=np.int64), schedule.due_ns.copy()
        requests["status"] = np.full(rows, int(Status.OK), dtype=np.int64)
        requests["status"][self._refused] = int(Status.ENGINE_ERROR)
        requests["prompt_tokens"], requests["output_tokens_asked"] = schedule.prompt_tokens, schedule.output_tokens
        in_flight = int((int64(requests["end_ns"]) - schedule.due_ns).sum())
        return Compact(schedule, requests, table, in_flight)

    def _take(self, request_id: int, now_ns: int) -> None:
        """Queue it, or refuse what can never fit."""
        self._handed_ns[request_id] = now_ns
        prompt_tokens, output_tokens = self._prompts[request_id], self._outputs[request_id]
        if prompt_tokens and output_tokens and prompt_tokens + output_tokens - 1 <= self._capacity_tokens:
            self._waiting.append(request_id)
            return
        self._refused.append(request_id)
        self._end_ns[request_id] = now_ns

    def _fitting(self) -> int:
        """How many of the waiting, from the first on, have a slot and room for their whole answer."""
        free = self._slots - self._running
        if self._capacity_tokens == UNLIMITED_TOKENS:
            return min(free, len(self._waiting))
        room_tokens = self._capacity_tokens - self._reserved_tokens
        count = 0
        for request_id in self._waiting:
            room_tokens -= self._prompts[request_id] + self._outputs[request_id] - 1
            if count == free or room_tokens < 0:
                break
            count += 1
        return count

    def _prefill(self, joining_requests: int) -> None:
        """They join, and get their first tokens."""
        self._step += 1
        step, real_tokens, longest_tokens, finished = self._step - 1, 0, 0, []
        for _ in range(joining_requests):
            request_id = self._waiting.popleft()
            prompt_tokens, output_tokens = self._prompts[request_id], self._outputs[request_id]
            self._slot[request_id], self._admitted[request_id] = heappop(self._free), step
            real_tokens += prompt_tokens
            if prompt_tokens > longest_tokens:
                longest_tokens = prompt_tokens
            self._reserved_tokens += prompt_tokens + output_tokens - 1
            if output_tokens == 1:
                finished.append(request_id)
            else:
                heappush(self._ends, (self._decodes + output_tokens - 1, self._joined, request_id))
            self._joined += 1
        stalled, self._kv_tokens = self._running, self._kv_tokens + real_tokens
        self._running += joining_requests
        padding_tokens = longest_tokens * joining_requests - real_tokens
        self._bill("prefill", joining_requests, 0, stalled, real_tokens, padding_tokens)
        cost_ps = self._cost_ps(self._work)
        self._row(PREFILL, 1, cost_ps, 0)
        self._now_ps += cost_ps
        self._leave(finished)

    def _decode(self, until_ns: int, most_steps: int) -> None:
        """All decodes that start before then, up to the first in which somebody finishes."""
        running, to_end = self._running, self._ends[0][0] - self._decodes
        self._kv_tokens += running
        self._bill("decode", 0, running, 0, 0, 0)
        cost_ps = self._cost_ps(self._work)
        slope_ps, holds_steps = self._slope_ps(self._work)
        most = to_end if to_end < most_steps else most_steps
        if holds_steps is not None and holds_steps < most:
            most = holds_steps
        steps = steps_before(until_ns * PS_PER_NS - self._now_ps, cost_ps, slope_ps, most)
        self._row(DECODE, steps, cost_ps, slope_ps)
        self._now_ps += duration_ps(steps, cost_ps, slope_ps) if slope_ps else cost_ps * steps
        self._step += steps
        self._decodes += steps
        self._kv_tokens += (steps - 1) * running
        if steps == to_end:
            ends, finished = self._ends, []
            while ends and ends[0][0] == self._decodes:
                finished.append(heappop(ends)[2])
            self._leave(finished)

    def _leave(self, finished: list[int]) -> None:
        """Their last tokens came in the last step."""
        now_ns, last = self._now_ps // PS_PER_NS, self._step - 1
        for request_id in finished:
            self._end_ns[request_id], self._last[request_id] = now_ns, last
            kept_tokens = self._prompts[request_id] + self._outputs[request_id] - 1
            self._kv_tokens -= kept_tokens
            self._reserved_tokens -= kept_tokens
            heappush(self._free, self._slot[request_id])
        self._running -= len(finished)

    def _bill(
        self, kind: str, prefilling_slots: int, decoding_slots: int, stalled_slots: int, prefill_tokens: int,
        padding_tokens: int,
    ) -> None:  # fmt: skip
        """The counts of a step, in the one object that the cost model reads."""
        work, waiting = self._work, len(self._waiting)
        empty = self._slots - self._running
        queued = empty if empty < waiting else waiting
        work.kind, work.prefilling_slots, work.decoding_slots = kind, prefilling_slots, decoding_slots
        work.stalled_slots, work.empty_queued_slots, work.idle_slots = stalled_slots, queued, empty - queued
        work.waiting_requests, work.prefill_tokens, work.padding_tokens = waiting, prefill_tokens, padding_tokens
        work.kv_tokens = self._kv_tokens

    def _row(self, kind_id: int, steps: int, cost_ps: int, slope_ps: int) -> None:
        work, numbers = self._work, self._numbers
        numbers += (
            self._step - 1 if kind_id == PREFILL else self._step, steps, kind_id, self._now_ps, cost_ps, slope_ps,
            work.prefilling_slots, work.decoding_slots, 0, work.stalled_slots, work.empty_queued_slots,
            work.idle_slots, len(self._waiting), work.prefill_tokens, work.padding_tokens, work.kv_tokens, 0, 0,
        )  # fmt: skip
        if len(numbers) >= CHUNK_NUMBERS:
            self._flush()

    def _flush(self) -> None:
        if self._numbers:
            chunk = np.array(self._numbers, dtype=np.int64).reshape(-1, len(COLUMNS))
            for name, column in zip(COLUMNS, chunk.T, strict=True):
                self._columns[name].append(column.copy())
            self._numbers.clear()
