"""What becomes of a request when its server is awkward: every row of a table, over a real socket."""

import gzip
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from results.columns import NULL
from results.status import Status
from targets.http_target import Limits
from tests.targets.asking import ask, check
from tests.targets.misbehaving import (
    CLOSING_HEAD,
    LAST_CHUNK,
    STREAM_HEAD,
    Act,
    Script,
    Step,
    Write,
    chunked,
    cut,
    misbehaving,
    sse,
    whole,
)

ROLE = '{"id":"r","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}'
FINISH = '{"id":"r","choices":[{"index":0,"delta":{},"finish_reason":"length"}]}'
STOPPED = FINISH.replace("length", "stop")
DONE = "[DONE]"


def content(text: str, more: str = "") -> str:
    """A chunk with a text."""
    return f'{{"id":"r","choices":[{{"index":0,"delta":{{"content":"{text}"}},"finish_reason":null{more}}}]}}'


def usage(tokens: int) -> str:
    """The chunk with the counts."""
    return f'{{"id":"r","choices":[],"usage":{{"prompt_tokens":9,"completion_tokens":{tokens},"total_tokens":{9 + tokens}}}}}'


def told(*datas: str) -> bytes:
    """Events in one HTTP chunk."""
    return chunked(sse(*datas))


def tokens(count: int) -> list[Step]:
    """Tokens one by one: w0, w1, ..."""
    return [Write(told(content(f"w{at}")), 1) for at in range(count)]


def text(count: int) -> str:
    """What `tokens` say."""
    return "".join(f"w{at}" for at in range(count))


def end(count: int) -> bytes:
    """Finish, counts, [DONE], the body's end."""
    return told(FINISH) + told(usage(count), DONE) + LAST_CHUNK


def served(count: int) -> Script:
    """A whole good reply."""
    return [STREAM_HEAD, *tokens(count), end(count)]


def crlf(*datas: str) -> bytes:
    """Events with CRLF ends in one HTTP chunk."""
    return chunked(sse(*datas, end=b"\r\n"))


def refused(status: str, body: str, content_type: str = "application/json") -> bytes:
    """A reply that is an HTTP error."""
    return whole(body.encode(), content_type, status)


PLAIN_BODY = sse(content("w0"), content("w1"), FINISH, usage(2), DONE)
GZIPPED = gzip.compress(PLAIN_BODY)
FOUR = ',"token_ids":[1,2,3,4]'
GLYPHS = content("é☃\N{GRINNING FACE}")
DETAIL = '{"detail":[{"loc":["body","min_tokens"],"msg":"Unexpected field"}]}'
PARAM = '{"error":{"message":"too large","param":"max_tokens","type":"invalid_request_error"}}'
MIXED = [told(ROLE), Write(told(content("w0"), content("w1")), 2), told(FINISH, usage(2), DONE), LAST_CHUNK]


@dataclass(frozen=True)
class Row:
    """What a server does, and what the reply must then say; `events` are the token-bearing ones."""

    script: Script
    status: Status = Status.OK
    events: int = 2
    finish_reason: str | None = "length"
    told_tokens: int = NULL
    error: str | None = None
    says: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of the reply."""
    text: str | None = None
    """None: what `tokens(events)` say."""
    limits: Limits | None = None


OK, NO_FINISH = Status.OK, {"finish_reason": None}
ROWS = {
    # what is a token, and when
    "role-only first chunk at once": Row([STREAM_HEAD + told(ROLE), 0.05, *tokens(3), end(3)], events=3, told_tokens=3),
    "four tokens a chunk": Row(
        [STREAM_HEAD, *tokens(4), end(16)], events=4, told_tokens=16, says={"event_tokens": None}
    ),
    "four tokens a chunk, told by ids": Row(
        [STREAM_HEAD, *(Write(told(content(f"w{at}", FOUR)), 1) for at in range(2)), end(8)],
        told_tokens=8, says={"event_tokens": [4, 4]},
    ),
    "several events in one write": Row(
        [STREAM_HEAD, 0.02, Write(told(*(content(f"w{at}") for at in range(5))), 5), 0.02, end(5)],
        events=5, told_tokens=5, says={"content_reads": 1},
    ),
    "role, two tokens and the end mixed in chunks": Row([STREAM_HEAD, *MIXED], told_tokens=2),
    "reasoning before the answer": Row(
        [STREAM_HEAD, Write(told('{"choices":[{"delta":{"reasoning_content":"w0"}}]}'), 1), 0.02,
         Write(told(content("w1")), 1), end(2)],
        told_tokens=2, says={"reasoning_events": 1},
    ),
    "a tool call": Row(
        [STREAM_HEAD, Write(told('{"choices":[{"delta":{"tool_calls":[{"function":{"name":"w0"}}]}}]}'), 1),
         Write(told('{"choices":[{"delta":{"tool_calls":[{"function":{"arguments":"w1"}}]}}]}'), 1), end(2)],
        told_tokens=2,
    ),
    "only hidden reasoning": Row([STREAM_HEAD, end(16)], Status.BUDGET_SPENT_HIDDEN, 0, told_tokens=16),
    # the grammar
    "CRLF line ends": Row([STREAM_HEAD, Write(crlf(content("w0")), 1), Write(crlf(content("w1")), 1),
                           crlf(FINISH, usage(2), DONE) + LAST_CHUNK], told_tokens=2),
    "comment lines": Row([STREAM_HEAD, chunked(b": ping\n\n"), *tokens(2), chunked(b": ping\n\n:\n\n"), end(2)], told_tokens=2),
    "byte by byte": Row([*cut(STREAM_HEAD + told(GLYPHS), events=1), *cut(end(3))],
                        events=1, told_tokens=3, text="é☃\N{GRINNING FACE}"),
    "byte by byte, CRLF": Row([*cut(STREAM_HEAD + crlf(GLYPHS), events=1), *cut(crlf(FINISH) + end(3))],
                              events=1, told_tokens=3, text="é☃\N{GRINNING FACE}"),
    "a chunk a byte": Row([STREAM_HEAD, Write(chunked(*(bytes([one]) for one in sse(content("w0")))), 1), end(1)],
                          events=1, told_tokens=1),
    "no space after the colon, and other fields": Row(
        [STREAM_HEAD, Write(chunked(f"id:1\nevent:message\nretry:9\ndata:{content('w0')}\n\n".encode()), 1), end(1)],
        events=1, told_tokens=1,
    ),
    "chunk extensions and trailers": Row(
        [STREAM_HEAD, Write(told(content("w0")).replace(b"\r\n", b";name=value\r\n", 1), 1),
         told(FINISH, usage(1), DONE) + b"0\r\nx-trailer: 1\r\n\r\n"], events=1, told_tokens=1,
    ),
    # counts and ends
    "no usage": Row([STREAM_HEAD, *tokens(2), told(FINISH, DONE) + LAST_CHUNK]),
    "usage in the finish event, no [DONE]": Row(
        [STREAM_HEAD, *tokens(2), told(FINISH[:-1] + ',"usage":{"completion_tokens":2}}') + LAST_CHUNK], told_tokens=2
    ),
    "stops at 5 of 16": Row([STREAM_HEAD, *tokens(5), told(STOPPED, usage(5), DONE) + LAST_CHUNK],
                            events=5, finish_reason="stop", told_tokens=5),
    "[DONE] without a finish reason": Row([STREAM_HEAD, *tokens(2), told(DONE) + LAST_CHUNK], finish_reason=None),
    "neither finish reason nor [DONE]": Row(
        [STREAM_HEAD, *tokens(2), LAST_CHUNK], Status.TRUNCATED, finish_reason=None, error="without a finish reason"
    ),
    "[DONE] late": Row([STREAM_HEAD, *tokens(2), told(FINISH), 0.1, told(DONE) + LAST_CHUNK]),
    "tokens after [DONE]": Row([STREAM_HEAD, *tokens(2), told(FINISH, DONE, content("late")) + LAST_CHUNK]),
    "reset after the finish": Row([STREAM_HEAD, *tokens(2), told(FINISH), 0.05, Act.RESET]),
    "an empty reply": Row([STREAM_HEAD, told(ROLE), told(STOPPED, DONE) + LAST_CHUNK], Status.EMPTY, 0, "stop"),
    "a stall": Row([STREAM_HEAD, *tokens(1), 0.3, Write(told(content("w1")), 1), end(2)], told_tokens=2),
    # faults of the engine
    "an error in the stream, as a text": Row(
        [STREAM_HEAD, *tokens(5), told('{"error":"out of memory"}') + LAST_CHUNK],
        Status.ENGINE_ERROR, 5, None, error="out of memory",
    ),
    "an error in the stream, as an object, then [DONE]": Row(
        [STREAM_HEAD, *tokens(5), told('{"error":{"message":"out of memory","code":500}}', DONE) + LAST_CHUNK],
        Status.ENGINE_ERROR, 5, None, error="out of memory",
    ),
    "an error event": Row(
        [STREAM_HEAD, *tokens(5), chunked(b"event: error\ndata: out of memory\n\n") + LAST_CHUNK],
        Status.ENGINE_ERROR, 5, None, error="out of memory",
    ),
    # faults of the connection
    "closed after 5 tokens": Row([STREAM_HEAD, *tokens(5), Act.CLOSE], Status.TRUNCATED, 5, None, error="closed"),
    "reset after 5 tokens": Row([STREAM_HEAD, *tokens(5), 0.05, Act.RESET], Status.TRANSPORT_ERROR, 5, None, error="reset"),
    "closed before any reply": Row([Act.CLOSE], Status.TRANSPORT_ERROR, 0, None, error="before any reply"),
    "closed inside the head": Row([STREAM_HEAD[:30], Act.CLOSE], Status.TRUNCATED, 0, None, error="closed"),
    "a body shorter than told": Row(
        [b"HTTP/1.1 200 OK\r\ncontent-length: 9999\r\n\r\n", Write(sse(content("w0")), 1), Act.CLOSE],
        Status.TRUNCATED, 1, None, error="closed",
    ),
    # HTTP errors
    "HTTP 500": Row([refused("500 Internal Server Error", "oops", "text/plain")], Status.HTTP_ERROR, 0, None,
                    error="HTTP 500: oops", says={"http_status": 500}),
    "HTTP 429": Row([refused("429 Too Many Requests", '{"error":"slow down"}')], Status.SHED, 0, None,
                    error="HTTP 429: slow down", says={"http_status": 429}),
    "HTTP 503": Row([refused("503 Service Unavailable", "")], Status.SHED, 0, None, error="HTTP 503"),
    "HTTP 400 that names the field": Row([refused("400 Bad Request", PARAM)], Status.HTTP_ERROR, 0, None,
                                         error="max_tokens: too large"),
    "HTTP 422 that names the field": Row([refused("422 Unprocessable Entity", DETAIL)], Status.HTTP_ERROR, 0, None,
                                         error="min_tokens: Unexpected field"),
    "HTTP 400 without a word": Row([refused("400 Bad Request", "")], Status.HTTP_ERROR, 0, None, error="HTTP 400"),
    "HTTP 500 with a book": Row([refused("500 x", "<p>\x1b[31m\n" * 9_000)], Status.HTTP_ERROR, 0, None, error="HTTP 500: <p>"),
    "HTTP 307": Row([refused("307 Temporary Redirect", "")], Status.HTTP_ERROR, 0, None, error="HTTP 307"),
    # protocol
    "a malformed chunk": Row([STREAM_HEAD, *tokens(2), b"zz\r\n", 0.02], Status.PROTOCOL_ERROR, 2, None, error="chunk"),
    "malformed JSON": Row([STREAM_HEAD, *tokens(2), told('{"choices":[') + end(2)],
                          Status.PROTOCOL_ERROR, 2, None, error="not JSON"),
    "JSON of another API": Row([STREAM_HEAD, *tokens(2), told('{"response":"w2"}') + end(2)],
                               Status.PROTOCOL_ERROR, 2, None, error="neither choices"),
    "another protocol": Row([b"SSH-2.0-OpenSSH_9.6\r\n", Act.CLOSE], Status.PROTOCOL_ERROR, 0, None, error="not an HTTP"),
    "a head of 100 kB": Row([b"HTTP/1.1 200 OK\r\nx: " + b"y" * 100_000 + b"\r\n\r\n", Act.CLOSE],
                            Status.PROTOCOL_ERROR, 0, None, error="head is longer"),
    "a head of 30 kB": Row([STREAM_HEAD[:-2] + b"x: " + b"y" * 30_000 + b"\r\n\r\n", *tokens(2), end(2)], told_tokens=2),
    "100 and 103 first": Row(
        [b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n", STREAM_HEAD, *tokens(2), end(2)],
        told_tokens=2, says={"http_status": 200},
    ),
    "a web page": Row([whole(b"<html>hello</html>", "text/html")], Status.TRUNCATED, 0, None, error="without a finish"),
    "events called plain text": Row([STREAM_HEAD.replace(b"event-stream", b"plain"), *tokens(2), end(2)], told_tokens=2),
    "gzip though identity was asked": Row(
        [Write(whole(GZIPPED, "text/event-stream", more="content-encoding: gzip\r\n"), 2)],
        told_tokens=2, says={"content_encoding": "gzip"},
    ),
    "a length in place of chunks": Row([Write(whole(PLAIN_BODY, "text/event-stream"), 2)], told_tokens=2),
    "HTTP/1.0 to the connection's end": Row(
        [CLOSING_HEAD.replace(b"1.1", b"1.0"), Write(sse(content("w0")), 1), Write(sse(content("w1")), 1),
         sse(FINISH, usage(2)), Act.CLOSE], told_tokens=2,
    ),
    "HTTP/1.0 cut off": Row(
        [CLOSING_HEAD, Write(sse(content("w0")), 1), Act.CLOSE], Status.TRUNCATED, 1, None, error="without a finish"
    ),
    "a whole reply though a stream was asked": Row(
        [Write(whole(b'{"id":"r","choices":[{"message":{"content":"w0w1"},"finish_reason":"length"}],'
                     b'"usage":{"completion_tokens":2}}'), 1)],
        events=1, told_tokens=2, text="w0w1",
    ),
    "a whole reply without a byte": Row([whole(b"")], Status.PROTOCOL_ERROR, 0, None, error="not JSON"),
    # limits
    "never answers": Row([Act.HANG], Status.TIMEOUT_FIRST, 0, None, limits=Limits(first_ns=50_000_000)),
    "answers with a role and no token": Row(
        [STREAM_HEAD, told(ROLE), Act.HANG], Status.TIMEOUT_FIRST, 0, None, limits=Limits(first_ns=50_000_000)
    ),
    "falls silent after 2 tokens": Row(
        [STREAM_HEAD, *tokens(2), Act.HANG], Status.TIMEOUT_TOTAL, 2, None,
        limits=Limits(first_ns=20_000_000_000, total_ns=200_000_000),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ROWS)
def test_an_awkward_server(name: str) -> None:
    """Status, tokens, their times, counts, finish reason and error are what the table says, and what came is kept."""
    row = ROWS[name]
    asked = ask(row.script, limits=row.limits)
    reply = asked.reply
    assert (reply.status, reply.error is None) == (row.status, row.error is None), reply.error
    assert row.error is None or row.error in str(reply.error)
    assert (len(reply.event_t_ns), reply.finish_reason) == (row.events, row.finish_reason)
    assert reply.told_output_tokens == row.told_tokens
    assert reply.text == (row.text if row.text is not None else text(row.events))
    for name_of_field, value in row.says.items():
        found = getattr(reply, name_of_field)
        assert (list(found) if isinstance(value, list) else found) == value, name_of_field
    check(reply, asked.server.exchanges[0])
    assert reply.resends == 0
