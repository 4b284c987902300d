"""The journal: when each step began and ended and what it did, for whoever draws the report.

The newest steps are kept in a ring of fixed size, so that a run elsewhere can fetch them over HTTP; with a folder
they are also appended to a file. Times are CLOCK_MONOTONIC, which all processes of a host share.
"""

import threading
from pathlib import Path
from typing import Any

import numpy as np

from engines.engine import Step
from results.columns import NULL, Int64, Table, is_null
from results.recording import KINDS, PART_TABLES, RecordingPart, empty_part
from results.slots import WORK_COLUMNS
from results.store import PartWriter

KEPT_STEPS = 1 << 18
MOST_FETCHED_STEPS = 10_000
"""In one reply."""
COLUMNS = (*PART_TABLES["steps"], "start_ns", "end_ns")
KIND_CODES = {kind: code for code, kind in enumerate(KINDS)}
NOT_TOLD = (NULL, 0, *(NULL for _ in WORK_COLUMNS))


class Journal:
    """The newest steps of one engine. Written by its thread, read by others."""

    def __init__(self, kept_steps: int = KEPT_STEPS) -> None:
        """Empty; memory is taken as it fills."""
        self._lock = threading.Lock()
        self._ring = np.zeros((kept_steps, len(COLUMNS)), dtype=np.int64)
        self._next_step = 0

    def stepped(self, step: Step, start_ns: int, end_ns: int) -> None:
        """One more step."""
        row = (self._next_step, 1, *_work_row(step), start_ns, end_ns)
        with self._lock:
            self._ring[self._next_step % len(self._ring)] = row
            self._next_step += 1

    def since(self, first_step: int, most_steps: int = KEPT_STEPS) -> Table:
        """Steps from this one on, or from the oldest that is kept: as many as allowed, in order."""
        with self._lock:
            begin = max(first_step, self._next_step - len(self._ring), 0)
            end = min(self._next_step, begin + most_steps)
            rows: Int64 = self._ring[np.arange(begin, max(begin, end)) % len(self._ring)]
        return dict(zip(COLUMNS, rows.T.copy(), strict=True))

    def document(self, first_step: int) -> dict[str, Any]:
        """`since` for a reply: `next` is what to ask for then, `missed` how many had been dropped by now, `made` how
        many steps there have been, which is the number of the next one."""
        table = self.since(first_step, MOST_FETCHED_STEPS)
        told = table["step"].tolist()
        return {
            "next": told[-1] + 1 if told else max(first_step, 0),
            "missed": told[0] - first_step if told else 0,
            "made": self._next_step,
            "kinds": KINDS,
            "steps": {name: _nullable(values) for name, values in table.items()},
        }


def _work_row(step: Step) -> tuple[int, ...]:
    """kind, told and the work's columns."""
    work = step.work
    if work is None:
        return NOT_TOLD
    counts = [getattr(work, name) for name in WORK_COLUMNS]
    return KIND_CODES[work.kind], 1, *(NULL if count is None else count for count in counts)


def _nullable(column: Any) -> Any:
    """An array, or a list with null in the place of what is missing."""
    missing = is_null(column)
    if not missing.any():
        return column
    return [None if gone else value for value, gone in zip(column.tolist(), missing, strict=True)]


class JournalFile:
    """Appends a journal's steps to an Arrow stream in a folder, whenever it is told to."""

    def __init__(self, journal: Journal, folder: Path) -> None:
        """Makes the folder. FileExistsError where another server has written before."""
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.glob("*.arrows")):
            raise FileExistsError(f"--record {folder} holds records already: name another folder")
        self._journal = journal
        self._writer = PartWriter(folder, 0)
        self._written_step = 0

    def append(self) -> None:
        """Everything since the last time; it has reached the kernel when this returns."""
        table = self._journal.since(self._written_step)
        if len(table["step"]):
            self._writer.write(RecordingPart({**empty_part().tables, "steps": table}))
            self._written_step = int(table["step"][-1]) + 1

    def close(self) -> None:
        """The last steps, and the end of the stream."""
        with self._writer:
            self.append()
