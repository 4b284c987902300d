"""A server on loopback that does to each request what the test wrote, and an API that is easy to write replies in."""

import asyncio
import json
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from targets.api import SSE, BodyOptions, Delta, Usage
from targets.http_target import DEFAULT_LIMITS, HttpTarget, Limits
from targets.target import PlannedRequest
from targets.transport.endpoint import parse_endpoint
from targets.transport.pool import PoolOptions

STREAM_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"


@dataclass
class Call:
    """One request as the server sees it."""

    number: int
    """Of all requests."""
    connection: int
    """Number of the connection it came over."""
    path: str
    headers: Mapping[str, str]
    body: bytes
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def write(self, *pieces: bytes) -> None:
        """Each in a segment of its own, as far as the loop can see to it."""
        for piece in pieces:
            self.writer.write(piece)
            await self.writer.drain()
            await asyncio.sleep(0.002)

    def close(self) -> None:
        """End of the connection."""
        self.writer.close()

    def reset(self) -> None:
        """RST."""
        self.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()


Script = Callable[[Call], Awaitable[None]]


@dataclass
class Served:
    """What a server has seen."""

    address: tuple[str, int] | str
    calls: list[Call] = field(default_factory=list)
    connections: int = 0

    @property
    def url(self) -> str:
        """Of a server on TCP."""
        return f"http://127.0.0.1:{self.address[1]}/v1"


@asynccontextmanager
async def serving(script: Script, path: str | None = None, tls: ssl.SSLContext | None = None) -> AsyncIterator[Served]:
    """On a free port, or on the unix socket of this path."""
    served = Served(path or "")
    writers: list[asyncio.StreamWriter] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = served.connections
        served.connections += 1
        writers.append(writer)
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                first, *lines = head.decode().split("\r\n")[:-2]
                headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                call = Call(len(served.calls), connection, first.split()[1], headers, body, reader, writer)
                served.calls.append(call)
                await script(call)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass

    if path is None:
        server = await asyncio.start_server(handle, "127.0.0.1", 0, ssl=tls)
        served.address = server.sockets[0].getsockname()
    else:
        server = await asyncio.start_unix_server(handle, path)
    try:
        yield served
    finally:
        server.close()
        for writer in writers:
            writer.transport.abort()
        await asyncio.sleep(0.01)


class PlainApi:
    """Events are JSON objects with the fields of a Delta; `[DONE]` ends."""

    name = "plain"
    path = "/v1/say"
    models_path: str | None = None

    def __init__(self, framing: str = SSE) -> None:
        self.framing = framing

    def body(self, request: PlannedRequest, options: BodyOptions) -> Mapping[str, object]:
        if request.prompt_token_ids is not None:
            raise ValueError("plain takes text")
        return {"prompt": request.prompt_text, "max_tokens": request.max_tokens}

    def event(self, data: bytes, event_type: str) -> Delta | None:
        if data == b"[DONE]":
            return None
        fields = json.loads(data)
        usage = fields.pop("usage", None)
        return Delta(**fields, usage=Usage(**usage) if usage else None)

    def whole(self, body: bytes) -> Sequence[Delta]:
        return [delta for delta in [self.event(body, "")] if delta is not None]


def event(**fields: object) -> bytes:
    """One event."""
    return f"data: {json.dumps(fields)}\n\n".encode()


def chunk(data: bytes) -> bytes:
    """One HTTP chunk."""
    return b"%x\r\n%s\r\n" % (len(data), data)


DONE = chunk(b"data: [DONE]\n\n")


def tokens(*texts: str) -> list[bytes]:
    """One chunk a token; the last says why it is."""
    *most, last = texts
    return [*(chunk(event(text=text)) for text in most), chunk(event(text=last, finish_reason="length"))]


async def answer(call: Call) -> None:
    """Three tokens and a clean end."""
    await call.write(STREAM_HEAD, *tokens("a", "b", "c"), DONE, END)


def planned(request_id: int = 0, prompt: str = "hello", session: int | None = None) -> PlannedRequest:
    """A request for three tokens."""
    return PlannedRequest(request_id, prompt, None, 3, session=session)


def target_of(
    served: Served, limits: Limits = DEFAULT_LIMITS, *, framing: str = SSE, stream: bool = True, url: str | None = None,
    headers: Sequence[str] = (), key: str | None = None, **pool: object,
) -> HttpTarget:  # fmt: skip
    """Of a scripted server."""
    endpoint = parse_endpoint(url or served.url, headers, key=key)
    options = PoolOptions(**pool)  # type: ignore[arg-type]
    return HttpTarget(endpoint, PlainApi(framing), BodyOptions("m", stream=stream), limits, options, "salt")
