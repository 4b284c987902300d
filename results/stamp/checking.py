"""What a check of the conditions looks at, and how it says what it saw."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from results.stamp.interpreter import Interpreter
from results.stamp.jitter import Probe
from results.stamp.kernel import MissingError
from results.stamp.surroundings import Surroundings

OK, WARN, INVALID = "ok", "warn", "invalid"
LEVELS = (OK, WARN, INVALID)
MIB, GIB = 2**20, 2**30
Seen = tuple[str, str]
"""Level, and what was seen."""


@dataclass(frozen=True, slots=True)
class Machine:
    """A process on a machine, and what a probe of it met."""

    place: Surroundings
    probe: Probe
    python: Interpreter
    cpus: tuple[int, ...]
    """Those that this process may use."""
    runs: Path
    """Where run folders would be written; it need not be there yet."""
    free_bytes: int | None
    clock_resolution_s: float


Limits = tuple[float, ...]
Check = Callable[[Machine], Seen]
"""MissingError where the machine does not tell."""


def above(value: float, limits: Limits) -> str:
    """The level of a value that should be small: above the first limit a warning, above the second invalid."""
    return LEVELS[sum(value > limit for limit in limits)]


def worse(*levels: str) -> str:
    """The highest of some levels."""
    return max(levels, key=LEVELS.index, default=OK)


def told(value: float | None, what: str) -> float:
    """The value, where the probe has one."""
    if value is None:
        raise MissingError(f"NOT_TOLD: {what}")
    return value


def standing(folder: Path) -> Path:
    """The folder, or the nearest above it that is there."""
    return next(one for one in (folder, *folder.parents) if one.exists())
