"""The line in front of an engine: requests in the order of (due, id)."""

from bisect import insort
from collections import deque
from collections.abc import Sequence
from dataclasses import replace

from engines.engine import Request
from engines.policies import Joining


def check_size(request: Request, context_tokens: int | None, kv_capacity_tokens: int | None) -> None:
    """ValueError for a request that can never be served."""
    prompt_tokens, output_tokens = len(request.prompt_token_ids), request.params.max_tokens
    if context_tokens is not None and prompt_tokens + output_tokens > context_tokens:
        raise ValueError(
            f"request {request.request_id} needs {prompt_tokens + output_tokens} tokens, the context holds "
            f"{context_tokens}"
        )
    if not prompt_tokens or output_tokens < 1:
        raise ValueError(f"request {request.request_id} needs at least one prompt and one output token")
    if kv_capacity_tokens is not None and kept_tokens(request) > kv_capacity_tokens:
        raise ValueError(
            f"request {request.request_id} keeps {kept_tokens(request)} tokens in the cache, which holds "
            f"{kv_capacity_tokens}"
        )


def kept_tokens(request: Request) -> int:
    """What it has in the cache when it finishes: everything but its last token."""
    return len(request.prompt_token_ids) + request.params.max_tokens - 1


def line_up(waiting: deque[Request], request: Request) -> None:
    """Put the request where its due time and id have it."""
    if waiting and _key(request) < _key(waiting[-1]):
        ordered = list(waiting)
        insort(ordered, request, key=_key)
        waiting.clear()
        waiting.extend(ordered)
    else:
        waiting.append(request)


def take(waiting: deque[Request], positions: Sequence[int]) -> list[Request]:
    """Remove and return those at the positions, in the positions' order."""
    if len(positions) == 1 and not positions[0]:
        return [waiting.popleft()]
    front = [waiting.popleft() for _ in range(max(positions) + 1)]
    taken = [front[position] for position in positions]
    if len(taken) < len(front):
        chosen = set(positions)
        waiting.extendleft(front[at] for at in range(len(front) - 1, -1, -1) if at not in chosen)
    return taken


def fitting(joining: Joining, waiting: Sequence[Request], room_tokens: int) -> Joining:
    """Those of a policy's choice, from the first on, whose prompts and answers have room; it plans for the others."""
    for count, position in enumerate(joining.positions):
        room_tokens -= kept_tokens(waiting[position])
        if room_tokens < 0:
            left = [waiting[one].request_id for one in joining.positions[count:]]
            return replace(joining, positions=joining.positions[:count], planned=[*left, *joining.planned])
    return joining


def _key(request: Request) -> tuple[int, int]:
    return request.arrival_ns, request.request_id
