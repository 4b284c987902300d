"""Attention over keys and values that are already laid out, and the masks it needs.

Queries come grouped: (sequences, kv_heads, group x queries, head_dim), where group = heads / kv_heads query heads
share one key and value head, so keys and values are never repeated. Keys come as (sequences, kv_heads, head_dim,
keys) and values as (sequences, kv_heads, keys, head_dim). Queries are scaled before they come here.
`forbidden` is one combined boolean mask, (sequences, 1, queries, keys), true where a query must not look.
"""

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

AttentionName = Literal["eager", "sdpa"]

MASK_FLOOR = torch.finfo(torch.float32).min
"""What a forbidden score is set to. Finite: a query at a padding position is forbidden everything, the softmax
over a row of -inf is NaN, and 0 x NaN is NaN, so that the row would poison the sequence it pads. A floor makes
the row a harmless average. Set, not added: two floors added overflow to -inf."""

QUERY_BLOCK = 512
"""Queries of a prompt whose scores are held at the same time."""

Attention = Callable[[Tensor, Tensor, Tensor, Tensor | None], Tensor]
"""(queries, keys, values, forbidden) to the mixed values, shaped like the queries."""


def mask_ceiling(forbidden: Tensor, floor: float = MASK_FLOOR) -> Tensor:
    """What scores are limited to: the floor where forbidden, nothing elsewhere."""
    return torch.where(forbidden, floor, torch.finfo(torch.float32).max)


def mask_scores(scores: Tensor, ceiling: Tensor) -> Tensor:
    """In place: forbidden scores become the floor. Doing it twice changes nothing."""
    return scores.clamp_max_(ceiling)


def eager(queries: Tensor, keys: Tensor, values: Tensor, forbidden: Tensor | None, floor: float = MASK_FLOOR) -> Tensor:
    """Attention written out: scores, mask, softmax, weighted values."""
    sequences, kv_heads, grouped, head_dim = queries.shape
    pairs = sequences * kv_heads
    tokens = keys.shape[3]
    keys, values = keys.reshape(pairs, head_dim, tokens), values.reshape(pairs, tokens, head_dim)
    scores = torch.bmm(queries.reshape(pairs, grouped, head_dim), keys)
    if forbidden is not None:
        by_query = scores.view(sequences, -1, forbidden.shape[2], tokens)
        mask_scores(by_query, mask_ceiling(forbidden, floor))
    torch.softmax(scores, -1, out=scores)
    return torch.bmm(scores, values).view(queries.shape)


def sdpa(queries: Tensor, keys: Tensor, values: Tensor, forbidden: Tensor | None) -> Tensor:
    """torch's fused kernel. A query forbidden everything gets zeros from it."""
    allowed = None
    if forbidden is not None:
        allowed = (~forbidden).repeat(1, 1, queries.shape[2] // forbidden.shape[2], 1)
    by_position = keys.transpose(2, 3)
    return functional.scaled_dot_product_attention(queries, by_position, values, attn_mask=allowed, scale=1.0)


def attend_in_blocks(
    attention: Attention, queries: Tensor, keys: Tensor, values: Tensor, forbidden: Tensor | None
) -> Tensor:
    """(sequences, queries, heads, head_dim) mixed values, from queries of the same shape and keys and values
    as from a `KVCache`. The last query stands at the last key, and none looks ahead, so a block of queries needs
    no later keys, and memory grows with the block and not with the prompt squared."""
    sequences, count, _, head_dim = queries.shape
    grouped = queries.view(sequences, count, keys.shape[1], -1, head_dim).permute(0, 2, 3, 1, 4)
    mixed = torch.empty_like(queries).view(sequences, count, keys.shape[1], -1, head_dim)
    before = keys.shape[3] - count
    for first in range(0, count, QUERY_BLOCK):
        last = min(first + QUERY_BLOCK, count)
        block = grouped[:, :, :, first:last]
        seen = slice(0, before + last)
        hidden = None if forbidden is None else forbidden[:, :, first:last, seen]
        out = attention(block.flatten(2, 3), keys[:, :, :, seen], values[:, :, seen], hidden)
        mixed[:, first:last] = out.view(block.shape).permute(0, 3, 1, 2, 4)
    return mixed.view(queries.shape)


ATTENTION: dict[AttentionName, Attention] = {"eager": eager, "sdpa": sdpa}
