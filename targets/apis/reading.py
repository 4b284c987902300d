"""What the APIs read alike: JSON that a stranger wrote. Anything unusable is ValueError, never its content."""

import json
from typing import Any

import orjson

JSON = Any
Object = dict[str, JSON]
ERROR_TYPE = "error"
LARGEST_COUNT = 2**53
LONGEST_ERROR_CHARACTERS = 1_000
MESSAGE_KEYS = ("message", "detail", "msg", "error", "type")

FINISH_REASONS = {
    "limit": "length", "eos": "stop", "eos_token": "stop", "word": "stop", "stop_sequence": "stop", "none": "stop",
}  # fmt: skip
"""What servers say in place of OpenAI's words."""


def read_object(data: bytes) -> Object:
    """The JSON object in `data`. ValueError when there is none."""
    value = read_json(data)
    if type(value) is not dict:
        raise ValueError("what came is no JSON object")
    return value


def read_json(data: bytes) -> JSON:
    """The JSON in `data`. ValueError when there is none.

    What strict JSON forbids and servers send all the same is read: NaN among logprobs, halves of a surrogate pair
    (each becomes U+FFFD).
    """
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        return _read_leniently(data)


def _read_leniently(data: bytes) -> JSON:
    try:
        value = json.loads(data.decode())
        text = json.dumps(value, ensure_ascii=False)
        return json.loads(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))
    except (ValueError, RecursionError):
        raise ValueError(f"what came is not JSON ({len(data)} bytes)") from None


def object_of(value: JSON, name: str) -> Object:
    """An object, or an empty one for null and what is absent. ValueError for anything else."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ValueError(f"{name} is no JSON object")
    return value


def list_of(value: JSON, name: str) -> list[JSON]:
    """A list, or an empty one for null and what is absent. ValueError for anything else."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise ValueError(f"{name} is no JSON list")
    return value


def text_of(value: JSON, name: str) -> str:
    """A text; null is an empty one, and a list of parts is the texts in it."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if not isinstance(value, list):
        raise ValueError(f"{name} is no text")
    return "".join(_text_of_part(part, name) for part in value)


def _text_of_part(part: JSON, name: str) -> str:
    if isinstance(part, str):
        return part
    fields = object_of(part, name)
    return text_of(fields.get("text", fields.get("thinking")), name)


def word_of(value: JSON) -> str | None:
    """A text that is not empty; None for everything else."""
    return value if isinstance(value, str) and value else None


def finish_of(value: JSON) -> str | None:
    """A finish reason in OpenAI's words."""
    word = word_of(value)
    return FINISH_REASONS.get(word, word) if word is not None else None


def count_of(*values: JSON) -> int | None:
    """The first of the values that can be a count; None when none can."""
    for value in values:
        if type(value) is int and 0 <= value < LARGEST_COUNT:
            return value
    return None


def calls_of(value: JSON) -> str:
    """Names and arguments of tool calls, in order."""
    return "".join(call_of(object_of(call, "a tool call").get("function")) for call in list_of(value, "tool_calls"))


def call_of(value: JSON) -> str:
    """Name and arguments of one call; arguments may be a text or JSON."""
    function = object_of(value, "a function call")
    arguments = function.get("arguments")
    if isinstance(arguments, dict):
        arguments = json.dumps(arguments)
    return text_of(function.get("name"), "a function's name") + text_of(arguments, "a function's arguments")


def error_of(fields: Object) -> str | None:
    """What an object says went wrong; None: it reports no fault.

    Known forms: `{"error": "text"}`, `{"error": {"message", "param"}}`, `{"object": "error", "message"}`.
    """
    fault = fields.get("error")
    if not fault:
        return message_of(fields) if fields.get("object") == "error" else None
    return message_of(fault)


def message_of(fault: JSON) -> str:
    """One line for a fault in whatever form it came, with the field complained of where it is named apart."""
    if isinstance(fault, str):
        return one_line(fault)
    if not isinstance(fault, dict):
        return one_line(json.dumps(fault))
    told = (word_of(fault.get(key)) for key in MESSAGE_KEYS)
    text = one_line(next((one for one in told if one), json.dumps(fault)))
    field = word_of(fault.get("param"))
    return f"{text} (field {one_line(field)})" if field is not None and field not in text else text


def one_line(text: str) -> str:
    """The text without line ends and control characters, capped."""
    shown = "".join(one if one.isprintable() else " " for one in text[:LONGEST_ERROR_CHARACTERS])
    return " ".join(shown.split()) or "an error without a text"
