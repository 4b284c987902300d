"""What an event in OpenAI's form bears: `choices` with a delta, a message or a text, counts, a fault.

Of several choices (n above 1) only the one with index 0 counts: a request is one generation.
"""

from targets.api import Delta
from targets.apis.openai_usage import usage_of
from targets.apis.reading import (
    ERROR_TYPE,
    JSON,
    Object,
    call_of,
    calls_of,
    error_of,
    finish_of,
    list_of,
    message_of,
    object_of,
    read_object,
    text_of,
    word_of,
)

END = b"[DONE]"
UNNAMED = ("", "message")
NO_CHOICE: Object = {}
PLAIN_CHUNK = frozenset(
    ("id", "object", "created", "model", "system_fingerprint", "choices", "usage", "prompt_token_ids", "prompt_text")
)
PLAIN_CHOICE = frozenset(("index", "delta", "stop_reason", "finish_reason", "logprobs", "token_ids"))
PLAIN_DELTA = frozenset(("role", "content"))


def read_data(data: bytes) -> Delta | None:
    """One event without a name; None: the end marker."""
    return read_any(read_object(data)) if data != END else None


def read_any(chunk: Object) -> Delta:
    """Any event. ValueError when it is none of OpenAI's: it has neither choices nor counts nor a fault."""
    return read_plain(chunk) or read_whatever(chunk)


def read_plain(chunk: Object) -> Delta | None:
    """The event that nearly all are: one choice with a content, perhaps its last; None: it is another."""
    choices = chunk.get("choices")
    if type(choices) is not list or len(choices) != 1 or type(choices[0]) is not dict:
        return None
    choice = choices[0]
    delta = choice.get("delta")
    if type(delta) is not dict or not (
        delta.keys() <= PLAIN_DELTA and choice.keys() <= PLAIN_CHOICE and chunk.keys() <= PLAIN_CHUNK
    ):
        return None
    if choice.get("index") or choice.get("logprobs") is not None or choice.get("token_ids") is not None:
        return None
    content = delta.get("content")
    if type(content) is not str or chunk.get("usage") is not None:
        return None
    return Delta(content, finish_reason=finish_of(choice.get("finish_reason")), reply_id=word_of(chunk.get("id")))


def read_whatever(chunk: Object) -> Delta:
    """The same, for every event there is."""
    fault = error_of(chunk)
    choices = list_of(chunk.get("choices"), "choices")
    if "choices" not in chunk and fault is None and not (chunk.keys() & {"usage", "timings"}):
        raise ValueError("an event has neither choices nor usage nor error")
    choice = _counted(choices)
    reasoning, answer = _texts(choice)
    return Delta(
        text=reasoning + answer,
        reasoning=bool(reasoning) and not answer,
        tokens=_tokens(choice),
        finish_reason=finish_of(choice.get("finish_reason")),
        usage=usage_of(chunk, choice),
        error=fault,
        reply_id=word_of(chunk.get("id")),
    )


def read_named(data: bytes, event_type: str) -> Delta | None:
    """One event with a name: `error` is a fault in whatever form, others are notes unless a chunk stands in them."""
    if event_type == ERROR_TYPE:
        return read_fault(data)
    if data == END:
        return None
    try:
        chunk = read_object(data)
    except ValueError:
        return Delta()
    return read_any(chunk) if "choices" in chunk or "error" in chunk else Delta()


def read_fault(data: bytes) -> Delta:
    """An `event: error`: a text, or an object that says what went wrong."""
    try:
        fields = read_object(data)
    except ValueError:
        return Delta(error=message_of(data.decode(errors="replace")))
    return Delta(error=error_of(fields) or message_of(fields))


def _counted(choices: list[JSON]) -> Object:
    for choice in choices:
        fields = object_of(choice, "a choice")
        if not fields.get("index"):
            return fields
    return NO_CHOICE


def _texts(choice: Object) -> tuple[str, str]:
    """Reasoning and everything else that was generated."""
    delta = object_of(choice.get("delta"), "a delta") or object_of(choice.get("message"), "a message")
    get = delta.get
    reasoning = text_of(get("reasoning_content"), "reasoning_content") or text_of(get("reasoning"), "reasoning")
    answer = text_of(get("content"), "content") + text_of(get("refusal"), "refusal") + calls_of(get("tool_calls"))
    if get("function_call") is not None:
        answer += call_of(get("function_call"))
    return reasoning, answer or text_of(choice.get("text"), "text")


def _tokens(choice: Object) -> int | None:
    """Tokens in the event: of token ids, else of logprobs in the form of either endpoint."""
    logprobs = choice.get("logprobs")
    found = [choice.get("token_ids")]
    if isinstance(logprobs, dict):
        found += [logprobs.get("content"), logprobs.get("tokens")]
    return next((len(one) for one in found if isinstance(one, list) and one), None)
