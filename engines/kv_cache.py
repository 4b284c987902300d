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
    """Keys and values of every slot's sequence, one layer after the other.

    Keys are read as (places, kv_heads, head_dim, positions), values as (places, kv_heads, positions, head_dim):
    each the right-hand side of a product.
    """

    def __init__(self, config: TinyGPTConfig, slots: int, keys_by_position: bool = False) -> None:
        """Room for context_tokens in every slot. In memory a key head's numbers are as they are read, or, with
        `keys_by_position`, together position by position, as torch's attention kernel wants them."""
        by_place = (config.layers, slots, config.kv_heads)
        by_position, by_dimension = (config.context_tokens, config.head_dim), (config.head_dim, config.context_tokens)
        if keys_by_position:
            self._keys = _zeros_on_touch((*by_place, *by_position)).transpose(-1, -2)
        else:
            self._keys = _zeros_on_touch((*by_place, *by_dimension))
        self._values = _zeros_on_touch((*by_place, *by_position))
        self._written = [
            (keys.permute(0, 3, 1, 2), values.permute(0, 2, 1, 3))
            for keys, values in zip(self._keys, self._values, strict=True)
        ]
        self._places = list(range(slots))
        self._reached_tokens = 0

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
        for part in (self._keys[..., : self._reached_tokens], self._values[..., : self._reached_tokens, :]):
            part[:, [there, here]] = part[:, [here, there]]
        self._places[slot], self._places[other] = there, here

    def write(self, layer: int, where: tuple[Tensor, Tensor], keys: Tensor, values: Tensor) -> None:
        """where: places and positions, (tokens,) each; keys and values: (tokens, kv_heads, head_dim)."""
        kept_keys, kept_values = self._written[layer]
        kept_keys.index_put_(where, keys)
        kept_values.index_put_(where, values)

    def read(self, layer: int, first: int, last: int, tokens: int) -> tuple[Tensor, Tensor]:
        """Views of keys and values at the places first..last-1, from position 0."""
        return self._keys[layer, first:last, :, :, :tokens], self._values[layer, first:last, :, :tokens]


def _zeros_on_touch(shape: Sequence[int]) -> Tensor:
    """float32 zeros in anonymous memory: the kernel supplies a page when it is first written or read.

    A cache for 64 slots of 2,048 tokens is 400 MB; torch.zeros would write all of it at the start.
    """
    pages = mmap.mmap(-1, math.prod(shape) * FLOAT32_BYTES)
    return torch.frombuffer(pages, dtype=torch.float32).view(shape)
