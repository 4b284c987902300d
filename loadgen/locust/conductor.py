"""The conductor: one run under locust, from a config to a run folder, in a process that locust has not patched.

It is a session as any other, but its client processes are elsewhere: it tells in lines of JSON on stdout what each
of them is to hear, and hears on stdin what they say. Their rows come into the folder's parts by the process that
started it. SIGINT stops the run, and once more aborts it. When whoever started it is gone it leaves the folder as it
is: what was written can be read, and what is still in some worker's files can be added.
"""

import asyncio
import json
import os
import signal
import sys
import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from loadgen.cli.exit_codes import Exit, exit_code
from loadgen.client_processes import play_started, start_clients
from loadgen.config import RunConfig, from_texts
from loadgen.locust.remote_client import RemoteClient
from loadgen.locust.watching import ServerFigures, Watcher
from loadgen.player import Emit, EnginePlayer, Player
from loadgen.session import Outcome, Prepared, execute
from loadgen.steering import Steering
from loadgen.workload import build_schedule
from results.columns import Table
from results.recording import Recording
from results.report import write_report
from results.schedule import Schedule

Json = dict[str, Any]


def main() -> None:
    """One run."""
    told = json.loads(sys.stdin.readline())
    config, clients = _config(told), [RemoteClient(rank, say) for rank in range(int(told["shards"]))]
    schedule = build_schedule(config)
    for client in clients:
        client.expects(schedule, len(clients))
    player = _player(config, schedule, clients)
    threading.Thread(target=_hear, args=(clients,), daemon=True).start()
    outcome = execute(Prepared(config, schedule, player), lambda ended_requests: None)
    try:
        write_report(outcome.folder)
    finally:  # whatever becomes of the page: the rows are written, and it can be built again
        say({"outcome": _told(outcome)})


def _config(told: Json) -> RunConfig:
    """A server's load is shared; an engine in a process has one player."""
    config, shards = from_texts(told["config"]), int(told["shards"])
    if config.target is None and shards > 1:
        raise ValueError(
            f"an engine in a process cannot be shared by {shards} workers: connect one, or `tokenload serve` it "
            "and give --target"
        )
    return config if config.target is None else replace(config, processes=shards)


def _player(config: RunConfig, schedule: Schedule, clients: list[RemoteClient]) -> Player:
    if config.target is None:
        return WithWorkers(ConductedEngine(config, schedule, clients[0]), clients)
    from loadgen.target_player import TargetPlayer

    return WithWorkers(WatchedTarget(config, TargetPlayer(config, schedule, clients=clients)), clients)


class WithWorkers:
    """A player that is elsewhere, and what is known of the workers beside what it found."""

    def __init__(self, player: Player, clients: list[RemoteClient]) -> None:
        """`clients`: one a worker."""
        self.target, self.drain_ns = player.target, player.drain_ns
        self.describe, self.open, self.warm_up = player.describe, player.open, player.warm_up
        self.play, self.close = player.play, player.close
        self._player = player
        self._clients = clients

    def found(self) -> Mapping[str, Any]:
        """With each worker's clock: its offset, how far that may be off, and its drift where it has one."""
        workers = [{"rank": client.rank, "clock": client.clock} for client in self._clients]
        return {**self._player.found(), "workers": workers}


class WatchedTarget:
    """A server; what it tells of itself while the run lasts is told on."""

    def __init__(self, config: RunConfig, player: Player) -> None:
        """`player`: of the server."""
        self.target, self.drain_ns = player.target, player.drain_ns
        self.describe, self.open, self.warm_up = player.describe, player.open, player.warm_up
        self.found, self.close = player.found, player.close
        self._player = player
        self._slots = config.slots

    def play(self, folder: Path, emit: Emit, control: Steering) -> Recording:
        """As the player does."""
        watcher = Watcher(ServerFigures(folder / "parts", self._slots), lambda told: say({"server": told}))
        try:
            return self._player.play(folder, emit, control)
        finally:
            watcher.stop()


class ConductedEngine:
    """An engine in a process elsewhere; here it is only made, to be described."""

    def __init__(self, config: RunConfig, schedule: Schedule, client: RemoteClient) -> None:
        """ValueError in one line when the engine cannot be made."""
        made = EnginePlayer(config, schedule)
        self.target = made.target
        self.drain_ns = made.drain_ns
        self._told = dict(made.describe())
        self._config = config
        self._schedule = schedule
        self._client = client
        self._runner = asyncio.Runner()

    def describe(self) -> Mapping[str, Any]:
        """As the engine does."""
        return self._told

    def open(self) -> None:
        """Nothing to open."""

    def warm_up(self, folder: Path) -> Table | None:
        """Its process starts, makes the engine and warms it up."""
        self._runner.run(start_clients([self._client], self._config, folder, "", self._config.drain_ns))
        told = self._client.warmup
        return None if told is None else {name: np.array(values, dtype=np.int64) for name, values in told.items()}

    def play(self, folder: Path, emit: Emit, control: Steering) -> Recording:
        """There."""
        return self._runner.run(
            play_started([self._client], self._schedule, folder, control, lambda origin_ns: None)
        )

    def found(self) -> Mapping[str, Any]:
        """What its process found out."""
        return self._client.found

    def close(self) -> None:
        """The process ends by itself or is told."""
        self._client.kill()
        self._runner.close()


def _told(outcome: Outcome) -> Json:
    code = exit_code([outcome.summary], [outcome.verdict], outcome.stopped)
    return {
        "folder": str(outcome.folder),
        "summary": outcome.summary,
        "verdict": outcome.verdict,
        "stopped": outcome.stopped,
        "exit_code": int(code),
    }


def _hear(clients: list[RemoteClient]) -> None:
    """What the clients say; silence for ever is the end of this process."""
    for line in sys.stdin:
        told = json.loads(line)
        clients[int(told["rank"])].heard(told["line"])
    os._exit(Exit.INTERRUPTED)


def say(document: Json) -> None:
    """One line, whole."""
    os.write(sys.stdout.fileno(), json.dumps(document, default=str).encode() + b"\n")


def _failed(reason: str, code: Exit) -> None:
    say({"failed": " ".join(reason.split()), "exit_code": int(code)})


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # its parent hears that too, and says when to stop
    try:
        main()
    except KeyboardInterrupt:
        _failed("interrupted before there was anything to write", Exit.INTERRUPTED)
    except (MemoryError, OverflowError) as error:
        _failed(f"too large for this machine: {error}", Exit.USAGE)
    except (ValueError, OSError) as error:
        _failed(str(error) or type(error).__name__, Exit.USAGE)
