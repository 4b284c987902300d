"""The conductor's end of a player that somebody else started, next to a locust worker."""

import asyncio
from collections.abc import Callable
from typing import Any

from loadgen.shards import shard, shard_sha256
from results.schedule import Schedule

READY_S = 60.0
Json = dict[str, Any]


class RemoteClient:
    """Says and hears through others."""

    def __init__(self, rank: int, say: Callable[[Json], None]) -> None:
        """`say`: passes on what it is to hear."""
        self.rank = rank
        self.ended_requests = 0
        self.result: Json | None = None
        """What it said at its end; None: it has not, or was lost."""
        self.warmup: dict[str, list[int]] | None = None
        self.found: Json = {}
        """What an engine there told of itself before time 0."""
        self.clock: Json = {}
        """Its clock against ours, as the master measured it."""
        self._say = say
        self._sha256 = ""
        self._heard: asyncio.Queue[Json] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_started = False

    def expects(self, schedule: Schedule, shards: int) -> None:
        """What its share must hash to."""
        self._sha256 = shard_sha256(schedule, shard(schedule, self.rank, shards))

    def heard(self, line: Json) -> None:
        """It has said something; may be called from any thread."""
        if self._loop is not None and self._heard is not None:
            self._loop.call_soon_threadsafe(self._heard.put_nowait, line)

    async def start(self, setup: Json) -> None:
        """Until it is ready. ValueError with its own reason when it cannot be."""
        self._loop, self._heard = asyncio.get_running_loop(), asyncio.Queue()
        self._is_started = True
        self._say({"rank": self.rank, "start": {**setup, "rank": self.rank}})
        try:
            told = await asyncio.wait_for(self._ready(self._heard), READY_S)
        except TimeoutError:
            raise ValueError(f"worker {self.rank + 1} was not ready within {READY_S:g} s") from None
        if "ready" not in told:
            reason = told.get("failed", "it was lost before it was ready")
            raise ValueError(f"worker {self.rank + 1} cannot run: {reason}")
        if told["shard_sha256"] != self._sha256:
            raise ValueError(f"worker {self.rank + 1} would send other requests than its share of the schedule")
        self.warmup, self.found = told["warmup"], told["found"]

    async def _ready(self, heard: "asyncio.Queue[Json]") -> Json:
        """What it says of itself; not before its clock is known, since time 0 is told in it."""
        told: Json = {}
        while not (told and self.clock) and not told.keys() & {"failed", "lost"}:
            line = await heard.get()
            if line.keys() == {"clock"}:
                self.clock = line["clock"]
            else:
                told = line
        return told

    async def listen(self) -> None:
        """Until it has ended, by itself or not."""
        while self._heard is not None:
            told = await self._heard.get()
            self.ended_requests = told.get("ended", self.ended_requests)
            self.clock = told.get("clock", self.clock)
            if "done" in told:
                self.result = told
            if "done" in told or "lost" in told or "failed" in told:
                return

    def say(self, document: Json) -> None:
        """One line to it."""
        self._say({"rank": self.rank, "line": document})

    def kill(self) -> None:
        """Leave nothing behind."""
        if self._is_started:
            self._say({"rank": self.rank, "kill": True})
