"""llama.cpp's own /completion: a prompt of text or of token ids, continued."""

from collections.abc import Mapping, Sequence

from targets.api import JSON, SSE, BodyOptions, Delta, Usage
from targets.apis.asking import any_prompt, pins, with_extra, with_seed
from targets.apis.openai_reading import END, read_fault
from targets.apis.openai_usage import prompt_in, unless_empty
from targets.apis.reading import (
    ERROR_TYPE,
    Object,
    count_of,
    error_of,
    finish_of,
    list_of,
    object_of,
    read_object,
    text_of,
)  # fmt: skip
from targets.target import PlannedRequest

STOPPED_FLAGS = {"stopped_limit": "length", "stopped_eos": "stop", "stopped_word": "stop"}
"""How older servers said why they stopped."""


class LlamaCpp:
    """The prompt goes as it is, through no template."""

    name = "llamacpp"
    path = "/completion"
    framing = SSE
    models_path: str | None = "/v1/models"

    def body(self, request: PlannedRequest, options: BodyOptions) -> Mapping[str, JSON]:
        """ValueError when token ids are asked for and the request has none.

        The model is named for servers that hold several; others do not look at it.
        """
        sampling = with_seed({"temperature": request.temperature}, request)
        sampling[options.max_tokens_field or "n_predict"] = request.max_tokens
        if pins(request, options):
            sampling["ignore_eos"] = True
        prompt = any_prompt(request, options)
        return with_extra({"model": options.model, "prompt": prompt, "stream": options.stream, **sampling}, options)

    def event(self, data: bytes, event_type: str) -> Delta | None:
        """One event; None: `[DONE]`, which not every version sends."""
        if data == END:
            return None
        return read_fault(data) if event_type == ERROR_TYPE else _read(read_object(data))

    def whole(self, body: bytes) -> Sequence[Delta]:
        """A reply that was not streamed: one object in place of all."""
        return [_read(read_object(body))]


def _read(fields: Object) -> Delta:
    fault = error_of(fields)
    if fault is None and not (fields.keys() & {"content", "stop"}):
        raise ValueError("an event has neither content nor stop nor error")
    stopped = fields.get("stop") is True
    return Delta(
        text=text_of(fields.get("content"), "content"),
        tokens=len(list_of(fields.get("tokens"), "tokens")) or None,
        finish_reason=_finish(fields) if stopped else None,
        usage=_usage(fields) if stopped else None,
        error=fault,
    )


def _finish(fields: Object) -> str:
    flagged = (word for flag, word in STOPPED_FLAGS.items() if fields.get(flag) is True)
    return finish_of(fields.get("stop_type")) or next(flagged, "stop")


def _usage(fields: Object) -> Usage | None:
    """`tokens_cached` is not used: it counts what the slot holds at the end, not what the prompt found there."""
    timings = object_of(fields.get("timings"), "timings")
    prompt_tokens = count_of(fields.get("tokens_evaluated"), prompt_in(timings))
    cached, computed = count_of(timings.get("cache_n")), count_of(timings.get("prompt_n"))
    if cached is None and computed is not None and prompt_tokens is not None:
        cached = count_of(prompt_tokens - computed)
    output_tokens = count_of(fields.get("tokens_predicted"), timings.get("predicted_n"))
    return unless_empty(Usage(output_tokens, prompt_tokens, cached))
