"""The neutral format `loadtrace/1`: a header line, then one JSON object a request; gzip by suffix.

A schedule written and read back, and replayed unchanged, is the same schedule. Fields of other writers that
this version does not replay are counted in the header's warnings.
"""

import gzip
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from loadgen.traces.collect import codes, make_header
from loadgen.traces.fields import (
    after_field,
    integer_field,
    json_object,
    kind_field,
    ok_field,
    phase_field,
    sid_field,
    tokens_field,
)
from loadgen.traces.rows import DEFAULT_CLASSES, Json, Trace, count_rows
from loadgen.traces.source import BadRows, Source, text_of
from results.columns import NULL, Int64
from results.schedule import MEASURE, PHASES, Schedule

FORMAT = "loadtrace/1"
NOT_REPLAYED = ("blk", "body", "model")


def write_neutral(schedule: Schedule, path: Path | str) -> None:
    """Write the schedule; the same one gives the same bytes, compressed where the path ends in .gz.

    ValueError when the file cannot be written.
    """
    target = Path(path)
    try:
        with target.open("wb") as file:
            if target.suffix.lower() == ".gz":
                with gzip.GzipFile("", "wb", fileobj=file, mtime=0) as zipped:
                    zipped.writelines(_lines(schedule))
            else:
                file.writelines(_lines(schedule))
    except OSError as problem:
        raise ValueError(f"{path} cannot be written: {problem.strerror}") from None


def _lines(schedule: Schedule) -> Iterator[bytes]:
    encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode
    yield (encode(_file_header(schedule)) + "\n").encode()
    for row in _file_rows(schedule):
        yield (encode(row) + "\n").encode()


def _file_header(schedule: Schedule) -> Json:
    trace = schedule.origin.get("trace", {})
    return {
        "format": FORMAT,
        "name": trace.get("name", schedule.origin.get("process", "schedule")),
        "source": trace.get("source"),
        "importer": trace.get("importer"),
        "time": {"unit_in_source": "ns", "origin_ns": None, "tz": None,
                 "end_ns": schedule.origin.get("window", {}).get("end_ns")},
        "rows": count_rows(schedule.due_ns, schedule.prompt_tokens, schedule.output_tokens),
        "class_names": list(schedule.class_names),
        "schedule": {"sha256": schedule.sha256, "recipe": schedule.recipe, "origin": schedule.origin},
    }  # fmt: skip


def _file_rows(schedule: Schedule) -> Iterator[Json]:
    due, prompt, output = (column.tolist() for column in
                           (schedule.due_ns, schedule.prompt_tokens, schedule.output_tokens))  # fmt: skip
    think, session, turn = (column.tolist() for column in (schedule.think_ns, schedule.session, schedule.turn))
    kind, phase = schedule.request_class.tolist(), schedule.phase.tolist()
    offsets, after = schedule.after_offsets.tolist(), schedule.after_ids.tolist()
    labelled = schedule.class_names != DEFAULT_CLASSES
    for i in range(len(schedule)):
        row: Json = {"i": i, "at_ns": None if due[i] == NULL else due[i], "in": prompt[i], "out": output[i]}
        if session[i] != NULL:
            row["sid"] = str(session[i])
        if turn[i] != NULL:
            row["turn"] = turn[i]
        if offsets[i + 1] > offsets[i]:
            row["after"] = after[offsets[i] : offsets[i + 1]]
        if think[i] != NULL:
            row["think_ns"] = think[i]
        if labelled:
            row["kind"] = schedule.class_names[kind[i]]
        if phase[i] != MEASURE:
            row["x"] = {"phase": PHASES[phase[i]]}
        yield row


@dataclass(slots=True)
class _Columns:
    """What has been read so far; `unused` counts rows with fields that are not replayed."""

    source_row: list[int] = field(default_factory=list)
    at_ns: list[int] = field(default_factory=list)
    prompt_tokens: list[int] = field(default_factory=list)
    output_tokens: list[int] = field(default_factory=list)
    after: list[tuple[int, ...]] = field(default_factory=list)
    think_ns: list[int] = field(default_factory=list)
    session: list[str | None] = field(default_factory=list)
    turn: list[int] = field(default_factory=list)
    ok: list[int] = field(default_factory=list)
    kind: list[str] = field(default_factory=list)
    phase: list[int] = field(default_factory=list)
    unused: Counter[str] = field(default_factory=Counter)

    def add(self, row: Json) -> None:
        """Take a row whole or not at all. ValueError when a field is missing or not what it should be."""
        i = integer_field(row, "i", 0)
        at_ns = integer_field(row, "at_ns", null=True)
        after = after_field(row, i)
        if at_ns == NULL and not after:
            raise ValueError("neither at_ns nor after: nothing says when it is due")
        counts = tokens_field(row, "in"), tokens_field(row, "out")
        times = integer_field(row, "think_ns", 0, null=True), integer_field(row, "turn", null=True)
        labels = sid_field(row), ok_field(row), kind_field(row), phase_field(row)
        self.source_row.append(i)
        self.at_ns.append(at_ns)
        self.after.append(after)
        self.prompt_tokens.append(counts[0])
        self.output_tokens.append(counts[1])
        self.think_ns.append(times[0])
        self.turn.append(times[1])
        self.session.append(labels[0])
        self.ok.append(labels[1])
        self.kind.append(labels[2])
        self.phase.append(labels[3])
        self.unused.update(name for name in NOT_REPLAYED if row.get(name) is not None)


def read_neutral(source: Source, columns: dict[str, str] | None, time_unit: str | None) -> Trace:
    """The trace, its rows in the order of `i`. ValueError in one line for whatever is wrong."""
    if columns or time_unit:
        raise ValueError("loadtrace has columns and units of its own: leave columns and time unit out")
    bad, rows = BadRows(), _Columns()
    with text_of(source) as text:
        declared = _declared(source, text.readline())
        for line, content in enumerate(text, start=2):
            if content.strip():
                try:
                    rows.add(json_object(content))
                except ValueError as problem:
                    bad.add(line, str(problem))
    bad.stop_import(source)
    if not rows.source_row:
        raise ValueError(f"{source.file} has a first line and no rows: nothing can be replayed")
    return _trace(source, declared, rows)


def _trace(source: Source, declared: Json, rows: _Columns) -> Trace:
    order = np.argsort(np.array(rows.source_row, dtype=np.int64), kind="stable")
    source_row, at_ns, prompt, output, ok, think, turn, phase = (
        np.array(values, dtype=np.int64)[order]
        for values in (rows.source_row, rows.at_ns, rows.prompt_tokens, rows.output_tokens, rows.ok,
                       rows.think_ns, rows.turn, rows.phase)
    )  # fmt: skip
    _check_references(source, source_row, rows)
    names, kinds = _classes(declared, rows.kind)
    session = codes(rows.session)
    return Trace(
        source_row, at_ns, prompt, output,
        _header(source, declared, rows, count_rows(at_ns, prompt, output, ok)),
        after=tuple(rows.after[position] for position in order) if any(rows.after) else None,
        think_ns=_known(think), session=None if session is None else session[order], turn=_known(turn),
        ok=_known(ok), request_class=kinds[order], class_names=names, phase=_known(phase, MEASURE),
    )  # fmt: skip


def _header(source: Source, declared: Json, rows: _Columns, counts: Json) -> Json:
    header = make_header(source, FORMAT, {})
    time = declared.get("time") or {}
    header["name"] = declared.get("name") or source.name
    header["time"] = {"unit_in_source": "ns", "origin_ns": time.get("origin_ns"), "tz": time.get("tz"),
                      "end_ns": time.get("end_ns")}  # fmt: skip
    header["rows"] = counts
    header["warnings"] = [f"{name} is not replayed by this version: {count:,} rows have it"
                          for name, count in sorted(rows.unused.items())]  # fmt: skip
    header["declared"] = declared
    return header


def _declared(source: Source, line: str) -> Json:
    """The file's own header. ValueError when it is of another format or version, or its end is no integer."""
    try:
        declared = json_object(line)
    except ValueError:
        declared = {}
    if declared.get("format") != FORMAT:
        raise ValueError(f"{source.file} says format {declared.get('format')!r} in its first line: "
                         f"this version reads {FORMAT!r}")  # fmt: skip
    time, names = declared.get("time") or {}, declared.get("class_names") or []
    if not isinstance(time, dict) or not isinstance(time.get("end_ns") or 0, int):
        raise ValueError(f"{source.file}: time.end_ns in the first line must be a whole number or null")
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError(f"{source.file}: class_names in the first line must be a list of texts")
    return declared


def _classes(declared: Json, kinds: list[str]) -> tuple[tuple[str, ...], Int64]:
    """The classes the header names and those it forgot, and each row's index into them."""
    names = tuple(dict.fromkeys([*(declared.get("class_names") or []), *kinds]))
    numbers = {name: number for number, name in enumerate(names)}
    return names, np.array([numbers[kind] for kind in kinds], dtype=np.int64)


def _check_references(source: Source, source_row: Int64, rows: _Columns) -> None:
    if len(np.unique(source_row)) != len(source_row):
        twice = int(source_row[:-1][np.diff(source_row) == 0][0])
        raise ValueError(f"{source.file}: i = {twice} stands in more than one row: number each row once")
    present = set(rows.source_row)
    for i, after in zip(rows.source_row, rows.after, strict=True):
        if not present.issuperset(after):
            raise ValueError(f"{source.file}: row i = {i} waits for rows that are not in the file: "
                             f"{sorted(set(after) - present)[:3]}")  # fmt: skip


def _known(column: Int64, usual: int = NULL) -> Int64 | None:
    """None for a column that says nothing."""
    return None if bool((column == usual).all()) else column
