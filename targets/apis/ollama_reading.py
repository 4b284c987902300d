"""What a line of Ollama's own endpoints bears, and what their bodies share."""

from collections.abc import Mapping

from targets.api import JSON, BodyOptions, Delta, Usage
from targets.apis.asking import with_extra, with_seed
from targets.apis.openai_usage import unless_empty
from targets.apis.reading import Object, calls_of, count_of, error_of, finish_of, object_of, read_object, text_of
from targets.target import PlannedRequest


def ollama_body(prompt: Mapping[str, JSON], request: PlannedRequest, options: BodyOptions) -> Mapping[str, JSON]:
    """Sampling and the output limit stand in `options`; there is no field that pins the output's length."""
    sampling = with_seed({"temperature": request.temperature}, request)
    sampling[options.max_tokens_field or "num_predict"] = request.max_tokens
    return with_extra({"model": options.model, **prompt, "stream": options.stream, "options": sampling}, options)


def read_line(data: bytes) -> Delta:
    """One line. The last one (`done`) bears the counts; older servers do not say why they ended."""
    line = read_object(data)
    fault = error_of(line)
    if fault is None and not (line.keys() & {"response", "message", "done"}):
        raise ValueError("a line has neither response nor message nor done nor error")
    message = object_of(line.get("message"), "a message")
    thinking = text_of(line.get("thinking"), "thinking") + text_of(message.get("thinking"), "thinking")
    answer = text_of(line.get("response"), "response") + text_of(message.get("content"), "content")
    answer += calls_of(message.get("tool_calls"))
    done = line.get("done") is True
    return Delta(
        text=thinking + answer,
        reasoning=bool(thinking) and not answer,
        finish_reason=(finish_of(line.get("done_reason")) or "stop") if done else None,
        usage=_usage(line) if done else None,
        error=fault,
    )


def _usage(line: Object) -> Usage | None:
    return unless_empty(Usage(count_of(line.get("eval_count")), count_of(line.get("prompt_eval_count"))))
