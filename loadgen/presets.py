"""Workloads of published texts by name. To add one: a function of a number of requests and a seed, and one row.

Arrivals are the config's own: a rate, or a burst.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from loadgen.lengths import draw_lengths
from loadgen.streams import exponentials, uniforms
from results.columns import Int64, int64

MEAN_TOKENS, CAP_TOKENS = 128, 1536
BATCH_ANSWERS = (100, 200, 300, 1000)


@dataclass(frozen=True, slots=True)
class Preset:
    """Lengths of a text's workload, and how many requests it had."""

    requests: int
    lengths: Callable[[int, int], tuple[Int64, Int64]]
    """(requests, seed) -> prompt and output tokens."""


def capped_exponential(requests: int, seed: int, cap_tokens: int) -> Int64:
    """Exponential around 128, whole and at least 1; what exceeds the cap is drawn again, which moves the mean."""
    drawn = np.ceil(exponentials(uniforms(seed, "lengths.output", 8 * requests)) * MEAN_TOKENS)
    kept = np.maximum(drawn[drawn <= cap_tokens], 1).astype(np.int64)
    if len(kept) < requests:
        raise ValueError(f"a cap of {cap_tokens} tokens keeps too few of the lengths drawn: take a larger one")
    return int64(kept[:requests])


def anyscale(requests: int, seed: int, cap_tokens: int = CAP_TOKENS) -> tuple[Int64, Int64]:
    """512 tokens in, capped exponential out: a text on continuous batching of 2023."""
    return int64(np.full(requests, 512)), capped_exponential(requests, seed, cap_tokens)


def orca(requests: int, seed: int) -> tuple[Int64, Int64]:
    """U{32..512} in, U{1..128} out: the evaluation of iteration-level scheduling, OSDI 2022."""
    return draw_lengths(requests, seed, "prompt", (32, 512)), draw_lengths(requests, seed, "output", (1, 128))


def h100(requests: int, seed: int) -> tuple[Int64, Int64]:
    """Batches of four answers of which only the last is long: a page on batching."""
    return int64(np.ones(requests)), int64(np.resize(BATCH_ANSWERS, requests))


LENGTHS = {
    "seed2-h100": Preset(4, h100),
    "anyscale-2023": Preset(1000, anyscale),
    "orca-2022": Preset(1000, orca),
}
