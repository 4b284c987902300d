"""The verdict stored with a run, read with tolerance: a run may have been written before it was judged."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

OVERLOADED, STABLE = "OVERLOADED", "STABLE"


@dataclass(frozen=True, slots=True)
class Reason:
    """A code in words, and what to do."""

    code: str
    text: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was concluded from a run's rows."""

    valid: bool | None = None
    """None: nobody has judged it."""
    label: str = ""
    suffices_for: str = ""
    invalid: tuple[Reason, ...] = ()
    warnings: tuple[Reason, ...] = ()
    withheld: tuple[tuple[str, Reason], ...] = ()
    """(metric, why)."""
    checks: Mapping[str, str] = field(default_factory=dict)
    load_state: str = ""
    """OVERLOADED, SUSPECT, STABLE, NOT_JUDGED, or empty when nobody has judged it."""


NOT_JUDGED = Verdict()


def read_verdict(document: Any) -> Verdict:
    """From run.json; `NOT_JUDGED` when there is none."""
    if not isinstance(document, dict):
        return NOT_JUDGED
    load = document.get("load")
    withheld = _mapping(document.get("withheld"))
    return Verdict(
        valid=document.get("valid") if isinstance(document.get("valid"), bool) else None,
        label=_text(document.get("label")),
        suffices_for=_text(document.get("suffices_for")),
        invalid=_reasons(document.get("invalid")),
        warnings=_reasons(document.get("warnings")),
        withheld=tuple((str(metric), _reason(why)) for metric, why in sorted(withheld.items())),
        checks={str(code): _text(outcome) for code, outcome in sorted(_mapping(document.get("checks")).items())},
        load_state=_text(load.get("state")) if isinstance(load, dict) else "",
    )


def _reasons(items: Any) -> tuple[Reason, ...]:
    return tuple(_reason(item) for item in items) if isinstance(items, list) else ()


def _reason(item: Any) -> Reason:
    if not isinstance(item, dict):
        return Reason(_text(item), "")
    return Reason(_text(item.get("code")), _text(item.get("text")), _text(item.get("remedy")))


def _mapping(item: Any) -> dict[str, Any]:
    return item if isinstance(item, dict) else {}


def _text(item: Any) -> str:
    return "" if item is None else str(item)
