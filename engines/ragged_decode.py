"""Decode attention over rows of different context: each row's one query against its place in the cache."""

import torch
from torch import Tensor

from engines.attention import AttentionName, mask_ceiling, mask_scores, sdpa
from engines.kv_cache import KVCache
from engines.tinygpt import TinyGPTConfig

COLUMNS_BLOCK = 16
"""Attention runs over the longest context in the step, rounded up to this, so that views last some steps."""


class RaggedDecode:
    """For so many rows at the cache's first places and so many columns: buffers and views, made once.

    The columns behind a row's context are masked, not skipped: one product serves all rows.
    """

    def __init__(self, cache: KVCache, config: TinyGPTConfig, rows: int, columns: int, name: AttentionName) -> None:
        """`columns` as from `columns_for`."""
        self.rows, self.columns = rows, columns
        self._cache = cache
        self._name = name
        self._layers = [cache.read(layer, 0, rows, columns) for layer in range(config.layers)]
        self._factors = [(keys.flatten(0, 1), values.flatten(0, 1)) for keys, values in self._layers]
        pairs, group = rows * config.kv_heads, config.heads // config.kv_heads
        self._grouped = (rows, config.kv_heads, group, config.head_dim)
        self._mixed = torch.empty(pairs, group, config.head_dim)
        self._scores = torch.empty(pairs, group, columns)
        self._by_row = self._scores.view(rows, config.heads, columns)
        self._places = torch.arange(rows)
        self._column = torch.arange(columns)
        self._positions = self._places
        self._shortest = 0
        self._forbidden: Tensor | None = None

    def begin(self, positions: Tensor, shortest: int) -> None:
        """Start a step: each row's token is at its position (rows,), and the least of them is `shortest`."""
        self._positions = positions
        hidden = self._column > positions.unsqueeze(1)
        self._forbidden = hidden[:, None, None] if shortest + 1 < self.columns else None
        self._tail = self._by_row[:, :, shortest + 1 :]
        self._ceiling = mask_ceiling(hidden[:, shortest + 1 :]).unsqueeze(1)

    def __call__(self, layer: int, queries: Tensor, keys_values: Tensor) -> Tensor:
        """Write the step's keys and values, then attend; an `Attend` of `fused_layers`."""
        self._cache.write(layer, self._places, self._positions, keys_values)
        if self._name == "sdpa":
            mixed = sdpa(queries.view(self._grouped), *self._layers[layer], self._forbidden)
            return mixed.reshape(self.rows, -1)
        keys, values = self._factors[layer]
        scores = torch.bmm(queries.view(self._mixed.shape), keys, out=self._scores)
        mask_scores(self._tail, self._ceiling)
        torch.softmax(scores, -1, out=scores)
        return torch.bmm(scores, values, out=self._mixed).view(self.rows, -1)


def columns_for(position: int, context_tokens: int) -> int:
    """Columns that reach the largest position in a step."""
    return min((position // COLUMNS_BLOCK + 1) * COLUMNS_BLOCK, context_tokens)
