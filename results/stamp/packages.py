"""What is installed, and who else answers to the names of our packages: found on the search path, not imported."""

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from importlib.metadata import Distribution, distributions
from pathlib import Path

from results.stamp.canonical import Json

OURS = ("loadgen", "targets", "engines", "results")
PROJECT = "tokenload"


def entries(search_path: Sequence[str], cwd: Path) -> tuple[str, ...]:
    """The folders of the search path, each once, "" being the working directory."""
    return tuple(dict.fromkeys(str(cwd / entry) for entry in search_path))


@cache
def installed(search: tuple[str, ...]) -> dict[str, str | None]:
    """Name -> version of every distribution, names in small letters with hyphens; the first on the path counts.

    Read once a process for each search path: what is installed while it runs is not noticed.
    """
    found: dict[str, str | None] = {}
    for one in distributions(path=list(search)):
        name, version = _name_and_version(one)
        found.setdefault(name, version)
    return found


def requirement(search: tuple[str, ...], name: str) -> str | None:
    """The version range, such as `<2.14,>=2.6`, that our own distribution asks of another; None when it does not."""
    for one in distributions(path=list(search), name=PROJECT):
        for line in one.requires or ():
            asked, wanted = re.split(r"(?=[\s<>=!~;\[(])", line, maxsplit=1) if re.search(r"\W", line) else (line, "")
            if asked == name:
                return wanted.partition(";")[0].strip(" ()")
    return None


@cache
def collisions(search: tuple[str, ...], program: Path, cwd: Path) -> tuple[Json, ...]:
    """Others that provide a package or module of one of our names.

    Each has package, where, provided_by (a distribution, None when none says so) and shadows: whether it comes
    before ours on the search path. A folder without __init__.py is none: ours wins wherever it stands.
    """
    places = [Path(entry).resolve() for entry in search]
    ours = places.index(program) if program in places else len(places)
    found = [
        {
            "package": name,
            "where": str(place),
            "provided_by": _owner(place, name),
            "shadows": place in places and places.index(place) < ours,
        }
        for place in dict.fromkeys([*places, cwd.resolve()])
        if place != program
        for name in OURS
        if _provides(place, name)
    ]
    return (*found, *_declared(search, {(one["package"], one["provided_by"]) for one in found}))


def _provides(place: Path, name: str) -> bool:
    return (place / name / "__init__.py").is_file() or (place / f"{name}.py").is_file()


def _owner(place: Path, name: str) -> str | None:
    """The distribution in that folder whose list of files has the package."""
    starts = (f"{name}/", f"{name}.py,")
    for one in distributions(path=[str(place)]):
        record = one.read_text("RECORD") or ""
        if any(line.startswith(starts) for line in record.splitlines()):
            return _name_and_version(one)[0]
    return None


def _declared(search: tuple[str, ...], known: Iterable[tuple[object, object]]) -> Iterator[Json]:
    """Editable installations that reach elsewhere say their packages only in top_level.txt."""
    seen = set(known)
    for one in distributions(path=list(search)):
        for name in sorted(set((one.read_text("top_level.txt") or "").split()) & set(OURS)):
            owner = _name_and_version(one)[0]
            if owner != PROJECT and (name, owner) not in seen:
                seen.add((name, owner))
                yield {"package": name, "where": None, "provided_by": owner, "shadows": False}


def _name_and_version(distribution: Distribution) -> tuple[str, str | None]:
    """From the head of its metadata: reading all of it takes ten times as long."""
    head = (distribution.read_text("METADATA") or distribution.read_text("PKG-INFO") or "").partition("\n\n")[0]
    values = dict(line.partition(": ")[::2] for line in head.splitlines() if line.startswith(("Name: ", "Version: ")))
    return re.sub(r"[-_.]+", "-", values.get("Name", "unnamed")).lower().strip(), values.get("Version")
