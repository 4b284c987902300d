"""Parts of a recording as bytes and as files: what a player that writes into no run folder leaves for who ships it.

A file is a part, numbered from 0 in the order of the run; it is there whole or not at all.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from results.columns import Table
from results.recording import PART_TABLES, TEXT_COLUMNS, RecordingPart

SUFFIX = ".part"
HEAD_BYTES = 8


def pack(part: RecordingPart) -> bytes:
    """A head that says how long each table is, then the tables, each an Arrow stream."""
    blobs = {name: _table_bytes(table) for name, table in part.tables.items()}
    head = json.dumps([[name, len(blob)] for name, blob in blobs.items()]).encode()
    return b"".join([len(head).to_bytes(HEAD_BYTES, "big"), head, *blobs.values()])


def unpack(data: bytes) -> RecordingPart:
    """What `pack` packed. ValueError when it is something else, or cut off."""
    try:
        at = HEAD_BYTES + int.from_bytes(data[:HEAD_BYTES], "big")
        tables = {}
        for name, length in json.loads(data[HEAD_BYTES:at]):
            if name not in PART_TABLES or at + length > len(data):
                raise ValueError(f"table {str(name)[:20]!r} is not all there")
            tables[name] = _table_of(data[at : at + length])
            at += length
    except (ValueError, TypeError, OSError) as error:
        raise ValueError(f"this is no part of a recording: {' '.join(str(error).split())[:200]}") from None
    if set(tables) != set(PART_TABLES):
        raise ValueError("this is no part of a recording: tables are missing")
    return RecordingPart(tables)


class PartFiles:
    """Writes parts into a folder, one file each."""

    def __init__(self, folder: Path, wrote: Callable[[int], None]) -> None:
        """`wrote`: told the number of each that is there."""
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._wrote = wrote
        self._number = 0

    def write(self, part: RecordingPart) -> None:
        """One more."""
        path = part_path(self._folder, self._number)
        partial = path.with_suffix(".partial")
        partial.write_bytes(pack(part))
        partial.replace(path)
        self._wrote(self._number)
        self._number += 1


def part_path(folder: Path, number: int) -> Path:
    """Where part `number` stands."""
    return folder / f"{number:08d}{SUFFIX}"


def part_numbers(folder: Path) -> list[int]:
    """Those that are there, rising."""
    return sorted(int(path.stem) for path in folder.glob(f"*{SUFFIX}") if path.stem.isdigit())


def _table_bytes(table: Table) -> bytes:
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    columns = {
        name: pa.array(values, type=pa.string() if name in TEXT_COLUMNS else pa.int64())
        for name, values in table.items()
    }
    batch = pa.record_batch(columns)
    options = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)  # a part is small, and cores are for sends
    with pa.ipc.new_stream(sink, batch.schema, options=options) as stream:
        stream.write_batch(batch)
    return bytes(sink.getvalue())


def _table_of(blob: bytes) -> dict[str, Any]:
    import pyarrow as pa

    with pa.ipc.open_stream(blob, options=pa.ipc.IpcReadOptions(use_threads=False)) as stream:
        table = stream.read_all()
    return {
        name: np.array(table.column(name).to_pylist(), dtype=object)
        if name in TEXT_COLUMNS
        else table.column(name).to_numpy().copy()
        for name in table.column_names
    }
