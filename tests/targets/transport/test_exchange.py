"""How much of a stream may lie unread, without a socket."""

import asyncio
import json

import pytest

from results.status import Status
from targets.api import SSE
from targets.apis.openai_chat import OpenAiChat
from targets.target import Reply
from targets.transport.exchange import (
    GRACE_NS,
    LONG_KEPT_NS,
    MOST_PENDING_BYTES,
    READ_LATER_BYTES,
    TOO_DEEP,
    Exchange,
)
from targets.transport.protocol import MOST_KEPT, SHORT_BYTES
from targets.transport.reading import StreamReading
from targets.transport.transcript import Transcript
from tests.targets.scripted_server import STREAM_HEAD, PlainApi, chunk, event


def fill(reads: int, size_bytes: int, read_later: bool) -> tuple[Exchange, list[int], list[int]]:
    """A stream of reads of that size: the exchange, and at which read it asked to be read and had read something."""
    one = chunk(event(text="x" * (size_bytes - LEAST_BYTES)))

    async def play() -> tuple[Exchange, list[int], list[int]]:
        asked: list[int] = []
        read: list[int] = []
        at = 0

        def later(exchange: Exchange) -> None:
            asked.append(at)
            if read_later:
                while exchange.read_some(64):
                    pass

        exchange = Exchange(Reply(1, Status.OK), PlainApi(), True, (), later)
        exchange.received(0, STREAM_HEAD)
        for at in range(reads):
            before = len(exchange.reply.event_t_ns)
            exchange.received(at, one)
            if len(exchange.reply.event_t_ns) != before:
                read.append(at)
        return exchange, asked, read

    return asyncio.run(play())


LEAST_BYTES = len(chunk(event(text="x" * 300))) - 300
ENOUGH = MOST_KEPT // 2


@pytest.mark.parametrize(
    ("size_bytes", "first"), [(LEAST_BYTES + 40, ENOUGH), (SHORT_BYTES, READ_LATER_BYTES // SHORT_BYTES), (4_096, 6)]
)
def test_a_stream_asks_to_be_read_when_enough_lies_unread(size_bytes: int, first: int) -> None:
    """So many reads, or so many bytes where they are long; when it has been read, it starts anew."""
    _, asked, read = fill(3 * first, size_bytes, read_later=True)
    assert read == asked == [first - 1, 2 * first - 1, 3 * first - 1]


@pytest.mark.parametrize("size_bytes", [300, SHORT_BYTES, 4_000])
def test_a_stream_that_nobody_reads_is_read_at_once_before_it_grows_too_long(size_bytes: int) -> None:
    """Whatever else is queued."""
    most = -(-MOST_PENDING_BYTES // size_bytes)
    exchange, _, read = fill(2 * most, size_bytes, read_later=False)
    assert read == [most - 1, 2 * most - 1]
    assert exchange.reply.event_t_ns.tolist() == list(range(2 * most))


def reply_with(reason: str, reply_id: str) -> Reply:
    """What is kept of a stream that ends with these words, from a server that was sent a key and a header `stop`."""

    async def play() -> Reply:
        exchange = Exchange(Reply(1, Status.OK), OpenAiChat(), True, ("hunter22", "stop"), lambda exchange: None)
        choice = {"index": 0, "delta": {"content": "a"}, "finish_reason": reason}
        exchange.received(0, STREAM_HEAD)
        exchange.received(1, chunk(b"data: " + json.dumps({"id": reply_id, "choices": [choice]}).encode() + b"\n\n"))
        exchange.lost(2, None)
        while exchange.read_some(64):
            pass
        return exchange.reply

    return asyncio.run(play())


@pytest.mark.parametrize("word", ["hunter22", "id-hunter22", "\x1b[31mred", "x" * 10_000])
def test_names_that_a_server_gives_are_short_printable_and_without_secrets(word: str) -> None:
    """They go into the rows: a server may send a key back as the id of a reply or as a reason to finish."""
    reply = reply_with(word, word)
    for kept in (reply.finish_reason, reply.reply_id):
        assert kept is not None and kept.isprintable() and len(kept) <= 300 and "hunter22" not in kept


def test_names_with_nothing_wrong_are_kept_as_they_are() -> None:
    """A reason to finish that is everybody's is no secret, whatever the headers hold."""
    reply = reply_with("stop", "chatcmpl-1")
    assert (reply.finish_reason, reply.reply_id) == ("stop", "chatcmpl-1")


def test_a_stream_that_does_not_end_is_given_up() -> None:
    """After so many bytes; the events before that are kept."""
    transcript = Transcript(Reply(1, Status.OK), PlainApi())
    one = event(text="x")
    reading = StreamReading(transcript, SSE, None, most_bytes=3 * len(one))
    for t_ns in range(3):
        reading.add([t_ns], [one])
        reading.read_some(64)
    reading.add([3], [one])
    with pytest.raises(ValueError, match="does not end"):
        reading.read_some(64)
    assert transcript.reply.event_t_ns.tolist() == [0, 1, 2]


def test_a_fault_that_is_found_later_has_the_time_of_its_read() -> None:
    """What came before it is kept, what came after it is nothing."""

    async def play() -> Reply:
        exchange = Exchange(Reply(1, Status.OK), PlainApi(), True, (), lambda exchange: None)
        exchange.received(1, STREAM_HEAD)
        for t_ns, read in ((2, chunk(event(text="a"))), (3, b"zz\r\nno chunk"), (4, chunk(event(text="b")))):
            assert not exchange.received(t_ns, read)
        exchange.look_after(10**12)
        while exchange.read_some(64):
            pass
        assert exchange.over and not exchange.reusable
        return exchange.reply

    reply = asyncio.run(play())
    assert (reply.status, reply.event_t_ns.tolist(), reply.end_ns) == (Status.PROTOCOL_ERROR, [2], 3)


WHOLE_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
SURPLUS = b"0\r\n\r\nnobody asked for this"


def kept_of(*reads: bytes, lost: bool = False) -> Reply:
    """What an exchange makes of these reads, at times from 1 on, and of a clean end after them; it is read twice."""

    async def play() -> Reply:
        exchange = Exchange(Reply(1, Status.OK), OpenAiChat(), True, (), lambda exchange: None)
        for t_ns, read in enumerate(reads, 1):
            exchange.received(t_ns, read)
        if lost:
            exchange.lost(1_000, None)
        for _ in range(2):
            while exchange.read_some(64):
                pass
        assert exchange.over and exchange.settled.done() and not exchange.reusable
        return exchange.reply

    return asyncio.run(play())


def whole(text: str) -> bytes:
    """A reply in one document without a reason to finish."""
    return json.dumps({"choices": [{"index": 0, "message": {"content": text}}]}).encode()


def test_what_is_nested_too_deeply_to_be_read_fails_its_request() -> None:
    """It is the server's fault, and none of the reading of all other streams."""
    text = '"a"'
    for _ in range(505):
        text = '[{"text":' + text + "}]"
    reply = kept_of(STREAM_HEAD, chunk(b'data: {"choices":[{"delta":{"content":' + text.encode() + b"}}]}\n\n"))
    assert (reply.status, reply.error) == (Status.PROTOCOL_ERROR, TOO_DEEP)


def test_a_body_that_was_complete_before_its_connection_ended_is_complete() -> None:
    """It ended with its last read, though what came after it hid the end."""
    reply = kept_of(WHOLE_HEAD, chunk(whole("a")) + SURPLUS, lost=True)
    assert (reply.status, reply.end_ns, reply.text) == (Status.OK, 2, "a")


def test_a_reply_that_is_settled_does_not_change() -> None:
    """Whoever looks at it once more."""
    reply = kept_of(WHOLE_HEAD, chunk(whole("a" * MOST_PENDING_BYTES)) + SURPLUS)
    assert (len(reply.event_t_ns), reply.end_ns) == (1, 2)


def test_comments_after_the_end_marker_do_not_keep_a_request() -> None:
    """A server that goes on pinging is left, some seconds after the marker; the answer was complete."""

    async def play() -> tuple[Reply, int]:
        queue: list[Exchange] = []
        exchange = Exchange(Reply(1, Status.OK), PlainApi(), True, (), queue.append)
        exchange.received(1, STREAM_HEAD)
        exchange.received(2, chunk(event(text="a")))
        exchange.received(3, chunk(b"data: [DONE]\n\n"))
        ping_ns, now_ns = 200_000_000, 0
        while not exchange.over and now_ns < 20 * 10**9:
            now_ns += ping_ns
            exchange.received(now_ns, chunk(b": ping\n\n"))
            exchange.look_after(now_ns)
            while queue:
                queue.pop().read_some(64)
        return exchange.reply, now_ns

    reply, now_ns = asyncio.run(play())
    assert (reply.status, reply.event_t_ns.tolist()) == (Status.OK, [2])
    assert now_ns <= LONG_KEPT_NS + 2 * GRACE_NS
