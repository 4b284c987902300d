"""Connections: made when needed, without a cap, and kept for the next request where that is wanted."""

import asyncio
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from time import perf_counter_ns
from typing import Any

from targets.transport.dialling import Dialler
from targets.transport.endpoint import Endpoint
from targets.transport.headroom import check_ports, raise_file_limit
from targets.transport.protocol import Connection

MODES = ("reuse", "new", "per-session")


@dataclass(frozen=True, slots=True)
class PoolOptions:
    """How connections are used."""

    connections: str = "reuse"
    """reuse; new: one for each request; per-session: one for each session."""
    keep_alive_s: float = 4.0
    """Idle for longer, one is closed and never used again: a server that closes it may do so under a request."""
    prewarm: int = 0
    """How many are opened before the run."""
    prewarm_at_once: int = 16
    """How many of those are under way at a time."""
    prewarm_pause_s: float = 0.01
    """Between them."""
    peak: int | None = None
    """How many may be open at once, where that is known beforehand; checked against what the machine can hold."""

    def __post_init__(self) -> None:
        """ValueError in one line for what makes no sense."""
        if self.connections not in MODES:
            raise ValueError(f"connections={self.connections!r}: one of {', '.join(MODES)}")
        if self.prewarm < 0 or self.prewarm_at_once < 1 or self.keep_alive_s <= 0:
            raise ValueError("prewarm is at least 0, and keep-alive above 0 s")


class Pool:
    """Takes back what is given; the newest idle connection goes out first."""

    def __init__(self, endpoint: Endpoint, options: PoolOptions) -> None:
        """Opens nothing. ValueError when the endpoint's CA file is none."""
        self._endpoint = endpoint
        self._options = options
        self._dialler = Dialler(endpoint)
        self._keep_alive_ns = round(options.keep_alive_s * 1e9)
        self._open: set[Connection] = set()
        self._idle: dict[Connection, None] = {}
        """In the order in which they became idle."""
        self._of_session: dict[int, Connection] = {}
        self._closed = False
        self.counts: Counter[str] = Counter()
        """opened, prewarmed, expired."""

    def describe(self) -> Mapping[str, Any]:
        """For the stamp."""
        return {
            "connections": self._options.connections,
            "keep_alive_s": self._options.keep_alive_s,
            "prewarm_connections": self._options.prewarm,
        }

    async def prepare(self) -> None:
        """Check the headroom, then open connections ahead, a few at a time. ValueError when they cannot fit.

        One that cannot be opened is left to the request that will need it: its failure is that request's row.
        """
        most = max(self._options.prewarm, self._options.peak or 0)
        raise_file_limit(most)
        if self._endpoint.unix_socket is None:
            check_ports(most)
        left = 0 if self._options.connections == "per-session" else self._options.prewarm - len(self._open)
        while left > 0:
            some = min(left, self._options.prewarm_at_once)
            made = await asyncio.gather(*(self._dial() for _ in range(some)), return_exceptions=True)
            for one in made:
                if isinstance(one, Connection):
                    self.counts["prewarmed"] += 1
                    one.idle_since_ns = perf_counter_ns()
                    self._idle[one] = None
                elif not isinstance(one, OSError):
                    raise one
            if any(isinstance(one, OSError) for one in made):
                return
            left -= some
            await asyncio.sleep(self._options.prewarm_pause_s)

    def take(self, session: int | None) -> Connection | None:
        """An idle connection for a request of this session; None: one has to be opened."""
        if self._options.connections == "per-session":
            held = self._of_session.get(session) if session is not None else None
            return held if held is not None and held in self._idle and self._taken(held) else None
        while self._idle:
            connection = next(reversed(self._idle))
            if self._taken(connection):
                return connection
        return None

    async def connect(self, session: int | None) -> Connection:
        """A new connection. OSError when there is none to be had."""
        connection = await self._dial()
        if self._options.connections == "per-session" and session is not None:
            connection.session = session
            self._of_session[session] = connection
        return connection

    def give_back(self, connection: Connection) -> None:
        """It is free: keep it where another request may use it."""
        keep = self._options.connections == "reuse" or connection.session is not None or not connection.served_requests
        if keep and not self._closed:
            self._idle[connection] = None
        else:
            connection.close()

    def expire(self, now_ns: int) -> None:
        """Close what has been idle for too long."""
        for connection in list(self._idle):
            if self._too_old(connection, now_ns):
                self._drop(connection)

    async def close(self) -> None:
        """Close all of them, and see them gone."""
        self._closed = True
        for connection in list(self._open):
            connection.abandon()
        while self._open:
            await asyncio.sleep(0)

    async def _dial(self) -> Connection:
        connection = await self._dialler.dial(self.give_back, self._lost)
        self.counts["opened"] += 1
        self._open.add(connection)
        if self._closed:
            connection.abandon()
        if not connection.is_open:
            self._lost(connection)
            raise ConnectionResetError("the connection was closed at once")
        return connection

    def _taken(self, connection: Connection) -> bool:
        """Out of the idle ones; False: it is of no use and gets closed."""
        if not connection.is_open or self._too_old(connection, perf_counter_ns()):
            self._drop(connection)
            return False
        del self._idle[connection]
        return True

    def _too_old(self, connection: Connection, now_ns: int) -> bool:
        told_ns = connection.idle_limit_ns
        limit_ns = self._keep_alive_ns if told_ns is None else min(self._keep_alive_ns, told_ns)
        return now_ns - connection.idle_since_ns > limit_ns

    def _drop(self, connection: Connection) -> None:
        self.counts["expired"] += 1
        del self._idle[connection]
        connection.close()

    def _lost(self, connection: Connection) -> None:
        self._open.discard(connection)
        self._idle.pop(connection, None)
        if connection.session is not None and self._of_session.get(connection.session) is connection:
            del self._of_session[connection.session]
