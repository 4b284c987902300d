"""Text from files and servers, made safe to show: no control character acts, no markup is markup."""

import json
from typing import Any

C0_PICTURES, DELETE, LAST_C1 = 0x2400, 0x7F, 0x9F
KEPT = "\n\t"
DIRECTING = frozenset("\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
"""Characters that turn the direction of what follows: a name could read as another."""


def plain(text: str) -> str:
    """Control characters as pictures of themselves (ESC becomes ␛), directing characters by their number."""
    return "".join(_shown(character) for character in text)


def chart_label(text: str) -> str:
    """For Plotly, which reads a little HTML in its labels and understands these entities."""
    return plain(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def script_json(document: Any) -> str:
    """JSON that can stand in a script element: ASCII, and nothing that could end the element."""
    text = json.dumps(document, sort_keys=True, allow_nan=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def value_text(value: Any) -> str:
    """A JSON value in one line, as a person would write it."""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)


def joined(words: list[str], last: str = "and") -> str:
    """`a, b and c`."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} {last} {words[-1]}" if words else ""


def _shown(character: str) -> str:
    code = ord(character)
    if character in KEPT:
        return character
    if code < ord(" "):
        return chr(C0_PICTURES + code)
    if DELETE <= code <= LAST_C1 or character in DIRECTING:
        return f"⟨U+{code:04X}⟩"
    return character
