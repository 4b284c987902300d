"""Shards: every request in exactly one, and nobody apart from those it waits for."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from loadgen.config import from_texts
from loadgen.shards import shard
from loadgen.workload import build_schedule
from results.schedule import Schedule, make_schedule


def schedule_of(waits: list[list[int]]) -> Schedule:
    """Requests that wait for the given ones; the others are due at 0."""
    rows = len(waits)
    from results.columns import NULL

    due_ns = [NULL if after else 0 for after in waits]
    think_ns = [0 if after else NULL for after in waits]
    return make_schedule(due_ns, [1] * rows, [1] * rows, after=waits, think_ns=think_ns)


@st.composite
def graphs(draw: st.DrawFn) -> list[list[int]]:
    """Any way of waiting for earlier requests."""
    rows = draw(st.integers(1, 30))
    return [draw(st.lists(st.integers(0, max(at - 1, 0)), max_size=2, unique=True)) if at else [] for at in range(rows)]


@given(graphs(), st.integers(1, 5))
def test_each_request_is_in_one_shard_with_those_it_waits_for(waits: list[list[int]], shards: int) -> None:
    """The shards are a partition, and no wait crosses it."""
    parts = [shard(schedule_of(waits), rank, shards).tolist() for rank in range(shards)]
    assert sorted(request_id for part in parts for request_id in part) == list(range(len(waits)))
    for part in parts:
        assert part == sorted(part)
        for request_id in part:
            assert set(waits[request_id]) <= set(part)


def test_requests_without_followers_are_dealt_out_in_turn() -> None:
    """Request i goes to shard i mod N."""
    schedule = build_schedule(from_texts({"rate": "4", "requests": "11"}))
    assert [shard(schedule, rank, 3).tolist() for rank in range(3)] == [
        list(range(0, 11, 3)), list(range(1, 11, 3)), list(range(2, 11, 3)),
    ]  # fmt: skip


def test_users_of_a_closed_loop_are_dealt_out_in_turn() -> None:
    """User u and all its requests go to shard u mod N."""
    schedule = build_schedule(from_texts({"arrival": "closed", "users": "4", "requests": "20"}))
    assert np.all(schedule.session[shard(schedule, 1, 2)] % 2 == 1)
