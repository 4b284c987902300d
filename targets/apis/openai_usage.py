"""Token counts in OpenAI's form, with the names that other servers gave the same counts."""

from targets.api import Usage
from targets.apis.reading import JSON, Object, count_of

NOTHING = Usage()


def usage_of(chunk: Object, choice: Object) -> Usage | None:
    """The counts told in a chunk, wherever they stand; None: it tells none.

    `usage` stands in the chunk, in its choice or in `x_groq`; llama.cpp has `timings` beside or in place of it.
    """
    told = _first_object(chunk.get("usage"), choice.get("usage"), _inside(chunk.get("x_groq"), "usage"))
    timings = _first_object(chunk.get("timings"))
    if not told and not timings:
        return None
    prompt_details = _first_object(told.get("prompt_tokens_details"), told.get("input_tokens_details"))
    output_details = _first_object(told.get("completion_tokens_details"), told.get("output_tokens_details"))
    usage = Usage(
        output_tokens=count_of(told.get("completion_tokens"), told.get("output_tokens"), timings.get("predicted_n")),
        prompt_tokens=count_of(told.get("prompt_tokens"), told.get("input_tokens"), prompt_in(timings)),
        cached_tokens=count_of(
            prompt_details.get("cached_tokens"), told.get("prompt_cache_hit_tokens"), timings.get("cache_n")
        ),
        reasoning_tokens=count_of(output_details.get("reasoning_tokens"), told.get("reasoning_tokens")),
    )
    return unless_empty(usage)


def unless_empty(usage: Usage) -> Usage | None:
    """The counts, or None where none is told."""
    return usage if usage != NOTHING else None


def prompt_in(timings: Object) -> int | None:
    """llama.cpp's `prompt_n` counts what it computed: the prompt is that and what its cache held."""
    computed = count_of(timings.get("prompt_n"))
    cached = count_of(timings.get("cache_n"))
    return None if computed is None or cached is None else computed + cached


def _inside(value: JSON, key: str) -> JSON:
    return value.get(key) if isinstance(value, dict) else None


def _first_object(*values: JSON) -> Object:
    return next((value for value in values if isinstance(value, dict) and value), {})
