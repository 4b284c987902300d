"""One of several client processes: plays its shard of a schedule with the same driver as a run of one process.

Told what to do in lines of JSON on stdin, tells how it goes in lines of JSON on stdout, and writes its rows into
the run's folder itself; or, where that is on another machine, into files that somebody else ships. When whoever
started it is gone it aborts and ends.
"""

import asyncio
import json
import os
import signal
import sys
import threading
import time
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

from loadgen.config import RunConfig, from_texts
from loadgen.drive import Decision
from loadgen.part_files import PartFiles
from loadgen.player import EnginePlayer
from loadgen.shards import shard, shard_sha256
from loadgen.steering import Emit, Steering
from loadgen.target_player import TargetPlayer
from results.columns import Int64
from results.recording import Recording
from results.schedule import Schedule, load_schedule
from results.store import PartWriter

Json = dict[str, Any]
_telling = threading.Lock()


def main() -> None:
    """Until its requests have ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent says when to stop
    told = json.loads(sys.stdin.readline())
    folder, rank = Path(told["folder"]), int(told["rank"])
    config = from_texts(told["config"])
    schedule = load_schedule(folder / "schedule.parquet")
    mine = shard(schedule, rank, int(told["shards"]))
    player = _player(config, schedule, told, mine)
    player.open()
    warmed = player.warm_up(folder) if isinstance(player, EnginePlayer) else None
    control = Steering(config, _Progress(), told["drain_ns"])
    warmup = None if warmed is None else {name: values.tolist() for name, values in warmed.items()}
    found = dict(player.found()) if isinstance(player, EnginePlayer) else {}
    _say({"ready": True, "shard_sha256": shard_sha256(schedule, mine), "warmup": warmup, "found": found})
    origin_ns = int(json.loads(sys.stdin.readline())["origin_ns"])
    threading.Thread(target=_listen, args=(control,), daemon=True).start()
    with _writer(told, folder, rank) as writer:
        emit = Emit(writer.write, control)
        recording = _play(player, folder, emit, control, origin_ns)
    player.close()
    error = None if emit.error is None else emit.error.strerror
    _say({"done": True, "stopped_ns": recording.stopped_ns, "reason": control.reason, "error": error})


def _player(config: RunConfig, schedule: Schedule, told: Json, mine: Int64) -> TargetPlayer | EnginePlayer:
    if config.target is None:
        return EnginePlayer(config, schedule)
    return TargetPlayer(config, schedule, model=told["model"], mine=mine, worker_id=int(told["rank"]))


def _play(
    player: TargetPlayer | EnginePlayer, folder: Path, emit: Emit, control: Steering, origin_ns: int
) -> Recording:
    if isinstance(player, TargetPlayer):
        return player.play(folder, emit, control, origin_ns=origin_ns)
    time.sleep(max(0.0, (origin_ns - time.perf_counter_ns()) / 1e9))
    return player.play(folder, emit, control)


def _writer(told: Json, folder: Path, rank: int) -> Any:
    """Into the run's folder; or into files, each told of as it is there."""
    if told.get("ships"):
        return nullcontext(PartFiles(folder / "parts", lambda number: _say({"part": number})))
    return PartWriter(folder / "parts", rank)


class _Progress:
    """Tells the parent how many have ended, when that has changed."""

    def __init__(self) -> None:
        self._told_requests = 0

    def __call__(self, ended_requests: int) -> None:
        if ended_requests != self._told_requests:
            self._told_requests = ended_requests
            _say({"ended": ended_requests})


def _listen(control: Steering) -> None:
    """Decisions of the parent; its silence is an order to give up."""
    for line in sys.stdin:
        control.decision = Decision(json.loads(line)["decision"])
    control.decision = Decision.CANCEL


def _say(document: Json) -> None:
    """One line, whole. Nobody there any more to hear it is no reason to lose rows."""
    with _telling, suppress(BrokenPipeError):
        os.write(sys.stdout.fileno(), json.dumps(document).encode() + b"\n")


if __name__ == "__main__":
    try:
        main()
    except (ValueError, OSError) as error:
        _say({"failed": " ".join(str(error).split())})
    except asyncio.CancelledError:
        _say({"failed": "cancelled"})
