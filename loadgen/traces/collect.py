"""From one row's texts to a trace: what the formats with a time, a prompt and an output column share.

Rows are collected in int64 arrays as they are read; bad rows are counted to the end of the file and then stop
the import together.
"""

from array import array
from dataclasses import dataclass, field

import numpy as np

from loadgen.traces.rows import MAX_ABS_NS, Json, Trace, count_rows
from loadgen.traces.source import BadRows, Source
from loadgen.traces.times import NAIVE, NS_DIGITS, ReadTime, count_tokens
from results.columns import NULL, Int64

_LONGEST_MEAN_GAP_NS = 60 * 10**9
_SHORTEST_MEAN_GAP_NS = 10**6
_LABEL_MAX = 2**63 - 1


def _column() -> "array[int]":
    return array("q")


@dataclass(slots=True)
class RowCollector:
    """Grows with every row; `offsets` are the time zones met, `origin_ns` is the first row's time."""

    read_time: ReadTime
    bad: BadRows = field(default_factory=BadRows)
    origin_ns: int | None = None
    offsets: set[str | None] = field(default_factory=set)
    at_ns: "array[int]" = field(default_factory=_column)
    prompt_tokens: "array[int]" = field(default_factory=_column)
    output_tokens: "array[int]" = field(default_factory=_column)
    session: list[str | None] = field(default_factory=list)
    turn: list[str | None] = field(default_factory=list)

    def add(self, line: int, time: str, prompt: str, output: str) -> bool:
        """Take one row, or note why it cannot be taken (False)."""
        try:
            time_ns, offset = self.read_time(time)
            counts = count_tokens(prompt), count_tokens(output)
            origin_ns = time_ns if self.origin_ns is None else self.origin_ns
            if abs(time_ns - origin_ns) > MAX_ABS_NS:
                raise ValueError(f"{time!r} is over a century away from the first row: is the unit right?")
        except ValueError as problem:
            self.bad.add(line, str(problem))
            return False
        self.origin_ns = origin_ns
        self.offsets.add(offset)
        self.at_ns.append(time_ns - origin_ns)
        self.prompt_tokens.append(counts[0])
        self.output_tokens.append(counts[1])
        return True


def collected_trace(rows: RowCollector, source: Source, format_name: str, unit: str, options: Json) -> Trace:
    """The trace of all rows. ValueError when there are none, any was bad, or times have and lack an offset."""
    rows.bad.stop_import(source)
    if rows.origin_ns is None:
        raise ValueError(f"{source.file} has a first line and no rows: nothing can be replayed")
    if NAIVE in rows.offsets and len(rows.offsets) > 1:
        raise ValueError(f"{source.file}: some times have an offset such as +00:00 and some have none: "
                         "write all of them alike")  # fmt: skip
    at_ns, prompt, output = (np.frombuffer(column, dtype=np.int64)
                             for column in (rows.at_ns, rows.prompt_tokens, rows.output_tokens))  # fmt: skip
    header = make_header(source, format_name, options)
    offset = next(iter(rows.offsets)) if len(rows.offsets) == 1 else "mixed"
    header["time"] = {"unit_in_source": unit, "origin_ns": rows.origin_ns, "tz": offset}
    header["rows"] = count_rows(at_ns, prompt, output)
    header["warnings"] = unit_warnings(at_ns, unit)
    return Trace(np.arange(len(at_ns), dtype=np.int64), at_ns, prompt, output, header,
                 session=codes(rows.session), turn=codes(rows.turn))  # fmt: skip


def make_header(source: Source, format_name: str, options: Json) -> Json:
    """What every header says of its file; `time`, `rows` and `warnings` are the reader's to add."""
    return {
        "format": format_name,
        "name": source.name,
        "source": {"file": source.file, "sha256": source.sha256, "bytes": source.size_bytes},
        "importer": {"name": "tokenload", "options": options},
    }


def codes(labels: list[str | None]) -> Int64 | None:
    """Labels as integers: themselves where all are plain whole numbers, else numbered as they first appear.

    None without labels; NULL where one is missing.
    """
    known = [label for label in labels if label is not None]
    if not known:
        return None
    if all(_is_plain_integer(label) for label in known):
        return np.array([NULL if label is None else int(label) for label in labels], dtype=np.int64)
    numbers = {label: number for number, label in enumerate(dict.fromkeys(known))}
    return np.array([NULL if label is None else numbers[label] for label in labels], dtype=np.int64)


def _is_plain_integer(label: str) -> bool:
    try:
        return str(int(label)) == label and abs(int(label)) <= _LABEL_MAX
    except ValueError:
        return False


def unit_warnings(at_ns: Int64, unit: str) -> list[str]:
    """One line when a declared unit gives a mean gap above 60 s or below 1 ms, with the unit that would not."""
    span_ns = int(at_ns.max()) - int(at_ns.min())
    if unit not in NS_DIGITS or len(at_ns) < 2 or not span_ns:  # noqa: PLR2004 - a gap has two ends
        return []
    gap_ns = span_ns / (len(at_ns) - 1)
    if _SHORTEST_MEAN_GAP_NS <= gap_ns <= _LONGEST_MEAN_GAP_NS:
        return []
    other, other_gap_ns = _likelier_unit(unit, gap_ns)
    return [f"time unit looks wrong: read as {unit} the mean gap is {gap_ns / 1e9:g} s, "
            f"read as {other} it would be {other_gap_ns / 1e9:g} s"]  # fmt: skip


def _likelier_unit(unit: str, gap_ns: float) -> tuple[str, float]:
    """The nearest unit with a mean gap in bounds, or the last one on the way there."""
    longer = gap_ns < _SHORTEST_MEAN_GAP_NS
    other, other_gap_ns = unit, gap_ns
    for candidate in sorted(NS_DIGITS, key=lambda name: NS_DIGITS[name], reverse=not longer):
        steps = NS_DIGITS[candidate] - NS_DIGITS[unit]
        if (steps > 0) is longer and steps:
            other, other_gap_ns = candidate, gap_ns * 10.0**steps
            if _SHORTEST_MEAN_GAP_NS <= other_gap_ns <= _LONGEST_MEAN_GAP_NS:
                break
    return other, other_gap_ns
