"""What the claims are judged on: engines by their role, ratios at each load over all repeats, chosen recordings."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from results.recording import Recording
from results.report.figures import amount, figure_of
from results.report.folder import Folder, recording_of
from results.report.grid import busiest_load, role, saturating_rate
from results.report.load_words import short_load
from results.report.plain import joined

RESOLVED_RATIO = 0.03
"""Differences below 3 % are not taken for differences: the machine alone makes them."""
BETTER, WORSE, ALIKE, MIXED = "better", "worse", "alike", "mixed"


@dataclass(frozen=True, slots=True)
class Pair:
    """One figure of two engines at one load, on the same schedules."""

    load: str
    first: float
    """Mean over the repeats, of the engine that is compared with."""
    other: float
    ratios: tuple[float, ...]
    """other / first, one a repeat."""

    @property
    def ratio(self) -> float:
        """Of the means."""
        return self.other / self.first

    def change(self) -> str:
        """Lower is better, as for latencies; alike within 3 %; mixed when the repeats disagree."""
        if all(ratio < 1 - RESOLVED_RATIO for ratio in self.ratios):
            return BETTER
        if all(ratio > 1 + RESOLVED_RATIO for ratio in self.ratios):
            return WORSE
        return ALIKE if abs(self.ratio - 1) <= RESOLVED_RATIO else MIXED


class Evidence:
    """A sweep, asked by role."""

    def __init__(self, folder: Folder) -> None:
        """Reads nothing yet."""
        self.folder = folder
        self.names = {name: role(folder, name) for name in ("one", "static", "continuous")}

    def lacks(self, *roles: str) -> str:
        """Why nothing can be said without these engines; empty when all are there."""
        words = {"one": "one-by-one", "static": "static", "continuous": "continuous"}
        missing = [words[name] for name in roles if self.names[name] is None]
        return f"no {' and no '.join(missing)} engine in this folder" if missing else ""

    @cached_property
    def busiest(self) -> str:
        """The burst, or the highest load."""
        return busiest_load(self.folder) or ""

    @cached_property
    def saturating(self) -> str:
        """The rate next to what static batching can do."""
        static = self.names["static"]
        return (saturating_rate(self.folder, static) if static else None) or self.busiest

    def mean(self, name: str, load: str, group: str, figure: str) -> float | None:
        """Of one engine at one load."""
        engine = self.names[name]
        return figure_of(self.folder.at(engine, load), group, figure).value if engine else None

    def pairs(self, first: str, other: str, group: str, figure: str) -> list[Pair]:
        """At every load where both engines have it."""
        found = [self.pair(first, other, load, group, figure) for load in self.folder.loads]
        return [pair for pair in found if pair is not None]

    def pair(self, first: str, other: str, load: str, group: str, figure: str) -> Pair | None:
        """At one load; the same repeats of both."""
        values = [self._by_repeat(name, load, group, figure) for name in (first, other)]
        repeats = sorted(values[0].keys() & values[1].keys())
        ratios = tuple(values[1][repeat] / values[0][repeat] for repeat in repeats if values[0][repeat])
        if not ratios:
            return None
        means = [sum(found[repeat] for repeat in repeats) / len(repeats) for found in values]
        return Pair(load, means[0], means[1], ratios)

    def recording(self, name: str, load: str) -> Recording | None:
        """The rows of the first repeat."""
        engine = self.names[name]
        points = self.folder.at(engine, load) if engine else ()
        return recording_of(points[0]) if points else None

    def _by_repeat(self, name: str, load: str, group: str, figure: str) -> dict[int, float]:
        engine = self.names[name]
        points = self.folder.at(engine, load) if engine else ()
        values = {point.repeat_id: figure_of([point], group, figure).value for point in points}
        return {repeat: value for repeat, value in values.items() if value is not None}


def series(pairs: Sequence[Pair], unit: str) -> str:
    """`4/s 14.2 → 13.1, burst 7,049 → 3,609 ms`; a pair is not broken over two lines."""
    to = "\N{NO-BREAK SPACE}→\N{NO-BREAK SPACE}"
    parts = [f"{short_load(pair.load)} {amount(pair.first)}{to}{amount(pair.other)}" for pair in pairs]
    return ", ".join(parts) + f" {unit}" if parts else ""


def loads_text(pairs: Sequence[Pair]) -> str:
    """Their loads: `4/s, 8/s and burst`."""
    return joined([short_load(pair.load) for pair in pairs])
