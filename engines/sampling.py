"""The next token of each row: the likeliest, or one drawn by the request's own seed.

A draw's random number comes from (seed, position) by hashing, not from a generator with a state, so a request
gets the same tokens whoever shares its batch and in whatever order rows are drawn.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from engines.policies import Row

_MASK64 = 2**64 - 1
_GOLDEN = 0x9E3779B97F4A7C15


def choose(logits: Tensor, rows: Sequence[Row]) -> list[int]:
    """A token id a row, from logits (rows, vocabulary). Without a seed, a request's id stands in for it."""
    tokens: list[int] = logits.argmax(-1).tolist()
    drawn = [index for index, row in enumerate(rows) if row.request.params.temperature > 0]
    if drawn:
        for index, token in zip(drawn, _draw(logits[drawn], [rows[index] for index in drawn]), strict=True):
            tokens[index] = token
    return tokens


def _draw(logits: Tensor, rows: Sequence[Row]) -> list[int]:
    temperatures = torch.tensor([row.request.params.temperature for row in rows], dtype=torch.float64)
    cumulative = torch.softmax(logits.double() / temperatures.unsqueeze(1), -1).cumsum(-1)
    uniform = torch.tensor([uniform_of(_seed(row), row.output_tokens) for row in rows], dtype=torch.float64)
    below = uniform.unsqueeze(1) * cumulative[:, -1:]
    found = torch.searchsorted(cumulative, below, right=True).clamp_(max=logits.shape[1] - 1)
    tokens: list[int] = found.squeeze(1).tolist()
    return tokens


def _seed(row: Row) -> int:
    seed = row.request.params.seed
    return row.request_id if seed is None else seed


def uniform_of(seed: int, position: int) -> float:
    """In [0, 1), a function of its arguments alone: two rounds of the splitmix64 finaliser."""
    return (_mixed(_mixed(seed & _MASK64) + position & _MASK64) >> 11) / 2**53


def _mixed(state: int) -> int:
    state = (state + _GOLDEN) & _MASK64
    state = (state ^ state >> 30) * 0xBF58476D1CE4E5B9 & _MASK64
    state = (state ^ state >> 27) * 0x94D049BB133111EB & _MASK64
    return state ^ state >> 31
