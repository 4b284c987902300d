"""Texts of different lengths computed in one pass: padded on the left to a rectangle, and taken apart again.

Left, so that every text's last token stands in the last column. Two things are corrected for, and both would fail
silently: a token's position counts from its text's first token, not from the rectangle's edge, and nobody
attends to padding. Padding is computed like anything else; only its keys and values are dropped.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from engines.attention import Attention, attend_in_blocks
from engines.fused_layers import Workspace
from engines.kv_cache import KVCache
from engines.tinygpt import TinyGPTConfig


class JointPrefill:
    """One rectangle of texts, a `TokenBatch`."""

    def __init__(
        self, config: TinyGPTConfig, texts: Sequence[Sequence[int]], pad_id: int, attention: Attention
    ) -> None:
        """Texts are token ids, at least one each."""
        lengths = torch.tensor([len(text) for text in texts])
        self.texts, self.columns = len(texts), max(map(len, texts))
        padded = [[pad_id] * (self.columns - len(text)) + list(text) for text in texts]
        self.work = Workspace(config, self.texts * self.columns)
        self.token_ids = torch.tensor(padded).flatten()
        self.positions = padded_positions(lengths, self.columns).flatten()
        self._lengths = lengths
        self._forbidden = padded_mask(lengths, self.columns)
        self._attention = attention
        self._cache: KVCache | None = None
        self._real = torch.empty(0, dtype=torch.int64)
        self._where = (self._real, self._real)

    @property
    def last_rows(self) -> Tensor:
        """Of each text's last token among the rectangle's tokens."""
        return torch.arange(1, self.texts + 1) * self.columns - 1

    def keep(self, cache: KVCache, places: Sequence[int]) -> None:
        """Write every text's keys and values to its place, from position 0, without the padding."""
        column = torch.arange(self.columns)
        self._real = (column >= (self.columns - self._lengths).unsqueeze(1)).flatten().nonzero().squeeze(1)
        self._where = (torch.tensor(places).repeat_interleave(self._lengths), self.positions[self._real])
        self._cache = cache

    def attend(self, layer: int) -> Tensor:
        """(tokens, width) mixed values, of padding too."""
        queries, keys, values = (
            part.view(self.texts, self.columns, *part.shape[1:])
            for part in (self.work.queries, self.work.keys, self.work.values)
        )
        if self._cache is not None:
            real = (part.index_select(0, self._real) for part in (self.work.keys, self.work.values))
            self._cache.write(layer, self._where, *real)
        by_dimension, by_position = keys.permute(0, 2, 3, 1), values.transpose(1, 2)
        mixed = attend_in_blocks(self._attention, queries, by_dimension, by_position, self._forbidden)
        return mixed.view(self.work.x.shape)


def padded_mask(lengths: Tensor, columns: int) -> Tensor:
    """(texts, 1, columns, columns), true where a query must not look: ahead, or at padding. One mask for both."""
    column = torch.arange(columns)
    ahead = column > column.unsqueeze(1)
    padding = column < (columns - lengths).unsqueeze(1)
    return (ahead | padding.unsqueeze(1)).unsqueeze(1)


def padded_positions(lengths: Tensor, columns: int) -> Tensor:
    """(texts, columns) positions: a text's first token is at 0 wherever its padding ends."""
    return (torch.arange(columns) - (columns - lengths).unsqueeze(1)).clamp_(min=0)
