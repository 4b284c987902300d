"""The search for the largest rate that passes: a bracket, then bisection in the logarithm of the rate, seed by seed.

Within a seed the workload is fixed and only stretched, so that chance cannot send the search the wrong way: with a
fresh workload at each step more than a third of all searches do not rise and fall once. Knows nothing of engines:
what a rate gives, it asks.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import sqrt

from results.intervals import Interval, over_runs

Ask = Callable[[float, int, int], bool]
"""(requests per second, seed, requests) -> whether it passes."""
DIGITS = 6
MOST_DOUBLINGS = 24
SHARED_RATIO = 1.2
"""How far around the capacities found so far the next seed begins."""


@dataclass(frozen=True, slots=True)
class Effort:
    """How much a search takes."""

    seeds: tuple[int, ...]
    requests: int = 1_000
    bracket_requests: int = 300
    tolerance_ratio: float = 1.02
    """A seed is done when its highest passing and lowest failing rate are so close."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One rate that was asked for."""

    rate_rps: float
    seed: int
    requests: int
    passed: bool


@dataclass(frozen=True, slots=True)
class Capacity:
    """What a search found."""

    interval: Interval
    """Over seeds, in requests/s."""
    per_seed_rps: tuple[float, ...]
    answers: tuple[Answer, ...]
    """In the order in which they were asked."""
    not_monotone: tuple[tuple[int, float, float], ...] = ()
    """(seed, a rate that failed, a higher one that passed)."""


@dataclass(slots=True)
class _Search:
    """Asks, and remembers what it was told: no rate of a seed is asked twice."""

    ask: Ask
    answers: list[Answer] = field(default_factory=list)

    def passes(self, rate_rps: float, seed: int, requests: int) -> bool:
        """Ask, unless it is known."""
        for one in self.answers:
            if (one.rate_rps, one.seed, one.requests) == (rate_rps, seed, requests):
                return one.passed
        passed = self.ask(rate_rps, seed, requests)
        self.answers.append(Answer(rate_rps, seed, requests, passed))
        return passed


def find_capacity(ask: Ask, start_rps: float, effort: Effort) -> Capacity | None:
    """Bracket with the first seed, then one capacity a seed and the interval over them.

    None: nothing passes, however low, or everything, however high, within 24 doublings.
    """
    search = _Search(ask)
    bracket = _bracket(search, _written(start_rps), effort.seeds[0], effort.bracket_requests)
    if bracket is None:
        return None
    found: list[float] = []
    for seed in effort.seeds:
        low, high = bracket
        if found:
            low = max(low, _written(min(found) / SHARED_RATIO))
            high = min(high, _written(max(found) * SHARED_RATIO))
        capacity_rps = _bisect(search, seed, low, high, effort)
        if capacity_rps is None:
            return None
        found.append(capacity_rps)
    return Capacity(over_runs(found), tuple(found), tuple(search.answers), not_monotone(search.answers))


def not_monotone(answers: Sequence[Answer]) -> tuple[tuple[int, float, float], ...]:
    """Where a higher rate of the same seed and length passed after a lower one had failed."""
    return tuple(
        (failed.seed, failed.rate_rps, passed.rate_rps)
        for failed in answers
        for passed in answers
        if not failed.passed
        and passed.passed
        and (failed.seed, failed.requests) == (passed.seed, passed.requests)
        and passed.rate_rps > failed.rate_rps
    )


def _bracket(search: _Search, start_rps: float, seed: int, requests: int) -> tuple[float, float] | None:
    """The highest rate that passes and the lowest that fails, a factor of two apart."""
    rate_rps = start_rps
    passed = search.passes(rate_rps, seed, requests)
    for _ in range(MOST_DOUBLINGS):
        other_rps = _written(rate_rps * 2 if passed else rate_rps / 2)
        if search.passes(other_rps, seed, requests) != passed:
            return min(rate_rps, other_rps), max(rate_rps, other_rps)
        rate_rps = other_rps
    return None


def _bisect(search: _Search, seed: int, low: float, high: float, effort: Effort) -> float | None:
    """Between a rate that passes and one that fails; an end that was never asked is asked before it is believed.

    An end that gives way is moved by steps that grow.
    """
    low_known, high_known, step = False, False, SHARED_RATIO
    for _ in range(2 * MOST_DOUBLINGS):
        if high / low <= effort.tolerance_ratio:
            if low_known and high_known:
                return sqrt(low * high)
            rate_rps = low if not low_known else high
        else:
            rate_rps = _written(sqrt(low * high))
        if search.passes(rate_rps, seed, effort.requests):
            low, low_known = rate_rps, True
            if rate_rps >= high:
                high, step = _written(high * step), step * step
        else:
            high, high_known = rate_rps, True
            if rate_rps <= low:
                low, step = _written(low / step), step * step
    return None


def _written(rate_rps: float) -> float:
    """In six digits: what is asked is what is written down."""
    return float(f"{rate_rps:.{DIGITS}g}")
