"""What bodies of requests have in common: the prompt as an API takes it, lengths pinned, further fields."""

from collections.abc import Mapping
from typing import Any

from targets.api import BodyOptions
from targets.target import PlannedRequest

JSON = Any
TAKE_TOKENS = "openai-completions or llamacpp"


def text_prompt(request: PlannedRequest, options: BodyOptions, name: str) -> str:
    """The prompt for an API that takes text. ValueError when token ids are asked for."""
    if options.token_prompts:
        raise ValueError(f"{name} takes text, not token ids: give --prompt-as text, or --api {TAKE_TOKENS}")
    return request.prompt_text


def any_prompt(request: PlannedRequest, options: BodyOptions) -> str | list[int]:
    """The prompt for an API that takes both. ValueError when token ids are asked for and there are none."""
    if not options.token_prompts:
        return request.prompt_text
    if request.prompt_token_ids is None:
        raise ValueError(f"request {request.request_id} has no token ids, only a text: give --prompt-as text")
    return [int(token_id) for token_id in request.prompt_token_ids]


def pins(request: PlannedRequest, options: BodyOptions) -> bool:
    """Whether exactly max_tokens are to be generated."""
    return options.pin_lengths and request.ignore_eos


def with_seed(fields: Mapping[str, JSON], request: PlannedRequest) -> dict[str, JSON]:
    """The fields with the request's seed, where it has one."""
    return {**fields, "seed": request.seed} if request.seed is not None else dict(fields)


def with_extra(body: Mapping[str, JSON], options: BodyOptions) -> dict[str, JSON]:
    """The body with the user's further fields, which win; where both have an object, field by field."""
    merged = dict(body)
    for key, value in options.extra.items():
        ours = merged.get(key)
        merged[key] = {**ours, **value} if isinstance(ours, dict) and isinstance(value, Mapping) else value
    return merged
