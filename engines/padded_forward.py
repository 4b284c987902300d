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
        self._work = Workspace(layers.config, 0)
        self._attend = RaggedDecode(cache, layers.config, 0, 0, attention)

    def prefill(self, texts: Sequence[Sequence[int]], slots: Sequence[int], keep: bool) -> Tensor:
        """(texts, vocabulary) logits after each text's last token; `keep`: its keys and values, by slot."""
        batch = JointPrefill(texts, self._pad_id, ATTENTION[self._attention])
        if keep:
            batch.keep(self._cache, [self._cache.place(slot) for slot in slots])
            self._cache.reach(batch.columns)
        work = Workspace(self._layers.config, len(batch.token_ids))
        x = self._layers.run(work, batch.token_ids, batch.positions, batch)
        return self._layers.logits(x.index_select(0, batch.last_rows))

    def decode(self, slots: Sequence[int], ids: Sequence[int], positions: Sequence[int]) -> Tensor:
        """(rows, vocabulary) logits after one token a row, written at its position."""
        if slots != self._slots:
            self._seat(slots)
        longest = max(positions)
        self._cache.reach(longest + 1)
        step = torch.tensor((ids, positions))
        if self._order is not None:
            step = step.index_select(1, self._order)
        attend = self._attend_to(len(slots), columns_for(longest, self._layers.config.context_tokens))
        attend.begin(step[1], min(positions))
        logits = self._layers.logits(self._layers.run(self._work, step[0], step[1], attend))
        return logits if self._order is None else torch.empty_like(logits).index_copy_(0, self._order, logits)

    def _seat(self, slots: Sequence[int]) -> None:
        """Rows are computed in the order of their places in the cache."""
        places = self._cache.gather_rows(slots)
        in_order = places == sorted(places)
        self._order = None if in_order else torch.tensor(places).argsort()
        self._slots = slots

    def _attend_to(self, rows: int, columns: int) -> RaggedDecode:
        if rows != self._attend.rows:
            self._work = Workspace(self._layers.config, rows)
        if (rows, columns) != (self._attend.rows, self._attend.columns):
            self._attend = RaggedDecode(self._cache, self._layers.config, rows, columns, self._attention)
        return self._attend
