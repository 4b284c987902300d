"""Where a stamp is read from: handed to every reader, so that a made-up machine can be stamped as well as this one."""

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

PROGRAM = Path(__file__).resolve().parent.parent.parent
"""The folder that holds our four packages: a checkout, or where they were installed."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """A process on a machine."""

    root: Path
    """What stands above /proc and /sys."""
    environ: Mapping[str, str]
    argv: Sequence[str]
    cwd: Path
    home: Path
    search_path: Sequence[str]
    """sys.path: "" is the working directory."""
    modules: Mapping[str, ModuleType]
    """sys.modules: what has been imported already; nothing more is."""
    program: Path = PROGRAM


def here() -> Surroundings:
    """This process."""
    return Surroundings(
        root=Path("/"),
        environ=os.environ,
        argv=tuple(sys.argv),
        cwd=Path.cwd(),
        home=Path(os.path.expanduser("~")),  # noqa: PTH111 - Path.home() raises where there is none
        search_path=tuple(sys.path),
        modules=sys.modules,
    )
