"""One connection: stamps what arrives the moment it arrives, and hands it to the exchange under way."""

import asyncio
import socket
from collections.abc import Callable
from time import perf_counter_ns
from typing import Any, Protocol, cast

MOST_KEPT = 240
"""Times and reads; then it is time to look at them."""
SHORTEST_BYTES, SHORT_BYTES = 4, 512
"""A shorter read may be an end that does not look like one; longer ones are added up as they come."""


class Exchange(Protocol):
    """One request and its reply, as a connection sees it."""

    reusable: bool
    """Whether the connection may serve another request when this one is over."""

    def sent(self, t_ns: int) -> None:
        """The first byte of the request is about to be written."""

    def uploaded(self, t_ns: int) -> None:
        """The kernel has taken the last byte of the request."""

    def received(self, t_ns: int, data: bytes) -> bool:
        """Bytes of the reply; True: they were the last."""
        ...

    def look_at(self, newest: bytes) -> bool:
        """The same for bytes that lie in the list given to `Connection.keep_reads` already."""
        ...

    def lost(self, t_ns: int, error: Exception | None) -> None:
        """The connection has ended; None: cleanly, by the server."""


class Connection(asyncio.Protocol):
    """Serves one exchange at a time. On a plain socket it writes to the socket itself, so that `sent` is the truth."""

    __slots__ = (
        "_exchange", "_kept", "_last_bytes", "_on_free", "_on_lost", "_plain", "_transport", "_uploading", "connect_ns",
        "idle_limit_ns", "idle_since_ns", "served_requests", "session", "tls_ns",
    )  # fmt: skip

    def __init__(
        self, on_free: "Callable[[Connection], None]", on_lost: "Callable[[Connection], None]",
        plain: socket.socket | None,
    ) -> None:  # fmt: skip
        """`plain`: the connected socket where nothing encrypts what goes over it."""
        self._on_free = on_free
        self._on_lost = on_lost
        self._plain = plain
        self._exchange: Exchange | None = None
        self._kept: list[Any] | None = None
        self._last_bytes = b""
        self._uploading = False
        self._transport: asyncio.Transport | None = None
        self.connect_ns = 0
        self.tls_ns: int | None = None
        self.idle_since_ns = 0
        self.idle_limit_ns: int | None = None
        """How long the server keeps it while idle, where it says so."""
        self.served_requests = 0
        self.session: int | None = None

    @property
    def is_open(self) -> bool:
        """Whether a request can be sent over it."""
        return self._transport is not None and not self._transport.is_closing()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Connected, and encrypted where it is to be."""
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=0)

    def data_received(self, data: bytes) -> None:
        """Stamp first, then keep; look only where it may matter. What a stream lies on is cold when a read comes."""
        t_ns = perf_counter_ns()
        kept, exchange = self._kept, self._exchange
        if kept is not None:
            kept.append(t_ns)
            kept.append(data)
            few = len(kept) < MOST_KEPT and SHORTEST_BYTES <= len(data) <= SHORT_BYTES
            if few and not data.endswith(self._last_bytes):
                return
            if exchange is not None and exchange.look_at(data):
                self._served(exchange, t_ns)
        elif exchange is None:
            self.close()
        elif exchange.received(t_ns, data):
            self._served(exchange, t_ns)

    def keep_reads(self, kept: list[Any], last_bytes: bytes) -> None:
        """From now on add a time and the bytes of each read to this list.

        The exchange is asked to look where one ends in the last bytes of its body, is too short to tell, is long, or
        where they have become many.
        """
        self._kept, self._last_bytes = kept, last_bytes

    def eof_received(self) -> None:
        """The server sends no more; what it leaves open is closed."""
        self._lose(perf_counter_ns(), None)

    def connection_lost(self, exc: Exception | None) -> None:
        """Closed or reset."""
        self._lose(perf_counter_ns(), exc)
        self._transport = None
        self._plain = None
        self._on_lost(self)

    def resume_writing(self) -> None:
        """The kernel has taken everything."""
        if self._uploading:
            self._uploading = False
            if self._exchange is not None:
                self._exchange.uploaded(perf_counter_ns())

    def send(self, exchange: Exchange, request: bytes) -> None:
        """Write it now. A connection that turns out to be lost says so through the exchange."""
        transport = self._transport
        assert transport is not None
        self._exchange = exchange
        taken_bytes = 0
        exchange.sent(perf_counter_ns())
        if self._plain is not None:
            try:
                taken_bytes = self._plain.send(request)
            except (BlockingIOError, InterruptedError):
                pass
            except OSError as error:
                self._lose(perf_counter_ns(), error)
                transport.abort()
                return
        if taken_bytes < len(request):
            self._uploading = True
            transport.write(memoryview(request)[taken_bytes:])
            if transport.get_write_buffer_size():
                return
        self._uploading = False
        exchange.uploaded(perf_counter_ns())

    def abandon(self) -> None:
        """Leave the exchange under way and close at once."""
        self._exchange = self._kept = None
        if self._transport is not None:
            self._transport.abort()

    def close(self) -> None:
        """Close when nothing is under way."""
        if self._transport is not None:
            self._transport.close()

    def _served(self, exchange: Exchange, t_ns: int) -> None:
        self._exchange = self._kept = None
        self.served_requests += 1
        self.idle_since_ns = t_ns
        if exchange.reusable and not self._uploading and self.is_open:
            self._on_free(self)
        else:
            self.abandon()

    def _lose(self, t_ns: int, error: Exception | None) -> None:
        exchange, self._exchange, self._kept = self._exchange, None, None
        if exchange is not None:
            exchange.lost(t_ns, error)
