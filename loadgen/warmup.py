"""Warm-up before time 0: the engine serves the shapes it will see, and is empty again when the run starts.

One closed batch as wide as the engine, then one single request for each 32-token bucket of the schedule's prompt
lengths, for at most 5 s. None in modelled time, where nothing can be cold.
"""

import time
from collections.abc import Iterator
from contextlib import suppress

import numpy as np

from engines.engine import Engine, Request, SamplingParams
from loadgen.prompts import prompt_recipe, prompt_token_ids
from results.columns import Table, int64
from results.schedule import Schedule

BUCKET_TOKENS = 32
BUDGET_NS = 5_000_000_000
OUTPUT_TOKENS = 8
STREAM_SEED = 2**31
"""Prompts of the warm-up are drawn under another seed than the run's."""


def warm_up(engine: Engine, schedule: Schedule) -> Table:
    """Serve the warm-up; rows of it with ids after the schedule's and times before 0. Aborts what is left over."""
    begin_ns = time.perf_counter_ns()
    rows: list[tuple[int, int, int, int, int]] = []
    for group in _groups(engine, schedule):
        if time.perf_counter_ns() - begin_ns > BUDGET_NS:
            break
        due_ns = time.perf_counter_ns()
        given: dict[int, int] = {}
        with suppress(Exception):  # what the engine cannot do, the run will show
            for request in group:
                engine.add_request(request)
            given = _serve(engine, begin_ns + BUDGET_NS)
        end_ns = time.perf_counter_ns()
        for request in group:
            with suppress(Exception):
                engine.abort(request.request_id)
            tokens = given.get(request.request_id, 0)
            rows.append((request.request_id, due_ns, end_ns, len(request.prompt_token_ids), tokens))
    now_ns = time.perf_counter_ns()
    columns = int64(np.array(rows, dtype=np.int64).reshape(-1, 5)).T
    names = ("request_id", "due_ns", "end_ns", "prompt_tokens", "output_tokens")
    table: Table = dict(zip(names, columns, strict=True))
    table["due_ns"] = columns[1] - now_ns
    table["end_ns"] = columns[2] - now_ns
    return table


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
