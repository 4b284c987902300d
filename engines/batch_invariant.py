"""Batch-invariant computing: a request's logits have the same bits alone and in any batch.

A matrix product's rounding depends on how many rows it has (a BLAS picks another kernel for 1, 4 or 16), so every
product here has the same number of rows: the tokens are cut into tiles, the last one filled up. Attention is done
sequence by sequence without padding. What remains is the assumption that a row's result does not depend on its
place in a tile; `check_row_invariance` tries it on this machine before anybody relies on it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from engines.attention import ATTENTION, Attention, AttentionName, attend_in_blocks
from engines.fused_layers import FusedLayers, Linear, Panels, Workspace, whole_linear
from engines.kv_cache import KVCache
from engines.tinygpt import TinyGPTConfig

PREFILL_TILE_ROWS = 32
DECODE_TILE_ROWS = 8
"""A step of 1 to 8 rows costs what 8 rows cost."""
TILES_CHECKED = 3


def tiled_linear(tile_rows: int) -> Linear:
    """A product in tiles of so many rows, of which x must be a multiple."""

    def linear(x: Tensor, weight: Panels, out: Panels, base: Panels | None) -> None:
        for first in range(0, x.shape[0], tile_rows):
            rows = slice(first, first + tile_rows)
            whole_linear(x[rows], weight, _rows_of(out, rows), base and _rows_of(base, rows))

    return linear


def _rows_of(parts: Panels, rows: slice) -> Panels:
    return tuple(part[rows] for part in parts)


def filled_up(rows: int, tile_rows: int) -> int:
    """Rows of the tiles that hold so many."""
    return -(-rows // tile_rows) * tile_rows


@dataclass(frozen=True, slots=True)
class Span:
    """One sequence's tokens in a step's flat list."""

    first: int
    last: int
    place: int
    context_tokens: int
    """Tokens in the cache once this step's are written."""


class PerSequence:
    """Tokens of several sequences one after the other, a `TokenBatch`: each attends to its own place in the cache."""

    def __init__(self, cache: KVCache, work: Workspace, spans: Sequence[Span], attention: Attention) -> None:
        """Rows of the workspace behind the last span are filling. Ids and positions are zero until set."""
        self.work = work
        self.token_ids, self.positions = torch.zeros(2, work.x.shape[0], dtype=torch.int64)
        self._cache = cache
        self._attention = attention
        self._spans = spans
        self._tokens = spans[-1].last
        self._places = torch.tensor([span.place for span in spans for _ in range(span.first, span.last)])

    def attend(self, layer: int) -> Tensor:
        """(rows, width) mixed values; those of the filling are zero."""
        tokens = self._tokens
        where = (self._places, self.positions[:tokens])
        self._cache.write(layer, where, self.work.keys[:tokens], self.work.values[:tokens])
        mixed = torch.zeros_like(self.work.queries)
        for span in self._spans:
            keys, values = self._cache.read(layer, span.place, span.place + 1, span.context_tokens)
            own = self.work.queries[span.first : span.last].unsqueeze(0)
            ahead = _ahead(span.last - span.first)
            mixed[span.first : span.last] = attend_in_blocks(self._attention, own, keys, values, ahead)[0]
        return mixed.flatten(1)


def _ahead(tokens: int) -> Tensor | None:
    """A prompt's causal mask; a single token, at the end of its context, looks at everything."""
    return torch.ones(tokens, tokens, dtype=torch.bool).triu_(1)[None, None] if tokens > 1 else None


class InvariantForward:
    """Forward passes in tiles and sequence by sequence."""

    def __init__(self, layers: FusedLayers, cache: KVCache, attention: AttentionName) -> None:
        """ValueError with one line where this machine cannot give the same bits."""
        self._layers = layers
        self._cache = cache
        self._attention = ATTENTION[attention]
        for tile_rows in (PREFILL_TILE_ROWS, DECODE_TILE_ROWS):
            check_row_invariance(layers, tiled_linear(tile_rows), tile_rows)

    def prefill(self, texts: Sequence[Sequence[int]], slots: Sequence[int], keep: bool) -> Tensor:
        """(texts, vocabulary) logits after each text's last token; keys and values are in the cache either way."""
        spans: list[Span] = []
        ids: list[int] = []
        positions: list[int] = []
        for text, slot in zip(texts, slots, strict=True):
            spans.append(Span(len(ids), len(ids) + len(text), self._cache.place(slot), len(text)))
            ids.extend(text)
            positions.extend(range(len(text)))
        return self._run(spans, ids, positions, PREFILL_TILE_ROWS)

    def decode(self, slots: Sequence[int], ids: Sequence[int], positions: Sequence[int]) -> Tensor:
        """(rows, vocabulary) logits after one token a row, written at its position."""
        spans = [Span(row, row + 1, self._cache.place(slot), positions[row] + 1) for row, slot in enumerate(slots)]
        return self._run(spans, ids, positions, DECODE_TILE_ROWS)

    def _run(self, spans: Sequence[Span], ids: Sequence[int], positions: Sequence[int], tile_rows: int) -> Tensor:
        config = self._layers.config
        batch = PerSequence(self._cache, Workspace(config, filled_up(len(ids), tile_rows)), spans, self._attention)
        batch.token_ids[: len(ids)] = torch.tensor(ids)
        batch.positions[: len(ids)] = torch.tensor(positions)
        x = self._layers.run(batch, tiled_linear(tile_rows))
        last = Workspace(config, filled_up(len(spans), DECODE_TILE_ROWS))
        last.x.zero_()[: len(spans)] = x[[span.last - 1 for span in spans]]
        return self._layers.logits(last, tiled_linear(DECODE_TILE_ROWS))[: len(spans)]


class _SameToken:
    """One token in every row, each looking at itself alone."""

    def __init__(self, config: TinyGPTConfig, rows: int) -> None:
        self.work = Workspace(config, rows)
        self.token_ids, self.positions = torch.full((rows,), ord("a")), torch.ones(rows, dtype=torch.int64)

    def attend(self, layer: int) -> Tensor:
        return self.work.queries.flatten(1)


def check_row_invariance(layers: FusedLayers, linear: Linear, tile_rows: int) -> None:
    """Compute one token in every row of some tiles: all rows must come out with the same bits, and with those of
    one tile alone. ValueError with one line when they do not."""
    expected = None
    for rows in (tile_rows, TILES_CHECKED * tile_rows):
        batch = _SameToken(layers.config, rows)
        layers.run(batch, linear)
        logits = layers.logits(batch.work, linear)
        expected = logits[:1] if expected is None else expected
        if not torch.equal(logits, expected.expand_as(logits)):
            raise ValueError(
                f"batch-invariant cannot be had here: a row's bits depend on its place among {rows} rows "
                "on this CPU and torch; use batch-invariant=false"
            )
