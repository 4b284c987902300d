"""The HTTP target against a server that behaves well, and one that does not."""

import asyncio
import gzip
import json
import socket
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest
import uvloop

from results.columns import NULL
from results.status import Status
from targets.api import NDJSON, BodyOptions
from targets.http_target import HttpTarget, Limits
from targets.target import PlannedRequest, Reply
from targets.transport.encoding import request_uuid
from targets.transport.endpoint import parse_endpoint
from targets.transport.exchange import GRACE_NS
from targets.transport.pool import PoolOptions
from tests.targets.scripted_server import (
    DONE,
    END,
    STREAM_HEAD,
    Call,
    PlainApi,
    Script,
    answer,
    chunk,
    event,
    planned,
    serving,
    target_of,
    tokens,
)

T = TypeVar("T")
MS = 1_000_000
LOOPS = {"asyncio": asyncio.run, "uvloop": uvloop.run}


def play(script: Script, limits: Limits = Limits(), run: Callable[[Any], Any] = asyncio.run, **options: Any) -> Reply:  # noqa: B008
    """One request to a server with this script."""

    async def one() -> Reply:
        async with serving(script) as served:
            target = target_of(served, limits, **options)
            await target.open([planned()])
            reply = await asyncio.wait_for(target.send(planned()), 10)
            await target.close()
            return reply

    reply: Reply = run(one())
    return reply


def sending(*pieces: bytes, then: Callable[[Call], object] = lambda call: None) -> Script:
    """A script that writes these pieces, and does something."""

    async def script(call: Call) -> None:
        await call.write(*pieces)
        done = then(call)
        if isinstance(done, Awaitable):
            await done

    return script


@pytest.mark.parametrize("loop", LOOPS)
def test_a_reply_is_stamped_at_each_of_its_stations(loop: str) -> None:
    """In the order in which they are passed, on either loop."""
    reply = play(answer, run=LOOPS[loop])
    assert reply.status is Status.OK and reply.error is None
    assert len(reply.event_t_ns) == 3 and reply.content_reads == 3 and reply.text == "abc"
    stations = [reply.connected_ns, reply.sent_ns, reply.uploaded_ns, reply.header_ns, reply.first_byte_ns]
    stations += [*reply.event_t_ns, reply.end_ns]
    assert stations == sorted(stations) and NULL not in stations
    assert reply.event_t_ns[0] < reply.event_t_ns[1] < reply.event_t_ns[2] < reply.end_ns
    assert reply.connect_ns > 0 and reply.tls_ns == NULL
    assert (reply.connection_reused, reply.resends, reply.http_status) == (0, 0, 200)
    assert reply.reply_bytes == sum(map(len, [*tokens("a", "b", "c"), DONE, END]))


def test_the_request_is_what_the_api_wrote_with_the_transports_headers() -> None:
    """The path under the base URL, the id that follows from the salt, no compression, the key."""
    calls: list[Call] = []

    async def script(call: Call) -> None:
        calls.append(call)
        await answer(call)

    play(script, key="hunter22", headers=["X-Tenant: t"])
    (call,) = calls
    assert call.path == "/v1/say" and json.loads(call.body) == {"prompt": "hello", "max_tokens": 3}
    assert call.headers["x-request-id"] == request_uuid("salt", 0)
    assert call.headers["accept-encoding"] == "identity"
    assert (call.headers["authorization"], call.headers["x-tenant"]) == ("Bearer hunter22", "t")


WHOLE = b"".join([STREAM_HEAD, *tokens("a", "é", "c"), DONE, END])


@pytest.mark.parametrize("at", range(1, len(WHOLE), 7))
def test_a_reply_cut_in_two_anywhere_is_the_same_reply(at: int) -> None:
    """Inside the head, a chunk's size, a character, the end; the connection serves on."""
    reply = play(sending(WHOLE[:at], WHOLE[at:]))
    assert (reply.status, reply.text, len(reply.event_t_ns)) == (Status.OK, "aéc", 3)


def role_first(call: Call) -> Awaitable[None]:
    async def slowly() -> None:
        await call.write(STREAM_HEAD, chunk(event()))
        await asyncio.sleep(0.03)
        await call.write(*tokens("a", "b"), DONE, END)

    return slowly()


def test_the_first_token_is_the_first_event_with_text() -> None:
    """Neither the head nor an event with a role alone."""

    async def script(call: Call) -> None:
        await role_first(call)

    reply = play(script)
    assert reply.event_t_ns[0] - reply.first_byte_ns >= 25 * MS
    assert reply.first_byte_ns != NULL and len(reply.event_t_ns) == 2


def test_several_events_in_one_read_have_one_time() -> None:
    """And the reads that bore tokens are fewer than the events."""
    reply = play(sending(STREAM_HEAD, b"".join([*tokens("a", "b", "c"), DONE, END])))
    assert len(set(reply.event_t_ns)) == 1 and len(reply.event_t_ns) == 3 and reply.content_reads == 1


CLOSE_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
ONE_TOKEN = chunk(event(text="a"))


def http(status: str, body: bytes, **headers: str) -> bytes:
    """A reply with a length."""
    lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {status}\r\n{lines}Content-Length: {len(body)}\r\n\r\n".encode() + body


CASES: dict[str, tuple[Script, Status, int, str]] = {
    "no end marker": (sending(STREAM_HEAD, *tokens("a", "b"), END), Status.OK, 2, ""),
    "no finish reason": (sending(STREAM_HEAD, ONE_TOKEN, DONE, END), Status.OK, 1, ""),
    "neither": (sending(STREAM_HEAD, ONE_TOKEN, END), Status.TRUNCATED, 1, "without a finish reason"),
    "closed in the stream": (sending(STREAM_HEAD, ONE_TOKEN, then=Call.close), Status.TRUNCATED, 1, "closed"),
    "reset in the stream": (sending(STREAM_HEAD, ONE_TOKEN, then=Call.reset), Status.TRANSPORT_ERROR, 1, "Reset"),
    "reset after the last token": (sending(STREAM_HEAD, *tokens("a", "b"), then=Call.reset), Status.OK, 2, ""),
    "closed after the end marker": (sending(STREAM_HEAD, ONE_TOKEN, DONE, then=Call.close), Status.OK, 1, ""),
    "closed before any reply": (sending(then=Call.close), Status.TRANSPORT_ERROR, 0, "before any reply"),
    "reset before any reply": (sending(then=Call.reset), Status.TRANSPORT_ERROR, 0, "Reset"),
    "closed in the head": (sending(b"HTTP/1.1 200", then=Call.close), Status.TRUNCATED, 0, "closed"),
    "body to the connection's end": (
        sending(CLOSE_HEAD + event(text="a", finish_reason="stop"), then=Call.close), Status.OK, 1, ""),
    "cut at the connection's end": (
        sending(CLOSE_HEAD + event(text="a"), then=Call.close), Status.TRUNCATED, 1, "without a finish reason"),
    "error in the stream": (
        sending(STREAM_HEAD, ONE_TOKEN, chunk(event(error="out of memory")), DONE, END),
        Status.ENGINE_ERROR, 1, "out of memory"),
    "no chunk": (sending(STREAM_HEAD, ONE_TOKEN, b"nonsense\r\n"), Status.PROTOCOL_ERROR, 1, "size of a chunk"),
    "chunk too long": (sending(STREAM_HEAD, ONE_TOKEN, b"2\r\nabcd\r\n"), Status.PROTOCOL_ERROR, 1, "longer than"),
    "no JSON": (
        sending(STREAM_HEAD, ONE_TOKEN, chunk(b"data: {nope\n\n"), END), Status.PROTOCOL_ERROR, 1, "property name"),
    "no HTTP": (sending(b"SSH-2.0-OpenSSH\r\n"), Status.PROTOCOL_ERROR, 0, "not an HTTP"),
    "no length": (sending(b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n"), Status.PROTOCOL_ERROR, 0, "no length"),
    "500": (sending(http("500 Oops", b'{"error": {"message": "boom"}}')), Status.HTTP_ERROR, 0, "HTTP 500: boom"),
    "400 with a field": (
        sending(http("400 Bad", b'{"error": {"message": "too big", "param": "max_tokens"}}')),
        Status.HTTP_ERROR, 0, "HTTP 400: max_tokens: too big"),
    "422 of FastAPI": (
        sending(http("422 No", b'{"detail": [{"loc": ["body", "ignore_eos"], "msg": "Extra inputs"}]}')),
        Status.HTTP_ERROR, 0, "HTTP 422: body.ignore_eos: Extra inputs"),
    "429": (sending(http("429 Slow", b"slow down")), Status.SHED, 0, "HTTP 429: slow down"),
    "503 without a body": (sending(http("503 Busy", b"")), Status.SHED, 0, "HTTP 503"),
    "moved": (sending(http("307 There", b"", Location="/other")), Status.HTTP_ERROR, 0, "HTTP 307"),
    "nothing generated": (sending(STREAM_HEAD, chunk(event(finish_reason="stop")), DONE, END), Status.EMPTY, 0, ""),
    "all hidden": (
        sending(STREAM_HEAD, chunk(event(finish_reason="length", usage={"output_tokens": 900})), DONE, END),
        Status.BUDGET_SPENT_HIDDEN, 0, ""),
    "204": (sending(b"HTTP/1.1 204 No Content\r\n\r\n"), Status.TRUNCATED, 0, "without a finish reason"),
    "interim head": (sending(b"HTTP/1.1 100 Continue\r\n\r\n", STREAM_HEAD, *tokens("a"), END), Status.OK, 1, ""),
    "in one document": (
        sending(http("200 OK", b'{"text": "abc", "finish_reason": "stop"}', Content_Type="application/json")),
        Status.OK, 1, ""),
    "error in one document": (
        sending(http("200 OK", b'{"error": "no such model"}', Content_Type="application/json")),
        Status.ENGINE_ERROR, 0, "no such model"),
    "half a document": (
        sending(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{", then=Call.close),
        Status.TRUNCATED, 0, "closed"),
    "compressed": (
        sending(http("200 OK", gzip.compress(event(text="a", finish_reason="stop")), Content_Encoding="gzip")),
        Status.OK, 1, ""),
    "compressed strangely": (
        sending(http("200 OK", b"xx", Content_Encoding="br")), Status.PROTOCOL_ERROR, 0, "'br'"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_however_a_server_ends_a_reply_it_is_one_row(case: str) -> None:
    """With its status, what had arrived, and one line that says what went wrong."""
    script, status, events, said = CASES[case]
    reply = play(script, Limits(total_ns=5_000 * MS))
    assert (reply.status, len(reply.event_t_ns)) == (status, events), reply.error
    assert said in (reply.error or "") and (reply.error is None) == (not said)
    assert reply.sent_ns <= reply.end_ns


@pytest.mark.parametrize("loop", LOOPS)
def test_a_refused_connection_is_a_row(loop: str) -> None:
    """Without any of the times that were not reached; opening the target does not mind."""

    async def one() -> Reply:
        async with serving(answer) as served:
            url = served.url
        target = target_of(served, url=url, prewarm=2)
        await target.open([planned()])
        reply = await target.send(planned())
        await target.close()
        return reply

    reply = LOOPS[loop](one())
    assert reply.status is Status.TRANSPORT_ERROR and "Refused" in (reply.error or "")
    assert (reply.sent_ns, reply.connected_ns, reply.http_status) == (NULL, NULL, NULL) and reply.end_ns != NULL


def test_a_name_without_an_address_is_a_row() -> None:
    """Looked up once, told of every request."""

    async def both() -> list[Reply]:
        target = HttpTarget(parse_endpoint(f"http://{'x' * 64}.invalid"), PlainApi(), BodyOptions("m"))
        await target.open([])
        replies = [await target.send(planned(0)), await target.send(planned(1))]
        await target.close()
        return replies

    for reply in asyncio.run(both()):
        assert reply.status is Status.TRANSPORT_ERROR and "cannot be resolved" in (reply.error or "")


async def never(call: Call) -> None:
    """Says nothing and keeps the connection."""
    await asyncio.sleep(30)


async def one_token_then_never(call: Call) -> None:
    """Falls silent in the stream."""
    await call.write(STREAM_HEAD, ONE_TOKEN)
    await never(call)


async def role_then_never(call: Call) -> None:
    """Speaks, but says no token."""
    await call.write(STREAM_HEAD, chunk(event()))
    await never(call)


@pytest.mark.parametrize(
    ("script", "limits", "status", "events"),
    [
        (never, Limits(first_ns=50 * MS), Status.TIMEOUT_FIRST, 0),
        (role_then_never, Limits(first_ns=80 * MS), Status.TIMEOUT_FIRST, 0),
        (never, Limits(total_ns=50 * MS), Status.TIMEOUT_TOTAL, 0),
        (one_token_then_never, Limits(first_ns=80 * MS, total_ns=200 * MS), Status.TIMEOUT_TOTAL, 1),
    ],
)
def test_a_server_that_does_not_answer_is_given_up(script: Script, limits: Limits, status: Status, events: int) -> None:
    """A token in time meets the first limit though it has not been looked at yet; what had arrived is kept."""
    reply = play(script, limits)
    assert (reply.status, len(reply.event_t_ns)) == (status, events)


def test_a_connection_that_does_not_come_about_is_given_up() -> None:
    """A full backlog answers nothing."""

    async def one() -> Reply:
        with socket.socket() as full:
            full.bind(("127.0.0.1", 0))
            full.listen(0)
            fillers = []
            for _ in range(4):
                filler = socket.socket()
                filler.setblocking(False)
                filler.connect_ex(full.getsockname())
                fillers.append(filler)
            url = f"http://127.0.0.1:{full.getsockname()[1]}"
            target = HttpTarget(parse_endpoint(url), PlainApi(), BodyOptions("m"), Limits(connect_ns=60 * MS))
            reply = await target.send(planned())
            await target.close()
            for filler in fillers:
                filler.close()
            return reply

    reply = asyncio.run(one())
    assert (reply.status, reply.connected_ns) == (Status.TIMEOUT_CONNECT, NULL)


@pytest.mark.parametrize("end", [DONE, chunk(event(error="boom"))])
def test_a_body_that_never_ends_after_its_end_is_ended_here(end: bytes) -> None:
    """A second later, at the time of what came last."""
    reply = play(sending(STREAM_HEAD, *tokens("a", "b"), end, then=never))
    assert reply.status is (Status.OK if end is DONE else Status.ENGINE_ERROR)
    assert time.perf_counter_ns() - reply.end_ns >= GRACE_NS


@pytest.mark.parametrize("script", [never, one_token_then_never])
def test_an_aborted_request_ends_with_the_status_it_was_given(script: Script) -> None:
    """And with what had arrived; aborting it again, or one that is unknown, does nothing."""

    async def one() -> Reply:
        async with serving(script) as served:
            target = target_of(served)
            await target.open([planned()])
            sending_it = asyncio.ensure_future(target.send(planned()))
            await asyncio.sleep(0.1)
            target.abort(0, Status.UNFINISHED)
            target.abort(0, Status.CANCELLED)
            target.abort(99, Status.CANCELLED)
            reply = await asyncio.wait_for(sending_it, 5)
            await target.close()
            return reply

    reply = asyncio.run(one())
    assert reply.status is Status.UNFINISHED
    assert len(reply.event_t_ns) == (script is one_token_then_never)


def test_a_finished_reply_is_not_undone_by_an_abort() -> None:
    """All its tokens are known, though the connection is still open."""

    async def one() -> Reply:
        async with serving(sending(STREAM_HEAD, *tokens("a", "b"), then=never)) as served:
            target = target_of(served)
            sending_it = asyncio.ensure_future(target.send(planned()))
            await asyncio.sleep(0.1)
            target.abort(0, Status.UNFINISHED)
            reply = await asyncio.wait_for(sending_it, 5)
            await target.close()
            return reply

    assert asyncio.run(one()).status is Status.OK


def play_many(
    script: Script, count: int, pause_s: float = 0.0, sessions: list[int | None] | None = None, **pool: Any
) -> tuple[list[Reply], list[int], dict[str, int]]:
    """One after another: the replies, the connections they came over, the pool's counts."""

    async def all_of_them() -> tuple[list[Reply], list[int], dict[str, int]]:
        async with serving(script) as served:
            requests = [planned(k, session=sessions[k] if sessions else None) for k in range(count)]
            target = target_of(served, **pool)
            await target.open(requests)
            replies = []
            for request in requests:
                replies.append(await asyncio.wait_for(target.send(request), 10))
                await asyncio.sleep(pause_s)
            counts = dict(target.connection_counts)
            await target.close()
            return replies, [call.connection for call in served.calls], counts

    return asyncio.run(all_of_them())


def test_a_connection_is_used_again_when_its_reply_has_ended() -> None:
    """And the row says so, and that no connecting was waited for."""
    replies, connections, _ = play_many(answer, 3)
    assert connections == [0, 0, 0]
    assert [reply.connection_reused for reply in replies] == [0, 1, 1]
    assert replies[0].connect_ns > 0 and replies[1].connect_ns == NULL


def test_an_idle_connection_that_is_too_old_is_not_used() -> None:
    """The server may be about to close it."""
    _, connections, counts = play_many(answer, 3, pause_s=0.03, keep_alive_s=0.02)
    assert connections == [0, 1, 2] and counts["expired"] >= 2


@pytest.mark.parametrize(("told", "connections"), [("timeout=0, max=100", [0, 1]), ("max=100", [0, 0])])
def test_a_server_that_tells_how_long_it_keeps_a_connection_is_believed(told: str, connections: list[int]) -> None:
    """Where that is shorter than our own limit."""
    head = STREAM_HEAD[:-2] + f"Keep-Alive: {told}\r\n\r\n".encode()
    assert play_many(sending(head, *tokens("a"), END), 2)[1] == connections


def test_each_request_has_a_connection_of_its_own_where_that_is_asked_for() -> None:
    """And the server is told."""
    told: list[str] = []

    async def script(call: Call) -> None:
        told.append(call.headers["connection"])
        await answer(call)

    replies, connections, _ = play_many(script, 3, connections="new")
    assert connections == [0, 1, 2] and {reply.connection_reused for reply in replies} == {0}
    assert told == ["close"] * 3


def test_sessions_keep_their_connections() -> None:
    """A request without one has a connection of its own."""
    _, connections, _ = play_many(answer, 6, sessions=[7, 8, 7, None, 8, None], connections="per-session")
    assert connections == [0, 1, 0, 2, 1, 3]


def test_nothing_caps_the_connections() -> None:
    """150 requests that nobody answers are all on their way."""

    async def all_of_them() -> int:
        async with serving(never) as served:
            target = target_of(served)
            sent = [asyncio.ensure_future(target.send(planned(k))) for k in range(150)]
            while len(served.calls) < 150:
                await asyncio.sleep(0.01)
            await target.close()
            assert {reply.status for reply in await asyncio.gather(*sent)} == {Status.CANCELLED}
            return served.connections

    assert asyncio.run(asyncio.wait_for(all_of_them(), 20)) == 150


def test_connections_are_opened_ahead() -> None:
    """As many as asked for; the first request on one has waited for no connecting, and is its first."""
    replies, connections, counts = play_many(answer, 1, prewarm=5, prewarm_at_once=2, prewarm_pause_s=0)
    assert counts["opened"] == counts["prewarmed"] == 5 and len(connections) == 1
    assert (replies[0].connection_reused, replies[0].connect_ns) == (0, NULL)


@pytest.mark.parametrize("how", [Call.close, Call.reset])
def test_a_kept_connection_closed_before_the_reply_costs_a_resend(how: Callable[[Call], None]) -> None:
    """Over a new connection, counted; the time of the first attempt stays."""

    async def script(call: Call) -> None:
        if call.number == 1:
            how(call)
        else:
            await answer(call)

    replies, connections, _ = play_many(script, 2)
    assert [reply.status for reply in replies] == [Status.OK, Status.OK]
    assert [reply.resends for reply in replies] == [0, 1]
    assert connections == [0, 0, 1]
    assert replies[1].connection_reused == 0
    assert replies[1].sent_ns < replies[1].connected_ns < replies[1].uploaded_ns


def test_a_request_is_sent_again_once() -> None:
    """A server that closes the new connection too has failed it."""

    async def script(call: Call) -> None:
        if call.number:
            call.close()
        else:
            await answer(call)

    replies, connections, _ = play_many(script, 2)
    assert (replies[1].status, replies[1].resends, connections) == (Status.TRANSPORT_ERROR, 1, [0, 0, 1])


def test_nothing_is_sent_again_once_the_reply_has_begun() -> None:
    """One byte is enough."""

    async def script(call: Call) -> None:
        if call.number == 1:
            await call.write(b"H")
            call.close()
        else:
            await answer(call)

    replies, connections, _ = play_many(script, 2)
    assert (replies[1].status, replies[1].resends, connections) == (Status.TRUNCATED, 0, [0, 0])


@pytest.mark.parametrize(
    "script",
    [
        sending(STREAM_HEAD[:-2] + b"Connection: close\r\n\r\n", *tokens("a"), END),
        sending(STREAM_HEAD, *tokens("a"), END + b"surplus"),
        sending(STREAM_HEAD, *tokens("a"), chunk(b"data: {nope\n\n"), b"junk\r\n"),
    ],
)
def test_a_connection_that_is_not_clean_is_not_used_again(script: Script) -> None:
    """The server said so, or sent what nobody asked for, or what cannot be read."""
    assert play_many(script, 2)[1] == [0, 1]


def test_a_request_larger_than_the_socket_takes_arrives_whole() -> None:
    """And it is uploaded when the kernel has the last of it."""
    prompt = "x" * 8_000_000
    seen: list[int] = []

    async def script(call: Call) -> None:
        seen.append(len(json.loads(call.body)["prompt"]))
        await answer(call)

    async def one() -> Reply:
        async with serving(script) as served:
            target = target_of(served)
            reply = await asyncio.wait_for(target.send(planned(prompt=prompt)), 20)
            await target.close()
            return reply

    for run in LOOPS.values():
        reply = run(one())
        assert reply.status is Status.OK and reply.sent_ns < reply.uploaded_ns <= reply.header_ns
    assert seen == [len(prompt)] * 2


@pytest.mark.parametrize("loop", LOOPS)
def test_a_request_is_uploaded_when_the_server_lets_the_kernel_have_it(loop: str) -> None:
    """Not when it was handed to the loop."""

    async def one() -> Reply:
        async def slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.transport.pause_reading()
            await asyncio.sleep(0.2)
            writer.transport.resume_reading()
            while await reader.read(1 << 20):
                pass

        server = await asyncio.start_server(slow, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        target = HttpTarget(parse_endpoint(url), PlainApi(), BodyOptions("m"), Limits(total_ns=1_500 * MS))
        reply = await target.send(planned(prompt="x" * 20_000_000))
        await target.close()
        server.close()
        return reply

    reply = LOOPS[loop](one())
    assert reply.uploaded_ns - reply.sent_ns >= 150 * MS and reply.status is Status.TIMEOUT_TOTAL


def test_a_long_stream_is_read_before_it_has_ended() -> None:
    """What lies unread is bounded; nothing is lost or out of order."""
    texts = [f"{at} " for at in range(4_000)]
    reply = play(sending(STREAM_HEAD, b"".join(tokens(*texts)) + END))
    assert reply.text == "".join(texts) and len(reply.event_t_ns) == 4_000
    assert list(reply.event_t_ns) == sorted(reply.event_t_ns)


def test_lines_of_json_are_a_stream_too() -> None:
    """Whatever the server calls their type, and without an end to the last one."""
    lines = b'{"text": "a"}\n{"text": "b"}\n{"text": "c", "finish_reason": "stop"}'
    for kind in ("application/x-ndjson", "application/json"):
        head = f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {len(lines)}\r\n\r\n".encode()
        reply = play(sending(head, lines[:20], lines[20:]), framing=NDJSON)
        assert (reply.status, reply.text, reply.content_reads) == (Status.OK, "abc", 2)


def test_a_reply_that_was_not_asked_to_stream_has_one_time() -> None:
    """That of the read that completed it; the limit for the first token does not apply."""
    body = b'{"text": "abc", "finish_reason": "stop", "usage": {"output_tokens": 3}}'
    head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body)

    async def script(call: Call) -> None:
        await call.write(head, body[:10])
        await asyncio.sleep(0.1)
        await call.write(body[10:])

    reply = play(script, Limits(first_ns=50 * MS), stream=False)
    assert reply.status is Status.OK and reply.event_t_ns.tolist() == [reply.end_ns]
    assert reply.told_output_tokens == 3 and reply.first_byte_ns < reply.end_ns


def test_no_secret_reaches_a_row_or_the_description() -> None:
    """Though the server repeats all of them."""

    async def script(call: Call) -> None:
        await call.write(http("401 No", f"{call.headers} {call.path}".encode()))

    async def one() -> tuple[Reply, str]:
        async with serving(script) as served:
            target = target_of(served, url=f"{served.url}?sig=hunter22-query", key="hunter22-key",
                               headers=["X-Tenant: hunter22-tenant"])  # fmt: skip
            await target.open([planned()])
            reply = await target.send(planned())
            await target.close()
            return reply, repr(target.describe()) + repr(target)

    reply, described = asyncio.run(one())
    assert reply.status is Status.HTTP_ERROR and "hunter22" not in repr(reply) + described


def test_a_model_that_is_named_like_the_key_is_not_described() -> None:
    """A server that lists the key as its model learns nothing new; the stamp would tell everybody."""
    target = HttpTarget(parse_endpoint("http://127.0.0.1:9", key="hunter22"), PlainApi(), BodyOptions("hunter22"))
    assert "hunter22" not in repr(target.describe())


def test_what_cannot_be_written_or_held_is_refused_before_the_run() -> None:
    """A prompt that the API cannot carry, more connections than the machine can have."""
    target = HttpTarget(parse_endpoint("http://127.0.0.1:9"), PlainApi(), BodyOptions("m"))
    with pytest.raises(ValueError, match="takes text"):
        asyncio.run(target.open([PlannedRequest(0, "", [1, 2], 3)]))
    many = HttpTarget(parse_endpoint("http://127.0.0.1:9"), PlainApi(), BodyOptions("m"),
                      pool_options=PoolOptions(peak=10**9))  # fmt: skip
    with pytest.raises(ValueError, match="1000000000 connections"):
        asyncio.run(many.open([]))


@pytest.mark.parametrize("loop", LOOPS)
def test_a_unix_socket_is_an_address_too(loop: str, tmp_path: Path) -> None:
    """Same rows."""

    async def one() -> Reply:
        path = str(tmp_path / "llm.sock")
        async with serving(answer, path=path) as served:
            target = target_of(served, url=f"unix://{path}")
            await target.open([planned()])
            reply = await target.send(planned())
            await target.close()
            return reply

    reply = LOOPS[loop](one())
    assert (reply.status, reply.text) == (Status.OK, "abc") and reply.connect_ns > 0


def test_a_caller_that_stops_waiting_leaves_nothing_behind() -> None:
    """The connection is closed, and the request is no longer known."""

    async def one() -> int:
        gone = asyncio.Event()

        async def script(call: Call) -> None:
            await call.write(STREAM_HEAD)
            await call.reader.read()
            gone.set()

        async with serving(script) as served:
            target = target_of(served)
            sending_it = asyncio.ensure_future(target.send(planned()))
            await asyncio.sleep(0.1)
            sending_it.cancel()
            with pytest.raises(asyncio.CancelledError):
                await sending_it
            await gone.wait()
            target.abort(0, Status.CANCELLED)
            await target.close()
            return served.connections

    assert asyncio.run(asyncio.wait_for(one(), 5)) == 1


def test_what_is_started_is_sent_before_anything_else_runs() -> None:
    """Where a connection is idle; its end is waited for afterwards, as with `send`."""

    async def one() -> Reply:
        async with serving(answer) as served:
            target = target_of(served, connections="reuse", prewarm=1)
            await target.open([planned()])
            under_way = target.start(planned())
            started_ns = time.perf_counter_ns()
            reply = await asyncio.wait_for(under_way, 10)
            await target.close()
            assert NULL < reply.sent_ns <= reply.uploaded_ns <= started_ns
            return reply

    assert asyncio.run(one()).status is Status.OK


@pytest.mark.parametrize("prewarm", [0, 1])
def test_what_is_awaited_after_the_close_opens_nothing(prewarm: int) -> None:
    """A target that was closed stays so, whenever somebody asks what became of a request."""

    async def one() -> tuple[Reply, bool]:
        async with serving(answer) as served:
            target = target_of(served, connections="reuse", prewarm=prewarm)
            await target.open([planned()])
            under_way = target.start(planned())
            await target.close()
            reply = await asyncio.wait_for(under_way, 10)
            return reply, target._pool is None

    reply, closed = asyncio.run(one())
    assert (reply.status, closed) == (Status.CANCELLED, True)
