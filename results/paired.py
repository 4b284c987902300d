"""Two engines on the same schedules: what differs, how surely, and how many pairs it would take.

The unit is the pair of runs, never the request: two runs of one engine differ, request by request, in a way that
every test on requests calls significant. Values are log ratios (or differences) with a row a pair and a column a
figure.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from results.intervals import LEAST_RUNS, student_t

Float64 = NDArray[np.float64]
STAGES = ((6, 0.03125), (10, 0.01875))
"""(pairs, error rate): 5 % in all when a comparison undecided at the first is extended to the second."""
EXACT_PAIRS = 16
SAMPLED_FLIPS = 1 << 16
TIE = 1e-9
POWER_FRACTION = 0.8
MOST_RUNS = 10_000
LEAST_FOR_SHAPE = 100
VALLEY_RATIO, SMALLEST_MODE_SHARE, SHAPE_P_FRACTION = 0.5, 0.05, 1e-3


class Finding(StrEnum):
    """What a comparison says of a figure."""

    HIGHER = "HIGHER"
    LOWER = "LOWER"
    SAME = "SAME"
    UNRESOLVED = "UNRESOLVED"


@dataclass(frozen=True, slots=True)
class Contrast:
    """One figure of B against A."""

    pairs: int
    centre: float
    """Mean log ratio ln(B / A), or the mean difference B - A."""
    spread: float | None
    """Standard deviation over pairs; None of a single one."""
    low: float | None
    """95 % t interval; None below three pairs."""
    high: float | None
    p_fraction: float
    """Adjusted for all figures that are compared."""
    finding: Finding
    needed: int | None
    """Pairs for 80 % power to see a difference at the practical threshold; None: not known."""


def alpha_at(pairs: int) -> float | None:
    """The error rate of a comparison of so many pairs; None where they can never suffice."""
    reached = [alpha for least, alpha in STAGES if pairs >= least]
    return reached[-1] if reached else None


def next_stage(pairs: int) -> int | None:
    """To how many pairs an undecided comparison is extended."""
    return next((least for least, _ in STAGES if least > pairs), None)


def step_down(values: Float64) -> Float64:
    """Adjusted two-sided p of each column: step-down max-T from joint sign flips of the rows.

    Under "no difference" A and B of a pair could be exchanged, which flips the sign of all its figures at once.
    All 2^K flips are counted (a fixed sample of them above 16 pairs), so the p is exact for any distribution and
    any dependence between figures. Westfall and Young, "Resampling-based multiple testing" (1993), ch. 4. The
    statistic |sum| / sqrt(K sum of squares) rises with |t| and has no division by a zero spread.
    """
    pairs, figures = values.shape
    squares = np.sqrt(pairs * np.square(values).sum(axis=0))
    scaled = np.divide(values, squares, out=np.zeros_like(values), where=squares > 0)
    flipped = np.abs(_signs(pairs) @ scaled)
    observed = np.abs(scaled.sum(axis=0))
    order = np.argsort(-observed, kind="stable")
    adjusted, above = np.ones(figures), 0.0
    for place in range(figures):
        largest = flipped[:, order[place:]].max(axis=1)
        above = max(above, float((largest >= observed[order[place]] - TIE).mean()))
        adjusted[order[place]] = above
    return adjusted


def contrast(values: Float64, thresholds: Sequence[float | None], families: int = 1) -> list[Contrast]:
    """Each column judged: its finding takes an adjusted p of at most the stage's rate and a practical size.

    A threshold is the smallest log ratio that matters, 0.03 say, either way; None: any size does (differences).
    `families`: how many such tables are judged at once (Bonferroni).
    """
    p_fractions = np.minimum(step_down(values) * families, 1.0)
    return [_judge(values[:, at], float(p_fractions[at]), threshold) for at, threshold in enumerate(thresholds)]


def runs_needed(effect: float, spread: float, sides: int = 2, alpha_fraction: float = 0.05) -> int | None:
    """Runs (or pairs) for 80 % power of a t test to see a mean of `effect` at this standard deviation.

    None where no number up to 10,000 would do: the effect is 0.
    """
    from scipy.special import nctdtr

    if not effect:
        return None
    if not spread:
        return LEAST_RUNS
    guess = int(((1.6449 + 0.8416) * spread / abs(effect)) ** 2 * 0.5)
    for count in range(max(LEAST_RUNS, min(guess, MOST_RUNS)), MOST_RUNS + 1):
        line = student_t(1 - alpha_fraction / sides, count - 1)
        shift = float(np.sqrt(count)) * abs(effect) / spread
        if 1 - float(nctdtr(count - 1, shift, line)) >= POWER_FRACTION:
            return count
    return None


def two_modes(values: Float64) -> bool:
    """Whether the values fall into two heaps with a valley between: a switch, not a shift.

    Split where the squares within the two parts are least; the middle quarter between their medians must hold less
    than half of what equal widths around either median hold, more clearly than chance does. A single falling or
    rising slope has no valley, whatever its tail. Never below 100 values.
    """
    from scipy.special import bdtr

    ordered = np.sort(values[np.isfinite(values)])
    if len(ordered) < LEAST_FOR_SHAPE or ordered[0] == ordered[-1]:
        return False
    split = _split(ordered)
    if min(split, len(ordered) - split) < SMALLEST_MODE_SHARE * len(ordered):
        return False
    low, high = float(np.median(ordered[:split])), float(np.median(ordered[split:]))
    width = (high - low) / 4
    counts = [_within(ordered, centre - width / 2, centre + width / 2) for centre in (low, (low + high) / 2, high)]
    valley, hill = counts[1], min(counts[0], counts[2])
    if valley >= VALLEY_RATIO * hill:
        return False
    return float(bdtr(valley, valley + hill, VALLEY_RATIO / (1 + VALLEY_RATIO))) < SHAPE_P_FRACTION


def _judge(column: Float64, p_fraction: float, threshold: float | None) -> Contrast:  # in the column's own unit
    pairs, centre = len(column), float(column.mean())
    spread = float(column.std(ddof=1)) if pairs > 1 else None
    low, high = _bounds(column, 0.975)
    alpha, matters = alpha_at(pairs), threshold is None or abs(centre) > threshold
    needed = runs_needed(threshold, spread) if threshold and spread is not None else None
    finding = Finding.UNRESOLVED
    if alpha is not None and p_fraction <= alpha and matters:
        finding = Finding.HIGHER if centre > 0 else Finding.LOWER
    elif threshold is not None and _inside(_bounds(column, 0.95), threshold):
        finding = Finding.SAME
    return Contrast(pairs, centre, spread, low, high, p_fraction, finding, needed)


def _inside(bounds: tuple[float | None, float | None], threshold: float) -> bool:  # in the bounds' own unit
    low, high = bounds
    return low is not None and high is not None and -threshold < low and high < threshold


def _bounds(column: Float64, share_fraction: float) -> tuple[float | None, float | None]:
    """Below three pairs there are none."""
    if len(column) < LEAST_RUNS:
        return None, None
    half = student_t(share_fraction, len(column) - 1) * float(column.std(ddof=1) / np.sqrt(len(column)))
    return float(column.mean()) - half, float(column.mean()) + half


def _signs(pairs: int) -> Float64:
    """A row a flip: all of them, or the identity and a fixed sample."""
    if pairs <= EXACT_PAIRS:
        flips = np.arange(1 << pairs)[:, None] >> np.arange(pairs) & 1
    else:
        raw = np.random.PCG64(pairs).random_raw(SAMPLED_FLIPS * pairs)
        flips = (raw >> np.uint64(63)).astype(np.int64).reshape(SAMPLED_FLIPS, pairs)
        flips[0] = 0
    return np.asarray(1.0 - 2.0 * flips)


def _split(ordered: Float64) -> int:
    """How many of the sorted values are in the lower part of the best two."""
    centred = ordered - ordered.mean()
    below = np.arange(1, len(ordered))
    sums = np.cumsum(centred)[:-1]
    between = sums**2 / below + sums**2 / (len(ordered) - below)
    return int(np.argmax(between)) + 1


def _within(ordered: Float64, low: float, high: float) -> int:
    return int(np.searchsorted(ordered, high, side="right") - np.searchsorted(ordered, low, side="left"))
