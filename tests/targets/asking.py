"""Requests sent through the HTTP target to a misbehaving server, and what must hold of every reply."""

import asyncio
from dataclasses import dataclass

import uvloop

from results.columns import NULL
from targets.api import BodyOptions
from targets.apis.catalog import make_api
from targets.http_target import HttpTarget, Limits
from targets.target import PlannedRequest, Reply
from targets.transport.endpoint import parse_endpoint
from tests.targets.misbehaving import Exchange, Misbehaving, Script, misbehaving

LOOPS = {"uvloop": uvloop.new_event_loop, "asyncio": asyncio.new_event_loop}
BOUND_S = 30
"""No test waits for longer."""


@dataclass(frozen=True)
class Asked:
    """The replies in order, and the server as it was left."""

    replies: list[Reply]
    server: Misbehaving

    @property
    def reply(self) -> Reply:
        """The last one."""
        return self.replies[-1]


def ask(
    *scripts: Script,
    api: str = "openai-chat",
    requests: int = 1,
    limits: Limits | None = None,
    stream: bool = True,
    key: str | None = None,
    scheme: str = "http",
    loop: str = "uvloop",
) -> Asked:
    """Send requests one after another to a server with these scripts."""

    async def play() -> Asked:
        async with asyncio.timeout(BOUND_S), misbehaving(*scripts) as server:
            endpoint = parse_endpoint(server.url.replace("http:", f"{scheme}:"), key=key)
            target = HttpTarget(endpoint, make_api(api), BodyOptions("m", stream=stream), limits or Limits())
            planned = [PlannedRequest(at, f"prompt {at}", None, max_tokens=16) for at in range(requests)]
            try:
                await target.open(planned)
                return Asked([await target.send(request) for request in planned], server)
            finally:
                await target.close()

    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        return runner.run(play())


def check(reply: Reply, exchange: Exchange) -> None:
    """Times are in the order of what they stamp, and no token is stamped before the server wrote it."""
    stamps = [reply.sent_ns, reply.header_ns, reply.first_byte_ns, *reply.event_t_ns, reply.end_ns]
    reached = [t_ns for t_ns in stamps if t_ns != NULL]
    assert reached == sorted(reached)
    writes = exchange.event_writes_ns()
    assert len(reply.event_t_ns) == len(writes)
    assert all(stamp >= written for stamp, written in zip(reply.event_t_ns, writes, strict=True))
    assert reply.content_reads <= len(reply.event_t_ns)
    assert reply.event_tokens is None or len(reply.event_tokens) == len(reply.event_t_ns)
    assert reply.error is None or (len(reply.error) <= 300 and reply.error.isprintable())
