"""What a server or the system says about a failure, as one line that may be shown: capped, printable, no secrets."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import orjson

from results.stamp.redaction import REDACTED, redact_text

LONGEST_MESSAGE = 300
_READ_CHARACTERS = 4_000
"""Of a longer text no more is looked at."""


def one_line(text: str, secrets: Iterable[str] = ()) -> str:
    """The text without secrets and control characters, at most 300 characters long."""
    text = text[:_READ_CHARACTERS]
    for secret in secrets:
        text = text.replace(secret, REDACTED)
    text = " ".join(redact_text(text).split())
    text = "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)
    return text if len(text) <= LONGEST_MESSAGE else text[: LONGEST_MESSAGE - 1] + "…"


def one_word(text: str, secrets: Sequence[str] = ()) -> str:
    """An id or a name that a server gave, as it is where nothing is wrong with it: this runs for every reply."""
    if len(text) <= LONGEST_MESSAGE and text.isprintable() and not any(secret in text for secret in secrets):
        return text
    return one_line(text, secrets)


def told_in(body: bytes) -> str:
    """What the body of an HTTP error says, with the field it complains of where it names one."""
    try:
        document = orjson.loads(body)
    except ValueError:
        return body[:_READ_CHARACTERS].decode(errors="replace").strip()
    return _said(document) or body[:_READ_CHARACTERS].decode(errors="replace")


def _said(document: Any) -> str:
    """OpenAI's {"error": {"message", "param"}}, FastAPI's {"detail": [{"loc", "msg"}]}, and what is near them."""
    if isinstance(document, str):
        return document
    if isinstance(document, Sequence):
        return "; ".join(filter(None, map(_said, document)))
    if not isinstance(document, Mapping):
        return ""
    for name in ("error", "detail", "errors"):
        if document.get(name):
            return _said(document[name])
    message = document.get("message") or document.get("msg")
    if not isinstance(message, str):
        return ""
    place = document.get("param") or document.get("field") or document.get("loc")
    where = ".".join(map(str, place)) if isinstance(place, list) else place if isinstance(place, str) else ""
    return f"{where}: {message}" if where and where not in message else message


def system_says(error: BaseException) -> str:
    """An error of the system in a few words, its kind first."""
    strerror = getattr(error, "strerror", None)
    return f"{type(error).__name__}: {strerror or error}" if str(error) else type(error).__name__
