"""Whether a second measurement says the same as the first: by a test of equivalence, not by overlapping intervals.

Two one-sided tests (Schuirmann, 1987) at 5 % each: the 90 % interval of the log ratio has to lie inside the margin.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from results.intervals import LEAST_RUNS, student_t

MARGIN_RATIO = 0.10
THROUGHPUT_MARGIN_RATIO = 0.05
POWER_FRACTION = 0.8
MOST_RUNS = 1_000


class Likeness(StrEnum):
    """What a repeated measurement says of the first."""

    REPRODUCED = "REPRODUCED"
    DIFFERS = "DIFFERS"
    INCONCLUSIVE = "INCONCLUSIVE"


@dataclass(frozen=True, slots=True)
class Equivalence:
    """One figure, measured again."""

    likeness: Likeness
    ratio: float
    """New / first."""
    low_ratio: float | None
    """90 % interval: two one-sided tests at 5 %. None below three runs."""
    high_ratio: float | None
    margin_ratio: float
    needed: int | None
    """Runs in all for 80 % power to show equivalence, if things are as they look; None: none would."""


def against_one(log_ratios: Sequence[float], margin_ratio: float = MARGIN_RATIO, families: int = 1) -> Equivalence:
    """New runs against one and the same first run, whose own chance counts like that of any other run.

    `families`: how many figures are judged at once. One that differs makes the whole differ, so that each has its
    part of the 5 % (Bonferroni); that all are equivalent takes no such care.
    """
    values, margin = np.array(log_ratios, dtype=np.float64), float(np.log1p(margin_ratio))
    count, centre = len(values), float(values.mean())
    if count < LEAST_RUNS:
        ratio = float(np.exp(centre))
        return Equivalence(Likeness.INCONCLUSIVE, ratio, None, None, margin_ratio, LEAST_RUNS)
    spread = float(values.std(ddof=1))
    error = spread * float(np.sqrt(1 / count + 1))
    half, wide = (student_t(share, count - 1) * error for share in (0.95, 1 - 0.025 / families))
    likeness = Likeness.INCONCLUSIVE
    if -margin < centre - half and centre + half < margin:
        likeness = Likeness.REPRODUCED
    elif abs(centre) > wide and abs(centre) > margin:
        likeness = Likeness.DIFFERS
    low, high = (float(np.exp(centre + side * half)) for side in (-1, 1))
    needed = _needed(abs(centre), spread, margin) if likeness is Likeness.INCONCLUSIVE else count
    return Equivalence(likeness, float(np.exp(centre)), low, high, margin_ratio, needed)


def worst(found: Sequence[Likeness]) -> Likeness:
    """One figure that differs makes it DIFFERS; else one that is open makes it INCONCLUSIVE."""
    for likeness in (Likeness.DIFFERS, Likeness.INCONCLUSIVE):
        if likeness in found or not found:
            return likeness if found else Likeness.INCONCLUSIVE
    return Likeness.REPRODUCED


def _needed(shift: float, spread: float, margin: float) -> int | None:  # all three in log ratio
    """Runs so that both one-sided tests reject with 80 % probability."""
    from scipy.special import stdtr

    for count in range(LEAST_RUNS, MOST_RUNS + 1):
        error = spread * float(np.sqrt(1 / count + 1))
        line = student_t(0.95, count - 1)
        if not error:
            return count if shift < margin else None
        above, below = (margin - shift) / error - line, (margin + shift) / error - line
        if float(stdtr(count - 1, above) + stdtr(count - 1, below)) - 1 >= POWER_FRACTION:
            return count
    return None
