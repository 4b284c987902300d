"""What the engine has done so far, in counts: who waits, who runs, where the slots of its steps went.

Written by the engine's thread and read by others: a snapshot is of one moment between two steps.
"""

import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from engines.engine import Step
from results.slots import SLOT_STATES, StepWork

ABORTED, FAILED = "abort", "error"
FINISH_REASONS = ("stop", "length", ABORTED, FAILED)
BUCKET_TOKENS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)
"""Upper bounds of the histogram of tokens a step."""


@dataclass(slots=True)
class Counts:
    """Everything counted. A count that an engine does not tell stays null."""

    steps: int = 0
    waiting_requests: int = 0
    running_requests: int = 0
    prompt_tokens: int = 0
    """Of all requests that have begun."""
    generated_tokens: int = 0
    """Computed for a request, whether they were delivered or not."""
    step_tokens: Mapping[int, int] = field(default_factory=dict)
    """Tokens a step computed -> how many steps did."""
    preempted_requests: int = 0
    kv_tokens: int | None = None
    """Held in the cache after the last step."""
    slot_steps: Mapping[str, int] | None = None
    """By state."""
    finished_requests: Mapping[str, int] = field(default_factory=dict)
    """By reason."""


class Tally:
    """The counts of one engine, request by request and step by step."""

    def __init__(self) -> None:
        """Nothing has happened yet."""
        self._lock = threading.Lock()
        self._waiting: dict[int, int] = {}
        """request id -> prompt tokens"""
        self._running: set[int] = set()
        self._counts = Counts()
        self._step_tokens: Counter[int] = Counter()
        self._slot_steps: Counter[str] = Counter()
        self._finished: Counter[str] = Counter(dict.fromkeys(FINISH_REASONS, 0))

    def open_ids(self) -> list[int]:
        """Requests the engine holds, in the order they came."""
        return sorted((*self._waiting, *self._running))

    def holds(self, request_id: int) -> bool:
        """Whether the engine has it."""
        return request_id in self._running or request_id in self._waiting

    def entered(self, request_id: int, prompt_tokens: int) -> None:
        """It has been handed to the engine."""
        with self._lock:
            self._waiting[request_id] = prompt_tokens

    def left(self, request_id: int, reason: str) -> None:
        """The engine has it no longer."""
        with self._lock:
            self._leave(request_id, reason)

    def stepped(self, step: Step) -> None:
        """One step: its admissions, its work, its ends, all at once."""
        with self._lock:
            self._counts.steps += 1
            for request_id, _ in step.admitted:
                self._begin(request_id)
            delivered_tokens = 0
            for output in step.outputs:
                self._begin(output.request_id)
                delivered_tokens += len(output.token_ids)
                if output.finished:
                    self._leave(output.request_id, output.finish_reason or "stop")
            self._count(step.work, delivered_tokens)

    def snapshot(self) -> Counts:
        """A copy of all counts."""
        with self._lock:
            counts = self._counts
            return Counts(
                steps=counts.steps,
                waiting_requests=len(self._waiting),
                running_requests=len(self._running),
                prompt_tokens=counts.prompt_tokens,
                generated_tokens=counts.generated_tokens,
                step_tokens=dict(self._step_tokens),
                preempted_requests=counts.preempted_requests,
                kv_tokens=counts.kv_tokens if self._running or counts.kv_tokens is None else 0,
                slot_steps=dict(self._slot_steps) if self._slot_steps else None,
                finished_requests=dict(self._finished),
            )

    def _begin(self, request_id: int) -> None:
        if request_id in self._waiting:
            self._counts.prompt_tokens += self._waiting.pop(request_id)
            self._running.add(request_id)

    def _leave(self, request_id: int, reason: str) -> None:
        self._waiting.pop(request_id, None)
        self._running.discard(request_id)
        self._finished[reason] += 1

    def _count(self, work: StepWork | None, delivered_tokens: int) -> None:
        """What is computed counts, as a real server does it: also where delivery comes later."""
        slots = {name: getattr(work, name) for name in SLOT_STATES} if work else {}
        if work is None or None in slots.values():
            self._counts.generated_tokens += delivered_tokens
            self._step_tokens[delivered_tokens] += 1
            return
        self._slot_steps.update(slots)
        generated_tokens = work.prefilling_slots + work.decoding_slots
        self._counts.generated_tokens += generated_tokens
        self._step_tokens[(work.prefill_tokens or 0) + work.decoding_slots] += 1
        self._counts.preempted_requests += work.preempted_requests or 0
        self._counts.kv_tokens = work.kv_tokens
