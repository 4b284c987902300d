"""The trace formats by name, and how a file's format is recognised.

To add a format: write `read(source, columns, time_unit) -> Trace` in a file of its own and add a row to
`FORMATS`; where the first line gives the format away, a row in `FIRST_LINES` too.
"""

import re
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from loadgen.traces.source import Source, first_line, open_source

if TYPE_CHECKING:
    from loadgen.traces.rows import Trace

FORMATS = {
    "azure-llm": ("loadgen.traces.azure:read_azure", "Azure LLM inference traces of 2023 and 2024 (CSV)"),
    "loadtrace": ("loadgen.traces.neutral:read_neutral", "loadtrace/1, what schedule --save writes (JSON Lines)"),
    "csv": ("loadgen.traces.delimited:read_csv", "plain CSV with named columns and a time unit"),
    "jsonl": ("loadgen.traces.delimited:read_jsonl", "plain JSON Lines with named columns and a time unit"),
}
"""Name -> (module:function, one line of help); a module, and numpy with it, is imported when a file of it is read."""

FIRST_LINES = {
    "azure-llm": re.compile(r"TIMESTAMP,ContextTokens,GeneratedTokens"),
    "loadtrace": re.compile(r'\{.*"format"\s*:\s*"loadtrace/.*'),
}
SUFFIXES = {".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl"}


def read_trace(
    path: Path | str,
    format: str | None = None,  # noqa: A002 - the option's name
    columns: Mapping[str, str] | None = None,
    time_unit: str | None = None,
) -> "Trace":
    """Import a file, compressed with gzip or not.

    `columns` names the columns of plain files by role (time, prompt, output, session, turn), `time_unit` is
    s, ms, us, ns or iso; naming either asks for a plain format. ValueError in one line for whatever is wrong.
    """
    if format is not None and format not in FORMATS:
        raise ValueError(f"{format!r} is not a trace format: name {', '.join(FORMATS)}")
    source = open_source(Path(path))
    line = first_line(source)
    name = format or recognise(source, line, plain=bool(columns or time_unit))
    module, function = FORMATS[name][0].split(":")
    trace: Trace = getattr(import_module(module), function)(source, dict(columns or {}), time_unit)
    return trace


def recognise(source: Source, line: str, plain: bool) -> str:
    """The format by its first line, else (or where a plain one is asked for) by the file's suffix."""
    for name, pattern in FIRST_LINES.items():
        if not plain and pattern.fullmatch(line):
            return name
    if source.suffix in SUFFIXES:
        return SUFFIXES[source.suffix]
    raise ValueError(f"the format of {source.file} is not clear from its first line or suffix: "
                     f"name {', '.join(FORMATS)}")  # fmt: skip
