"""The dialects that real servers were seen to speak, laid out in HTTP chunks as they send them, through the target."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from results.columns import NULL
from results.status import Status
from tests.targets.apis.recorded import DONE as OLLAMA_DONE
from tests.targets.apis.recorded import LLAMACPP_END, TGI_END, ollama, piece, token
from tests.targets.asking import ask, check
from tests.targets.misbehaving import LAST_CHUNK, STREAM_HEAD, Script, Write, chunked, sse, whole

NDJSON_HEAD = STREAM_HEAD.replace(b"text/event-stream", b"application/x-ndjson")


@dataclass(frozen=True)
class Dialect:
    """How a server writes `Paris is it`, and what else the reply must say of it."""

    script: Script
    api: str = "openai-chat"
    told_tokens: int = 3
    told_prompt_tokens: int = 36
    finish_reason: str = "length"
    events: int = 3
    says: Mapping[str, Any] = field(default_factory=dict)


def llamacpp(choice: str) -> str:
    """A chunk of llama-server's."""
    return (
        f'{{"choices":[{choice}],"created":1795972641,"id":"chatcmpl-9gs","model":"-",'
        '"system_fingerprint":"b0-unknown","object":"chat.completion.chunk"}'
    )


def llamacpp_delta(delta: str, finish: str = "null") -> str:
    """A chunk of llama-server's with a delta."""
    return llamacpp(f'{{"finish_reason":{finish},"index":0,"delta":{delta}}}')


LLAMACPP_COUNTS = (
    '"usage":{"completion_tokens":3,"prompt_tokens":36,"total_tokens":39,"prompt_tokens_details":{"cached_tokens":35}},'
    '"timings":{"cache_n":35,"prompt_n":1,"prompt_ms":11.4,"predicted_n":3,"predicted_ms":73.8}}'
)


def vllm(choices: str, more: str = "") -> str:
    """A chunk of vLLM's."""
    return (
        '{"id":"chatcmpl-cap-1","object":"chat.completion.chunk","created":1795973304,"model":"smollm2-135m",'
        f'"choices":[{choices}]{more}}}'
    )


def vllm_delta(content: str, finish: str = "null", role: str = "") -> str:
    """A chunk of vLLM's with content."""
    ends = f'"logprobs":null,"finish_reason":{finish},"stop_reason":null,"token_ids":null'
    return vllm(f'{{"index":0,"delta":{{{role}"content":"{content}"}},{ends}}}')


VLLM_COUNTS = ',"usage":{"prompt_tokens":36,"total_tokens":39,"completion_tokens":3},"system_fingerprint":"vllm-0.32.0"'


def transformers(choice: str, more: str = "") -> str:
    """A chunk of transformers serve's."""
    return (
        f'{{"id":"cap-1","choices":[{choice}],"created":1795973428,"model":"m","object":"chat.completion.chunk",'
        f'"system_fingerprint":""{more}}}'
    )


def transformers_delta(delta: str) -> str:
    """A chunk of transformers serve's with a delta."""
    return transformers(f'{{"delta":{delta},"index":0}}')


def python_binding(delta: str, finish: str = "null") -> str:
    """A chunk of llama-cpp-python's."""
    return (
        '{"id":"chatcmpl-77","object":"chat.completion.chunk","created":1,"model":"m","choices":'
        f'[{{"index":0,"delta":{delta},"logprobs":null,"finish_reason":{finish}}}]}}'
    )


def litserve(number: int, content: str, finish: str = "null", counts: str = "null") -> str:
    """A chunk of litserve's: an id of its own, the role in each."""
    delta = f'{{"role":"assistant","content":{content},"tool_calls":null}}'
    return (
        f'{{"id":"chatcmpl-{number}","object":"chat.completion.chunk","created":1,"model":"m","choices":'
        f'[{{"index":0,"delta":{delta},"logprobs":null,"finish_reason":{finish}}}],"usage":{counts}}}'
    )


def told(*datas: str) -> bytes:
    """Events in one HTTP chunk."""
    return chunked(sse(*datas))


def continued(text: str, finish: str = "null", more: str = "") -> str:
    """A chunk of a completion in llama-server's form."""
    return f'{{"choices":[{{"text":"{text}","index":0,"logprobs":null,"finish_reason":{finish}}}],"id":"c"{more}}}'


DIALECTS = {
    "llama-server": Dialect(
        [
            STREAM_HEAD,
            0.02,
            Write(
                told(llamacpp_delta('{"role":"assistant","content":null}'), llamacpp_delta('{"content":"Paris"}')), 1
            ),
            Write(told(llamacpp_delta('{"content":" is"}')), 1),
            Write(told(llamacpp_delta('{"content":" it"}')), 1),
            told(llamacpp_delta("{}", '"length"'), llamacpp("")[:-1] + f",{LLAMACPP_COUNTS}"),
            told("[DONE]") + LAST_CHUNK,
        ],
        says={"cached_tokens": 35, "reply_id": "chatcmpl-9gs"},
    ),
    "llama-server, completions": Dialect(
        [
            STREAM_HEAD,
            *(Write(told(continued(text)), 1) for text in ("Paris", " is", " it")),
            told(continued("", '"length"', f",{LLAMACPP_COUNTS[:-1]}")) + told("[DONE]") + LAST_CHUNK,
        ],
        "openai-completions",
        says={"cached_tokens": 35},
    ),
    "vLLM": Dialect(
        [
            STREAM_HEAD,
            0.02,
            told(vllm_delta("", role='"role":"assistant",')),
            Write(told(vllm_delta("Paris")), 1),
            told(vllm_delta("")),
            Write(told(vllm_delta(" is")), 1),
            Write(told(vllm_delta(" it", '"length"')), 1),
            told(vllm("", VLLM_COUNTS)),
            told("[DONE]") + LAST_CHUNK,
        ],
        says={"reply_id": "chatcmpl-cap-1", "cached_tokens": NULL},
    ),
    "transformers serve": Dialect(
        [
            STREAM_HEAD + told(transformers_delta('{"role":"assistant"}')),
            0.05,
            *(Write(told(transformers_delta(f'{{"content":"{text}"}}')), 1) for text in ("Paris", " is", " it")),
            told(
                transformers(
                    '{"delta":{},"index":0,"finish_reason":"length"}',
                    ',"usage":{"completion_tokens":3,"prompt_tokens":36,"total_tokens":39}',
                )
            ),
            LAST_CHUNK,
        ],
        says={"reply_id": "cap-1"},
    ),
    "llama-cpp-python": Dialect(
        [
            STREAM_HEAD,
            told(python_binding('{"role":"assistant"}')),
            *(Write(told(python_binding(f'{{"content":"{text}"}}')), 1) for text in ("Paris", " is", " it")),
            told(python_binding("{}", '"length"')) + told("[DONE]") + LAST_CHUNK,
        ],
        told_tokens=NULL,
        told_prompt_tokens=NULL,
    ),
    "litserve": Dialect(
        [
            STREAM_HEAD,
            *(Write(told(litserve(at, f'"{text}"')), 1) for at, text in enumerate(("Paris", " is", " it"))),
            told(litserve(3, "null", '"stop"', '{"prompt_tokens":36,"completion_tokens":3,"total_tokens":39}')),
            told("[DONE]") + LAST_CHUNK,
        ],
        finish_reason="stop",
        says={"reply_id": "chatcmpl-0"},
    ),
    "Ollama, chat": Dialect(
        [
            NDJSON_HEAD,
            *(
                Write(chunked(ollama(f'"message":{{"role":"assistant","content":"{text}"}}') + b"\n"), 1)
                for text in ("Paris", " is", " it")
            ),
            chunked(ollama('"message":{"role":"assistant","content":""}', OLLAMA_DONE) + b"\n") + LAST_CHUNK,
        ],
        "ollama-chat",
    ),
    "Ollama, generate, lines cut by the chunks": Dialect(
        [
            NDJSON_HEAD,
            chunked(ollama('"response":"Paris"')[:20]),
            Write(chunked(ollama('"response":"Paris"')[20:] + b"\n"), 1),
            Write(chunked(ollama('"response":" is"') + b"\r\n" + ollama('"response":" it"') + b"\n"), 2),
            chunked(ollama('"response":""', OLLAMA_DONE)) + LAST_CHUNK,
        ],
        "ollama-generate",
    ),
    "Ollama, not streamed": Dialect(
        [Write(whole(ollama('"response":"Paris is it"', OLLAMA_DONE)), 1)], "ollama-generate", events=1
    ),
    "TGI": Dialect(
        [
            STREAM_HEAD,
            Write(chunked(b"data:" + token("Paris") + b"\n\n"), 1),
            Write(chunked(b"data:" + token(" is") + b"\n\n"), 1),
            Write(chunked(b"data:" + token(" it", TGI_END) + b"\n\n"), 1),
            LAST_CHUNK,
        ],
        "tgi",
        says={"event_tokens": [1, 1, 1]},
    ),
    "llama.cpp's own": Dialect(
        [
            STREAM_HEAD,
            *(Write(told(piece(text, at).decode()), 1) for at, text in enumerate(("Paris", " is", " it"), 1)),
            told(LLAMACPP_END.decode()) + LAST_CHUNK,
        ],
        "llamacpp",
        says={"cached_tokens": 35, "event_tokens": [1, 1, 1]},
    ),
}


@pytest.mark.parametrize("name", DIALECTS)
def test_a_dialect(name: str) -> None:
    """Text, tokens and their times, finish reason and counts are read as the server meant them, run after run."""
    dialect = DIALECTS[name]
    asked = ask(dialect.script, api=dialect.api, requests=4)
    for reply, exchange in zip(asked.replies, asked.server.exchanges, strict=True):
        assert (reply.status, reply.error) == (Status.OK, None)
        assert (reply.text, len(reply.event_t_ns)) == ("Paris is it", dialect.events)
        assert (reply.finish_reason, reply.told_output_tokens) == (dialect.finish_reason, dialect.told_tokens)
        assert reply.told_prompt_tokens == dialect.told_prompt_tokens
        for field_name, value in dialect.says.items():
            found = getattr(reply, field_name)
            assert (list(found) if isinstance(value, list) else found) == value, field_name
        check(reply, exchange)
    assert asked.server.connections == 1


FAULTS = {
    "transformers serve, max_tokens 0": ("openai-chat", sse('{"error": "max_new_tokens must be greater than 0"}')),
    "llama-server": ("openai-chat", sse('{"error":{"code":500,"message":"max_new_tokens","type":"server_error"}}')),
    "vLLM": (
        "openai-chat",
        sse('{"object":"error","message":"max_new_tokens","type":"BadRequest","code":400}', "[DONE]"),
    ),
    "TGI": ("tgi", b'event:error\ndata:{"error":"max_new_tokens","error_type":"generation"}\n\n'),
    "llama.cpp's own": ("llamacpp", sse('{"error":{"code":500,"message":"max_new_tokens","type":"server_error"}}')),
    "Ollama": ("ollama-chat", b'{"error":"max_new_tokens"}\n'),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_after_a_200(name: str) -> None:
    """Every server's way to report a fault inside a 200 fails the request with the server's words."""
    api, event = FAULTS[name]
    head = NDJSON_HEAD if api.startswith("ollama") else STREAM_HEAD
    reply = ask([head, chunked(event) + LAST_CHUNK], api=api).reply
    assert (reply.status, len(reply.event_t_ns)) == (Status.ENGINE_ERROR, 0)
    assert "max_new_tokens" in str(reply.error)


REFUSALS = {
    "transformers serve": ('{"detail":"Unexpected fields in the request: {\'ignore_eos\'}"}', "ignore_eos"),
    "vLLM": ('{"error":{"message":"max_tokens must be at least 1","param":"max_tokens","code":400}}', "max_tokens"),
    "FastAPI": ('{"detail":[{"type":"missing","loc":["body","prompt"],"msg":"Field required"}]}', "body.prompt"),
    "TGI": ('{"error":"`max_new_tokens` must be strictly positive","error_type":"validation"}', "max_new_tokens"),
    "llama-cpp-python": ("", "HTTP 400"),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_a_refusal_names_the_field(name: str) -> None:
    """A 400 is told with the field that the server complains of, where it does."""
    body, field_name = REFUSALS[name]
    reply = ask([whole(body.encode(), status="400 Bad Request")]).reply
    assert (reply.status, reply.http_status) == (Status.HTTP_ERROR, 400)
    assert field_name in str(reply.error)


WHOLE_REPLIES = {
    "openai-chat": b'{"id":"r","choices":[{"index":0,"message":{"role":"assistant","content":"Paris is it"},'
    b'"finish_reason":"length"}],"usage":{"prompt_tokens":36,"completion_tokens":3}}',
    "openai-completions": b'{"id":"r","choices":[{"index":0,"text":"Paris is it","finish_reason":"length"}],'
    b'"usage":{"prompt_tokens":36,"completion_tokens":3}}',
    "ollama-chat": ollama('"message":{"role":"assistant","content":"Paris is it"}', OLLAMA_DONE),
    "llamacpp": LLAMACPP_END.replace(b'"content":""', b'"content":"Paris is it"'),
}


@pytest.mark.parametrize("api", WHOLE_REPLIES)
def test_a_whole_reply(api: str) -> None:
    """A reply that was asked for whole has one stamp, all its text and its counts."""
    asked = ask([Write(whole(WHOLE_REPLIES[api]), 1)], api=api, stream=False)
    assert b'"stream":false' in asked.server.exchanges[0].body
    reply = asked.reply
    assert (reply.status, reply.text, len(reply.event_t_ns)) == (Status.OK, "Paris is it", 1)
    assert (reply.told_output_tokens, reply.finish_reason) == (3, "length")
    check(reply, asked.server.exchanges[0])
