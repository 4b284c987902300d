"""Forward passes over a whole batch at once: joint prefill and ragged decode, each as one rectangle."""

from collections.abc import Sequence

import torch
from torch import Tensor

from engines.attention import ATTENTION, AttentionName
from engines.fused_layers import FusedLayers, Workspace
from engines.joint_prefill import JointPrefill
from engines.kv_cache import KVCache
from engines.ragged_decode import RaggedDecode, columns_for


class PaddedForward:
    """Keeps the last decode step's buffers: as long as the rows stay, a step allocates next to nothing."""

    def __init__(self, layers: FusedLayers, cache: KVCache, attention: AttentionName, pad_id: int) -> None:
        """`pad_id` fills short prompts up; which one it is makes no difference to any other token."""
        self._layers = layers
        self._cache = cache
        self._attention: AttentionName = attention
        self._pad_id = pad_id
        self._slots: Sequence[int] = ()
        self._order: Tensor | None = None
        self._batch = RaggedDecode(cache, Workspace(layers.config, 0), 0, attention)

    def prefill(self, texts: Sequence[Sequence[int]], slots: Sequence[int], keep: bool) -> Tensor:
        """(texts, vocabulary) logits after each text's last token; `keep`: its keys and values, by slot."""
        config = self._layers.config
        batch = JointPrefill(config, texts, self._pad_id, ATTENTION[self._attention])
        if keep:
            batch.keep(self._cache, [self._cache.place(slot) for slot in slots])
            self._cache.reach(batch.columns)
        last = Workspace(config, len(texts))
        torch.index_select(self._layers.run(batch), 0, batch.last_rows, out=last.x)
        return self._layers.logits(last)

    def decode(self, slots: Sequence[int], ids: Sequence[int], positions: Sequence[int]) -> Tensor:
        """(rows, vocabulary) logits after one token a row, written at its position."""
        if slots != self._slots:
            self._seat(slots)
        longest = max(positions)
        self._cache.reach(longest + 1)
        step = torch.tensor((ids, positions))
        if self._order is not None:
            step = step.index_select(1, self._order)
        batch = self._batch_of(len(slots), columns_for(longest, self._layers.config.context_tokens))
        batch.begin(step[0], step[1], min(positions))
        self._layers.run(batch)
        logits = self._layers.logits(batch.work)
        return logits if self._order is None else torch.empty_like(logits).index_copy_(0, self._order, logits)

    def _seat(self, slots: Sequence[int]) -> None:
        """Rows are computed in the order of their places in the cache."""
        places = self._cache.gather_rows(slots)
        in_order = places == sorted(places)
        self._order = None if in_order else torch.tensor(places).argsort()
        self._slots = slots

    def _batch_of(self, rows: int, columns: int) -> RaggedDecode:
        work = self._batch.work
        if rows != work.x.shape[0]:
            work = Workspace(self._layers.config, rows)
        if work is not self._batch.work or columns != self._batch.columns:
            self._batch = RaggedDecode(self._cache, work, columns, self._attention)
        return self._batch
