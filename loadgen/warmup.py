"""Warm-up before time 0: the engine serves the shapes it will see, and is empty again when the run starts.

One closed batch as wide as the engine, then one single request for each 32-token bucket of the schedule's prompt
lengths; then requests all of one length until their service times have settled. All of it for at most 5 s. None in
modelled time, where nothing can be cold.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from engines.engine import Engine, Request, SamplingParams
from loadgen.prompts import prompt_recipe, prompt_token_ids
from loadgen.settling import GROUP, settled
from results.columns import Table, int64
from results.schedule import Schedule

BUCKET_TOKENS = 32
BUDGET_NS = 5_000_000_000
OUTPUT_TOKENS = 8
ALIKE_TOKENS = 2
MOST_ALIKE = 6 * GROUP
COLUMNS = ("request_id", "due_ns", "end_ns", "prompt_tokens", "output_tokens")
STREAM_SEED = 2**31
"""Prompts of the warm-up are drawn under another seed than the run's."""


@dataclass(frozen=True, slots=True)
class Warmed:
    """What a warm-up did."""

    rows: Table
    """With ids after the schedule's and times before 0."""
    converged: bool | None
    """Whether service times had stopped changing; None: too few were served to tell."""
    left_requests: int
    """Still in the engine."""


def warm_up(engine: Engine, schedule: Schedule, timer: Callable[[], int] = time.perf_counter_ns) -> Warmed:
    """Serve the warm-up, and abort what is left over. `timer`: ns by which service times are compared."""
    begin_ns = time.perf_counter_ns()
    served = _Served(engine, begin_ns + BUDGET_NS, timer)
    next_id = len(schedule)
    for group in _groups(engine, schedule):
        served.group(group)
        next_id += len(group)
    service_ns: list[int] = []
    converged = None
    while not converged and len(service_ns) < MOST_ALIKE and not served.over:
        taken_ns = served.group([_alike(schedule, next_id)])
        next_id += 1
        service_ns += [taken_ns] if taken_ns is not None else []
        if taken_ns is None:
            break
        if len(service_ns) % GROUP == 0:
            converged = settled(service_ns)
    return Warmed(served.table(), converged, int(_is_left(engine)))


class _Served:
    """Rows of what has been served, up to a moment."""

    def __init__(self, engine: Engine, until_ns: int, timer: Callable[[], int]) -> None:
        self._engine, self._until_ns, self._timer = engine, until_ns, timer
        self._rows: list[tuple[int, int, int, int, int]] = []

    @property
    def over(self) -> bool:
        """Whether the time is up."""
        return time.perf_counter_ns() > self._until_ns

    def group(self, requests: list[Request]) -> int | None:
        """Serve them together; the time that took, None where something of it was not served."""
        if self.over:
            return None
        due_ns, started_ns = time.perf_counter_ns(), self._timer()
        given: dict[int, int] = {}
        with suppress(Exception):  # what the engine cannot do, the run will show
            for request in requests:
                self._engine.add_request(request)
            given = _serve(self._engine, self._until_ns)
        end_ns, taken_ns = time.perf_counter_ns(), self._timer() - started_ns
        for request in requests:
            with suppress(Exception):
                self._engine.abort(request.request_id)
            tokens = given.get(request.request_id, 0)
            self._rows.append((request.request_id, due_ns, end_ns, len(request.prompt_token_ids), tokens))
        return taken_ns if all(given.get(request.request_id) for request in requests) else None

    def table(self) -> Table:
        """Times before 0, which is now."""
        now_ns = time.perf_counter_ns()
        columns = int64(np.array(self._rows, dtype=np.int64).reshape(-1, len(COLUMNS))).T
        table: Table = dict(zip(COLUMNS, columns, strict=True))
        table["due_ns"] = columns[1] - now_ns
        table["end_ns"] = columns[2] - now_ns
        return table


def _is_left(engine: Engine) -> bool:
    """Whether the engine says that it holds something; one that breaks here will show it in the run."""
    with suppress(Exception):
        return bool(engine.has_work())
    return False


def _alike(schedule: Schedule, request_id: int) -> Request:
    """One of the requests that are all of one length, the schedule's median, and end soon."""
    return _request(request_id, int(np.median(schedule.prompt_tokens)), ALIKE_TOKENS)


def _groups(engine: Engine, schedule: Schedule) -> Iterator[list[Request]]:
    lengths = np.sort(schedule.prompt_tokens)
    slots = engine.describe().get("slots")
    width = slots if isinstance(slots, int) else 1
    picked = lengths[np.linspace(0, len(lengths) - 1, width).astype(np.int64)].tolist()
    outputs = min(OUTPUT_TOKENS, int(schedule.output_tokens.min()))
    next_id = len(schedule)
    yield [_request(next_id + at, tokens, outputs) for at, tokens in enumerate(picked)]
    next_id += width
    _, first = np.unique(lengths // BUCKET_TOKENS, return_index=True)
    for at, tokens in enumerate(lengths[first].tolist()):
        yield [_request(next_id + at, tokens, outputs)]


def _request(request_id: int, prompt_tokens: int, output_tokens: int) -> Request:
    prompt = prompt_token_ids(prompt_recipe(STREAM_SEED), request_id, prompt_tokens)
    return Request(request_id, prompt, SamplingParams(output_tokens), 0)


def _serve(engine: Engine, until_ns: int) -> dict[int, int]:
    """Step until nothing is left or the time is over; tokens given to each request."""
    given: dict[int, int] = {}
    while engine.has_work() and time.perf_counter_ns() < until_ns:
        if engine.ready_ns(0) != 0:
            engine.flush()
            if engine.ready_ns(0) != 0:
                break
        for output in engine.step(0).outputs:
            given[output.request_id] = given.get(output.request_id, 0) + len(output.token_ids)
    return given
