"""What a run is steered by: how long the rest may take."""

import pytest

from loadgen.config import from_texts
from loadgen.steering import Steering
from results.columns import NULL, Table, int64
from results.recording import PART_TABLES, RecordingPart, empty_part

S = 10**9


def part_of(*took_ns: int) -> RecordingPart:
    """Requests due at 1 s that took so long; a row without an end beside them."""
    rows = len(took_ns) + 1
    columns: Table = {name: int64([0] * rows) for name in PART_TABLES["requests"]}
    ends = int64([*(S + one for one in took_ns), NULL])
    columns.update(request_id=int64(range(rows)), due_ns=int64([S] * rows), end_ns=ends)
    return RecordingPart({**empty_part().tables, "requests": columns})


def steering(drain_ns: int | None, **texts: str) -> Steering:
    """From options, with the drain that the player would give."""
    return Steering(from_texts({"rate": "1", **texts}), lambda ended_requests: None, drain_ns)


def test_a_slow_server_is_given_time_to_finish() -> None:
    """At least the usual time, and five times what 99 % of the requests so far took, as they come in."""
    control = steering(60 * S)
    control.count(part_of(*[S] * 500))
    assert control.drain_ns == 60 * S
    control.count(part_of(*[20 * S] * 500))
    assert control.drain_ns == 100 * S
    control.count(part_of(*[S] * 99_000, 500 * S))
    assert control.drain_ns == 60 * S


@pytest.mark.parametrize(("drain_ns", "texts"), [(7 * S, {"drain": "7s"}), (None, {})])
def test_a_limit_that_was_asked_for_stays(drain_ns: int | None, texts: dict[str, str]) -> None:
    """By --drain, and where there is none."""
    control = steering(drain_ns, **texts)
    control.count(part_of(*[20 * S] * 500))
    assert control.drain_ns == drain_ns
