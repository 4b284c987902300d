"""Decode attention over rows of different context: each row's one query against its place in the cache."""

import torch
from torch import Tensor

from engines.attention import AttentionName, mask_scores, sdpa, softmax_
from engines.kv_cache import KVCache
from engines.tinygpt import TinyGPTConfig

COLUMNS_BLOCK = 16
"""Attention runs over the longest context in the step, rounded up to this, so that views last some steps."""


class RaggedDecode:
    """For so many rows at the cache's first places and so many columns: buffers and views, made once.

    The columns behind a row's context are masked, not skipped: one product serves all rows.
    """

    def __init__(self, cache: KVCache, config: TinyGPTConfig, rows: int, columns: int, name: AttentionName):
        """`columns` as from `columns_for`."""
        self.rows, self.columns = rows, columns
        self._cache = cache
        self._name = name
        self._layers = [
            (cache.keys(layer, 0, rows, columns), cache.values(layer, 0, rows, columns))
            for layer in range(config.layers)
        ]
        self._products = [(keys.flatten(0, 1).transpose(1, 2), values.flatten(0, 1)) for keys, values in self._layers]
        pairs, group = rows * config.kv_heads, config.heads // config.kv_heads
        self._grouped = (rows, config.kv_heads, group, config.head_dim)
        self._mixed = torch.empty(pairs, group, config.head_dim)
        self._scores = torch.empty(pairs, group, columns)
        self._scores_by_row = self._scores.view(rows, config.heads, columns)
        self._reduced = torch.empty(pairs, group, 1)
        self._column = torch.arange(columns)
        self._masked_scores = self._scores_by_row
        self._forbidden: Tensor | None = None
        self._lines = torch.empty(0, dtype=torch.int64)

    def begin(self, positions: Tensor, shortest: int) -> None:
        """Start a step: each row's token is at its position (rows,), and the least of them is `shortest`."""
        self._lines = self._cache.lines(torch.arange(self.rows), positions)
        first = 0 if self._name == "sdpa" else shortest + 1
        hidden = self._column[first:] > positions.unsqueeze(1)
        self._forbidden = hidden.unsqueeze(1) if shortest + 1 < self.columns else None
        self._masked_scores = self._scores_by_row[:, :, first:]

    def __call__(self, layer: int, queries: Tensor, keys_values: Tensor) -> Tensor:
        """Write the step's keys and values, then attend; an `Attend` of `fused_layers`."""
        self._cache.write(layer, self._lines, keys_values)
        if self._name == "sdpa":
            forbidden = None if self._forbidden is None else self._forbidden.unsqueeze(1)
            return sdpa(queries.view(self._grouped), *self._layers[layer], forbidden).reshape(self.rows, -1)
        keys, values = self._products[layer]
        scores = torch.bmm(queries.view(self._mixed.shape), keys, out=self._scores)
        if self._forbidden is not None:
            mask_scores(self._masked_scores, self._forbidden)
        return torch.bmm(softmax_(scores, self._reduced), values, out=self._mixed).view(self.rows, -1)


def columns_for(position: int, context_tokens: int) -> int:
    """Columns that reach the largest position in a step."""
    return min((position // COLUMNS_BLOCK + 1) * COLUMNS_BLOCK, context_tokens)
