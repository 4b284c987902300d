"""The Azure LLM inference traces of 2023 and 2024: `TIMESTAMP,ContextTokens,GeneratedTokens`.

2023 has naive times of 7 decimals, CRLF and no end of the last line; 2024 has an offset and 6 decimals, or
none where the microseconds are 0.
"""

import csv

from loadgen.traces.collect import RowCollector, collected_trace
from loadgen.traces.rows import Trace
from loadgen.traces.source import Source, text_of
from loadgen.traces.times import iso_ns

_SHOWN_CHARS = 80
COLUMNS = ["TIMESTAMP", "ContextTokens", "GeneratedTokens"]


def read_azure(source: Source, columns: dict[str, str] | None, time_unit: str | None) -> Trace:
    """The trace. ValueError for another header, a bad row, or options that belong to other formats."""
    if columns or time_unit:
        raise ValueError("azure-llm has columns and times of its own: leave columns and time unit out, "
                         "or name the format csv")  # fmt: skip
    rows = RowCollector(iso_ns)
    with text_of(source) as text:
        lines = csv.reader(text, strict=True)
        header = next((row for row in lines if row), [])
        if header != COLUMNS:
            raise ValueError(f"{source.file} begins with {','.join(header)[:_SHOWN_CHARS]!r}, azure-llm with "
                             f"{','.join(COLUMNS)!r}: name the format csv, and its columns")  # fmt: skip
        for row in lines:
            if len(row) == len(COLUMNS):
                rows.add(lines.line_num, *row)
            elif row:
                rows.bad.add(lines.line_num, f"{len(row)} fields, not {len(COLUMNS)}")
    return collected_trace(rows, source, "azure-llm", "iso", {})
