"""A server from its start to its end: binds, says where, serves until told to stop, drains."""

import asyncio
import contextlib
import gc
import logging
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiohttp import web

from engines.engine import Engine
from results.store import write_json
from targets.serve.app import Server
from targets.serve.ask import Served
from targets.serve.exposition import Exposition
from targets.serve.journal import Journal, JournalFile
from targets.serve.stepper import Stepper
from targets.serve.tally import Tally
from targets.serve.under_way import UnderWay

BACKLOG = 4096
RECORD_EVERY_S = 1.0
JOIN_S = 1.0
CLOSE_S = 1.0
"""For connections to close once every request has been answered."""


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """How a server is run."""

    address: tuple[str, int] = ("127.0.0.1", 0)
    """Host and port; port 0: any that is free."""
    served_model: str | None = None
    """None: the executor's name."""
    most_waiting_requests: int = 4096
    drain_s: float = 30.0
    record: Path | None = None
    """Folder for the step records."""


@dataclass(frozen=True, slots=True)
class Serving:
    """A server that is up."""

    url: str
    under_way: UnderWay
    stepper: Stepper


@contextlib.asynccontextmanager
async def serving(engine: Engine, options: ServeOptions) -> AsyncIterator[Serving]:
    """Up inside the block. ValueError, in one line, when the address cannot be had."""
    told = engine.describe()
    served = _served(told, options.served_model)
    tally, journal = Tally(), Journal()
    under_way = UnderWay(asyncio.get_running_loop(), options.most_waiting_requests)
    stepper = Stepper(engine, under_way.post, tally, journal)
    under_way.attach(stepper)
    exposition = Exposition(tally, served.model, _whole(told, "slots"), _kv_limit_tokens(told))
    app = Server(served, told, under_way, exposition, journal, int(time.time())).application()
    runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=CLOSE_S)
    async with _recorded(journal, told, options.record):
        await runner.setup()
        try:
            url = await _bind(runner, options.address)
            stepper.start()
            yield Serving(url, under_way, stepper)
        finally:
            await runner.cleanup()
            stepper.join(JOIN_S)


def serve(engine: Engine, options: ServeOptions, announce: Callable[[str], None]) -> str | None:
    """Serve until SIGTERM or SIGINT, then drain; a second one ends at once. So does an engine that fails: why, is
    returned.

    `announce` is told the server's address as soon as it answers.
    """
    logging.getLogger("aiohttp").setLevel(logging.CRITICAL)  # a client's broken bytes are its own affair
    gc.collect()
    gc.freeze()
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(_serve(engine, options, announce))


async def _serve(engine: Engine, options: ServeOptions, announce: Callable[[str], None]) -> str | None:
    signals: asyncio.Queue[int] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, signals.put_nowait, number)
    async with serving(engine, options) as server:
        announce(server.url)
        await _first(signals.get(), server.under_way.engine_failed.wait())
        await _first(signals.get(), server.under_way.drain(), timeout_s=options.drain_s)
        await _first(server.under_way.give_up(), timeout_s=CLOSE_S)
    return server.stepper.failure


async def _first(*ends: Coroutine[Any, Any, Any], timeout_s: float | None = None) -> None:
    """Wait for one of them, or so long; the others are called off."""
    tasks = [asyncio.ensure_future(end) for end in ends]
    await asyncio.wait(tasks, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    """uvloop where there is one."""
    if sys.platform == "win32":
        return asyncio.new_event_loop
    import uvloop

    return uvloop.new_event_loop


async def _bind(runner: web.AppRunner, address: tuple[str, int]) -> str:
    host, port = address
    try:
        await web.TCPSite(runner, host, port, backlog=BACKLOG).start()
    except OSError as error:
        reason = error.strerror or error
        raise ValueError(f"--host {host} --port {port} cannot be had: {reason}; choose another, or --port 0") from None
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{runner.addresses[0][1]}"


@contextlib.asynccontextmanager
async def _recorded(journal: Journal, told: Any, folder: Path | None) -> AsyncIterator[None]:
    """Inside the block, the journal is appended to the folder each second; what engine it is stands beside it."""
    if folder is None:
        yield
        return
    file = JournalFile(journal, folder)
    zero = {"wall_utc_ns": time.time_ns(), "monotonic_ns": time.monotonic_ns()}
    write_json(folder / "serve.json", {"engine": told, "clock": "CLOCK_MONOTONIC", "same_moment": zero})
    over = asyncio.Event()
    recording = asyncio.ensure_future(_append_each_second(file, over))
    try:
        yield
    finally:
        over.set()
        await recording
        _or_say(file.close)


async def _append_each_second(file: JournalFile, over: asyncio.Event) -> None:
    while not over.is_set() and await asyncio.to_thread(_or_say, file.append):
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(over.wait(), RECORD_EVERY_S)


def _or_say(write: Callable[[], None]) -> bool:
    """Whether it could be written; a disk that refuses does not end the serving."""
    try:
        write()
    except OSError as error:
        print(f"--record: no more steps are recorded: {error.strerror or error}", file=sys.stderr, flush=True)
        return False
    return True


def _served(told: Any, name: str | None) -> Served:
    executor = told.get("executor")
    facts = {**executor, **told} if isinstance(executor, dict) else dict(told)
    model = name or (executor.get("name") if isinstance(executor, dict) else None) or told.get("policy") or "engine"
    return Served(
        str(model), _whole(facts, "context_tokens"), _whole(facts, "vocabulary"), _whole(facts, "eos_token_id")
    )


def _whole(facts: Any, name: str) -> int | None:
    value = facts.get(name)
    return value if isinstance(value, int) else None


def _kv_limit_tokens(told: Any) -> int | None:
    """A place for the whole context in every slot is how the transformer keeps its cache."""
    slots, context_tokens = _whole(told, "slots"), _whole(told, "context_tokens")
    return slots * context_tokens if slots and context_tokens else None
