"""What a client asks for: the body of a completion or a chat completion, checked field by field.

Fields that are not known here are ignored, as other servers do. A prompt that is text becomes its UTF-8 bytes, one
token each. A chat becomes `role: content` lines and a last `assistant:`, and then is a prompt like any other.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

import orjson

from engines.engine import SamplingParams
from targets.serve.fields import flag, number, optional, text_list, whole, whole_list
from targets.serve.refusal import Refusal, shown

DEFAULT_TOKENS = 16
MOST_TOKENS = 1 << 20
"""Of prompt and output together, where the engine has no limit of its own."""
MOST_TOKEN_ID = (1 << 31) - 1
COLDEST = 1e-6
"""A temperature below is taken as 0: logits divided by it would overflow."""
MOST_STOPS = 64
ROLES = ("system", "developer", "user", "assistant", "tool", "function")


@dataclass(frozen=True, slots=True)
class Served:
    """What the engine behind the server takes."""

    model: str
    context_tokens: int | None = None
    vocabulary: int | None = None
    eos_token_id: int | None = None


@dataclass(frozen=True, slots=True)
class Ask:
    """One request, checked."""

    prompt_token_ids: list[int]
    params: SamplingParams
    """For the engine: where min_tokens forbids an early end, it is told of no end but max_tokens."""
    chat: bool
    stream: bool
    include_usage: bool
    return_token_ids: bool
    stops: tuple[str, ...]
    ending_token_ids: frozenset[int]
    """Tokens that end it, to be seen to here; empty where the engine sees to them."""
    min_tokens: int


def read_ask(body: bytes, chat: bool, served: Served) -> Ask:
    """Refusal naming the first field that cannot be."""
    fields = _fields(body)
    _check_model(fields.get("model"), served.model)
    if optional(fields, "n", whole, 1) != 1:
        raise Refusal(f"n must be 1, not {shown(fields['n'])}: one choice a request", "n")
    prompt = _chat_prompt(fields) if chat else _prompt(fields, served)
    max_tokens, min_tokens = _lengths(fields)
    _check_context(prompt, max_tokens, "messages" if chat else "prompt", served)
    params, ending = _sampling(fields, max_tokens, min_tokens, served)
    options = optional(fields, "stream_options", _object, {})
    return Ask(
        prompt_token_ids=prompt,
        params=params,
        chat=chat,
        stream=optional(fields, "stream", flag, False),
        include_usage=optional(options, "include_usage", flag, False, "stream_options."),
        return_token_ids=optional(fields, "return_token_ids", flag, False),
        stops=optional(fields, "stop", text_list, ()),
        ending_token_ids=ending,
        min_tokens=min_tokens,
    )


def _fields(body: bytes) -> Mapping[str, Any]:
    try:
        fields = orjson.loads(body)
    except orjson.JSONDecodeError:
        raise Refusal("the body is not JSON") from None
    if not isinstance(fields, dict):
        raise Refusal("the body is not a JSON object")
    return fields


def _object(value: Any, param: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise Refusal(f"{param} must be an object, not {shown(value)}", param)
    return value


def _check_model(model: Any, served: str) -> None:
    if model is not None and not isinstance(model, str):
        raise Refusal(f"model must be a string, not {shown(model)}", "model")
    if model not in (None, served):
        raise Refusal(f"no model {shown(model)} here: leave model out or ask /v1/models", "model", "model_not_found")


def _lengths(fields: Mapping[str, Any]) -> tuple[int, int]:
    """max_tokens under whichever name, and min_tokens. max_completion_tokens goes before max_tokens."""
    max_tokens = optional(fields, "max_tokens", whole, DEFAULT_TOKENS)
    name = "max_tokens"
    if fields.get("max_completion_tokens") is not None:
        name = "max_completion_tokens"
        max_tokens = whole(fields[name], name)
    if not 1 <= max_tokens <= MOST_TOKENS:
        raise Refusal(f"{name} must be from 1 to {MOST_TOKENS}, not {max_tokens}", name)
    min_tokens = optional(fields, "min_tokens", whole, 0)
    if not 0 <= min_tokens <= max_tokens:
        raise Refusal(f"min_tokens must be from 0 to {name} ({max_tokens}), not {min_tokens}", "min_tokens")
    return max_tokens, min_tokens


def _sampling(
    fields: Mapping[str, Any], max_tokens: int, min_tokens: int, served: Served
) -> tuple[SamplingParams, frozenset[int]]:
    """For the engine, and the tokens that end the request too early for the engine to be told of them."""
    ignore_eos = optional(fields, "ignore_eos", flag, False)
    stop_token_ids = optional(fields, "stop_token_ids", whole_list, ())
    if len(stop_token_ids) > MOST_STOPS or not all(0 <= token_id <= MOST_TOKEN_ID for token_id in stop_token_ids):
        raise Refusal(f"stop_token_ids must be at most {MOST_STOPS} token ids from 0 on", "stop_token_ids")
    temperature = optional(fields, "temperature", number, 0.0)
    if temperature < 0:
        raise Refusal(f"temperature must be 0 or above, not {temperature:g}", "temperature")
    temperature = 0.0 if temperature < COLDEST else temperature
    seed = optional(fields, "seed", whole, None)
    if not min_tokens:
        return SamplingParams(max_tokens, ignore_eos, temperature, seed, stop_token_ids), frozenset()
    eos = () if ignore_eos or served.eos_token_id is None else (served.eos_token_id,)
    return SamplingParams(max_tokens, True, temperature, seed), frozenset((*stop_token_ids, *eos))


def _check_context(prompt: list[int], max_tokens: int, param: str, served: Served) -> None:
    limit_tokens = served.context_tokens or MOST_TOKENS
    if len(prompt) + max_tokens > limit_tokens:
        raise Refusal(
            f"{len(prompt)} prompt tokens and {max_tokens} to come do not fit the context of {limit_tokens} tokens",
            param,
            "context_length_exceeded",
        )


def _prompt(fields: Mapping[str, Any], served: Served) -> list[int]:
    """A string, token ids, or a list of one of these."""
    prompt = fields.get("prompt")
    if isinstance(prompt, list) and len(prompt) == 1 and isinstance(prompt[0], str | list):
        prompt = prompt[0]
    if isinstance(prompt, str):
        ids = list(prompt.encode())
    elif isinstance(prompt, list) and all(type(token_id) is int for token_id in prompt):
        ids = prompt
    else:
        raise Refusal("prompt must be one string or one list of token ids", "prompt")
    if not ids:
        raise Refusal("prompt must hold at least one token", "prompt")
    highest = MOST_TOKEN_ID if served.vocabulary is None else served.vocabulary - 1
    if min(ids) < 0 or max(ids) > highest:
        wrong = min(ids) if min(ids) < 0 else max(ids)
        raise Refusal(f"prompt holds the token id {wrong}: they go from 0 to {highest}", "prompt")
    return ids


def _chat_prompt(fields: Mapping[str, Any]) -> list[int]:
    messages = fields.get("messages")
    if not isinstance(messages, list) or not messages:
        raise Refusal("messages must be a list of at least one message", "messages")
    lines = [_line(message, f"messages[{at}]") for at, message in enumerate(messages)]
    return list("".join(chain(lines, ["assistant:"])).encode())


def _line(message: Any, param: str) -> str:
    role = _object(message, param).get("role")
    if role not in ROLES:
        raise Refusal(f"{param}.role must be one of {', '.join(ROLES)}, not {shown(role)}", f"{param}.role")
    return f"{role}: {_content(message.get('content'), f'{param}.content')}\n"


def _content(content: Any, param: str) -> str:
    """Text, null, or a list of text parts."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else [content]
    if not all(isinstance(part, dict) and isinstance(part.get("text"), str) for part in parts):
        raise Refusal(f"{param} must be a string or a list of text parts", param)
    return "".join(part["text"] for part in parts)
