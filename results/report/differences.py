"""Where a stored summary differs from the one that its rows give."""

import math
from collections.abc import Iterator
from typing import Any

from results.report.plain import value_text

Json = dict[str, Any]
RELATIVE_TOLERANCE_RATIO = 1e-9
"""Sums of floating-point numbers may differ in their last digits between machines."""


def differences(stored: Json, fresh: Json) -> list[str]:
    """One line a figure; what only the stored one has is nobody's claim on this page."""
    return list(_differences(unwrapped(stored), unwrapped(fresh), ""))


def unwrapped(document: Any) -> Any:
    """With withheld figures (null, their values under `of_this_run`) as plain figures again."""
    if not isinstance(document, dict):
        return document
    plain = {name: unwrapped(value) for name, value in document.items()}
    inner = plain.pop("of_this_run", None)
    plain.pop("withheld", None)
    return {**plain, **inner} if isinstance(inner, dict) else plain


def _differences(stored: Any, fresh: Any, path: str) -> Iterator[str]:
    if isinstance(fresh, dict):
        for name, value in fresh.items():
            if name == "reasons":
                continue
            inner = stored.get(name) if isinstance(stored, dict) else None
            yield from _differences(inner, value, f"{path}.{name}" if path else name)
    elif not _same(stored, fresh):
        yield f"{path} says {value_text(stored)}, the rows give {value_text(fresh)}"


def _same(stored: Any, fresh: Any) -> bool:
    if isinstance(fresh, float) and isinstance(stored, int | float):
        return math.isclose(stored, fresh, rel_tol=RELATIVE_TOLERANCE_RATIO)
    return bool(list(stored) == list(fresh) if isinstance(fresh, list | tuple) and stored else stored == fresh)
