"""Nothing secret passes: values go by the name they stand under, by the place they stand in, and by their shape."""

import re
from collections.abc import Iterable
from typing import Any

from results.stamp.names import is_secret_name, takes_the_line

REDACTED = "[redacted]"

_URL_USER = re.compile(r"(?<=://)[^\s/?#]*@")
_BARE_USER = re.compile(r"(?<![\w.@/-])[^\s/@:,=\"']{1,200}:[^\s/@]{1,200}@(?=[\w.-])")
_SCHEME = re.compile(r"\b(bearer|basic|digest|negotiate|apikey)(?:\s+|%20|\+)[\w.~+/=%-]{6,}", re.IGNORECASE)
_KNOWN_SHAPES = re.compile(
    r"(?<![A-Za-z0-9])(?:sk|gsk|hf|api_org|gh[pousr]|github_pat|glpat|xox[abeprs]|nvapi|r8|pplx|tgp_v1|xai|csk)"
    r"[-_][\w-]{8,}"
    r"|(?<![A-Za-z0-9])(?:AKIA|ASIA)[A-Z0-9]{12,}|AIza[\w-]{20,}|ya29\.[\w.-]{10,}|eyJ[\w-]{5,}\.[\w-]+\.[\w-]*"
)
_PEM = re.compile(r"-----BEGIN [^-]*-----.*?(?:-----END [^-]*-----|\Z)", re.DOTALL)
_NAMED = re.compile(
    r"(?<![\w.%-])(?:(?P<name>[\w.%-]+)[\"'\]\\]*\s*(?:=|:(?!//)|%3[dDaA])\s*|(?P<flag>--?[A-Za-z][\w.%-]*)\s+)"
)
_QUOTED = r"\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'"
_VALUE = re.compile(rf"{_QUOTED}|(?:(?![,;&\s]{{1,8}}[\w.%-]{{1,200}}[\"'\\]{{0,3}}\s{{0,8}}[=:])[^\n\r])*", re.DOTALL)
_LINE = re.compile(rf"{_QUOTED}|[^\n\r]*", re.DOTALL)
_WORD = re.compile(rf"{_QUOTED}|\S*", re.DOTALL)
_HEADER_FLAGS = frozenset(("-H", "--header", "--headers", "--extra-header", "--extra-headers"))


def redact(value: Any, name: str = "") -> Any:
    """The plain JSON value without its secrets; `name` is the key it stands under."""
    if value is None or isinstance(value, bool):
        return value
    if is_secret_name(name):
        return REDACTED
    if isinstance(value, str):
        return redact_text(value)
    if isinstance(value, dict):
        hidden = name.lower().endswith("headers")
        return {redact_text(key): REDACTED if hidden else redact(one, key) for key, one in value.items()}
    if isinstance(value, list):
        return REDACTED if name.lower().endswith("headers") else _redact_list(value)
    return value


def redact_text(text: str) -> str:
    """A text without logins in URLs, what is assigned to secret names, and the shapes of well-known keys."""
    text = _PEM.sub(REDACTED, text)
    text = _URL_USER.sub(f"{REDACTED}@", text)
    text = _BARE_USER.sub(f"{REDACTED}@", text)
    text = _SCHEME.sub(rf"\1 {REDACTED}", _without_assigned(text))
    return _KNOWN_SHAPES.sub(REDACTED, text)


def _without_assigned(text: str) -> str:
    """`name=value`, `name: value`, `"name": "value"` and `--name value`, wherever they stand in the text."""
    pieces, at = [], 0
    while match := _NAMED.search(text, at):
        pieces.append(text[at : match.end()])
        at = match.end()
        name = match["name"] or match["flag"]
        if is_secret_name(name):
            pattern = _WORD if match["flag"] else _LINE if takes_the_line(name) else _VALUE
            value = pattern.match(text, at)
            if value is not None and value.end() > at:
                pieces.append(REDACTED)
                at = value.end()
    return "".join([*pieces, text[at:]])


def _redact_list(values: list[Any]) -> list[Any]:
    """As an argument list: `--api-key VALUE`, `-H "Name: value"`; and as a pair of name and value."""
    if len(values) == 2 and isinstance(values[0], str) and is_secret_name(values[0]):  # noqa: PLR2004 - a pair
        return [redact_text(values[0]), REDACTED]
    return [_redact_argument(before, value) for before, value in zip(["", *values], values, strict=False)]


def _redact_argument(before: Any, value: Any) -> Any:
    if not isinstance(value, str):
        return redact(value, before if isinstance(before, str) and before.startswith("-") else "")
    flag = before if isinstance(before, str) and before.startswith("-") and "=" not in before else ""
    if flag and is_secret_name(flag):
        return REDACTED
    if flag in _HEADER_FLAGS:
        return _only_name(value)
    given, equals, header = value.partition("=")
    return f"{given}={_only_name(header)}" if equals and given in _HEADER_FLAGS else redact_text(value)


def _only_name(header: str) -> str:
    """Of a header its name: any header may carry a key."""
    name = re.split(r"[:=\s]", header, maxsplit=1)[0]
    return f"{redact_text(name)}: {REDACTED}"


def shorten_home(value: Any, homes: Iterable[str]) -> Any:
    """Every text of a plain JSON value with the home folder written ~."""
    found = sorted({home.rstrip("/") for home in homes} - {""}, key=len, reverse=True)
    if not found:
        return value
    names = "|".join(re.escape(home) for home in found)
    return _shorten(value, re.compile(rf"(?<![\w.~-])(?:{names})(?![\w.-])"))


def _shorten(value: Any, pattern: re.Pattern[str]) -> Any:
    if isinstance(value, str):
        return pattern.sub("~", value)
    if isinstance(value, dict):
        return {pattern.sub("~", key): _shorten(one, pattern) for key, one in value.items()}
    if isinstance(value, list):
        return [_shorten(one, pattern) for one in value]
    return value
