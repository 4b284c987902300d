"""Decode attention over rows of different context: each row's one query against its place in the cache."""

import torch
from torch import Tensor

from engines.attention import AttentionName, mask_ceiling, mask_scores, sdpa
from engines.fused_layers import Workspace
from engines.kv_cache import KVCache

COLUMNS_BLOCK = 16
"""Attention runs over the longest context in the step, rounded up to this, so that views last some steps."""


class RaggedDecode:
    """For so many rows at the cache's first places and so many columns: buffers and views, made once.

    The columns behind a row's context are masked, not skipped: one product serves all rows.
    """

    def __init__(self, cache: KVCache, work: Workspace, columns: int, name: AttentionName) -> None:
        """A `TokenBatch`, once it is begun. `columns` as from `columns_for`."""
        config, rows = work.config, work.x.shape[0]
        pairs, group = rows * config.kv_heads, config.heads // config.kv_heads
        self.work, self.columns = work, columns
        self.token_ids = self.positions = self._places = torch.arange(rows)
        self._cache = cache
        self._sdpa = name == "sdpa"
        self._layers = [cache.read(layer, 0, rows, columns) for layer in range(config.layers)]
        self._factors = [(keys.flatten(0, 1), values.flatten(0, 1)) for keys, values in self._layers]
        self._grouped = work.queries.view(rows, config.kv_heads, group, config.head_dim)
        self._queries = work.queries.view(pairs, group, config.head_dim)
        self._mixed = torch.empty_like(self._queries)
        self._mixed_rows = self._mixed.view(rows, config.width)
        self._scores = torch.empty(pairs, group, columns)
        self._by_row = self._scores.view(rows, config.heads, columns)
        self._column = torch.arange(columns)
        self._forbidden: Tensor | None = None

    def begin(self, token_ids: Tensor, positions: Tensor, shortest: int) -> None:
        """Start a step: each row's token and its position (rows,), of which the least is `shortest`."""
        self.token_ids, self.positions = token_ids, positions
        self._where = (self._places, positions)
        hidden = self._column > positions.unsqueeze(1)
        self._forbidden = hidden[:, None, None] if shortest + 1 < self.columns else None
        self._tail = self._by_row[:, :, shortest + 1 :]
        self._ceiling = mask_ceiling(hidden[:, shortest + 1 :]).unsqueeze(1)

    def attend(self, layer: int) -> Tensor:
        """Write the step's keys and values, then mix."""
        self._cache.write(layer, self._where, self.work.keys, self.work.values)
        if self._sdpa:
            mixed = sdpa(self._grouped, *self._layers[layer], self._forbidden)
            return mixed.reshape(self._mixed_rows.shape)
        keys, values = self._factors[layer]
        torch.bmm(self._queries, keys, out=self._scores)
        mask_scores(self._tail, self._ceiling)
        torch.softmax(self._scores, -1, out=self._scores)
        torch.bmm(self._scores, values, out=self._mixed)
        return self._mixed_rows


def columns_for(position: int, context_tokens: int) -> int:
    """Columns that reach the largest position in a step."""
    return min((position // COLUMNS_BLOCK + 1) * COLUMNS_BLOCK, context_tokens)
