"""Parts that come after their run: what a spool still held when the master had died, or had given its worker up.

They go into the run's folder while that is unfinished, where every reader finds them; the folder of a finished run is
not changed, and its late parts stay in the spool of their worker.
"""

import json
import logging
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from loadgen.locust.storing import PartStore
from results.recording import PART_TABLES, RecordingPart, empty_part
from results.recovery import read_parts
from results.store import RUNNING

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
        if key not in self._stores:
            self._stores[key] = self._store(*key)
        store = self._stores[key]
        if store is None:
            return
        try:
            store.piece(message)
        except (OSError, ValueError) as error:
            logger.error("late rows of run %s cannot be stored: %s", key[0], error)

    def _store(self, run: str, worker: str) -> PartStore | None:
        folder = self._out / run
        if not NAME.fullmatch(run) or not _is_unfinished(folder):
            logger.warning("rows of run %s came late and stay with their worker: %s is no unfinished run", run, folder)
            return None
        logger.info("late rows of run %s go into %s", run, folder)
        return PartStore(
            folder,
            lambda part, rank: None,
            lambda rank, number: self._acknowledge({"run": run, "rank": rank, "number": number, "worker": worker}),
            number=_next_number(folder),
            in_order=False,
            only_new=lambda part: only_new(part, read_parts(folder / "parts")),
        )


def only_new(part: RecordingPart, stored: RecordingPart) -> RecordingPart:
    """Without rows that are there: a part may have been stored by a master that died before it said so."""
    tables = dict(part.tables)
    for name, column in (("requests", "request_id"), ("tokens", "request_id"), ("steps", "step")):
        table, there = part.tables[name], stored.tables[name][column]
        is_new = ~np.isin(table[column], there)
        tables[name] = {column_name: values[is_new] for column_name, values in table.items()}
    if not len(tables["requests"]["request_id"]) and not len(tables["steps"]["step"]):
        return empty_part()
    return RecordingPart(tables)


def _is_unfinished(folder: Path) -> bool:
    try:
        return bool(json.loads((folder / "run.json").read_text())["status"] == RUNNING) and (folder / "parts").is_dir()
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _next_number(folder: Path) -> int:
    """Of part files that nobody has begun, whatever rank is added to it."""
    streams = [path for name in PART_TABLES for path in (folder / "parts").glob(f"*-{name}.arrows")]
    return max((int(path.name.partition("-")[0]) for path in streams if path.name[0].isdigit()), default=-1) + 1
