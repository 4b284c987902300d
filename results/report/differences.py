"""Where a stored summary differs from the one that its rows give."""

import math
from collections.abc import Iterator
from typing import Any

from results.report.plain import value_text
from results.verdicts.applicability import WITHHELD

Json = dict[str, Any]
NO_FIGURES = ("reasons", "schema_version")
"""A summary of another version is none that was changed, as long as the figures in it are those of the rows."""
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
        if _is_withheld(stored, "value"):
            return  # and with it all that was said of it
        for name, value in fresh.items():
            inner = stored.get(name) if isinstance(stored, dict) else None
            if name in NO_FIGURES or (inner is None and _is_withheld(stored, name)):
                continue
            yield from _differences(inner, value, f"{path}.{name}" if path else name)
    elif _is_rows(fresh) and _is_rows(stored) and len(fresh) == len(stored):
        for at, (told, row) in enumerate(zip(stored, fresh, strict=True)):
            yield from _differences(told, row, f"{path}.{at}")
    elif not _same(stored, fresh):
        yield f"{path} says {value_text(stored)}, the rows give {value_text(fresh)}"


def _is_rows(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(one, dict) for one in value)


def _is_withheld(stored: Any, name: str) -> bool:
    """Null by the verdict: the rows know it all the same."""
    reasons = stored.get("reasons") if isinstance(stored, dict) else None
    return isinstance(reasons, dict) and reasons.get(name) in WITHHELD


def _same(stored: Any, fresh: Any) -> bool:
    if isinstance(fresh, float) and isinstance(stored, int | float):
        return math.isclose(stored, fresh, rel_tol=RELATIVE_TOLERANCE_RATIO)
    return bool(list(stored) == list(fresh) if isinstance(fresh, list | tuple) and stored else stored == fresh)
