"""Which run of A is compared with which of B: those that played the same schedule."""

from collections.abc import Sequence
from dataclasses import dataclass

from results.comparison.conditions import Difference, differences, refuse, together
from results.comparison.trials import Side, Trial

Pair = tuple[Trial, Trial]


@dataclass(frozen=True, slots=True)
class Cell:
    """The pairs of one engine name at one load."""

    engine: str
    """Empty where each side has one, whatever it is called."""
    load: str
    """Empty where each side has one."""
    pairs: tuple[Pair, ...]
    unpaired: tuple[int, int]
    """Runs of A and of B without a partner."""
    same_schedules: bool


def pair_up(a: Side, b: Side, allowed: Sequence[str] = ()) -> tuple[tuple[Cell, ...], list[Difference]]:
    """Cells and all differences of conditions. ValueError in one line when the sides are not comparable."""
    cells = [_cell(engine, load, mine, theirs, allowed) for engine, load, mine, theirs in _groups(a, b)]
    found = together(differences(one.conditions, other.conditions) for cell in cells for one, other in cell.pairs)
    refuse(found, allowed, a.label, b.label)
    kept = tuple(cell for cell in cells if cell.pairs)
    if not kept:
        raise ValueError(f"{a.label} and {b.label} have no runs at the same load: nothing to compare")
    return kept, found


def _groups(a: Side, b: Side) -> list[tuple[str, str, list[Trial], list[Trial]]]:
    """(engine, load, runs of A, runs of B): by name where there are several to choose from."""
    by_engine = len(a.engines) > 1 or len(b.engines) > 1
    by_load = len(a.loads) > 1 or len(b.loads) > 1
    keys = dict.fromkeys((t.engine if by_engine else "", t.load if by_load else "") for t in a.trials)
    groups = []
    for engine, load in keys:
        mine, theirs = (
            [t for t in side.trials if (not by_engine or t.engine == engine) and (not by_load or t.load == load)]
            for side in (a, b)
        )
        if theirs:
            groups.append((engine, load, mine, theirs))
    return groups


def _cell(engine: str, load: str, mine: list[Trial], theirs: list[Trial], allowed: Sequence[str]) -> Cell:
    left = list(theirs)
    pairs: list[Pair] = []
    for one in mine:
        other = next((other for other in left if other.schedule_sha256 == one.schedule_sha256), None)
        if other is not None:
            left.remove(other)
            pairs.append((one, other))
    same = bool(pairs)
    if not pairs:
        # Nothing fits: paired by order, so that the stamps say what differs, and stand only if that was allowed.
        pairs = list(zip(mine, theirs, strict=False))
    counts = (len(mine) - len(pairs), len(theirs) - len(pairs))
    return Cell(engine, load, tuple(pairs), counts, same)
