"""A claim, where it comes from, and what the rows say to it."""

from dataclasses import dataclass

HOLDS, FAILS, UNJUDGED = "holds", "does not hold", "cannot be judged"


@dataclass(frozen=True, slots=True)
class Source:
    """Where a claim comes from, and under what conditions it was made."""

    text: str
    conditions: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """What this folder says to a claim."""

    here: str
    answer: str
    why: str


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim with its outcome."""

    quote: str
    source: Source
    theirs: str
    outcome: Outcome


def unjudged(why: str) -> Outcome:
    """Nothing can be said, and why."""
    return Outcome("–", UNJUDGED, why)
