"""Whether runs made again say what the first one said: figure by figure, by a test of equivalence."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log
from typing import Any

from results.equivalence import (
    MARGIN_RATIO,
    THROUGHPUT_MARGIN_RATIO,
    Equivalence,
    Likeness,
    against_one,
    worst,
)
from results.figures import FIGURES, HEADLINE, read

Json = dict[str, Any]
COMPARED = (*HEADLINE, "throughput")
NARROW = ("throughput",)
"""Figures that must agree within 5 % where the others have 10 %."""


@dataclass(frozen=True, slots=True)
class Likened:
    """One figure."""

    name: str
    first: float | None
    again: tuple[float | None, ...]
    likeness: Likeness | None
    """None: the first run does not give it either, and so it says nothing."""
    text: str
    equivalence: Equivalence | None = None

    def to_json(self) -> Json:
        """By name."""
        told: Json = {
            "title": FIGURES[self.name].title,
            "unit": FIGURES[self.name].unit,
            "first": self.first,
            "again": list(self.again),
            "likeness": self.likeness,
            "text": self.text,
        }
        found = self.equivalence
        if found is None:
            return told
        bounds = {"low_ratio": found.low_ratio, "high_ratio": found.high_ratio, "margin_ratio": found.margin_ratio}
        return {**told, "ratio": found.ratio, **bounds, "needed": found.needed}


def liken(
    first: Mapping[str, Any], again: Sequence[Mapping[str, Any]], margin_ratio: float = MARGIN_RATIO
) -> list[Likened]:
    """Every headline figure of new runs on the first run's schedule."""
    narrow = min(margin_ratio, THROUGHPUT_MARGIN_RATIO)
    return [_liken(name, first, again, narrow if name in NARROW else margin_ratio) for name in COMPARED]


def conclusion(found: Sequence[Likened]) -> Likeness:
    """The worst of the figures that the first run gives."""
    return worst([one.likeness for one in found if one.likeness is not None])


def runs_needed(found: Sequence[Likened]) -> int | None:
    """Runs in all that the open figures would take; None: none of them can be told, or nothing is open."""
    open_ = [one.equivalence for one in found if one.likeness is Likeness.INCONCLUSIVE]
    needed = [one.needed for one in open_ if one is not None and one.needed is not None]
    return max(needed) if needed else None


def _liken(name: str, first: Mapping[str, Any], again: Sequence[Mapping[str, Any]], margin_ratio: float) -> Likened:
    (value, reason), found = read(first, name), [read(one, name) for one in again]
    values = tuple(one for one, _ in found)
    if value is None:
        given = sum(one is not None for one in values)
        more = f", given by {given} of the {len(values)} new runs" if given else ""
        return Likened(name, None, values, None, f"the first run does not give it: {reason}{more}")
    missing = next((why for one, why in found if one is None), None)
    if missing is not None:
        return Likened(name, value, values, Likeness.INCONCLUSIVE, f"not given by every new run: {missing}")
    known = [one for one in values if one is not None]
    if value <= 0 or any(one <= 0 for one in known):
        same = all(one == value for one in known)
        likeness = Likeness.REPRODUCED if same else Likeness.DIFFERS
        return Likened(name, value, values, likeness, "equal" if same else "0 on one side, which has no ratio")
    result = against_one([log(one / value) for one in known], margin_ratio, len(COMPARED))
    return Likened(name, value, values, result.likeness, _told(result), result)


def _told(found: Equivalence) -> str:
    change = f"{100 * (found.ratio - 1):+.2f} %"
    if found.low_ratio is None or found.high_ratio is None:
        return f"{change}: no interval of so few runs"
    bounds = f"{100 * (found.low_ratio - 1):+.2f} % to {100 * (found.high_ratio - 1):+.2f} %"
    return f"{change} ({bounds}; allowed {100 * found.margin_ratio:g} %)"
