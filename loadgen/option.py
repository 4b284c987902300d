"""An option: one row of a table of options, how its text is read and shown. Knows no particular option."""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from loadgen.units import parse_count, parse_number

CONTEXT_POLICIES = ("error", "drop", "clip-prompt", "clip-output")
LOWEST_CV, HIGHEST_CV = 0.01, 100.0
SECRET_NAMES = re.compile(r"auth|key|token|secret|cookie|password|credential", re.IGNORECASE)
SHOWN_CHARACTERS = 200
FROM_ENVIRONMENT = "env:"


@dataclass(frozen=True, slots=True)
class Option:
    """How one field is written on a command line and in a saved config."""

    flag: str
    parse: Callable[[str], Any]
    help: str
    group: str
    unit: str = ""
    """Shown in place of the value in help."""
    show: Callable[[Any], str] = str
    choices: tuple[str, ...] = ()
    many: bool = False
    """May be given more than once: its value is a tuple, its saved form a list."""
    is_flag: bool = False
    """Given without a value: its value is True."""


def row(
    flag: str,
    parse: Callable[[str], Any],
    help: str,  # noqa: A002 - the word every command line uses
    group: str,
    default: Any = None,
    **more: Any,
) -> Any:
    """A field of a table of options."""
    return field(default=default, metadata={"option": Option(flag, parse, help, group, **more)})


def choice(choices: tuple[str, ...]) -> Callable[[str], str]:
    """A reader of one of a few words."""

    def parse(text: str) -> str:
        if text not in choices:
            raise ValueError(f"{text!r} is not one of {', '.join(choices)}")
        return text

    return parse


def show_pair(separator: str, show: Callable[[int], str] = str) -> Callable[[tuple[int, int]], str]:
    """Writes a pair as one value where both are equal."""

    def joined(pair: tuple[int, int]) -> str:
        return show(pair[0]) if pair[0] == pair[1] else separator.join(show(part) for part in pair)

    return joined


def parse_slo_text(text: str) -> str:
    """Checked now, kept as written."""
    from results.slo import parse_slo

    return str(parse_slo(text))


def parse_context(text: str) -> tuple[int, str]:
    """`1024:clip-prompt`: tokens that prompt and output must fit into, and what happens to the others."""
    tokens, _, policy = text.partition(":")
    return parse_count(tokens), choice(CONTEXT_POLICIES)(policy or "error")


def parse_columns(text: str) -> tuple[tuple[str, str], ...]:
    """`time=ts,prompt=in,output=out`: what a trace's columns are called, each once."""
    pairs = [part.partition("=") for part in text.split(",")]
    if not all(name in ("time", "prompt", "output") and separator and column for name, separator, column in pairs):
        raise ValueError(f"{text!r} does not name columns: write time=COLUMN,prompt=COLUMN,output=COLUMN")
    columns = unique([(name, column) for name, _, column in pairs])
    return tuple(columns.items())


def unique(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Values by name. ValueError for a name that is given twice: which of its values is meant, nobody can tell."""
    values: dict[str, Any] = {}
    for name, value in pairs:
        if name in values:
            raise ValueError(f"{name[:SHOWN_CHARACTERS]!r} is given twice: keep one of its values")
        values[name] = value
    return values


def parse_cv(text: str) -> float:
    """A coefficient of variation for which the gamma distribution can be computed."""
    cv = parse_number(text)
    if not LOWEST_CV <= cv <= HIGHEST_CV:
        raise ValueError(f"{text!r} must be from {LOWEST_CV:g} to {HIGHEST_CV:g}")
    return cv


def parse_load(text: str) -> tuple[str, float]:
    """`16`, `burst` or `closed:8`: (rate | burst | closed, req/s or users)."""
    if text == "burst":
        return "burst", 0.0
    if text.startswith("closed:"):
        return "closed", float(parse_count(text.removeprefix("closed:")))
    return "rate", parse_number(text)


def parse_loads_text(text: str) -> str:
    """`auto` or a list of loads: checked now, kept as written."""
    if text != "auto":
        loads = [parse_load(part.strip()) for part in text.split(",")]
        if len(set(loads)) != len(loads):
            raise ValueError(f"{text!r} names a load twice")
    return text


def parse_flag(text: str) -> bool:
    """A flag that is given is `true`; a saved one may say `false`."""
    if text not in ("true", "false"):
        raise ValueError(f"{text!r} is not true or false")
    return text == "true"


def show_flag(value: bool) -> str:
    """What `parse_flag` reads."""
    return "true" if value else "false"


def parse_target(text: str) -> str:
    """The address of a server, without a secret in it."""
    try:
        parts = urlsplit(text.strip())
        port = parts.port
    except ValueError:
        raise ValueError(f"{text!r} is no address: write http://HOST:PORT or https://HOST") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise ValueError(f"{text!r} is no address of a server: write http://HOST:PORT or https://HOST")
    if parts.username is not None or parts.query or parts.fragment:
        raise ValueError("an address holds no user, query or fragment: give a key by --key-env, fields by --body")
    return text.strip().rstrip("/")


def parse_header(text: str) -> tuple[str, str]:
    """`Name: value`. A name that sounds secret takes its value from the environment: `Name: env:VARIABLE`."""
    name, separator, value = (part.strip() for part in text.partition(":"))
    if not separator or not re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name) or not value.isprintable():
        raise ValueError("a header cannot be read: write 'Name: value'")
    if SECRET_NAMES.search(name) and not value.startswith(FROM_ENVIRONMENT):
        raise ValueError(f"header {name} may hold a secret: write '{name}: {FROM_ENVIRONMENT}VARIABLE', set VARIABLE")
    return name, value


def parse_json_object(text: str) -> str:
    """Fields of a request's body as a JSON object: checked now, kept as written."""
    try:
        document = json.loads(text)
        json.dumps(document, allow_nan=False, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        raise ValueError(f"{text[:SHOWN_CHARACTERS]!r} is not JSON") from None
    json.loads(text, object_pairs_hook=unique)
    if not isinstance(document, dict):
        raise ValueError(f"{text!r} is not a JSON object: write {{\"field\": value}}")
    return text


def parse_threshold(text: str) -> tuple[str, float]:
    """`failed_fraction=0.05`: a line of the verdict by its name, and where it is drawn."""
    from results.verdicts.thresholds import Thresholds

    name, separator, value = (part.strip() for part in text.partition("="))
    try:
        number = float(value)
    except ValueError:
        separator, number = "", 0.0
    if not separator:
        raise ValueError(f"{text!r} is no threshold: write NAME=NUMBER, as in failed_fraction=0.05")
    Thresholds().override({name: number})
    return name, number


def show_threshold(pair: tuple[str, float]) -> str:
    """What `parse_threshold` reads."""
    return f"{pair[0]}={pair[1]!r}"


def show_header(pair: tuple[str, str]) -> str:
    """What `parse_header` reads."""
    return f"{pair[0]}: {pair[1]}"
