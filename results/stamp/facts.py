"""What a group of facts is: a table of readers, read one by one; what cannot be read is null with its reason.

A comparability class says what a difference means: `identity` must match for two runs to be compared at all,
`performance` should match and is listed when it does not, `info` may differ.
"""

from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass
from typing import Any

from results.stamp.canonical import Json, plain, sha256_of
from results.stamp.kernel import MissingError
from results.stamp.redaction import redact, redact_text, shorten_home
from results.stamp.surroundings import Surroundings

IDENTITY, PERFORMANCE, INFO = "identity", "performance", "info"
NOT_TOLD = "NOT_TOLD"


@dataclass(frozen=True, slots=True)
class Fact:
    """How to find one thing out, and what it means when it differs."""

    read: Callable[[Surroundings], Any]
    comparability: str = PERFORMANCE


def find(table: Mapping[str, Fact], here: Surroundings) -> tuple[Json, Json]:
    """Fields and reasons. Nothing that a reader raises stops the others."""
    fields: Json = {}
    reasons: Json = {}
    for name, fact in table.items():
        fields[name], reason = attempt(fact.read, here)
        if reason is not None:
            reasons[name] = reason
    return fields, reasons


def attempt(read: Callable[[Surroundings], Any], here: Surroundings) -> tuple[Any, str | None]:
    """What it says, or None and why not."""
    try:
        found = read(here)
    except MissingError as error:
        return None, str(error)
    except Exception as error:
        return None, f"FAILED: {type(error).__name__}"
    return found, NOT_TOLD if found is None else None


def take(given: Mapping[str, Any], expected: Mapping[str, str]) -> tuple[Json, Json]:
    """Fields and reasons of what a caller told: all of it, and null for what was expected beside it."""
    fields = {**dict.fromkeys(expected), **given}
    return fields, {str(name): NOT_TOLD for name, value in fields.items() if value is None}


def seal(fields: Mapping[str, Any], reasons: Mapping[str, str], here: Surroundings, as_is: Container[str] = ()) -> Json:
    """A group as it is written: plain, redacted, the home folder shortened, hashed.

    Fields in `as_is` are not redacted: their names come from elsewhere, and none of their values can be a secret.
    """
    found: Json = dict(reasons)
    told = plain(fields, found)
    clean = {redact_text(name): one if name in as_is else redact(one, name) for name, one in told.items()}
    document = {"fields": clean, "reasons": redact(found)}
    homes = (str(here.home), str(here.home.resolve()))
    document = shorten_home(document, homes)
    return {**document, "sha256": sha256_of(document)}
