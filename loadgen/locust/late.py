"""Parts that come after their run: what a spool still held when the master had died, or had given its worker up.

They go into the run's folder while that is unfinished, where every reader finds them. The folder of a finished run
is not changed but for a folder `late` beside its files; what is in it can be merged into a run folder of its own.
"""

import json
import logging
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from loadgen.locust.merging import LATE, ids_told_of
from loadgen.locust.storing import PartStore
from results.columns import Int64, int64
from results.recording import PART_TABLES, RecordingPart, empty_part
from results.recovery import read_parts
from results.store import COMPLETE, RUNNING, STOPPED

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,200}")
Json = dict[str, Any]
logger = logging.getLogger(__name__)


class LateParts:
    """Of any number of earlier runs."""

    def __init__(self, out: Path, acknowledge: Callable[[Json], None]) -> None:
        """`out`: where run folders are. `acknowledge`: told run, rank, number and worker of each that is stored."""
        self._out = out
        self._acknowledge = acknowledge
        self._stores: dict[tuple[str, str], PartStore | None] = {}
        """(run, worker) -> its store; None: there is no folder to put them into."""

    def piece(self, message: Json) -> None:
        """One piece."""
        key = str(message["run"]), str(message["worker"])
        try:
            if key not in self._stores:
                self._stores[key] = self._store(*key)
            store = self._stores[key]
            if store is not None:
                store.piece(message)
        except (OSError, ValueError) as error:
            logger.error("late rows of run %s cannot be stored: %s", key[0], error)

    def _store(self, run: str, worker: str) -> PartStore | None:
        folder = self._out / run
        status = _status_of(folder) if NAME.fullmatch(run) else None
        told_of = int64([])
        if status == RUNNING and (folder / "parts").is_dir():
            place = folder
            logger.info("late rows of run %s go into %s", run, folder)
        elif status in (COMPLETE, STOPPED):
            place, told_of = folder / LATE, ids_told_of(folder)
            (place / "parts").mkdir(parents=True, exist_ok=True)
            how = f"`tokenload locust --merge-late {folder}` makes a run with them"
            logger.warning("rows of run %s came after its end and are in %s: %s", run, place, how)
        else:
            logger.warning("rows of run %s came late and stay with their worker: %s is no run folder", run, folder)
            return None
        return PartStore(
            place,
            lambda part, rank: None,
            lambda rank, number: self._acknowledge({"run": run, "rank": rank, "number": number, "worker": worker}),
            number=_next_number(place),
            in_order=False,
            only_new=partial(_new_in, place, told_of),
        )


def _new_in(place: Path, told_of: Int64, part: RecordingPart) -> RecordingPart:
    return only_new(part, read_parts(place / "parts"), told_of)


def only_new(part: RecordingPart, stored: RecordingPart, told_of: Int64 | None = None) -> RecordingPart:
    """Without rows that are there: a part may have been stored by a master that died before it said so.

    `told_of`: further requests whose rows are there.
    """
    tables = dict(part.tables)
    for name, column in (("requests", "request_id"), ("tokens", "request_id"), ("steps", "step")):
        table, there = part.tables[name], int64(stored.tables[name][column])
        if column == "request_id" and told_of is not None:
            there = np.concatenate([there, told_of])
        is_new = ~np.isin(table[column], there)
        tables[name] = {column_name: values[is_new] for column_name, values in table.items()}
    if not len(tables["requests"]["request_id"]) and not len(tables["steps"]["step"]):
        return empty_part()
    return RecordingPart(tables)


def _status_of(folder: Path) -> str | None:
    try:
        return str(json.loads((folder / "run.json").read_text())["status"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _next_number(folder: Path) -> int:
    """Of part files that nobody has begun, whatever rank is added to it."""
    streams = [path for name in PART_TABLES for path in (folder / "parts").glob(f"*-{name}.arrows")]
    return max((int(path.name.partition("-")[0]) for path in streams if path.name[0].isdigit()), default=-1) + 1
