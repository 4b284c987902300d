"""Warm-up of a server before time 0: a few short requests in a closed loop, all of them ended when the run begins.

Their prompts are drawn under another seed than the run's, so that no cache can know the run from them.
"""

import asyncio
import time
from collections.abc import Sequence

import numpy as np

from loadgen.config import RunConfig
from loadgen.planned import RequestForm
from loadgen.prompts import prompt_recipe
from loadgen.settling import GROUP
from loadgen.warmup import BUDGET_NS, COLUMNS, OUTPUT_TOKENS, STREAM_SEED
from results.columns import NULL, Table, int64
from results.schedule import Schedule
from results.status import Status
from targets.target import PlannedRequest, Reply, Target

DEFAULT_REQUESTS = 4
USERS = 4
LONGEST_NS = 60_000_000_000
"""How long a server that has begun a warm-up request may take."""


def warmup_requests(config: RunConfig, schedule: Schedule) -> list[PlannedRequest]:
    """Of lengths spread over the schedule's own, each twenty over all of them, with ids after its last."""
    count = DEFAULT_REQUESTS if config.warmup_requests is None else config.warmup_requests
    if not count:
        return []
    spread = np.sort(schedule.prompt_tokens)[np.linspace(0, len(schedule) - 1, count).astype(np.int64)]
    groups = max(count // GROUP, 1)
    lengths = np.concatenate([spread[at::groups] for at in range(groups)]).tolist()
    salt = (schedule.recipe.get("prompt") or {}).get("salt")
    recipe, sampling = prompt_recipe(STREAM_SEED, salt=salt), schedule.recipe.get("sampling", {})
    form = RequestForm(recipe, sampling, config.prompt_as == "ids")
    outputs = min(OUTPUT_TOKENS, int(schedule.output_tokens.min()))
    return [form.fill(request_id, tokens, outputs) for request_id, tokens in enumerate(lengths, start=len(schedule))]


async def warm_up(target: Target, requests: Sequence[PlannedRequest]) -> tuple[Table | None, int]:
    """Serve them, a few at a time; rows with times before 0, None without a warm-up. And how many had to be given up.

    After a few seconds none is begun any more. What has been begun is waited for, since a server may go on with a
    request that its client has given up.
    """
    if not requests:
        return None, 0
    queue = list(reversed(requests))
    begin_ns = time.perf_counter_ns()
    rows: list[tuple[Reply, int]] = []

    async def user() -> None:
        while queue and time.perf_counter_ns() < begin_ns + BUDGET_NS:
            due_ns = time.perf_counter_ns()
            rows.append((await _within(target, queue.pop(), begin_ns + LONGEST_NS), due_ns))

    await asyncio.gather(*(user() for _ in range(USERS)))
    given_up = sum(reply.status is Status.CANCELLED for reply, _ in rows)
    now_ns = time.perf_counter_ns()
    lengths = {request.request_id: _prompt_tokens(request) for request in requests}
    told = [
        (reply.request_id, due_ns - now_ns, _end_ns(reply, now_ns), lengths[reply.request_id], _output_tokens(reply))
        for reply, due_ns in sorted(rows, key=lambda row: row[0].request_id)
    ]
    columns = int64(np.array(told, dtype=np.int64).reshape(-1, len(COLUMNS))).T
    return dict(zip(COLUMNS, columns, strict=True)), given_up


async def _within(target: Target, request: PlannedRequest, until_ns: int) -> Reply:
    left_s = (until_ns - time.perf_counter_ns()) / 1e9
    handle = asyncio.get_running_loop().call_later(left_s, target.abort, request.request_id, Status.CANCELLED)
    try:
        return await target.send(request)
    finally:
        handle.cancel()


def _end_ns(reply: Reply, now_ns: int) -> int:
    return min(reply.end_ns - now_ns, 0) if reply.end_ns != NULL else 0


def _prompt_tokens(request: PlannedRequest) -> int:
    ids = request.prompt_token_ids
    return len(ids) if ids is not None else len(request.prompt_text.split())


def _output_tokens(reply: Reply) -> int:
    return reply.told_output_tokens if reply.told_output_tokens != NULL else len(reply.event_t_ns)
