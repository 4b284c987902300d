"""How much of a stream may lie unread, without a socket."""

import asyncio

from results.status import Status
from targets.target import Reply
from targets.transport.exchange import MOST_PENDING_BYTES, READ_LATER_BYTES, Exchange
from tests.targets.scripted_server import STREAM_HEAD, PlainApi, chunk, event


def fill(reads: int, read_later: bool) -> tuple[Exchange, list[int], list[int]]:
    """A stream of single-token reads: the exchange, and at which read it asked to be read and had read something."""

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
            exchange.received(at, chunk(event(text="x" * 100)))
            if len(exchange.reply.event_t_ns) != before:
                read.append(at)
        return exchange, asked, read

    return asyncio.run(play())


EVENT_BYTES = len(event(text="x" * 100))


def test_a_stream_asks_to_be_read_when_enough_lies_unread() -> None:
    """And not before; when it has been read, it starts anew."""
    first = -(-READ_LATER_BYTES // EVENT_BYTES) - 1
    _, asked, read = fill(3 * first, read_later=True)
    assert asked[0] == first and asked[1] == 2 * first + 1
    assert read == asked


def test_a_stream_that_nobody_reads_is_read_at_once_before_it_grows_too_long() -> None:
    """Whatever else is queued."""
    most = -(-MOST_PENDING_BYTES // EVENT_BYTES)
    exchange, _, read = fill(2 * most, read_later=False)
    assert read == [most - 1, 2 * most - 1]
    assert exchange.reply.event_t_ns.tolist() == list(range(2 * most))
