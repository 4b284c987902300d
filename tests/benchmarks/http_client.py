"""How cheaply and how exactly the HTTP client stamps tokens: one JSON line.

    python tests/benchmarks/http_client.py --mock BINARY       (a server that logs when it wrote what)

200 streams of one token every 20 ms, 10,000 events/s, are read by three clients in turn, five times over, and each
figure is the median of its five: ours with everything it does; a bare protocol on uvloop, which stamps reads and
counts bytes; and aiohttp, line by line with json. The server is pinned to one core, first in line and spinning where
that is permitted; the clients have the others.

cpu_us_per_event...: CPU time of this process from the first request to the last settled reply, an event.
token_error_us...: our stamp less the server's clock just before it wrote the event; ttft_error_us: of first tokens.
bytes_per_token: memory of a settled reply's columns and text, a token.
streams_lost: of 2,000 in flight at once, those that did not end well with every token in its place.
lateness_ms_p99, achieved_over_asked: of 10 s at 1,000 requests/s through the driver.
"""

import argparse
import asyncio
import gc
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp
import numpy as np
import uvloop

from loadgen.arrivals import due_times_ns
from loadgen.drive import Decision
from loadgen.planned import planned_requests
from loadgen.stream_drive import play_target
from results.recording import RecordingPart
from results.schedule import make_schedule
from results.status import Status
from targets.api import BodyOptions
from targets.apis.openai_chat import OpenAiChat
from targets.http_target import HttpTarget, Limits
from targets.target import PlannedRequest, Reply
from targets.transport.encoding import request_uuid
from targets.transport.endpoint import parse_endpoint
from targets.transport.pool import PoolOptions
from tests.targets.ssemock_process import Truth, read_truth

STREAMS, TOKENS, ITL_US = 200, 200, 20_000
ROUNDS = 5
MANY_STREAMS, MANY_TOKENS, MANY_ITL_US = 2_000, 20, 200_000
RATE_RPS, RATE_REQUESTS = 1_000.0, 10_000
SALT = "benchmark"
START_AT_ONCE, START_PAUSE_S = 10, 0.001
"""Streams start 10 a millisecond, so that their tokens are spread over the 20 ms between two."""

Stamps = dict[str, list[int]]
"""Of each request's token events, by its x-request-id."""


@contextmanager
def mock_server(binary: str, log: Path, *options: str) -> Iterator[int]:
    """Its port; on the last core, with priority where permitted."""
    command = [binary, "--port", "0", "--quiet", "--log", str(log), *options]
    if shutil.which("chrt") and os.geteuid() == 0:
        command = ["chrt", "-f", "1", *command, "--spin-us", "60"]
    cores = sorted(os.sched_getaffinity(0))
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        preexec_fn=lambda: os.sched_setaffinity(0, [LAST_CORE]),
    ) as server:  # fmt: skip
        assert server.stdout is not None and cores
        try:
            yield int(server.stdout.readline().rsplit(":", 1)[1])
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait()


LAST_CORE = max(os.sched_getaffinity(0))


async def in_turn(start: Callable[[int], Awaitable[Any]], streams: int) -> list[Any]:
    """Start the streams a few at a time and wait for all."""
    tasks: list[asyncio.Task[Any]] = []
    for k in range(streams):
        tasks.append(asyncio.ensure_future(start(k)))
        if k % START_AT_ONCE == START_AT_ONCE - 1:
            await asyncio.sleep(START_PAUSE_S)
    return await asyncio.gather(*tasks)


def planned(streams: int, tokens: int) -> list[PlannedRequest]:
    """All of one length."""
    return [PlannedRequest(k, "w " * 32, None, tokens) for k in range(streams)]


async def ours(port: int, streams: int, tokens: int) -> tuple[float, list[Reply]]:
    """CPU seconds and the replies."""
    target = HttpTarget(
        parse_endpoint(f"http://127.0.0.1:{port}/v1"), OpenAiChat(), BodyOptions("mock"), Limits(),
        PoolOptions(prewarm=streams, prewarm_pause_s=0), SALT,
    )  # fmt: skip
    requests = planned(streams, tokens)
    await target.open(requests)
    begin_s = time.process_time()
    replies = await in_turn(lambda k: target.send(requests[k]), streams)
    cpu_s = time.process_time() - begin_s
    await target.close()
    return cpu_s, replies


class BareProtocol(asyncio.Protocol):
    """Stamps, keeps, and knows the end when it sees it."""

    def __init__(self) -> None:
        self.reads: list[tuple[int, bytes]] = []
        self.ended = asyncio.get_running_loop().create_future()

    def data_received(self, data: bytes) -> None:
        self.reads.append((time.perf_counter_ns(), data))
        if data.endswith(b"0\r\n\r\n"):
            self.ended.set_result(None)


def bare_request(k: int, tokens: int) -> bytes:
    """The same request."""
    body = json.dumps({
        "model": "mock", "stream": True, "max_tokens": tokens, "stream_options": {"include_usage": True},
        "messages": [{"role": "user", "content": "w " * 32}],
    }).encode()  # fmt: skip
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nX-Request-Id: {request_uuid(SALT, k)}\r\n"
    return f"{head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


async def bare(port: int) -> tuple[float, Stamps]:
    """CPU seconds and stamps; tokens are found in the reads afterwards."""
    loop = asyncio.get_running_loop()
    made = [await loop.create_connection(BareProtocol, "127.0.0.1", port) for _ in range(STREAMS)]
    requests = [bare_request(k, TOKENS) for k in range(STREAMS)]

    async def one(k: int) -> None:
        made[k][0].write(requests[k])
        await made[k][1].ended

    begin_s = time.process_time()
    await in_turn(one, STREAMS)
    cpu_s = time.process_time() - begin_s
    stamps: Stamps = {}
    for k, (transport, protocol) in enumerate(made):
        tokens = [t_ns for t_ns, data in protocol.reads for _ in range(data.count(b'"content":"'))]
        stamps[request_uuid(SALT, k)] = tokens
        transport.abort()
    return cpu_s, stamps


async def aiohttp_lines(port: int) -> tuple[float, Stamps]:
    """CPU seconds and stamps, as most clients take them. On a machine too busy for it, it loses streams."""
    stamps: Stamps = {}
    url = f"http://127.0.0.1:{port}/v1/chat/completions"
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

        async def one(k: int) -> None:
            times = stamps[request_uuid(SALT, k)] = []
            body = bare_request(k, TOKENS).partition(b"\r\n\r\n")[2]
            headers = {"x-request-id": request_uuid(SALT, k)}
            with suppress(aiohttp.ClientError):
                async with session.post(url, data=body, headers=headers) as reply:
                    async for line in reply.content:
                        if line.startswith(b"data: {"):
                            choices = json.loads(line[6:])["choices"]
                            if choices and choices[0]["delta"].get("content"):
                                times.append(time.perf_counter_ns())

        begin_s = time.process_time()
        await in_turn(one, STREAMS)
        return time.process_time() - begin_s, stamps


def errors_us(stamps: Stamps, truth: dict[str, Truth]) -> tuple[list[float], list[float]]:
    """Of every token, and of first tokens alone."""
    every: list[float] = []
    first: list[float] = []
    for name, times_ns in stamps.items():
        written_ns = truth[name].written_ns
        assert len(times_ns) == len(written_ns) == TOKENS, (name, len(times_ns), len(written_ns))
        errors = [(stamp - write) / 1e3 for stamp, write in zip(times_ns, written_ns, strict=True)]
        every += errors
        first.append(errors[0])
    return every, first


CLIENTS: dict[str, Callable[[int], Awaitable[tuple[float, Stamps]]] | None] = {
    "": None, "_bare": bare, "_aiohttp_lines": aiohttp_lines,
}  # fmt: skip


def one_round(binary: str, folder: Path) -> dict[str, float]:
    """All three clients, one after another."""
    figures: dict[str, float] = {}
    for name, client in CLIENTS.items():
        log = folder / "truth.bin"
        with mock_server(binary, log, "--itl-us", str(ITL_US), "--ttft-us", str(ITL_US)) as port:
            gc.collect()
            gc.freeze()
            gc.disable()
            if client is None:
                cpu_s, replies = uvloop.run(ours(port, STREAMS, TOKENS))
                stamps = {request_uuid(SALT, reply.request_id): reply.event_t_ns.tolist() for reply in replies}
                assert {reply.status for reply in replies} == {Status.OK}
                figures["bytes_per_token"] = bytes_per_token(replies)
            else:
                cpu_s, stamps = uvloop.run(client(port))
            gc.enable()
            gc.unfreeze()
        figures[f"cpu_us_per_event{name}"] = cpu_s * 1e6 / sum(map(len, stamps.values()))
        if client is aiohttp_lines:
            continue
        every, first = errors_us(stamps, read_truth(log))
        figures[f"token_error_us_p50{name}"], figures[f"token_error_us_p99{name}"] = np.percentile(every, (50, 99))
        figures[f"ttft_error_us_p50{name}"], figures[f"ttft_error_us_p99{name}"] = np.percentile(first, (50, 99))
    return figures


def bytes_per_token(replies: list[Reply]) -> float:
    """Of what is kept for each token."""
    kept = sum(sys.getsizeof(reply.event_t_ns) + sys.getsizeof(reply.text) for reply in replies)
    kept += sum(sys.getsizeof(reply.event_tokens) for reply in replies if reply.event_tokens is not None)
    return kept / sum(len(reply.event_t_ns) for reply in replies)


def streams_lost(binary: str, folder: Path) -> int:
    """Of many in flight at once."""
    with mock_server(binary, folder / "many.bin", "--itl-us", str(MANY_ITL_US), "--ttft-us", "3000000") as port:
        _, replies = uvloop.run(ours(port, MANY_STREAMS, MANY_TOKENS))
    text = "".join(f" {token}" for token in range(MANY_TOKENS))
    return sum(reply.status != Status.OK or reply.text != text for reply in replies)


class GoOn:
    """A control that never interferes."""

    timeout_ns: int | None = None
    drain_ns: int | None = None
    max_requests: int | None = None

    def __call__(self, now_ns: int, newest: RecordingPart | None) -> Decision:
        """Go on."""
        return Decision.GO

    def ended(self, reply: Reply, now_ns: int) -> None:
        """Nothing to do."""


async def play(port: int) -> tuple[float, float]:
    """Poisson arrivals through the driver: p99 of the lateness of sends in ms, achieved over asked rate."""
    schedule = make_schedule(
        due_times_ns("poisson", RATE_REQUESTS, RATE_RPS, 7),
        np.full(RATE_REQUESTS, 32, dtype=np.int64),
        np.full(RATE_REQUESTS, 4, dtype=np.int64),
    )
    requests = planned_requests(schedule, False)
    target = HttpTarget(
        parse_endpoint(f"http://127.0.0.1:{port}/v1"), OpenAiChat(), BodyOptions("mock"), Limits(),
        PoolOptions(prewarm=64), SALT,
    )  # fmt: skip
    await target.open(requests)
    recording = await play_target(schedule, target, requests, lambda part: None, GoOn())
    await target.close()
    sent_ns, due_ns = recording.requests["handed_ns"].astype(np.int64), schedule.due_ns
    assert (recording.requests["status"] == Status.OK).all()
    achieved = (due_ns[-1] - due_ns[0]) / (sent_ns.max() - sent_ns.min())
    return float(np.percentile((sent_ns - due_ns) / 1e6, 99)), float(achieved)


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--mock", required=True, help="the server's binary")
    binary = str(Path(parser.parse_args().mock).resolve())
    cores = os.sched_getaffinity(0)
    if len(cores) > 1:
        os.sched_setaffinity(0, cores - {LAST_CORE})
    with tempfile.TemporaryDirectory() as folder:
        rounds = [one_round(binary, Path(folder)) for _ in range(ROUNDS)]
        figures: dict[str, Any] = {name: statistics.median(one[name] for one in rounds) for name in rounds[0]}
        with mock_server(binary, Path(folder) / "rate.bin", "--itl-us", "5000", "--ttft-us", "5000") as port:
            figures["lateness_ms_p99"], figures["achieved_over_asked"] = uvloop.run(play(port))
        figures["streams_lost"] = streams_lost(binary, Path(folder))
    figures = {name: round(float(value), 4) for name, value in figures.items()}
    print(json.dumps({**figures, "rounds": ROUNDS, "streams": STREAMS, "events_per_s": STREAMS * 1e6 / ITL_US}))


if __name__ == "__main__":
    main()
