"""A server behind HTTP as a target: bodies written before the run, replies stamped as they arrive."""

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter_ns
from typing import Any

from results.stamp.redaction import redact
from results.status import Status
from targets.api import Api, BodyOptions
from targets.target import PlannedRequest, Reply
from targets.transport.deferred import ReadingQueue
from targets.transport.encoding import encode_post, request_uuid
from targets.transport.endpoint import Endpoint
from targets.transport.exchange import Exchange
from targets.transport.messages import one_word
from targets.transport.pool import Pool, PoolOptions
from targets.transport.protocol import Connection

LOOK_AFTER_S = 0.25
"""How often silent streams and idle connections are looked after."""


@dataclass(frozen=True, slots=True)
class Limits:
    """After which a request is given up; None: never."""

    connect_ns: int | None = 10_000_000_000
    """Until a connection is in hand."""
    first_ns: int | None = None
    """From sending to the first token-bearing event of a stream."""
    total_ns: int | None = None
    """From the call of `send` to the end of the reply."""


DEFAULT_LIMITS = Limits()
DEFAULT_POOL_OPTIONS = PoolOptions()


class HttpTarget:
    """Sends each request at once, on a connection of its own or an idle one; nothing waits for a reply."""

    def __init__(
        self,
        endpoint: Endpoint,
        api: Api,
        body_options: BodyOptions,
        limits: Limits = DEFAULT_LIMITS,
        pool_options: PoolOptions = DEFAULT_POOL_OPTIONS,
        salt: str = "",
    ) -> None:
        """`salt`: the run's, for the ids of requests. ValueError when the options cannot be used."""
        self._endpoint = endpoint
        self._api = api
        self._body_options = body_options
        self._limits = limits
        self._pool_options = pool_options
        self._salt = salt
        self._pool: Pool | None = None
        self._queue: ReadingQueue | None = None
        self._encoded: dict[int, bytes] = {}
        self._under_way: dict[int, Exchange] = {}
        self._look_after_timer: asyncio.TimerHandle | None = None

    @property
    def connection_counts(self) -> Mapping[str, int]:
        """Connections opened, opened ahead, and closed because they had been idle for too long."""
        return dict(self._pool.counts) if self._pool is not None else {}

    def describe(self) -> Mapping[str, Any]:
        """What decides what is sent and how, secrets redacted."""
        options = self._body_options
        return {
            "kind": "http",
            "api": self._api.name,
            "endpoint": self._endpoint.describe(),
            "body": {
                "model": one_word(options.model, self._endpoint.secrets),
                "stream": options.stream,
                "max_tokens_field": options.max_tokens_field,
                "pin_lengths": options.pin_lengths,
                "token_prompts": options.token_prompts,
                "usage": options.usage,
                "extra": redact(dict(options.extra)),
            },
            "limits": {
                "connect_ns": self._limits.connect_ns,
                "first_ns": self._limits.first_ns,
                "total_ns": self._limits.total_ns,
            },
            "pool": {
                "connections": self._pool_options.connections,
                "keep_alive_s": self._pool_options.keep_alive_s,
                "prewarm": self._pool_options.prewarm,
            },
        }

    async def open(self, requests: Sequence[PlannedRequest]) -> None:
        """Encode every body, check headroom, look the name up, open connections ahead; may be called again for more.

        ValueError when a request cannot be written, or the machine cannot hold the connections asked for. A server
        that cannot be reached is no reason: that is what the rows of its requests will say.
        """
        for request in requests:
            self._encoded[request.request_id] = self._encode(request)
        await self._opened_pool().prepare()

    async def send(self, request: PlannedRequest) -> Reply:
        """Send it now and wait for its end."""
        return await self.start(request)

    def start(self, request: PlannedRequest) -> Coroutine[Any, Any, Reply]:
        """Send it now: where a connection is idle, before this returns. What it returns waits for the end."""
        begin_ns = perf_counter_ns()
        pool = self._opened_pool()
        assert self._queue is not None
        encoded = self._encoded.pop(request.request_id, None) or self._encode(request)
        reply = Reply(request.request_id, Status.OK)
        exchange = Exchange(reply, self._api, self._body_options.stream, self._endpoint.secrets, self._queue.add)
        self._under_way[request.request_id] = exchange
        self._set_timers(exchange)
        connection = pool.take(request.session)
        if connection is not None:
            self._carry(exchange, connection, encoded, begin_ns)
        return self._settled(exchange, pool, request.session, encoded, connection is not None)

    async def _settled(
        self, exchange: Exchange, pool: Pool, session: int | None, encoded: bytes, carried: bool
    ) -> Reply:
        request_id = exchange.reply.request_id
        try:
            while True:
                if not carried and not exchange.over:
                    connection = await self._connected(exchange, pool, session)
                    if connection is not None:
                        self._carry(exchange, connection, encoded, perf_counter_ns())
                await exchange.settled
                if not exchange.again:
                    return exchange.reply
                exchange.begin_again()
                carried = False
        finally:
            exchange.leave()
            if self._under_way.get(request_id) is exchange:
                del self._under_way[request_id]

    def abort(self, request_id: int, status: Status) -> None:
        """End a request that is under way with this status; none: nothing happens."""
        exchange = self._under_way.get(request_id)
        if exchange is not None:
            exchange.stop(status)

    async def close(self) -> None:
        """End what is under way as cancelled, and close every connection."""
        for exchange in list(self._under_way.values()):
            exchange.stop(Status.CANCELLED)
        if self._look_after_timer is not None:
            self._look_after_timer.cancel()
            self._look_after_timer = None
        if self._pool is not None:
            await self._pool.close()
            self._pool = None

    def _opened_pool(self) -> Pool:
        if self._pool is None:
            self._pool = Pool(self._endpoint, self._pool_options)
            self._queue = ReadingQueue()
            self._look_after()
        return self._pool

    def _encode(self, request: PlannedRequest) -> bytes:
        body = self._api.body(request, self._body_options)
        x_request_id = request_uuid(self._salt, request.request_id)
        keeps_alive = self._pool_options.connections != "new"
        return encode_post(self._endpoint, self._endpoint.path(self._api.path), body, x_request_id, keeps_alive)

    async def _connected(self, exchange: Exchange, pool: Pool, session: int | None) -> Connection | None:
        """A new connection; None: the exchange has ended without one."""
        loop = asyncio.get_running_loop()
        task = exchange.connecting = loop.create_task(pool.connect(session))
        timer = _call_after(loop, self._limits.connect_ns, exchange.stop, Status.TIMEOUT_CONNECT)
        try:
            connection = await task
        except asyncio.CancelledError:
            if exchange.over:
                return None
            raise
        except OSError as error:
            exchange.fail(error)
            return None
        finally:
            exchange.connecting = None
            if timer is not None:
                timer.cancel()
        if exchange.over:
            connection.close()
            return None
        exchange.reply.connect_ns = connection.connect_ns
        if connection.tls_ns is not None:
            exchange.reply.tls_ns = connection.tls_ns
        return connection

    def _set_timers(self, exchange: Exchange) -> None:
        loop = asyncio.get_running_loop()
        timer = _call_after(loop, self._limits.total_ns, exchange.stop, Status.TIMEOUT_TOTAL)
        if timer is not None:
            exchange.watch(timer)

    def _carry(self, exchange: Exchange, connection: Connection, encoded: bytes, connected_ns: int) -> None:
        exchange.carry(connection, encoded, connected_ns)
        timer = _call_after(asyncio.get_running_loop(), self._limits.first_ns, exchange.stop_without_token)
        if timer is not None:
            exchange.watch(timer)

    def _look_after(self) -> None:
        """Runs a few times a second: the only thing that happens without a read."""
        now_ns = perf_counter_ns()
        for exchange in list(self._under_way.values()):
            exchange.look_after(now_ns)
        if self._pool is not None:
            self._pool.expire(now_ns)
            self._look_after_timer = asyncio.get_running_loop().call_later(LOOK_AFTER_S, self._look_after)


def _call_after(
    loop: asyncio.AbstractEventLoop, after_ns: int | None, call: Any, *arguments: Any
) -> asyncio.TimerHandle | None:
    return None if after_ns is None else loop.call_later(after_ns / 1e9, call, *arguments)
