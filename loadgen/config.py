"""Configs as texts: read from what a person types or a saved run holds, and written back the same way.

Saved configs hold what a person would type, so they can be read, edited and run again.
"""

from collections.abc import Mapping
from typing import Any

from loadgen.config_rules import check
from loadgen.config_table import RunConfig, SweepOptions, key_of, options
from loadgen.option import Option, parse_load

__all__ = [
    "RunConfig", "SweepOptions", "check", "from_texts", "key_of", "options", "parse_load", "to_full_json", "to_json",
]  # fmt: skip
Text = str | list[str]
MODELLED = {"hardware", "model"}
"""Options of hardware that is not here: its time can only be modelled."""


def to_json(config: RunConfig) -> dict[str, Text]:
    """What a person would type, without what was left at its default."""
    shown = {}
    for name, (one, option) in options().items():
        value = getattr(config, name)
        if value != one.default and value is not None:
            shown[key_of(option)] = _shown(option, value)
    return shown


def to_full_json(config: RunConfig) -> dict[str, Text | None]:
    """Every option with the value in force, as a person would type it; None: not set."""
    shown = {}
    for name, (_, option) in options().items():
        value = getattr(config, name)
        shown[key_of(option)] = None if value is None else _shown(option, value)
    return shown


def from_texts(texts: Mapping[str, Any], complete: bool = True) -> RunConfig:
    """A config from option texts by key; options that may be given again have lists. ValueError names the option.

    Not complete: options that a sweep sets at each point may still be missing.
    """
    by_key = {key_of(option): (name, option) for name, (_, option) in options().items()}
    values: dict[str, Any] = {}
    for key, text in texts.items():
        if key not in by_key:
            raise ValueError(f"unknown option {key!r}: known are {', '.join(by_key)}")
        name, option = by_key[key]
        values[name] = _read(option, key, text)
    if values.get("target") is not None:
        values.setdefault("clock", "real")
        if "engine" in values:
            raise ValueError("give --engine or --target, not both")
    if MODELLED & values.keys() or "executor=roofline" in values.get("engine", ""):
        values.setdefault("clock", "modelled")
    config = RunConfig(**values)
    if complete:
        check(config)
    return config


def _shown(option: Option, value: Any) -> Text:
    return [option.show(one) for one in value] if option.many else option.show(value)


def _read(option: Option, key: str, text: Any) -> Any:
    texts = text if option.many else [text]
    if not isinstance(texts, list | tuple) or not all(isinstance(one, str) for one in texts):
        raise ValueError(f"option {key!r} must be a text, as it would be typed, not {text!r}")
    try:
        values = tuple(option.parse(one) for one in texts)
    except ValueError as error:
        raise ValueError(f"{option.flag}: {error}") from None
    return values if option.many else values[0]
