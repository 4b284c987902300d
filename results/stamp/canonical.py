"""One form for everything stamped: plain JSON, sorted, hashed. The same input gives the same bytes."""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence, Set
from pathlib import PurePath
from typing import Any

Json = dict[str, Any]


def canonical(document: Any) -> bytes:
    """UTF-8, keys sorted, no blanks. TypeError or ValueError for what is not plain JSON."""
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode(errors="surrogatepass")


def sha256_of(document: Any) -> str:
    """Of the canonical bytes."""
    return hashlib.sha256(canonical(document)).hexdigest()


def plain(value: Any, reasons: Json, path: str = "") -> Any:
    """The value as plain JSON; what has no such form is null, with a reason under its dotted path.

    Sets are sorted; numpy scalars and arrays become numbers and lists; nan and inf are null; the text of an
    object that might hold an address is never taken.
    """
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return _finite(float(value), reasons, path)
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): plain(one, reasons, _under(path, key)) for key, one in value.items()}
    if isinstance(value, Set):
        members = [plain(one, reasons, path) for one in value]
        return sorted(members, key=canonical)
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray | memoryview):
        return [plain(one, reasons, _under(path, index)) for index, one in enumerate(value)]
    if hasattr(value, "tolist"):
        return plain(value.tolist(), reasons, path)
    reasons[path] = f"NOT_JSON: {type(value).__name__}"
    return None


def _finite(value: float, reasons: Json, path: str) -> float | None:
    if math.isfinite(value):
        return value
    reasons[path] = f"NOT_FINITE: {value}"
    return None


def _under(path: str, key: object) -> str:
    return f"{path}.{key}" if path else str(key)
