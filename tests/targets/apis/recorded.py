"""Replies as the servers of each API send them: events of one stream, its reply without a stream, and what they say."""

from dataclasses import dataclass, field

from targets.api import Api, Delta, Usage


@dataclass(frozen=True)
class Recorded:
    """One reply, streamed and not; a stream's event is its data and its event type."""

    stream: list[bytes]
    whole: bytes
    fault: bytes
    """An event that says what went wrong, with the text `out of memory`."""
    text: str = "Paris is it"
    events: int = 3
    finish_reason: str = "length"
    usage: Usage = field(default_factory=lambda: Usage(3, 36))
    reply_id: str | None = "r-1"


def chunk(choices: str, more: str = "") -> bytes:
    """A chunk in OpenAI's form."""
    return (
        f'{{"id":"r-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{choices}]{more}}}'.encode()
    )


def delta(text: str, finish: str = "null") -> bytes:
    """A chunk whose delta is content."""
    return chunk(f'{{"index":0,"delta":{{"content":"{text}"}},"logprobs":null,"finish_reason":{finish}}}')


def continued(text: str, finish: str = "null") -> bytes:
    """A chunk of a completion."""
    return chunk(f'{{"index":0,"text":"{text}","logprobs":null,"finish_reason":{finish}}}')


def ollama(inside: str, more: str = '"done":false') -> bytes:
    """A line of Ollama's."""
    return f'{{"model":"m","created_at":"2026-11-20T10:00:00.1Z",{inside},{more}}}'.encode()


DONE = '"done":true,"done_reason":"length","total_duration":9,"prompt_eval_count":36,"eval_count":3,"eval_duration":5'
USAGE = ',"usage":{"prompt_tokens":36,"completion_tokens":3,"total_tokens":39}'


def token(text: str, end: str = '"generated_text":null,"details":null', special: str = "false") -> bytes:
    """An event of TGI's."""
    return f'{{"index":1,"token":{{"id":5,"text":"{text}","logprob":-0.1,"special":{special}}},{end}}}'.encode()


TGI_END = (
    '"generated_text":"Paris is it",'
    '"details":{"finish_reason":"length","generated_tokens":3,"seed":null,"input_length":36}'
)
LLAMACPP_END = (
    b'{"index":0,"content":"","tokens":[],"stop":true,"tokens_predicted":3,"tokens_evaluated":36,"stop_type":"limit",'
    b'"tokens_cached":38,"timings":{"cache_n":35,"prompt_n":1,"prompt_ms":11.0,"predicted_n":3,"predicted_ms":70.5}}'
)


def piece(text: str, tokens: int) -> bytes:
    """An event of llama.cpp's."""
    told = f'"id_slot":0,"tokens_predicted":{tokens},"tokens_evaluated":36'
    return f'{{"index":0,"content":"{text}","tokens":[{tokens}],"stop":false,{told}}}'.encode()


RECORDED = {
    "openai-chat": Recorded(
        [
            chunk('{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}'),
            delta("Paris"),
            delta(" is"),
            delta(" it"),
            chunk('{"index":0,"delta":{},"finish_reason":"length"}'),
            chunk("", USAGE),
            b"[DONE]",
        ],
        chunk('{"index":0,"message":{"role":"assistant","content":"Paris is it"},"finish_reason":"length"}', USAGE),
        b'{"error":{"message":"out of memory","type":"server_error","code":500}}',
    ),
    "openai-completions": Recorded(
        [continued("Paris"), continued(" is"), continued(" it", '"length"'), chunk("", USAGE), b"[DONE]"],
        chunk('{"index":0,"text":"Paris is it","finish_reason":"length"}', USAGE),
        b'{"error":"out of memory"}',
    ),
    "ollama-generate": Recorded(
        [
            ollama('"response":"Paris"'),
            ollama('"response":" is"'),
            ollama('"response":" it"'),
            ollama('"response":""', DONE),
        ],
        ollama('"response":"Paris is it"', DONE),
        b'{"error":"out of memory"}',
        reply_id=None,
    ),
    "ollama-chat": Recorded(
        [
            ollama('"message":{"role":"assistant","content":"Paris"}'),
            ollama('"message":{"role":"assistant","content":" is"}'),
            ollama('"message":{"role":"assistant","content":" it"}'),
            ollama('"message":{"role":"assistant","content":""}', DONE),
        ],
        ollama('"message":{"role":"assistant","content":"Paris is it"}', DONE),
        b'{"error":"out of memory"}',
        reply_id=None,
    ),
    "tgi": Recorded(
        [token("Paris"), token(" is"), token(" it", TGI_END)],
        f"[{{{TGI_END}}}]".encode(),
        b'{"error":"out of memory","error_type":"generation"}',
        reply_id=None,
    ),
    "llamacpp": Recorded(
        [
            piece("Paris", 1),
            piece(" is", 2),
            piece(" it", 3),
            LLAMACPP_END,
        ],
        LLAMACPP_END.replace(b'"content":""', b'"content":"Paris is it"'),
        b'{"error":{"code":500,"message":"out of memory","type":"server_error"}}',
        usage=Usage(3, 36, 35),
        reply_id=None,
    ),
}


def read(api: Api, stream: list[bytes]) -> list[Delta]:
    """What the events bear, up to the end marker."""
    deltas: list[Delta] = []
    for data in stream:
        found = api.event(data, "message")
        if found is None:
            break
        deltas.append(found)
    return deltas
