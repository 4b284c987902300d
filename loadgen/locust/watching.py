"""What a server tells of itself while a run lasts, for the live page: read from the scraper's stream as it grows.

Only rounds that are needed are kept: the first of the run and the newest. The run's own figures come at the end, from
all of them.
"""

import logging
import math
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from results.server.known import PANELS, PREFIXES, PROCESS_START, TOKENLOAD
from results.server.names import INTEGERS, RUN_START, STREAM_ENDING, TEXTS
from results.server.panels import panel_values
from results.server.rounds import Rounds
from results.server.slot_use import slot_use, unused_fraction
from results.server.table import make_table
from results.server.window import NotObservableError, open_window
from results.slots import BUSY_STATES

LOOK_EVERY_S = 1.0
NEWEST_ROUNDS = 3
"""Growth needs two; one more where a round failed."""
SLOT_STEPS = "tokenload:slot_steps_total"
FINISHED = 'state="finished"'
LEFT_OUT = ("_bucket", "_created")
Json = dict[str, Any]
Row = dict[str, Any]
logger = logging.getLogger(__name__)


class GrowingStream:
    """An Arrow stream that somebody writes: each look brings the batches that are whole since the last."""

    def __init__(self, path: Path) -> None:
        """It need not be there yet."""
        self._path = path
        self._read_bytes = 0
        self._schema: Any = None

    def batches(self) -> Iterator[Any]:
        """The new ones."""
        import pyarrow as pa

        with suppress(FileNotFoundError), self._path.open("rb") as file:
            file.seek(self._read_bytes)
            source = pa.BufferReader(file.read())
            begin = self._read_bytes
            with suppress(EOFError, OSError, pa.ArrowInvalid):
                while True:
                    message = pa.ipc.read_message(source)
                    self._read_bytes = begin + source.tell()
                    if message.type == "schema":
                        self._schema = pa.ipc.read_schema(message)
                    elif self._schema is not None:
                        yield pa.ipc.read_record_batch(message, self._schema)


class ServerFigures:
    """The newest figures of the servers of one run."""

    def __init__(self, parts: Path, slots: int | None) -> None:
        """`parts`: of the run's folder. `slots`: of each engine, where the server does not tell."""
        self._stream = GrowingStream(parts / f"0000{STREAM_ENDING}")
        self._slots = slots
        self._begins_ns: int | None = None
        self._newest_ns = 0
        self._first: list[Row] = []
        self._newest: deque[list[Row]] = deque(maxlen=NEWEST_ROUNDS)

    def look(self) -> Json | None:
        """{"at_ns" on the run's axis, and what is told, by name}; None: nothing new since time 0.

        No name where a round brought no answer: what was told before is no figure of now.
        """
        seen_ns = self._newest_ns
        for batch in self._stream.batches():
            self._take(batch)
        if self._begins_ns is None or not self._newest or self._newest_ns == seen_ns:
            return None
        return {"at_ns": self._newest_ns - self._begins_ns, **(self._figures() if self._newest[-1] else {})}

    def _take(self, batch: Any) -> None:
        """A round, or time 0 of the run."""
        names, t_ns = batch.column("name").to_pylist(), int(batch.column("t_ns")[0].as_py())
        if RUN_START in names:
            self._begins_ns = t_ns
            return
        kept = [at for at, name in enumerate(names) if is_of_use(name)]
        rows = batch.select([*INTEGERS, *TEXTS, "value"]).take(kept).to_pylist() if kept else []
        self._newest.append(rows)
        self._newest_ns = t_ns
        if self._begins_ns is not None and not self._first:
            self._first = rows

    def _figures(self) -> Json:
        first = [] if any(rows is self._first for rows in self._newest) else [self._first]
        rounds = Rounds(make_table(row for rows in (*first, *self._newest) for row in rows))
        by_round = {name: panel_values(rounds, name) for name in PANELS}
        newest = {name: float(values[-1]) for name, values in by_round.items() if values is not None}
        told = {name: value for name, value in newest.items() if not math.isnan(value)}
        if self._first:
            start_ns = int(self._first[0]["t_ns"])
            for name, function in (("unused_slot_fraction", self._unused), ("wasted_slot_fraction", _wasted)):
                with suppress(NotObservableError):
                    told[name] = function(rounds, start_ns)
        return told

    def _unused(self, rounds: Rounds, start_ns: int) -> float:
        return unused_fraction(slot_use(rounds, start_ns, None, self._slots))


def is_of_use(name: str) -> bool:
    """Whether a figure of the page may come from this series."""
    return name == PROCESS_START or (name.startswith(tuple(PREFIXES)) and not name.endswith(LEFT_OUT))


def _wasted(rounds: Rounds, start_ns: int) -> float:
    """As in `results.slots`, of servers that count what each slot does. NotObservableError where one does not."""
    finished = busy = 0.0
    for server in rounds.servers:
        if server.kind != TOKENLOAD:
            raise NotObservableError(f"{server.kind} servers do not tell what a slot does")
        for labels, (first, last) in open_window(rounds, server, start_ns, None).ends(SLOT_STEPS).items():
            is_busy = any(f'state="{state.removesuffix("_slots")}"' in labels for state in BUSY_STATES)
            busy += last - first if is_busy else 0.0
            finished += last - first if FINISHED in labels else 0.0
    if busy <= 0:
        raise NotObservableError("no slot has computed anything yet")
    return finished / busy


class Watcher:
    """Looks once a second, in a thread, and tells what is new. A fault ends the looking, not the run."""

    def __init__(self, figures: ServerFigures, tell: Callable[[Json], None]) -> None:
        """Begins at once."""
        self._figures = figures
        self._tell = tell
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """And wait for a look that is on its way."""
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._over.wait(LOOK_EVERY_S):
            try:
                told = self._figures.look()
            except Exception:
                logger.exception("what the server tells of itself cannot be shown")
                return
            if told is not None:
                self._tell(told)
