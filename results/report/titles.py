"""What the page is called, and which files it is made from."""

from dataclasses import dataclass

from results.report.folder import Folder, number_of
from results.report.load_words import CLOSED, load_text
from results.report.plain import joined

NAMED_ENGINES = 4


@dataclass(frozen=True, slots=True)
class Hashes:
    """Of one point: its schedule, the digest of its rows, its files."""

    name: str
    engine: str
    load: str
    state: str
    schedule_sha256: str
    digest_sha256: str
    files: tuple[tuple[str, str], ...]


def title_of(folder: Folder) -> str:
    """`3 engines at 5 loads`, or the engine and its load."""
    if folder.kind == "run":
        return f"{folder.engines[0]} at {load_text(folder.loads[0])}"
    named = folder.engines if len(folder.engines) <= NAMED_ENGINES else (f"{len(folder.engines)} engines",)
    known = [load for load in folder.loads if number_of(load) is not None]
    users = [load.removeprefix(CLOSED) for load in folder.loads if load.startswith(CLOSED)]
    closed = f"{joined(users)} user{'s' if users != ['1'] else ''} in a closed loop" if users else ""
    others = [closed, *(load for load in folder.loads if number_of(load) is None and not load.startswith(CLOSED))]
    span = f"{known[0]} to {known[-1]} req/s" if len(known) > 1 else "".join(map(load_text, known))
    return f"{joined(list(named))} at {joined([text for text in (span, *others) if text])}"


def hashes(folder: Folder) -> tuple[Hashes, ...]:
    """In the order of the points; what is not known is said to be so."""
    found = []
    for point in folder.points:
        files = point.info.get("files_sha256")
        found.append(
            Hashes(
                name=point.name,
                engine=point.engine,
                load=point.load,
                state=point.state,
                schedule_sha256=str(point.info.get("schedule_sha256") or "not known"),
                digest_sha256=str(point.info.get("digest_sha256") or "not known"),
                files=tuple(sorted((str(name), str(sha)) for name, sha in files.items()))
                if isinstance(files, dict)
                else (),
            )
        )
    return tuple(found)
