"""When the tokens of a long modelled run came, without a row for each: they follow from the steps.

Valid for engines that stream and give every row in a slot one token in each decode: a request's first token comes
with the step it was admitted in, and one more with every decode after that, until its last step. 10^6 requests of 200
tokens are 2 x 10^8 deliveries, but only some 10^6 stretches; what is asked of the former is computed from the latter.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from results.columns import NULL, Int64, Table, int64
from results.steps import PS_PER_NS, step_ends_ns

Float64 = NDArray[np.float64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class TokenSpans:
    """Of each request the first and the last step that may have given it a token, and the times of all decodes."""

    first_step: Int64
    """In which it was admitted; NULL: it never got a slot, and so no token."""
    last_step: Int64
    """Of its last token, or beyond it; NULL where `first_step` is."""
    seated: Mask
    """Which requests have any token. What follows is of these alone, in the order of their ids."""
    first_ns: Int64
    """When the first token came."""
    low: Int64
    """The first decode of each, as an index into `decode_ends_ns`."""
    high: Int64
    """One past its last decode."""
    decode_ends_ns: Int64
    """When each decode of the run ended."""

    @cached_property
    def last_ns(self) -> Int64:
        """When the last token of each seated request came."""
        several = self.high > self.low
        last_ns = self.first_ns.copy()
        last_ns[several] = self.decode_ends_ns[self.high[several] - 1]
        return last_ns

    @cached_property
    def stall_ns(self) -> Float64:
        """The longest gap between two tokens of each seated request, by range maximum; NaN below two."""
        low, high = self.low, self.high
        longest = np.full(len(low), np.nan)
        several = high > low
        longest[several] = self.decode_ends_ns[low[several]] - self.first_ns[several]
        many = high > low + 1
        gaps = np.diff(self.decode_ends_ns)
        longest[many] = np.maximum(longest[many], _range_maxima(gaps, low[many], high[many] - 1))
        return longest

    @cached_property
    def tokens(self) -> Int64:
        """How many each request got."""
        counts = np.zeros(len(self.seated), dtype=np.int64)
        counts[self.seated] = 1 + self.high - self.low
        return counts

    def of_all(self, values: NDArray[np.generic]) -> NDArray[np.generic]:
        """Values of the seated as values of every request: NaN for the others, of counts 0."""
        nothing = np.nan if np.issubdtype(values.dtype, np.floating) else 0
        everyone = np.full(len(self.seated), nothing, dtype=values.dtype)
        everyone[self.seated] = values
        return everyone

    def gaps_ns(self, chosen: Mask) -> tuple[Int64, Int64]:
        """Every gap between two tokens of the chosen requests, as (length, how many had it).

        Who decodes in two decodes one after the other has the gap between them; after its first token comes one gap
        of its own.
        """
        good = chosen[self.seated]
        low, high, first_ns = self.low[good], self.high[good], self.first_ns[good]
        several, ends = high > low, self.decode_ends_ns
        low, high, first_ns = low[several], high[several], first_ns[several]
        counts = np.bincount(low, minlength=len(ends) + 1)
        counts -= np.bincount(high - 1, minlength=len(ends) + 1)
        counts = np.cumsum(counts, out=counts)[: max(len(ends) - 1, 0)]
        had = counts > 0
        values = np.concatenate([np.diff(ends)[had], ends[low] - first_ns])
        return int64(values), np.concatenate([counts[had], np.ones(len(low), dtype=np.int64)])

    def tokens_until(self, until_ns: int) -> int:
        """How many tokens came by then."""
        decodes = int(np.searchsorted(self.decode_ends_ns, until_ns, side="right"))
        later = np.maximum(np.minimum(self.high, decodes) - self.low, 0)
        return int((self.first_ns <= until_ns).sum() + later.sum())


def spans_of(steps: Table, first_step: Int64, last_step: Int64) -> TokenSpans:
    """From the step table, and of each request the step of its admission and the last that may have given it any."""
    seated: Mask = np.asarray(first_step != NULL)
    low, high = (_decodes_through(steps, column[seated]) for column in (first_step, last_step))
    return TokenSpans(
        first_step=first_step,
        last_step=last_step,
        seated=seated,
        first_ns=step_ends_ns(steps, first_step[seated]),
        low=low,
        high=int64(np.maximum(low, high)),
        decode_ends_ns=_decode_ends_ns(steps),
    )


def _decodes(steps: Table) -> Int64:
    """Of each row of the table, how many decodes it stands for."""
    return int64(np.where(int64(steps["decoding_slots"]) > 0, int64(steps["n_steps"]), 0))


def _decodes_through(steps: Table, step: Int64) -> Int64:
    """How many decodes there are up to each of these steps, it included."""
    begins, decodes = int64(steps["step"]), _decodes(steps)
    if not len(begins):
        return np.zeros(len(step), dtype=np.int64)
    until = np.minimum(step, begins[-1] + int64(steps["n_steps"])[-1] - 1)
    rows = np.searchsorted(begins, until, side="right") - 1
    before = np.cumsum(decodes) - decodes
    return int64(before[rows] + np.minimum(until - begins[rows] + 1, decodes[rows]))


def _decode_ends_ns(steps: Table) -> Int64:
    """When each decode ended: its row's start, and what it and those before it in the row cost. Little is copied."""
    decodes = _decodes(steps)
    taken = np.arange(1, int(decodes.sum()) + 1)
    taken -= np.repeat(np.cumsum(decodes) - decodes, decodes)
    ends = np.repeat(int64(steps["cost_ps"]), decodes)
    ends *= taken
    ends += np.repeat(int64(steps["start_ps"]), decodes)
    slopes = np.repeat(int64(steps["cost_slope_ps"]), decodes)
    slopes *= taken * (taken - 1) // 2
    ends += slopes
    ends //= PS_PER_NS
    return ends


def _range_maxima(values: Int64, low: Int64, high: Int64) -> Float64:
    """The largest of values[low:high] for each pair, none of which is empty.

    Level k of a sparse table, made out of the one before it, has the largest of 2^k values in a row.
    """
    longest = np.zeros(len(low))
    for level, table in _levels(values, int((high - low).max(initial=0))):
        width = 2**level
        here = (high - low >= width) & (high - low < 2 * width)
        longest[here] = np.maximum(table[low[here]], table[high[here] - width])
    return longest


def _levels(values: Int64, most_rows: int) -> Iterator[tuple[int, Int64]]:
    level, table = 0, values
    while 2**level <= most_rows:
        yield level, table
        half = 2**level
        table = np.maximum(table[:-half], table[half:]) if len(table) > half else table
        level += 1
