"""Several client processes that share one schedule: started together, steered together, merged into one recording."""

import asyncio
import json
import sys
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from loadgen.config import RunConfig, to_json
from loadgen.drive import CONTROL_EVERY_NS, Decision
from loadgen.shards import shard
from loadgen.steering import Steering
from results.recording import Recording, merge
from results.recovery import read_parts
from results.schedule import Schedule
from results.status import Status

COMMON_START_NS = 250_000_000
"""From the last process being ready to time 0."""
READY_S = 60.0
Json = dict[str, Any]


class Client(Protocol):
    """This end of one process that plays a shard, wherever it runs."""

    rank: int
    ended_requests: int
    result: Json | None
    """What it said at its end; None: it has not, or was lost."""

    async def start(self, setup: Json) -> None:
        """Until it is ready. ValueError with its own reason when it cannot be."""

    async def listen(self) -> None:
        """Until it has ended, by itself or not."""

    def say(self, document: Json) -> None:
        """Tell it something; nothing when it is gone."""

    def kill(self) -> None:
        """Leave nothing behind."""


async def play_processes(
    config: RunConfig,
    schedule: Schedule,
    folder: Path,
    control: Steering,
    model: str,
    begin: Callable[[int], None],
    clients: Sequence[Client] | None = None,
) -> Recording:
    """One process a shard, on this machine unless `clients` says where. `begin`: told the common time 0.

    A process that is lost leaves its rows and `worker_lost`. ValueError when one cannot start.
    """
    if clients is None:
        clients = [_Client(rank) for rank in range(config.processes)]
    try:
        await _unless_stopped(start_clients(clients, config, folder, model, control.drain_ns), control)
        return await play_started(clients, schedule, folder, control, begin)
    finally:
        for client in clients:
            client.kill()


async def _unless_stopped(starting: Coroutine[Any, Any, None], control: Steering) -> None:
    """To the end of the work. KeyboardInterrupt when somebody has stopped the run by then: there is nothing yet."""
    task = asyncio.create_task(starting)
    try:
        while not task.done():
            await asyncio.wait([task], timeout=CONTROL_EVERY_NS / 1e9)
            if not task.done() and control.decision is not Decision.GO:
                raise KeyboardInterrupt
    finally:
        task.cancel()
    await task


async def start_clients(
    clients: Sequence[Client], config: RunConfig, folder: Path, model: str, drain_ns: int | None
) -> None:
    """Until all are ready. ValueError when one cannot be."""
    setup = {"config": to_json(config), "folder": str(folder), "shards": len(clients), "model": model,
             "drain_ns": drain_ns}  # fmt: skip
    await asyncio.gather(*(client.start(setup) for client in clients))


async def play_started(
    clients: Sequence[Client], schedule: Schedule, folder: Path, control: Steering, begin: Callable[[int], None]
) -> Recording:
    """From a common time 0 to the end of all, and their rows merged."""
    origin_ns = time.perf_counter_ns() + COMMON_START_NS
    begin(origin_ns)
    for client in clients:
        client.say({"origin_ns": origin_ns})
    await _steer(clients, control, origin_ns)
    recording = merge(schedule, [read_parts(folder / "parts")])
    for client in clients:
        if client.result is None:
            _mark_lost(recording, shard(schedule, client.rank, len(clients)))
    stops = [client.result["stopped_ns"] for client in clients if client.result and client.result["stopped_ns"]]
    return replace(recording, stopped_ns=min(stops) if stops else None)


async def _steer(clients: Sequence[Client], control: Steering, origin_ns: int) -> None:
    """Pass the control's decisions on until every process has ended."""
    listening = [asyncio.create_task(client.listen()) for client in clients]
    told = Decision.GO
    while not all(task.done() for task in listening):
        await asyncio.wait(listening, timeout=CONTROL_EVERY_NS / 1e9)
        control.count_ended(sum(client.ended_requests for client in clients))
        decision = control(time.perf_counter_ns() - origin_ns, None)
        for client in clients:
            if client.result is not None and client.result["reason"]:
                control.stop_early(client.result["reason"])
        if decision is not told:
            told = decision
            for client in clients:
                client.say({"decision": decision.value})
    for task in listening:
        task.result()
    errors = [client.result["error"] for client in clients if client.result and client.result["error"]]
    if errors:
        raise OSError(f"{errors[0]}: what was written can be read")


def _mark_lost(recording: Recording, ids: Any) -> None:
    status = recording.requests["status"]
    lost = np.zeros(len(status), dtype=np.bool_)
    lost[ids] = True
    status[lost & (status == Status.NOT_DISPATCHED)] = np.int64(Status.WORKER_LOST)


class _Client:
    """The parent's end of one process."""

    def __init__(self, rank: int) -> None:
        self.rank = rank
        self.ended_requests = 0
        self.result: Json | None = None
        """What it said at its end; None: it has not, or was lost."""
        self._process: asyncio.subprocess.Process | None = None

    async def start(self, setup: Json) -> None:
        """Until it is ready. ValueError with its own reason when it cannot be."""
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "loadgen.client_process",
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
        self.say({**setup, "rank": self.rank})
        try:
            told = await asyncio.wait_for(self._line(), READY_S)
        except TimeoutError:
            told = {"failed": f"it was not ready within {READY_S:g} s: ask for fewer --processes"}
        if told is None or "ready" not in told:
            reason = (told or {}).get("failed", "it ended before it was ready")
            raise ValueError(f"client process {self.rank + 1} cannot run: {reason}")

    async def listen(self) -> None:
        """Until it has ended, by itself or not."""
        while (told := await self._line()) is not None:
            self.ended_requests = told.get("ended", self.ended_requests)
            if "done" in told:
                self.result = told

    def say(self, document: Json) -> None:
        """One line to it; nothing when it is gone."""
        process = self._process
        if process is not None and process.stdin is not None:
            with suppress(OSError, RuntimeError):
                process.stdin.write(json.dumps(document).encode() + b"\n")

    def kill(self) -> None:
        """Leave nothing behind."""
        if self._process is not None and self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.kill()

    async def _line(self) -> Json | None:
        process = self._process
        line = await process.stdout.readline() if process is not None and process.stdout is not None else b""
        found: Json | None = json.loads(line) if line.strip() else None
        return found
