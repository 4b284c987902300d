"""One of several client processes: plays its shard of a schedule with the same driver as a run of one process.

Told what to do in lines of JSON on stdin, tells how it goes in lines of JSON on stdout, and writes its rows into
the run's folder itself. When whoever started it is gone it aborts and ends.
"""

import asyncio
import json
import signal
import sys
import threading
from pathlib import Path
from typing import Any

from loadgen.config import from_texts
from loadgen.drive import Decision
from loadgen.shards import shard
from loadgen.steering import Emit, Steering
from loadgen.target_player import TargetPlayer
from results.schedule import load_schedule
from results.store import PartWriter

Json = dict[str, Any]


def main() -> None:
    """Until its requests have ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent says when to stop
    told = json.loads(sys.stdin.readline())
    folder, rank = Path(told["folder"]), int(told["rank"])
    config = from_texts(told["config"])
    schedule = load_schedule(folder / "schedule.parquet")
    mine = shard(schedule, rank, int(told["shards"]))
    player = TargetPlayer(config, schedule, model=told["model"], mine=mine)
    player.open()
    control = Steering(config, _Progress(), told["drain_ns"])
    _say({"ready": True})
    origin_ns = int(json.loads(sys.stdin.readline())["origin_ns"])
    threading.Thread(target=_listen, args=(control,), daemon=True).start()
    with PartWriter(folder / "parts", rank) as writer:
        emit = Emit(writer.write, control)
        recording = player.play(folder, emit, control, origin_ns=origin_ns)
    player.close()
    error = None if emit.error is None else emit.error.strerror
    _say({"done": True, "stopped_ns": recording.stopped_ns, "reason": control.reason, "error": error})


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
    sys.stdout.write(json.dumps(document) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    try:
        main()
    except (ValueError, OSError) as error:
        _say({"failed": " ".join(str(error).split())})
    except asyncio.CancelledError:
        _say({"failed": "cancelled"})
