"""The tables of a finished run as Parquet files, and back. The same recording gives the same bytes."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from results.columns import NULL, Int64, Table, int64, is_null
from results.recording import KINDS, TEXT_COLUMNS, Recording
from results.remote import TOKEN_SOURCES
from results.schedule import PHASES, Schedule
from results.spans import spans_of
from results.status import NAMES

TABLE_FILES = ("requests.parquet", "tokens.parquet", "steps.parquet", "host.parquet")
CODED = {"status": NAMES, "kind": KINDS, "phase": PHASES, "token_source": TOKEN_SOURCES}
"""Columns that are codes in memory and names in files."""
CLASS = "request_class"
IMPLIED_COLUMNS = ("first_step", "last_step")
"""Of the tokens, where there is no row for each."""


def write_tables(recording: Recording, folder: Path) -> None:
    """requests, tokens, steps and host; tokens has one row a request, with lists of its deliveries.

    Of a long modelled run it has the first and the last step that gave the request a token, and steps.parquet rows
    of many steps: each decode in between gave it one.
    """
    codes = {**CODED, CLASS: recording.schedule.class_names}
    _write(folder / "requests.parquet", _arrow(recording.requests, codes))
    _write(folder / "tokens.parquet", _token_table(recording))
    _write(folder / "steps.parquet", _arrow(recording.steps, codes))
    _write(folder / "host.parquet", _arrow(recording.host, codes))


def write_warmup(rows: Table, folder: Path) -> None:
    """Requests served before time 0, with negative times; outside every figure and hash."""
    _write(folder / "warmup.parquet", _arrow(rows, {}))


def read_tables(schedule: Schedule, folder: Path, in_flight_request_ns: int) -> Recording:
    """What `write_tables` wrote."""
    import pyarrow.parquet as pq

    codes = {**CODED, CLASS: schedule.class_names}
    requests, steps, host = (
        _columns(folder / f"{name}.parquet", codes) for name in ("requests", "steps", "host")
    )
    tokens = pq.read_table(folder / "tokens.parquet")
    if "last_step" in tokens.column_names:
        return _implied(Recording(schedule, requests, *_no_rows(), steps, host, in_flight_request_ns), tokens)
    time_name = "step" if "step" in tokens.column_names else "t_ns"
    times = tokens.column(time_name).combine_chunks()
    values = _values(times)
    counts, ids = tokens.column("tokens").combine_chunks(), tokens.column("token_ids").combine_chunks()
    return Recording(
        schedule=schedule,
        requests=requests,
        token_offsets=int64(times.offsets.to_numpy()),
        token_step=values if time_name == "step" else None,
        token_t_ns=values if time_name == "t_ns" else None,
        token_count=_counts(counts, int64(times.offsets.to_numpy())),
        token_ids=_values(ids),
        steps=steps,
        host=host,
        in_flight_request_ns=in_flight_request_ns,
    )


def _no_rows() -> tuple[Int64, None, None, Int64, Int64]:
    """The token columns of a recording without any."""
    return int64([]), None, None, int64([]), int64([])


def _implied(recording: Recording, tokens: Any) -> Recording:
    """With tokens that have no row: each follows from the step table."""
    first, last = (int64(np.asarray(tokens.column(name).fill_null(NULL).to_numpy())) for name in IMPLIED_COLUMNS)
    spans = spans_of(recording.steps, first, last)
    return replace(recording, spans=spans, token_offsets=int64(np.concatenate([[0], np.cumsum(spans.tokens)])))


def _token_table(recording: Recording) -> Any:
    import pyarrow as pa

    if recording.spans is not None:
        steps = {name: getattr(recording.spans, name) for name in IMPLIED_COLUMNS}
        return _arrow({"request_id": np.arange(len(recording.schedule), dtype=np.int64), **steps}, {})
    offsets = recording.token_offsets
    times = recording.token_step if recording.token_step is not None else recording.token_t_ns
    sums = np.concatenate([[0], np.cumsum(recording.token_count)])[offsets]
    unlike_one = np.concatenate([[0], np.cumsum(recording.token_count != 1)])[offsets]
    all_ones = np.diff(unlike_one) == 0
    ids = recording.token_ids
    id_offsets = sums if len(ids) else np.zeros_like(sums)
    return pa.table(
        {
            "request_id": np.arange(len(offsets) - 1, dtype=np.int64),
            "step" if recording.token_step is not None else "t_ns": _lists(offsets, times),
            "tokens": _lists(offsets, recording.token_count, empty=all_ones),
            "token_ids": _lists(id_offsets, ids, empty=np.full(len(all_ones), not len(ids))),
        }
    )


def _lists(offsets: Int64, values: Int64 | None, empty: Any = None) -> Any:
    """A list column; null where `empty`."""
    import pyarrow as pa

    flat = int64(values if values is not None else [])
    if empty is not None:
        kept = np.repeat(~empty, np.diff(offsets))
        flat = flat[kept]
        offsets = np.concatenate([[0], np.cumsum(np.where(empty, 0, np.diff(offsets)))])
        mask = pa.array(empty)
        return pa.LargeListArray.from_arrays(pa.array(int64(offsets)), pa.array(flat), mask=mask)
    return pa.LargeListArray.from_arrays(pa.array(int64(offsets)), pa.array(flat))


def _counts(lists: Any, offsets: Int64) -> Int64:
    """Token counts of every delivery, with the lists left out (all ones) filled in."""
    counts = np.ones(int(offsets[-1]) if len(offsets) else 0, dtype=np.int64)
    told = np.asarray(lists.is_valid().to_numpy(zero_copy_only=False), dtype=np.bool_)
    counts[np.repeat(told, np.diff(offsets))] = _values(lists)
    return counts


def _values(lists: Any) -> Int64:
    return int64(np.asarray(lists.flatten().to_numpy(zero_copy_only=False)))


def _write(path: Path, table: Any) -> None:
    """Names as dictionaries, integers as differences: both are far smaller, and read by everybody."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    delta = "DELTA_BINARY_PACKED"
    encoding = {}
    for field in table.schema:
        if pa.types.is_large_list(field.type):
            encoding[f"{field.name}.list.element"] = delta
        elif pa.types.is_integer(field.type):
            encoding[field.name] = delta
    names = [field.name for field in table.schema if pa.types.is_dictionary(field.type)]
    pq.write_table(table, path, compression="zstd", use_dictionary=names, column_encoding=encoding)


def _arrow(columns: Table, codes: dict[str, tuple[str, ...]]) -> Any:
    import pyarrow as pa

    arrays = {}
    for name, values in columns.items():
        if name in TEXT_COLUMNS:
            arrays[name] = pa.array(values, type=pa.string())
            continue
        missing = is_null(values)
        array = pa.array(int64(values), mask=missing)
        if name in codes:
            array = pa.DictionaryArray.from_arrays(array.cast(pa.int32()), pa.array(codes[name], type=pa.string()))
        arrays[name] = array
    return pa.table(arrays)


def _columns(path: Path, codes: dict[str, tuple[str, ...]]) -> Table:
    """One column after the other, so that a long run's are never there twice."""
    import pyarrow.parquet as pq

    file = pq.ParquetFile(path, pre_buffer=False)
    columns: Table = {}
    for name in file.schema_arrow.names:
        column = file.read(columns=[name]).column(0)
        if name in TEXT_COLUMNS:
            columns[name] = _looked_up(column, lambda text: text, None, object)
        elif name in codes:
            columns[name] = int64(_looked_up(column, codes[name].index, NULL, np.int64))
        else:
            columns[name] = int64(np.asarray(column.fill_null(NULL).to_numpy())).copy()
    return columns


def _looked_up(column: Any, meaning: Callable[[str], Any], missing: Any, dtype: Any) -> NDArray[np.generic]:
    """A column of texts as what each of them means; every text is looked at once."""
    coded = column.combine_chunks()
    coded = coded if hasattr(coded, "dictionary") else coded.dictionary_encode()
    meanings = np.array([*map(meaning, coded.dictionary.to_pylist()), missing], dtype=dtype)
    places = np.asarray(coded.indices.fill_null(len(meanings) - 1).to_numpy(zero_copy_only=False))
    return np.asarray(meanings[places])
