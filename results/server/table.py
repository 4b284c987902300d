"""The long table of scraped series: one row a series and scrape, raw, on the run's time axis.

While a run lasts the scraper appends rounds to an Arrow stream in the run folder's parts; when it is complete they
become `server.parquet`. Both are read into the same table.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from results.columns import Int64, int64
from results.server.names import INTEGERS, RUN_START, SERVER_FILE, STREAM_ENDING, TEXTS

Float64 = NDArray[np.float64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Series:
    """What a column of numbers is called, and by whom."""

    url: str
    name: str
    labels: str


@dataclass(frozen=True, slots=True)
class ServerTable:
    """All scrapes of a run, as columns."""

    series: tuple[Series, ...]
    round: Int64
    t_ns: Int64
    request_ns: Int64
    series_index: Int64
    value: Float64
    """NaN: the server told none, or one that is not finite."""

    def __len__(self) -> int:
        """How many rows."""
        return len(self.round)


def empty_table() -> ServerTable:
    """Nothing was scraped."""
    none = int64([])
    return ServerTable((), none, none, none, none, np.empty(0))


def read_scrapes(parts: Path, t0_ns: int | None = None) -> ServerTable:
    """What the scrapers' streams hold, moved to the run's axis; a stream may end anywhere.

    `t0_ns`: time 0 of the run on the clock of the rows; None: as a row of the stream tells it. Without either, no
    row can be placed in the run, and there are none.
    """
    batches = [batch for path in sorted(parts.glob(f"*{STREAM_ENDING}")) for batch in _batches(path)]
    if not batches:
        return empty_table()
    import pyarrow as pa

    table = _read(pa.Table.from_batches(batches))
    starts = _rows_of(table, RUN_START)
    if t0_ns is None and not starts.any():
        return empty_table()
    return _placed(table, ~starts, t0_ns if t0_ns is not None else int(table.t_ns[starts][-1]))


def write_server(table: ServerTable, folder: Path) -> Path:
    """`server.parquet`; the same table gives the same bytes."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns: dict[str, Any] = {name: pa.array(getattr(table, name)) for name in INTEGERS}
    for name in TEXTS:
        columns[name] = _dictionary([getattr(one, name) for one in table.series], table.series_index)
    columns["value"] = pa.array(table.value, mask=np.isnan(table.value))
    encoding = dict.fromkeys(INTEGERS, "DELTA_BINARY_PACKED")
    path = folder / SERVER_FILE
    partial = path.with_suffix(".partial")
    pq.write_table(pa.table(columns), partial, compression="zstd", use_dictionary=list(TEXTS), column_encoding=encoding)
    partial.replace(path)
    return path


def read_server(folder: Path) -> ServerTable | None:
    """What `write_server` wrote; None: this run has none."""
    import pyarrow.parquet as pq

    path = folder / SERVER_FILE
    return _read(pq.read_table(path)) if path.is_file() else None


def make_table(rows: Iterable[Mapping[str, Any]]) -> ServerTable:
    """From rows with the columns of the long table, in their order; a value of None is missing."""
    found = list(rows)
    series: dict[Series, int] = {}
    index = [series.setdefault(Series(*(row[name] for name in TEXTS)), len(series)) for row in found]
    values = [np.nan if row["value"] is None else float(row["value"]) for row in found]
    number, t_ns, request_ns = (int64([row[name] for row in found]) for name in INTEGERS)
    return ServerTable(tuple(series), number, t_ns, request_ns, int64(index), _finite(np.array(values)))


def _batches(path: Path) -> list[Any]:
    """Whole batches only."""
    import pyarrow as pa

    batches: list[Any] = []
    try:
        with path.open("rb") as file, pa.ipc.open_stream(file) as stream:
            while True:
                batches.append(stream.read_next_batch())
    except (pa.ArrowInvalid, OSError, StopIteration):
        return batches


def _read(table: Any) -> ServerTable:
    """Texts as dictionaries, joined to one number a series in the order in which they first came."""
    codes, words = zip(*(_codes(table.column(name)) for name in TEXTS), strict=True)
    key = np.zeros(len(table), dtype=np.int64)
    for code, word in zip(codes, words, strict=True):
        key = key * max(len(word), 1) + code
    _, first, inverse = np.unique(key, return_index=True, return_inverse=True)
    rank = np.argsort(np.argsort(first))
    series = tuple(
        Series(*(word[code[row]] for code, word in zip(codes, words, strict=True))) for row in np.sort(first)
    )
    number, t_ns, request_ns = (int64(table.column(name).to_numpy()) for name in INTEGERS)
    value = np.asarray(table.column("value").to_numpy(), dtype=np.float64)
    return ServerTable(series, number, t_ns, request_ns, int64(rank[inverse]), _finite(value))


def _placed(table: ServerTable, kept: Mask, t0_ns: int) -> ServerTable:
    """The kept rows and their series, with times from t0_ns on."""
    used, index = np.unique(table.series_index[kept], return_inverse=True)
    return ServerTable(
        tuple(table.series[number] for number in used), table.round[kept], table.t_ns[kept] - t0_ns,
        table.request_ns[kept], int64(index), table.value[kept],
    )  # fmt: skip


def _codes(column: Any) -> tuple[Int64, list[str]]:
    import pyarrow as pa

    array = column.combine_chunks() if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    array = array.unify_dictionaries().combine_chunks() if isinstance(array, pa.ChunkedArray) else array
    array = array.chunk(0) if isinstance(array, pa.ChunkedArray) else array
    return int64(np.asarray(array.indices.to_numpy())), array.dictionary.to_pylist()


def _dictionary(words: list[str], index: Int64) -> Any:
    import pyarrow as pa

    known: dict[str, int] = {}
    codes = np.array([known.setdefault(word, len(known)) for word in words], dtype=np.int32)
    return pa.DictionaryArray.from_arrays(pa.array(codes[index]), pa.array(list(known), type=pa.string()))


def _rows_of(table: ServerTable, name: str) -> Mask:
    chosen = np.array([one.name == name for one in table.series], dtype=np.bool_)
    return chosen[table.series_index]


def _finite(values: Float64) -> Float64:
    return np.where(np.isfinite(values), values, np.nan)
