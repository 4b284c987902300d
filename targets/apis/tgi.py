"""Text Generation Inference's own /generate_stream: one event a token, the whole text once more in the last."""

from collections.abc import Mapping, Sequence

from targets.api import JSON, SSE, BodyOptions, Delta, Usage
from targets.apis.asking import text_prompt, with_extra, with_seed
from targets.apis.openai_reading import END, read_fault
from targets.apis.openai_usage import unless_empty
from targets.apis.reading import (
    ERROR_TYPE,
    Object,
    count_of,
    error_of,
    finish_of,
    object_of,
    read_json,
    read_object,
    text_of,
)
from targets.target import PlannedRequest


class Tgi:
    """The model is the server's; a request names none, and no field pins the output's length."""

    name = "tgi"
    path = "/generate_stream"
    framing = SSE
    models_path: str | None = None

    def body(self, request: PlannedRequest, options: BodyOptions) -> Mapping[str, JSON]:
        """ValueError when token ids are asked for, or a reply that is not streamed.

        Temperature 0 is refused by the server: greedy is what it does when none is given.
        """
        if not options.stream:
            raise ValueError("tgi is asked at /generate_stream, which always streams: ask for a stream")
        parameters = with_seed({options.max_tokens_field or "max_new_tokens": request.max_tokens}, request)
        if request.temperature > 0:
            parameters |= {"do_sample": True, "temperature": request.temperature}
        return with_extra({"inputs": text_prompt(request, options, self.name), "parameters": parameters}, options)

    def event(self, data: bytes, event_type: str) -> Delta | None:
        """One event. Special tokens (the end of the sequence) are counted by the server and are no text."""
        if data == END:
            return None
        return read_fault(data) if event_type == ERROR_TYPE else _read_token(read_object(data))

    def whole(self, body: bytes) -> Sequence[Delta]:
        """A reply that was not streamed: an object, or a list of one."""
        value = read_json(body)
        fields = object_of(value[0] if isinstance(value, list) and value else value, "the reply")
        delta = _read_end(fields)
        delta.text = text_of(fields.get("generated_text"), "generated_text")
        return [delta]


def _read_token(fields: Object) -> Delta:
    delta = _read_end(fields)
    token = object_of(fields.get("token"), "a token")
    if token and not token.get("special"):
        delta.text, delta.tokens = text_of(token.get("text"), "a token's text"), 1
    return delta


def _read_end(fields: Object) -> Delta:
    """What only the last event has, and a fault."""
    fault = error_of(fields)
    if fault is None and not (fields.keys() & {"token", "generated_text"}):
        raise ValueError("an event has neither token nor generated_text nor error")
    details = object_of(fields.get("details"), "details")
    ended = fields.get("generated_text") is not None
    usage = Usage(count_of(details.get("generated_tokens")), count_of(details.get("input_length")))
    return Delta(
        finish_reason=finish_of(details.get("finish_reason")) or ("stop" if ended else None),
        usage=unless_empty(usage),
        error=fault,
    )
