"""Fields of a request's body: each reader gives the value back in its type, or refuses it by name."""

import math
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from targets.serve.refusal import Refusal, shown

Value = TypeVar("Value")
Default = TypeVar("Default")

MOST_STOPS = 64
LONGEST_STOP_CHARACTERS = 1_024
LARGEST_WHOLE = (1 << 63) - 1


def optional(
    fields: Mapping[str, Any], name: str, read: Callable[[Any, str], Value], default: Default, under: str = ""
) -> Value | Default:
    """The field, or the default where it is absent or null. `under`: what its name stands under."""
    value = fields.get(name)
    return default if value is None else read(value, f"{under}{name}")


def flag(value: Any, param: str) -> bool:
    """true or false."""
    if not isinstance(value, bool):
        raise Refusal(f"{param} must be true or false, not {shown(value)}", param)
    return value


def whole(value: Any, param: str) -> int:
    """A whole number; true is none."""
    if type(value) is not int or abs(value) > LARGEST_WHOLE:
        raise Refusal(f"{param} must be a whole number, not {shown(value)}", param)
    return value


def number(value: Any, param: str) -> float:
    """A finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise Refusal(f"{param} must be a number, not {shown(value)}", param)
    return float(value)


def whole_list(value: Any, param: str) -> tuple[int, ...]:
    """A list of whole numbers."""
    if not isinstance(value, list):
        raise Refusal(f"{param} must be a list of whole numbers, not {shown(value)}", param)
    return tuple(whole(one, param) for one in value)


def text_list(value: Any, param: str) -> tuple[str, ...]:
    """One string or a short list of them, none empty."""
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not all(isinstance(text, str) and text for text in texts):
        raise Refusal(f"{param} must be a string or a list of strings, none empty, not {shown(value)}", param)
    if len(texts) > MOST_STOPS or any(len(text) > LONGEST_STOP_CHARACTERS for text in texts):
        raise Refusal(
            f"{param} must be at most {MOST_STOPS} strings of at most {LONGEST_STOP_CHARACTERS} characters", param
        )
    return tuple(texts)
