"""The fields of one `loadtrace/1` row, each checked. ValueError says what a field is and what it is not."""

import json
from typing import Any

from loadgen.traces.rows import DEFAULT_CLASSES, Json
from loadgen.traces.times import MAX_TOKENS
from results.columns import NULL
from results.schedule import MEASURE, PHASES

_MAX_ABS = 2**62
_SHOWN_CHARS = 60


def json_object(text: str) -> Json:
    """The object that a line holds."""
    try:
        row = json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError("not JSON") from None
    if not isinstance(row, dict):
        raise ValueError("not a JSON object")
    return row


def integer_field(row: Json, name: str, least: int = -_MAX_ABS, most: int = _MAX_ABS, null: bool = False) -> int:
    """A whole number in bounds; NULL for a missing one where that may be."""
    value = row.get(name)
    if value is None and null:
        return NULL
    if type(value) is not int:
        raise ValueError(f"{name} is {_shown(value)}, not a whole number")
    if not least <= value <= most:
        raise ValueError(f"{name} is {_shown(value)}, not from {least:,} to {most:,}")
    return value


def tokens_field(row: Json, name: str) -> int:
    """A count of tokens; NULL where it is unknown."""
    return integer_field(row, name, 0, MAX_TOKENS, null=True)


def after_field(row: Json, i: int) -> tuple[int, ...]:
    """The rows that row `i` waits for: earlier ones only."""
    after = row.get("after") or []
    if not isinstance(after, list) or not all(type(other) is int and 0 <= other < i for other in after):
        raise ValueError(f"after is {_shown(after)}, not a list of rows before it")
    return tuple(after)


def sid_field(row: Json) -> str | None:
    """The session's name."""
    sid = row.get("sid")
    if sid is not None and type(sid) not in (str, int):
        raise ValueError(f"sid is {_shown(sid)}, not a text")
    return None if sid is None else str(sid)


def ok_field(row: Json) -> int:
    """1, or 0 for a request that failed at the source; NULL where that is unknown."""
    ok = _one_of(row, "ok", (True, False))
    return NULL if ok is None else int(ok)


def kind_field(row: Json) -> str:
    """The class's name."""
    kind = row.get("kind")
    if kind is not None and not isinstance(kind, str):
        raise ValueError(f"kind is {_shown(kind)}, not a text")
    return DEFAULT_CLASSES[0] if kind is None else kind


def phase_field(row: Json) -> int:
    """The phase of a saved schedule's row, an index into PHASES."""
    other = row.get("x")
    phase = _one_of(other, "phase", PHASES) if isinstance(other, dict) else None
    return MEASURE if phase is None else PHASES.index(phase)


def _one_of(row: Json, name: str, values: tuple[Any, ...]) -> Any:
    value = row.get(name)
    if value is not None and value not in values:
        raise ValueError(f"{name} is {_shown(value)}, not one of {json.dumps(values)}")
    return value


def _shown(value: Any) -> str:
    return json.dumps(value)[:_SHOWN_CHARS]
