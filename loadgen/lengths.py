"""Prompt and output lengths in tokens, each from its own stream. To add a distribution: one function, one row."""

from collections.abc import Callable

import numpy as np

from loadgen.streams import integers, uniforms
from results.columns import Int64

Lengths = Callable[[int, int, str, tuple[int, int]], Int64]


def fixed(count: int, seed: int, stream: str, bounds: tuple[int, int]) -> Int64:
    """All the same."""
    return np.full(count, bounds[0], dtype=np.int64)


def uniform(count: int, seed: int, stream: str, bounds: tuple[int, int]) -> Int64:
    """Uniform over bounds, both included."""
    return integers(uniforms(seed, f"lengths.{stream}", count), *bounds)


DISTRIBUTIONS: dict[str, Lengths] = {"fixed": fixed, "uniform": uniform}


def draw_lengths(count: int, seed: int, stream: str, bounds: tuple[int, int]) -> Int64:
    """`stream` is prompt or output; one bound is fixed, two are uniform."""
    name = "fixed" if bounds[0] == bounds[1] else "uniform"
    return DISTRIBUTIONS[name](count, seed, stream, bounds)
