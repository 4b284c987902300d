"""The options of a run as arguments of locust: on its command line, in its form, and back to texts."""

from collections.abc import Mapping
from typing import Any

from loadgen.config import key_of, options
from loadgen.option import Option

LOCUSTS_OWN = ("users", "processes")
"""Options whose flags locust has itself: `--concurrency` and the number of workers take their place."""
CONCURRENCY = "concurrency"
HELP = {"rate": "mean arrival rate in req/s; a list, 2,4,8: one stage after the other"}
"""Where locust takes more than `tokenload run`."""
_defaults: dict[str, str] = {}


def configure(**texts: str) -> None:
    """Other defaults than the table's, as a person would type them: `configure(target="http://...", rate="8")`.

    For locustfiles of one's own. ValueError for an option that there is not.
    """
    known = {*_offered(), CONCURRENCY}
    for name in texts:
        if name not in known:
            raise ValueError(f"configure: there is no option {name!r}; there are {', '.join(sorted(known))}")
    _defaults.update(texts)


def add_arguments(parser: Any) -> None:
    """All of them, directly: locust shows no group's arguments in its form."""
    for name, (one, option) in _offered().items():
        told = HELP.get(name) or _help(option)
        parser.add_argument(option.flag, dest=name, help=told, **_kind(name, option, one.default))
    default = _defaults.get(CONCURRENCY, "")
    parser.add_argument(
        f"--{CONCURRENCY}", default=default, metavar="N", help="closed loop of N users in place of a rate"
    )


def texts_of(parsed: Mapping[str, Any]) -> dict[str, Any]:
    """What was given or differs from the table's default, by key, for `loadgen.config.from_texts`."""
    texts: dict[str, Any] = {}
    for name, (one, option) in _offered().items():
        value = parsed.get(name)
        if option.many:
            given: Any = [text for text in value or [] if text]
        elif option.is_flag:
            given = "true" if value else ""
        else:
            given = str(value or "").strip()
        if given and given != _shown(option, one.default):
            texts[key_of(option)] = given
    concurrency = str(parsed.get(CONCURRENCY) or "").strip()
    if concurrency:
        texts |= {"arrival": "closed", "users": concurrency}
    return texts


def _offered() -> dict[str, Any]:
    """Argument's name -> field and option."""
    named = {key_of(row[1]).replace("-", "_"): row for row in options().values()}
    return {name: row for name, row in named.items() if name not in LOCUSTS_OWN}


def _kind(name: str, option: Option, default: Any) -> dict[str, Any]:
    """How argparse and the form take it. A default is a text, since the form keeps the type it finds."""
    if option.many:
        return {"action": "append", "metavar": option.unit, "include_in_web_ui": False}
    if option.is_flag:
        return {"action": "store_true", "default": _defaults.get(name) == "true"}
    shown = _defaults.get(name, _shown(option, default))
    if option.choices:
        return {"choices": option.choices if default is not None else ("", *option.choices), "default": shown}
    return {"metavar": option.unit, "default": shown}


def _shown(option: Option, default: Any) -> str:
    return "" if default is None or option.many or option.is_flag else option.show(default)


def _help(option: Option) -> str:
    return (option.help + (f" ({option.unit})" if option.unit else "")).replace("%", "%%")
