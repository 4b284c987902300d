"""The conductor's end of a player elsewhere: ready with the right share, or not at all; ended, or lost."""

import asyncio
from typing import Any

import pytest

from loadgen.locust.remote_client import RemoteClient
from loadgen.shards import shard, shard_sha256
from results.schedule import Schedule, make_schedule

CLOCK: dict[str, Any] = {"clock": {"offset_ns": 5, "uncertainty_ns": 9}}
SETUP = {"config": {}, "folder": "f", "shards": 2, "model": "m", "drain_ns": None}
Json = dict[str, Any]


def schedule() -> Schedule:
    """Of five requests."""
    return make_schedule([0, 1, 2, 3, 4], [5] * 5, [2] * 5)


def ready(of: Schedule, rank: int, shards: int = 2) -> Json:
    """What a player says that has its share."""
    return {"ready": True, "shard_sha256": shard_sha256(of, shard(of, rank, shards)), "warmup": None, "found": {}}


def started(*lines: Json, rank: int = 1, patience_s: float = 30.0) -> tuple[RemoteClient, list[Json]]:
    """A client of two that has heard these lines when it asked to start, and what it told.

    TimeoutError when it still waits after so long.
    """
    told: list[Json] = []
    client = RemoteClient(rank, told.append)
    client.expects(schedule(), 2)

    async def start() -> None:
        task = asyncio.create_task(client.start(SETUP))
        await asyncio.sleep(0)
        for line in lines:
            client.heard(line)
        await asyncio.wait_for(task, patience_s)

    asyncio.run(start())
    return client, told


def test_it_passes_on_what_the_player_is_to_do() -> None:
    """The setup, with the rank; nothing else before it is ready."""
    _, told = started(ready(schedule(), 1), CLOCK)
    assert told == [{"rank": 1, "start": {**SETUP, "rank": 1}}]


@pytest.mark.parametrize("lines", [[CLOCK, ready(schedule(), 1)], [ready(schedule(), 1), CLOCK]], ids=["first", "last"])
def test_it_is_not_ready_before_its_clock_is_known(lines: list[Json]) -> None:
    """Whichever comes first: time 0 is told in its clock. What the master measured is kept."""
    client, _ = started(*lines)
    assert client.clock == CLOCK["clock"]
    with pytest.raises(TimeoutError):
        started(*(line for line in lines if line is not CLOCK), patience_s=0.05)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (ready(schedule(), 0), "other requests"),
        (ready(schedule(), 1, 3), "other requests"),
        (ready(make_schedule([0, 1, 2, 3, 5], [5] * 5, [2] * 5), 1), "other requests"),
        ({"failed": "no such API"}, "no such API"),
        ({"lost": True}, "lost before it was ready"),
    ],
)
def test_a_worker_that_cannot_play_its_share_is_told_by_number(line: Json, told: str) -> None:
    """Another rank, another number of shards, another schedule, a failure, a loss: one line, and no run."""
    with pytest.raises(ValueError, match=f"worker 2 .*{told}"):
        started(line, CLOCK)


@pytest.mark.parametrize(
    ("last", "result"), [({"done": True, "stopped_ns": None}, True), ({"lost": True}, False), ({"failed": "x"}, False)]
)
def test_it_listens_until_the_player_has_ended(last: Json, result: bool) -> None:
    """Counts on the way; a result only of one that ended by itself."""
    client = RemoteClient(0, lambda document: None)
    client.expects(schedule(), 2)

    async def play() -> None:
        task = asyncio.create_task(client.start(SETUP))
        await asyncio.sleep(0)
        client.heard(ready(schedule(), 0))
        client.heard(CLOCK)
        await task
        listening = asyncio.create_task(client.listen())
        client.heard({"ended": 3})
        client.heard(last)
        await listening

    asyncio.run(play())
    assert client.ended_requests == 3
    assert (client.result is not None) is result
