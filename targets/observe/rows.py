"""Rows of scrapes on their way into an Arrow stream, a batch a round: whatever was written can be read."""

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from results.server.names import CUT, FAILED, INTEGERS, RUN_START, SKIPPED, TEXTS
from targets.observe.asking import Answer, RefusedError, read_page
from targets.observe.exposition import Exposition, Page, Sample, canonical

COLUMNS = (*INTEGERS, *TEXTS, "value")
Row = tuple[int, int, int, str, str, str, float | None]
MOST_ROWS = 4_000_000
"""Of one run: at each further so many the scraper asks half as often."""


class RowStream:
    """The stream of one scraper; once Arrow is loaded, each batch reaches the kernel before `write` returns."""

    def __init__(self, path: Path) -> None:
        """Opens the file; batches wait until `load` was called, which the first requests need not wait for."""
        self._file = path.open("wb")
        self._arrow: Any = None
        self._stream: Any = None
        self._waiting: list[list[Row]] = []
        self.written_rows = 0

    def load(self) -> None:
        """Load Arrow; in a thread, if need be. What waits is written with the next batch, or by `flush`."""
        self._arrow = import_module("pyarrow")

    def write(self, rows: list[Row]) -> None:
        """One batch."""
        self.written_rows += len(rows)
        self._waiting.append(rows)
        if self._arrow is not None:
            self.flush()

    def flush(self) -> None:
        """Write what waits."""
        waiting, self._waiting = self._waiting, []
        for rows in waiting:
            batch = self._batch(rows)
            if self._stream is None:
                options = self._arrow.ipc.IpcWriteOptions(compression="zstd")
                self._stream = self._arrow.ipc.new_stream(self._file, batch.schema, options=options)
            self._stream.write_batch(batch)
        self._file.flush()

    def close(self) -> None:
        """End the stream properly; one that is not ended can be read all the same."""
        self.load()
        self.flush()
        if self._stream is not None:
            self._stream.close()
        self._file.close()

    def _batch(self, rows: list[Row]) -> Any:
        arrow = self._arrow
        types = (*[arrow.int64()] * len(INTEGERS), *[arrow.string()] * len(TEXTS), arrow.float64())
        columns = zip(*rows, strict=True)
        arrays = [arrow.array(list(column), type=kind) for column, kind in zip(columns, types, strict=True)]
        return arrow.record_batch(arrays, names=list(COLUMNS))


def start_row(number: int, t0_ns: int) -> Row:
    """Time 0 of the run, on the clock of all rows."""
    return number, t0_ns, 0, "", RUN_START, "", 0.0


def read_answer(answer: Answer, exposition: Exposition) -> tuple[Page | None, Answer]:
    """What an answer says; None, and why, where it says nothing."""
    if answer.reason:
        return None, answer
    try:
        return read_page(answer.place, answer.body, exposition), answer
    except RefusedError as error:
        refused = Answer(answer.place, answer.t_ns, answer.request_ns, b"", error.reason, error.final)
        return None, refused


def rows_of(number: int, answer: Answer, page: Page | None) -> Iterator[Row]:
    """The rows of one answer in round `number`: its samples, and what was not one."""
    samples: list[Sample] = []
    if page is None:
        samples.append((FAILED, canonical({"reason": answer.reason}), 1.0))
    else:
        samples += page.samples
        samples += [
            (name, "", float(count)) for name, count in ((SKIPPED, page.skipped_rows), (CUT, page.cut_rows)) if count
        ]
    for name, labels, value in samples:
        yield number, answer.t_ns, answer.request_ns, answer.place.shown, name, labels, value
