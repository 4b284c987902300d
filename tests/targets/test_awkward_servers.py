"""What becomes of a request when its server is awkward: every row of a table, over a real socket."""

import gzip
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import pytest

from results.columns import NULL
from results.status import Status
from targets.http_target import Limits
from tests.targets.asking import LOOPS, ask, check
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
    return f'{{"id":"r","choices":[],"usage":{{"prompt_tokens":9,"completion_tokens":{tokens}}}}}'


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
    "comment lines": Row(
        [STREAM_HEAD, chunked(b": ping\n\n"), *tokens(2), chunked(b": ping\n\n:\n\n"), end(2)], told_tokens=2
    ),
    "byte by byte": Row([*cut(STREAM_HEAD + told(GLYPHS), events=1, early_bytes=2), *cut(end(3))],
                        events=1, told_tokens=3, text="é☃\N{GRINNING FACE}"),
    "byte by byte, CRLF": Row([*cut(STREAM_HEAD + crlf(GLYPHS), events=1, early_bytes=3), *cut(crlf(FINISH) + end(3))],
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
    "reset after 5 tokens": Row(
        [STREAM_HEAD, *tokens(5), 0.05, Act.RESET], Status.TRANSPORT_ERROR, 5, None, error="reset"
    ),
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
    "HTTP 500 with a book": Row(
        [refused("500 x", "<p>\x1b[31m\n" * 9_000)], Status.HTTP_ERROR, 0, None, error="HTTP 500: <p>"
    ),
    "HTTP 307": Row([refused("307 Temporary Redirect", "")], Status.HTTP_ERROR, 0, None, error="HTTP 307"),
    # protocol
    "a malformed chunk": Row([STREAM_HEAD, *tokens(2), b"zz\r\n", 0.02], Status.PROTOCOL_ERROR, 2, None, error="chunk"),
    "malformed JSON": Row([STREAM_HEAD, *tokens(2), told('{"choices":[') + end(2)],
                          Status.PROTOCOL_ERROR, 2, None, error="not JSON"),
    "JSON of another API": Row([STREAM_HEAD, *tokens(2), told('{"response":"w2"}') + end(2)],
                               Status.PROTOCOL_ERROR, 2, None, error="neither choices"),
    "another protocol": Row(
        [b"SSH-2.0-OpenSSH_9.6\r\n", Act.CLOSE], Status.PROTOCOL_ERROR, 0, None, error="not an HTTP"
    ),
    "a head of 100 kB": Row([b"HTTP/1.1 200 OK\r\nx: " + b"y" * 100_000 + b"\r\n\r\n", Act.CLOSE],
                            Status.PROTOCOL_ERROR, 0, None, error="head is longer"),
    "a head of 30 kB": Row(
        [STREAM_HEAD[:-2] + b"x: " + b"y" * 30_000 + b"\r\n\r\n", *tokens(2), end(2)], told_tokens=2
    ),
    "100 and 103 first": Row(
        [b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n", STREAM_HEAD, *tokens(2), end(2)],
        told_tokens=2, says={"http_status": 200},
    ),
    "a web page": Row([whole(b"<html>hello</html>", "text/html")], Status.TRUNCATED, 0, None, error="without a finish"),
    "events called plain text": Row(
        [STREAM_HEAD.replace(b"event-stream", b"plain"), *tokens(2), end(2)], told_tokens=2
    ),
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
        limits=Limits(first_ns=20_000_000_000, total_ns=500_000_000),
    ),
}  # fmt: skip


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("name", ROWS)
def test_an_awkward_server(name: str, loop: str) -> None:
    """Status, tokens, their times, counts, finish reason and error are what the table says, and what came is kept."""
    row = ROWS[name]
    asked = ask(row.script, limits=row.limits, loop=loop)
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


def test_cut_in_two_at_every_byte() -> None:
    """Wherever a reply is cut in two, in a head, a chunk's size, a line end or a character, it reads the same."""
    reply = STREAM_HEAD + told(ROLE) + crlf(GLYPHS) + told(FINISH) + end(3)
    scripts: list[Script] = [[reply[:at], reply[at:]] for at in range(1, len(reply))]
    asked = ask(*scripts, requests=len(scripts))
    read = {
        (one.status, one.text, one.finish_reason, one.told_output_tokens, len(one.event_t_ns), one.resends)
        for one in asked.replies
    }
    assert read == {(Status.OK, "é☃\N{GRINNING FACE}", "length", 3, 1, 0)}
    assert asked.server.connections == 1


def test_events_of_one_read_have_one_time() -> None:
    """Several events in one write are stamped alike: gaps of 0 are what the client saw."""
    reply = ask(ROWS["several events in one write"].script).reply
    assert len(set(reply.event_t_ns)) == 1


def test_a_stall_stays_where_it_was() -> None:
    """A token before a pause is stamped before the server goes on, whenever it is read."""
    asked = ask(ROWS["a stall"].script)
    before, after = asked.reply.event_t_ns
    assert before < asked.server.exchanges[0].event_writes_ns()[1] <= after


def test_a_late_end_marker_is_no_token() -> None:
    """The last token is stamped before a late [DONE] is written, and the reply ends after that."""
    asked = ask(ROWS["[DONE] late"].script)
    written_ns, _ = asked.server.exchanges[0].writes[-1]
    assert asked.reply.event_t_ns[-1] < written_ns <= asked.reply.end_ns


def test_reasoning_is_not_the_answer() -> None:
    """The answer's first token is told apart from the first token of any kind."""
    reply = ask(ROWS["reasoning before the answer"].script).reply
    assert reply.event_t_ns[0] < reply.answer_ns == reply.event_t_ns[1]


@pytest.mark.parametrize("act", [Act.CLOSE, Act.RESET])
def test_a_kept_connection_that_was_closed(act: Act) -> None:
    """A reused connection that ends before any reply byte is no failure: the request goes out again on a fresh one."""
    asked = ask(served(2), [act], served(3), requests=2)
    first, second = asked.replies
    assert (first.status, second.status) == (Status.OK, Status.OK)
    assert (first.resends, second.resends) == (0, 1)
    assert (len(second.event_t_ns), second.connection_reused, second.told_output_tokens) == (3, 0, 3)
    assert [exchange.connection for exchange in asked.server.exchanges] == [0, 0, 1]
    assert asked.server.exchanges[1].body == asked.server.exchanges[2].body
    check(second, asked.server.exchanges[2])


def test_sent_again_once_only() -> None:
    """When the fresh connection ends too, the request has failed."""
    asked = ask(served(2), [Act.CLOSE], requests=2)
    assert (asked.reply.status, asked.reply.resends) == (Status.TRANSPORT_ERROR, 1)
    assert len(asked.server.exchanges) == 3


def test_not_sent_again_after_a_reply_byte() -> None:
    """A reused connection that ends inside a reply is a failure: the server may have done the work."""
    asked = ask(served(2), [b"HTTP/1.1 200", Act.CLOSE], requests=2)
    assert (asked.reply.status, asked.reply.resends) == (Status.TRUNCATED, 0)
    assert len(asked.server.exchanges) == 2


def test_connection_close_is_heeded() -> None:
    """A server that closes after each reply gets a connection a request, and nothing is sent again."""
    closing = whole(PLAIN_BODY, "text/event-stream", more="connection: close\r\n")
    asked = ask([Write(closing, 2), Act.CLOSE], requests=3)
    assert [(one.status, one.connection_reused, one.resends) for one in asked.replies] == [(Status.OK, 0, 0)] * 3
    assert asked.server.connections == 3


def test_failures_on_half_the_requests() -> None:
    """Every request has its own status; an HTTP error leaves the connection good for the next."""
    bad = [refused("500 Internal Server Error", "oops", "text/plain")]
    asked = ask(bad, served(2), bad, served(2), requests=4)
    assert [one.status for one in asked.replies] == [Status.HTTP_ERROR, Status.OK] * 2
    assert asked.server.connections == 1


def test_no_limit_but_the_first_token_s_ends_with_the_first_token() -> None:
    """A stream that takes longer than the limit for its first token, and had it in time, is served."""
    script: Script = [STREAM_HEAD, *tokens(1), 0.6, Write(told(content("w1")), 1), end(2)]
    assert ask(script, limits=Limits(first_ns=400_000_000)).reply.status == Status.OK


def test_a_handshake_that_never_ends() -> None:
    """TLS with a server that speaks none runs into the limit for connecting."""
    reply = ask([Act.HANG], scheme="https", limits=Limits(connect_ns=50_000_000)).reply
    assert (reply.status, reply.sent_ns) == (Status.TIMEOUT_CONNECT, NULL)


def test_a_key_that_comes_back_is_not_shown() -> None:
    """A server that quotes the key in its error does not get it into the reply's error."""
    asked = ask([refused("401 Unauthorized", '{"error":"bad key key-9f8e7d6c5b4a"}')], key="key-9f8e7d6c5b4a")
    assert b"key-9f8e7d6c5b4a" in asked.server.exchanges[0].head
    assert asked.reply.status == Status.HTTP_ERROR
    assert "9f8e" not in str(asked.reply.error) and "bad key" in str(asked.reply.error)


def test_identity_is_asked_and_ids_are_uuids() -> None:
    """Requests ask for no compression and carry a UUID, which some servers insist on; a resend carries the same."""
    asked = ask(served(1), [Act.CLOSE], served(1), requests=2)
    heads = [exchange.head.lower() for exchange in asked.server.exchanges]
    assert all(b"accept-encoding: identity\r\n" in head for head in heads)
    ids = [head.partition(b"x-request-id: ")[2].partition(b"\r\n")[0].decode() for head in heads]
    assert [str(UUID(one)) for one in ids] == ids
    assert ids[0] != ids[1] == ids[2]
