"""A server that does what a script says, write by write, on a raw socket of loopback, and remembers when."""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import Enum
from time import perf_counter_ns

STREAM_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
CLOSING_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
LAST_CHUNK = b"0\r\n\r\n"
LINGER_AND_RESET = struct.pack("ii", 1, 0)


class Act(Enum):
    """What a script can do beside writing and pausing."""

    CLOSE = "close the connection"
    RESET = "reset the connection"
    HANG = "say nothing more until the client goes"


@dataclass(frozen=True)
class Write:
    """Bytes that are sent on their own, and how many token-bearing events they complete."""

    data: bytes
    events: int = 0


Step = Write | bytes | float | Act
"""A write, a pause in seconds, an act."""
Script = Sequence[Step]


@dataclass
class Exchange:
    """One request as it came, and when each write of its reply was handed to the kernel."""

    head: bytes
    body: bytes
    connection: int
    writes: list[tuple[int, Write]] = field(default_factory=list)

    def event_writes_ns(self) -> list[int]:
        """For each token-bearing event, when the write began that completed it."""
        return [t_ns for t_ns, write in self.writes for _ in range(write.events)]


@dataclass
class Misbehaving:
    """The server: the n-th request gets the n-th script, and all further ones the last; or each path has its own."""

    scripts: Sequence[Script]
    paths: Mapping[str, Script] = field(default_factory=dict)
    """Scripts of single paths, which come first."""
    exchanges: list[Exchange] = field(default_factory=list)
    connections: int = 0
    port: int = 0

    @property
    def url(self) -> str:
        """Its base URL."""
        return f"http://127.0.0.1:{self.port}/v1"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, request after request."""
        connection = self.connections
        self.connections += 1
        try:
            while request := await _read_request(reader):
                exchange = Exchange(*request, connection)
                self.exchanges.append(exchange)
                if not await _play(self._script(exchange), exchange, reader, writer):
                    return
        except (ConnectionError, asyncio.IncompleteReadError):
            return
        finally:
            writer.close()

    def _script(self, exchange: Exchange) -> Script:
        path = exchange.head.split(b" ")[1].decode()
        return self.paths.get(path, self.scripts[min(len(self.exchanges), len(self.scripts)) - 1])


async def _read_request(reader: asyncio.StreamReader) -> tuple[bytes, bytes] | None:
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(
        (int(line.split(b":")[1]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), 0
    )
    return head, await reader.readexactly(length)


async def _play(script: Script, exchange: Exchange, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
    """False when the connection is over."""
    for step in script:
        if isinstance(step, float):
            await asyncio.sleep(step)
        elif isinstance(step, Act):
            return await _act(step, reader, writer)
        else:
            write = Write(step) if isinstance(step, bytes) else step
            exchange.writes.append((perf_counter_ns(), write))
            writer.write(write.data)
            await writer.drain()
            await asyncio.sleep(0)
    return True


async def _act(act: Act, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
    if act is Act.RESET:
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_AND_RESET)
        writer.transport.abort()
    if act is Act.HANG:
        await reader.read()
    return False


@asynccontextmanager
async def misbehaving(
    *scripts: Script, paths: Mapping[str, Script] | None = None, unix_socket: str | None = None
) -> AsyncIterator[Misbehaving]:
    """The server, listening; gone afterwards."""
    served = Misbehaving(scripts, paths or {})
    if unix_socket is not None:
        server: asyncio.Server = await asyncio.start_unix_server(served.serve, unix_socket)
    else:
        server = await asyncio.start_server(served.serve, "127.0.0.1", 0)
        served.port = server.sockets[0].getsockname()[1]
    try:
        yield served
    finally:
        server.close()
        await asyncio.sleep(0)


def chunked(*pieces: bytes) -> bytes:
    """Each piece as an HTTP chunk of its own."""
    return b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces)


def sse(*datas: bytes | str, end: bytes = b"\n") -> bytes:
    """Each as an event of Server-Sent Events."""
    return b"".join(b"data: " + (data.encode() if isinstance(data, str) else data) + end * 2 for data in datas)


def whole(body: bytes, content_type: str = "application/json", status: str = "200 OK", more: str = "") -> bytes:
    """A reply of known length."""
    head = f"HTTP/1.1 {status}\r\ncontent-type: {content_type}\r\n{more}content-length: {len(body)}\r\n\r\n"
    return head.encode() + body


def cut(data: bytes, events: int = 0, early_bytes: int = 0) -> list[Step]:
    """The data byte by byte; its events are complete so many bytes before its end."""
    last = len(data) - 1 - early_bytes
    return [Write(data[at : at + 1], events if at == last else 0) for at in range(len(data))]
