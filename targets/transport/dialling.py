"""How a connection comes about: names, sockets, TLS. Each address is resolved once."""

import asyncio
import socket
import ssl
from collections.abc import Callable
from time import perf_counter_ns
from typing import Any, cast

from targets.transport.endpoint import Endpoint
from targets.transport.protocol import Connection

_Address = tuple[socket.AddressFamily, Any]
Notice = Callable[[Connection], None]


class Dialler:
    """Connects to one endpoint. Failures are OSErrors."""

    def __init__(self, endpoint: Endpoint) -> None:
        """ValueError when its CA file holds no certificates."""
        self._endpoint = endpoint
        self._addresses: list[_Address] = []
        self._lock = asyncio.Lock()
        self._failure: OSError | None = None
        self._tls = _tls_context(endpoint) if endpoint.scheme == "https" else None

    async def resolve(self) -> None:
        """Look the name up, once for all connections. OSError when it has no address."""
        async with self._lock:
            if self._failure is not None:
                raise self._failure.with_traceback(None)
            if self._addresses:
                return
            try:
                self._addresses = await _addresses(self._endpoint)
            except (OSError, UnicodeError) as error:
                why = error.strerror if isinstance(error, OSError) else "it is no name"
                self._failure = OSError(f"the name {self._endpoint.host!r} cannot be resolved ({why})")
                raise self._failure from None

    async def dial(self, on_free: Notice, on_lost: Notice) -> Connection:
        """A connection that is ready for a request, with how long it took. OSError when there is none to be had."""
        if not self._addresses:
            await self.resolve()
        begin_ns = perf_counter_ns()
        opened = await self._connected()
        connected_ns = perf_counter_ns()
        connection = Connection(on_free, on_lost, opened if self._tls is None else None)
        try:
            await self._hand_over(opened, connection)
        except BaseException:
            opened.close()
            raise
        connection.connect_ns = connected_ns - begin_ns
        connection.tls_ns = None if self._tls is None else perf_counter_ns() - connected_ns
        return connection

    async def _connected(self) -> socket.socket:
        """By the first address that answers, which is the first to be tried from then on."""
        failure: OSError | None = None
        for at, (family, address) in enumerate(self._addresses):
            opened = _new_socket(family)
            try:
                await asyncio.get_running_loop().sock_connect(opened, address)
            except OSError as error:
                opened.close()
                failure = error
                continue
            except BaseException:
                opened.close()
                raise
            if at:
                self._addresses.insert(0, self._addresses.pop(at))
            return opened
        assert failure is not None
        raise failure

    async def _hand_over(self, opened: socket.socket, connection: Connection) -> None:
        loop = asyncio.get_running_loop()
        name = self._endpoint.host if self._tls is not None else None
        if opened.family == socket.AF_UNIX:
            await loop.create_unix_connection(lambda: connection, sock=opened, ssl=self._tls, server_hostname=name)
        else:
            await loop.create_connection(lambda: connection, sock=opened, ssl=self._tls, server_hostname=name)


async def _addresses(endpoint: Endpoint) -> list[_Address]:
    if endpoint.unix_socket is not None:
        return [(socket.AF_UNIX, endpoint.unix_socket)]
    found = await asyncio.get_running_loop().getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_STREAM)
    return [(cast(socket.AddressFamily, family), address) for family, _, _, _, address in found]


def _new_socket(family: socket.AddressFamily) -> socket.socket:
    opened = socket.socket(family, socket.SOCK_STREAM)
    opened.setblocking(False)
    if family != socket.AF_UNIX:
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return opened


def _tls_context(endpoint: Endpoint) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=endpoint.ca_file)
    except (ssl.SSLError, OSError):
        raise ValueError(f"the CA file {endpoint.ca_file!r} holds no certificates: name a PEM file") from None
    if not endpoint.verify_tls:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
