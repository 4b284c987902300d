"""OpenAI's /v1/chat/completions, as the many servers that have it write it."""

from collections.abc import Mapping, Sequence

from targets.api import JSON, SSE, BodyOptions, Delta, PlainRun
from targets.apis.asking import pins, text_prompt, with_extra, with_seed
from targets.apis.openai_reading import UNNAMED, read_any, read_data, read_named
from targets.apis.plain_runs import plain_run
from targets.apis.reading import read_object
from targets.target import PlannedRequest


class OpenAiChat:
    """The prompt goes as one message of the user."""

    name = "openai-chat"
    path = "/v1/chat/completions"
    framing = SSE
    models_path: str | None = "/v1/models"

    def body(self, request: PlannedRequest, options: BodyOptions) -> Mapping[str, JSON]:
        """ValueError when token ids are asked for."""
        prompt = text_prompt(request, options, self.name)
        return generation_body({"messages": [{"role": "user", "content": prompt}]}, request, options)

    def event(self, data: bytes, event_type: str) -> Delta | None:
        """One event of a stream; None: `[DONE]`."""
        return read_data(data) if event_type in UNNAMED else read_named(data, event_type)

    def plain_run(self, data: Sequence[bytes], before: bytes, after: bytes) -> PlainRun | None:
        """Events that differ in their texts alone."""
        return plain_run(data, b'"content":"', read_data, before, after)

    def whole(self, body: bytes) -> Sequence[Delta]:
        """A reply that was not streamed: one object in place of all."""
        return [read_any(read_object(body))]


def generation_body(prompt: Mapping[str, JSON], request: PlannedRequest, options: BodyOptions) -> Mapping[str, JSON]:
    """What both endpoints of OpenAI take: limits, sampling, how the reply comes.

    Usage has to be asked for in a stream. `ignore_eos` and `min_tokens` are no fields of OpenAI's own: servers that
    generate exactly what is asked have them, and others refuse them.
    """
    body = with_seed({"model": options.model, **prompt, "temperature": request.temperature}, request)
    body["stream"] = options.stream
    if options.stream and options.usage:
        body["stream_options"] = {"include_usage": True}
    body[options.max_tokens_field or "max_tokens"] = request.max_tokens
    if pins(request, options):
        body |= {"ignore_eos": True, "min_tokens": request.max_tokens}
    return with_extra(body, options)
