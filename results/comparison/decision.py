"""The decision: from pairs of summaries to what may be said of each figure.

Everything that is compared at once is one family: all headline figures of all loads of a pair of runs are flipped
together, so that looking at many figures does not raise the error rate.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, log
from typing import Any

import numpy as np

from results.figures import FIGURES, HEADLINE, read
from results.intervals import UNSTABLE_CV_RATIO, over_runs, run_cv
from results.paired import Contrast, Finding, contrast

Json = dict[str, Any]
PairOfSummaries = tuple[Mapping[str, Any], Mapping[str, Any]]
BETTER, WORSE, SAME, UNRESOLVED, MIXED = "better", "worse", "same", "unresolved", "mixed"


@dataclass(frozen=True, slots=True)
class Compared:
    """One figure of one cell."""

    name: str
    a: tuple[float | None, ...]
    """One value a pair."""
    b: tuple[float | None, ...]
    reason: str | None = None
    """Why there is no contrast."""
    contrast: Contrast | None = None
    is_ratio: bool = True
    """Whether the contrast is of ln(B / A), or of B - A because a value is 0."""

    @property
    def word(self) -> str:
        """better, worse, same or unresolved: B against A."""
        if self.contrast is None or self.contrast.finding is Finding.UNRESOLVED:
            return UNRESOLVED
        if self.contrast.finding is Finding.SAME:
            return SAME
        return BETTER if (self.contrast.finding is Finding.HIGHER) == FIGURES[self.name].higher_is_better else WORSE

    @property
    def log_ratios(self) -> list[float] | None:
        """ln(B / A) of each pair, or None where there are none."""
        if self.reason is not None or not self.is_ratio:
            return None
        return [log(b / a) for a, b in zip(self.a, self.b, strict=True) if a and b]

    def to_json(self) -> Json:
        """Figures as they are read: means over runs, the ratio B / A, its interval, p, word."""
        found = self.contrast
        told: Json = {
            "title": FIGURES[self.name].title,
            "unit": FIGURES[self.name].unit,
            "a": _over(self.a),
            "b": _over(self.b),
            "word": self.word,
            "practical_ratio": FIGURES[self.name].practical_ratio,
        }
        if found is None:
            return {**told, "ratio": None, "reason": self.reason}
        kind = "ratio" if self.is_ratio else "difference"
        bounds = (found.centre, found.low, found.high)
        values = [value if value is None or not self.is_ratio else exp(value) for value in bounds]
        told.update(zip((kind, "low", "high"), values, strict=True))
        more = {"reason": "NO_RATIO: a value is 0, so differences are compared"} if not self.is_ratio else {}
        return {**told, "p_fraction": found.p_fraction, "pairs": found.pairs, "needed": found.needed, **more}


def decide(cells: Sequence[Sequence[PairOfSummaries]], names: Sequence[str] = HEADLINE) -> list[list[Compared]]:
    """For each cell its figures, judged together. Cells with another number of pairs are families of their own."""
    measured = [[_measure(name, pairs) for name in names] for pairs in cells]
    counts = {len(pairs) for pairs in cells}
    judged: dict[tuple[int, int], Compared] = {}
    for count in counts:
        places = [
            (row, at)
            for row, figures in enumerate(measured)
            for at, one in enumerate(figures)
            if len(cells[row]) == count and one.reason is None
        ]
        for place, found in zip(places, _judged([measured[r][c] for r, c in places], len(counts)), strict=True):
            judged[place] = found
    return [[judged.get((row, at), one) for at, one in enumerate(figures)] for row, figures in enumerate(measured)]


def overall(compared: Sequence[Compared]) -> str:
    """One word for B: better or worse where something is, mixed where both; same only where everything is."""
    words = {one.word for one in compared}
    if BETTER in words and WORSE in words:
        return MIXED
    for word in (BETTER, WORSE, UNRESOLVED):
        if word in words:
            return word
    return SAME if words else UNRESOLVED


def _judged(figures: Sequence[Compared], families: int) -> list[Compared]:  # families: Bonferroni over them
    if not figures:
        return []
    columns = np.array([_column(one) for one in figures], dtype=np.float64).T
    limits = [FIGURES[one.name].practical_log_ratio if one.is_ratio else None for one in figures]
    found = contrast(columns, limits, families)
    return [Compared(one.name, one.a, one.b, None, how, one.is_ratio) for one, how in zip(figures, found, strict=True)]


def _column(one: Compared) -> list[float]:
    ratios = one.log_ratios
    return ratios if ratios is not None else [(b or 0.0) - (a or 0.0) for a, b in zip(one.a, one.b, strict=True)]


def _measure(name: str, pairs: Sequence[PairOfSummaries]) -> Compared:
    """The figure of every pair; a pair without it leaves the figure without a contrast."""
    found = [(read(a, name), read(b, name)) for a, b in pairs]
    a, b = tuple(one[0][0] for one in found), tuple(one[1][0] for one in found)
    reasons = [reason for one in found for _, reason in one if reason is not None]
    known = [value for value in (*a, *b) if value is not None]
    return Compared(name, a, b, reasons[0] if reasons else None, None, all(value > 0 for value in known))


def _over(values: Sequence[float | None]) -> Json:
    told: Json = over_runs(values).to_json()
    cv = run_cv([value for value in values if value is not None]) if None not in values else None
    return {**told, "run_cv": cv, "unstable": cv is not None and cv > UNSTABLE_CV_RATIO}
