"""The rows of a run for people who take them elsewhere: its Parquet files as they are, and two of them as CSV."""

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

DOWNLOADS = {
    "requests.parquet": "requests (Parquet)",
    "requests.csv": "requests (CSV)",
    "tokens.parquet": "tokens (Parquet)",
    "tokens.csv": "tokens (CSV)",
    "steps.parquet": "engine steps (Parquet)",
    "server.parquet": "server metrics (Parquet)",
    "host.parquet": "host samples (Parquet)",
    "schedule.parquet": "schedule (Parquet)",
    "summary.json": "summary (JSON)",
}
"""File -> what it is called. A .csv is made from the Parquet file of that name."""
ROWS_AT_ONCE = 20_000
FORMULA_STARTS = r"^[=+\-@\t\r]"
"""A cell of text that begins so is run by spreadsheets: a server's words must not be."""


class DownloadError(ValueError):
    """One line that says why there is nothing to download."""


def available(folder: Path | None) -> list[str]:
    """Names of what can be downloaded of a run."""
    if folder is None:
        return []
    stored = {name: Path(name).with_suffix(".parquet").name if name.endswith(".csv") else name for name in DOWNLOADS}
    return [name for name, file in stored.items() if (folder / file).is_file()]


def csv_lines(folder: Path, name: str) -> Iterator[bytes]:
    """A CSV file in pieces, the head first. DownloadError when the run has no such rows."""
    import pyarrow.parquet as pq

    path = (folder / name).with_suffix(".parquet")
    if not path.is_file():
        raise DownloadError(f"This run has no {path.name}.")
    return _pieces(pq.ParquetFile(path))


def _pieces(rows: Any) -> Iterator[bytes]:
    import pyarrow as pa
    from pyarrow import csv

    first = True
    for batch in rows.iter_batches(ROWS_AT_ONCE):
        piece = io.BytesIO()
        csv.write_csv(_harmless(pa.Table.from_batches([batch])), piece, csv.WriteOptions(include_header=first))
        first = False
        yield piece.getvalue()
    if first:
        piece = io.BytesIO()
        csv.write_csv(rows.schema_arrow.empty_table(), piece)
        yield piece.getvalue()


def _harmless(table: Any) -> Any:
    """Cells of text that a spreadsheet would run get a quote before them; lists become text."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for at, field in enumerate(table.schema):
        column = table.column(at)
        if pa.types.is_dictionary(field.type):
            column = column.cast(field.type.value_type)
        if pa.types.is_list(field.type):
            column = pa.chunked_array([pa.array([None if one is None else str(one) for one in column.to_pylist()])])
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            column = pc.replace_substring_regex(column, FORMULA_STARTS, r"'\0")
        table = table.set_column(at, field.name, column)
    return table
