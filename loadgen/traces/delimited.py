"""Plain CSV and JSON Lines: named columns, and a time unit that is said, never guessed from values.

Columns that are not named are listed in the header as ignored.
"""

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from loadgen.traces.collect import RowCollector, collected_trace
from loadgen.traces.rows import Trace
from loadgen.traces.source import BadRows, Source, text_of
from loadgen.traces.times import NS_DIGITS, TIME_UNITS, looks_iso, time_reader

_TIMES = ("time", "timestamp", "at", "ts", "arrival", "arrival_time", "arrival_timestamp", "arrived_at")
DEFAULT_COLUMNS = {
    "time": (*_TIMES, *(f"{name}_{unit}" for name in _TIMES for unit in NS_DIGITS)),
    "prompt": ("prompt_tokens", "input_tokens", "context_tokens", "contexttokens", "request_tokens",
               "num_prefill_tokens", "prompt_length", "input_length", "prompt_size", "prompt", "in"),
    "output": ("output_tokens", "completion_tokens", "generated_tokens", "generatedtokens", "response_tokens",
               "num_decode_tokens", "output_length", "token_size", "output", "out"),
}  # fmt: skip
"""The names looked for where a column is not named, in lower case with _ for blanks and hyphens."""
LABELS = ("session", "turn")
"""Columns taken only when named; a row may lack them."""
ROLES = (*DEFAULT_COLUMNS, *LABELS)
_SHOWN_COLUMNS = 30
_SHOWN_CHARS = 40
_NEEDED = len(DEFAULT_COLUMNS)

Record = tuple[int, Sequence[Any]]
"""A line number and the values of the chosen columns, in the order of `ROLES`."""


def read_csv(source: Source, columns: dict[str, str] | None, time_unit: str | None) -> Trace:
    """The trace of a file with a header line and commas. ValueError in one line for whatever is wrong."""
    bad = BadRows()
    with text_of(source) as text:
        lines = csv.reader(text, strict=True)
        present = next((row for row in lines if row), [])
        chosen = choose_columns(source, present, columns or {})
        records = _csv_records(lines, present, list(chosen.values()), bad)
        return _read(source, "csv", present, chosen, time_unit, records, bad)


def read_jsonl(source: Source, columns: dict[str, str] | None, time_unit: str | None) -> Trace:
    """The trace of a file with one JSON object a line; the first row shows which columns there are."""
    bad = BadRows()
    with text_of(source) as text:
        objects = json_objects(text, bad)
        first = next(objects, None)
        if first is None:
            bad.stop_import(source)
            raise ValueError(f"{source.file} has no rows: nothing can be replayed")
        present = list(first[1])
        chosen = choose_columns(source, present, columns or {})
        picked = ((line, [row.get(name) for name in chosen.values()]) for line, row in chain([first], objects))
        return _read(source, "jsonl", present, chosen, time_unit, picked, bad)


def choose_columns(source: Source, present: Sequence[str], named: Mapping[str, str]) -> dict[str, str]:
    """Role -> column, in the order of `ROLES`. ValueError when one is unknown, doubtful or missing."""
    for role in named:
        if role not in ROLES:
            raise ValueError(f"{role!r} is not a column's role: name {', '.join(ROLES)}")
    chosen = {}
    for role in ROLES:
        found = [named[role]] if role in named else _defaults(role, present)
        hits = [name for name in present if name in found]
        if len(hits) > 1:
            raise ValueError(f"{source.file}: {role} could be any of {_listed(hits)}: name one, "
                             f"as in {role}={hits[0]}")  # fmt: skip
        if not hits and (role in named or role not in LABELS):
            wanted = f"column {named[role]!r}" if role in named else f"column known as {role}"
            raise ValueError(f"{source.file} has no {wanted}: name {role}=COLUMN out of "
                             f"{_listed(present)}")  # fmt: skip
        if hits:
            chosen[role] = hits[0]
    return chosen


def _defaults(role: str, present: Sequence[str]) -> list[str]:
    known = DEFAULT_COLUMNS.get(role, ())
    return [name for name in present if name.strip().lower().replace(" ", "_").replace("-", "_") in known]


def _listed(names: Sequence[str]) -> str:
    """On one line, whatever is in them, and not without end."""
    shown = [name if name.isprintable() else repr(name) for name in names[:_SHOWN_COLUMNS]]
    return ", ".join(shown) + (", ..." if len(names) > len(shown) else "")


def choose_unit(source: Source, column: str, first_time: str, time_unit: str | None) -> str:
    """The unit named, or said by the column (`at_ns`) or by a date. ValueError when nobody says it."""
    if time_unit is not None:
        if time_unit not in TIME_UNITS:
            raise ValueError(f"{time_unit!r} is not a time unit: name {', '.join(TIME_UNITS)}")
        return time_unit
    suffix = column.rsplit("_", 1)[-1].lower() if "_" in column else ""
    if suffix in NS_DIGITS:
        return suffix
    if looks_iso(first_time):
        return "iso"
    raise ValueError(f"{source.file} does not say in what unit {column!r} is ({first_time[:_SHOWN_CHARS]!r}, ...): "
                     f"name the time unit: {', '.join(TIME_UNITS)}")  # fmt: skip


def _read(source: Source, format_name: str, present: Sequence[str], chosen: dict[str, str],
          time_unit: str | None, records: Iterator[Record], bad: BadRows) -> Trace:  # fmt: skip
    first = next(records, None)
    unit = choose_unit(source, chosen["time"], str(first[1][0]), time_unit) if first else "iso"
    rows = RowCollector(time_reader(unit), bad)
    labels = [role for role in LABELS if role in chosen]
    for line, values in chain([first] if first else [], records):
        if not all(isinstance(value, str) for value in values[:_NEEDED]):
            missing = [name for name, value in zip(chosen.values(), values[:_NEEDED], strict=False) if value is None]
            bad.add(line, f"no value for {', '.join(missing)}" if missing else "a value is neither number nor text")
        elif rows.add(line, *values[:_NEEDED]):
            for role, label in zip(labels, values[_NEEDED:], strict=True):
                getattr(rows, role).append(None if label in (None, "") else str(label))
    options = {"columns": chosen, "ignored_columns": [name for name in present if name not in chosen.values()]}
    return collected_trace(rows, source, format_name, unit, options)


def _csv_records(lines: Any, present: list[str], picks: list[str], bad: BadRows) -> Iterator[Record]:
    positions = [present.index(name) for name in picks]
    for row in lines:
        if len(row) == len(present):
            yield lines.line_num, [row[position].strip() for position in positions]
        elif row:
            bad.add(lines.line_num, f"{len(row)} fields, not {len(present)}")


def json_objects(text: Iterator[str], bad: BadRows) -> Iterator[tuple[int, dict[str, Any]]]:
    """Line number and object of every line that holds one; numbers stay the text they were written as."""
    decode = json.JSONDecoder(parse_float=str, parse_int=str, parse_constant=str).decode
    for line, content in enumerate(text, start=1):
        if not content.strip():
            continue
        try:
            row = decode(content.strip())
        except (ValueError, RecursionError):
            bad.add(line, "not JSON")
            continue
        if isinstance(row, dict):
            yield line, row
        else:
            bad.add(line, "not a JSON object")
