"""A server that computes nothing: it answers each chat completion with events that say when they were written.

The judge of this client on this machine: what a client adds to a time is its own stamp less the one in the event.
Run as a process of its own it prints its address, and ends when its standard input does.
"""

import asyncio
import json
import sys
import time
from collections import deque
from typing import Any

FIRST_S, GAP_S = 0.005, 0.005
HOST = "127.0.0.1"
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
END = b"data: [DONE]\n\n"
HEAD_END, LENGTH = b"\r\n\r\n", b"content-length:"


class NullServer(asyncio.Protocol):
    """One connection; requests are answered in turn."""

    def __init__(self) -> None:
        """Nothing has been asked."""
        self._transport: Any = None
        self._received = b""
        self._to_answer: deque[int] = deque()
        """Tokens of each request that waits."""
        self._busy = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep it."""
        self._transport = transport

    def connection_lost(self, error: Exception | None) -> None:
        """Write nothing more."""
        self._transport = None

    def data_received(self, data: bytes) -> None:
        """Take whole requests."""
        self._received += data
        while True:
            head, found, rest = self._received.partition(HEAD_END)
            if not found:
                return
            length = next(
                (int(line.split(b":")[1]) for line in head.lower().split(b"\r\n") if line.startswith(LENGTH)), 0
            )
            if len(rest) < length:
                return
            self._received = rest[length:]
            self._to_answer.append(int(json.loads(rest[:length])["max_tokens"]))
            self._next()

    def _next(self) -> None:
        if self._to_answer and not self._busy and self._transport is not None:
            self._busy = True
            self._transport.write(HEAD)
            begin_s = asyncio.get_running_loop().time()
            self._later(begin_s, 0, self._to_answer.popleft())

    def _later(self, begin_s: float, index: int, tokens: int) -> None:
        at_s = begin_s + FIRST_S + index * GAP_S
        asyncio.get_running_loop().call_at(at_s, self._event, begin_s, index, tokens)

    def _event(self, begin_s: float, index: int, tokens: int) -> None:
        if self._transport is None:
            return
        last = index + 1 == tokens
        reason = '"length"' if last else "null"
        text = (
            f'data: {{"choices":[{{"index":0,"delta":{{"content":"{time.perf_counter_ns()} "}},'
            f'"finish_reason":{reason}}}]}}\n\n'
        )
        self._transport.write(_chunk(text.encode()))
        if not last:
            self._later(begin_s, index + 1, tokens)
            return
        self._transport.write(_chunk(END) + b"0\r\n\r\n")
        self._busy = False
        self._next()


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


async def serve() -> None:
    """Until standard input ends."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(NullServer, HOST, 0)
    print(f"listening on http://{HOST}:{server.sockets[0].getsockname()[1]}", flush=True)
    await loop.run_in_executor(None, sys.stdin.read)
    server.close()


if __name__ == "__main__":
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve())
