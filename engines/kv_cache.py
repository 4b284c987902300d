"""The KV cache: one preallocated tensor, written in place, with a place for every slot.

A sequence lives from position 0 at its own place; nothing is ever concatenated. The rows of a decode step are
kept at the first places, so that their keys and values are one view and a step costs what its rows cost, wherever
in the engine their slots are. It knows nothing of requests: slots, positions and lengths are given to it.
"""

import math
import mmap
from collections.abc import Sequence

import torch
from torch import Tensor

from engines.tinygpt import TinyGPTConfig

FLOAT32_BYTES = 4


class KVCache:
    """Keys and values by (layer, keys or values, place, kv_head, position)."""

    def __init__(self, config: TinyGPTConfig, slots: int) -> None:
        """Room for context_tokens in every slot."""
        shape = (config.layers, 2, slots, config.kv_heads, config.context_tokens, config.head_dim)
        self._tensor = _zeros_on_touch(shape)
        self._flat_layers = [layer.view(-1, config.head_dim) for layer in self._tensor]
        self._places = list(range(slots))
        self._reached_tokens = 0
        lines = torch.arange(2 * slots * config.kv_heads) * config.context_tokens
        # (places, keys then values by head): where position 0 is, counted in lines of head_dim numbers
        self._first_lines = lines.view(2, slots, config.kv_heads).transpose(0, 1).reshape(slots, -1)

    def place(self, slot: int) -> int:
        """Where the slot's sequence is, or would be."""
        return self._places[slot]

    def reach(self, tokens: int) -> None:
        """Some sequence now has so many tokens."""
        self._reached_tokens = max(self._reached_tokens, tokens)

    def gather_rows(self, slots: Sequence[int]) -> list[int]:
        """Move the slots' sequences to the first places, if they are not there; each slot's place, in order."""
        rows = len(slots)
        taken = {self._places[slot] for slot in slots}
        holes = [place for place in range(rows) if place not in taken]
        for slot in slots:
            if self._places[slot] >= rows:
                self._swap(slot, self._places.index(holes.pop()))
        return [self._places[slot] for slot in slots]

    def _swap(self, slot: int, other: int) -> None:
        """Both move, because the other may belong to a sequence that is not in this step."""
        here, there = self._places[slot], self._places[other]
        moved = self._tensor[:, :, [here, there], :, : self._reached_tokens]
        self._tensor[:, :, [there, here], :, : self._reached_tokens] = moved
        self._places[slot], self._places[other] = there, here

    def lines(self, places: Tensor, positions: Tensor) -> Tensor:
        """(tokens, 2 x kv_heads) where `write` puts a token of each place and position."""
        return self._first_lines.index_select(0, places).add_(positions.unsqueeze(1))

    def write(self, layer: int, lines: Tensor, keys_values: Tensor) -> None:
        """keys_values: (tokens, 2 x kv_heads, head_dim), keys first; lines as given by `lines`."""
        self._flat_layers[layer].index_put_((lines,), keys_values)

    def keys(self, layer: int, first: int, last: int, tokens: int) -> Tensor:
        """(places, kv_heads, tokens, head_dim) view of the places first..last-1 from position 0."""
        return self._tensor[layer, 0, first:last, :, :tokens]

    def values(self, layer: int, first: int, last: int, tokens: int) -> Tensor:
        """As `keys`."""
        return self._tensor[layer, 1, first:last, :, :tokens]


def _zeros_on_touch(shape: Sequence[int]) -> Tensor:
    """float32 zeros in anonymous memory: the kernel supplies a page when it is first written or read.

    A cache for 64 slots of 2,048 tokens is 400 MB; torch.zeros would write all of it at the start.
    """
    pages = mmap.mmap(-1, math.prod(shape) * FLOAT32_BYTES)
    return torch.frombuffer(pages, dtype=torch.float32).view(shape)
