"""Other people's engines: three methods are enough, the rest is supplied here.

An engine needs `add_request(request)`, `has_work()` and `step()`, with or without `now_ns`. `step` returns an
`engines.engine.Step`, or a sequence of `StepOutput`s, or tuples in that order: (request_id, token_ids, finished,
finish_reason). What it has of the rest of the protocol is used.
"""

import inspect
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from engines.engine import JSON, Request, Step, StepOutput
from results.recording import KINDS
from results.slots import SLOT_STATES, StepWork


class MinimalEngine(Protocol):
    """What somebody else's engine must have at least."""

    def add_request(self, request: Request) -> None:
        """Queue a request."""

    def has_work(self) -> bool:
        """Whether step() would do something."""
        ...

    @property
    def step(self) -> Any:
        """step() or step(now_ns): the outputs of one step."""


class InProcessEngine:
    """A minimal engine behind the whole protocol."""

    def __init__(self, engine: MinimalEngine, slots: int | None = None) -> None:
        """`slots`: how many it has, where it does not tell. ValueError when a method is missing."""
        missing = [name for name in ("add_request", "has_work", "step") if not callable(getattr(engine, name, None))]
        if missing:
            raise ValueError(f"engine {type(engine).__name__} lacks {', '.join(missing)}: it needs add_request, "
                             "has_work and step")  # fmt: skip
        self._engine = engine
        self._told = dict(engine.describe()) if hasattr(engine, "describe") else {}
        self._slots = self._told.get("slots", slots)
        self._takes_now = _takes_an_argument(engine.step)
        self._open: set[int] = set()
        self._dropped: set[int] = set()
        self._added: set[int] = set()

    def add_request(self, request: Request) -> None:
        """Hand it on."""
        self._engine.add_request(request)
        self._dropped.discard(request.request_id)
        self._open.add(request.request_id)
        self._added.add(request.request_id)

    def has_work(self) -> bool:
        """Its own word, while it holds anything that was not aborted."""
        return bool(self._open) and bool(self._engine.has_work())

    def ready_ns(self, now_ns: int) -> int | None:
        """Now while it has work, unless it knows better."""
        if self._open and hasattr(self._engine, "ready_ns"):
            at_ns: int | None = self._engine.ready_ns(now_ns)
            return at_ns
        return now_ns if self.has_work() else None

    def flush(self) -> None:
        """Passed on where it means something."""
        if hasattr(self._engine, "flush"):
            self._engine.flush()

    def abort(self, request_id: int) -> None:
        """Passed on where it exists; otherwise its later outputs are dropped and its slot may stay busy."""
        self._open.discard(request_id)
        self._dropped.add(request_id)
        if hasattr(self._engine, "abort"):
            self._engine.abort(request_id)

    def describe(self) -> Mapping[str, JSON]:
        """Its own description, with its name, slots, and what an abort does."""
        return {
            "policy": type(self._engine).__name__,
            **self._told,
            "slots": self._slots,
            "aborts": hasattr(self._engine, "abort"),
        }

    def step(self, now_ns: int) -> Step:
        """One step, with what it left out filled in. ValueError when it speaks of requests it does not hold."""
        result = self._engine.step(now_ns) if self._takes_now else self._engine.step()
        step = result if isinstance(result, Step) else Step(list(result or ()))
        held = frozenset(self._open)
        self._check(step, held)
        step.outputs = [output for told in step.outputs if (output := self._output(told)) is not None]
        step.ended = step.ended or sorted(held - self._open)
        return step

    def _output(self, told: StepOutput | Iterable[Any]) -> StepOutput | None:
        """What it told, in plain values; None for a request that was aborted."""
        output = told if isinstance(told, StepOutput) else StepOutput(*told)
        request_id = int(output.request_id)
        if request_id in self._dropped:
            return None
        if request_id not in self._open:
            raise ValueError(f"step() gave tokens to request {request_id}, which has ended or was never added")
        if output.finished:
            self._open.remove(request_id)
        token_ids = tuple(int(token_id) for token_id in output.token_ids)
        return StepOutput(request_id, token_ids, bool(output.finished), output.finish_reason)

    def _check(self, step: Step, held: frozenset[int]) -> None:
        """What it told of requests and slots must be about its own."""
        for request_id in (*(request_id for request_id, _ in step.admitted), *step.ended):
            if request_id not in held and request_id not in self._dropped:
                raise ValueError(f"step() told of request {request_id}, which has ended or was never added")
        for request_id in step.released:
            if request_id not in self._added:
                raise ValueError(f"step() released request {request_id}, which was never added")
        if step.work is not None:
            self._check_work(step.work)

    def _check_work(self, work: StepWork) -> None:
        if work.kind not in KINDS:
            raise ValueError(f"step() told of a step of kind {work.kind!r}: known are {', '.join(KINDS)}")
        counts = [getattr(work, name) for name in SLOT_STATES]
        if self._slots is not None and None not in counts and sum(counts) != self._slots:
            raise ValueError(f"step() told of {sum(counts)} slots in the six states, the engine has {self._slots}")


def _takes_an_argument(step: Any) -> bool:
    """Whether it must be given the time, or calls an argument now_ns."""
    parameters = list(inspect.signature(step).parameters.values())
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    first = parameters[0] if parameters else None
    if first is None or first.kind not in positional:
        return False
    return first.default is inspect.Parameter.empty or first.name == "now_ns"
