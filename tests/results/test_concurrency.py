"""Requests in flight from the rows, against a count at every moment; and the headline latencies by class and turn."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from results.concurrency import in_flight
from results.status import Status
from results.summary import summarise
from tests.results.streams import Stream, streamed

MS, S = 10**6, 10**9
FREE = {"ignore_eos": False}


@pytest.mark.parametrize(
    ("spans", "most", "mean"),
    [
        ([(0, 10), (5, 15)], 2, 1.0),
        ([(0, 10), (10, 20)], 1, 1.0),
        ([(0, 40), (1, 40), (2, 3)], 3, 2.0),
        ([(0, 0), (20, 20)], 0, 0.0),
        ([], 0, 0.0),
    ],
    ids=["overlap", "one after another", "beyond the window", "no time at all", "nobody"],
)
def test_in_flight_by_hand(spans: list[tuple[int, int]], most: int, mean: float) -> None:
    """Half-open from due to end, over a window of 20 ns."""
    recording = streamed(*[Stream((), due, 1, end_ns=end) for due, end in spans])
    found = in_flight(recording, "due_ns", (0, 20))
    assert found.most_requests == most
    assert found.mean_requests == pytest.approx(mean, abs=0.06)


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=8).map(sorted), st.integers(1, 40))
def test_the_sweep_is_a_count_at_every_moment(spans: list[tuple[int, int]], until: int) -> None:
    """Whatever rows there are."""
    recording = streamed(*[Stream((), due, 1, end_ns=due + took) for due, took in spans])
    counts = [sum(due <= t < due + took for due, took in spans) for t in range(until)]
    found = in_flight(recording, "due_ns", (0, until))
    assert found.mean_requests == pytest.approx(sum(counts) / until)
    assert found.most_requests == max([*counts, sum(due <= until < due + took for due, took in spans)])


def test_what_never_ended_never_leaves() -> None:
    """A request without an end is in flight to the window's end; one that was not sent never was."""
    recording = streamed(Stream((), 0, 1, Status.UNFINISHED), Stream((), 5, 1, None))
    recording.requests["end_ns"][0] = np.iinfo(np.int64).min
    found = in_flight(recording, "due_ns", (0, 10))
    assert (found.most_requests, found.mean_requests) == (1, 1.0)


def test_users_wait_longer_than_the_target_works() -> None:
    """From due, as users see it, and from hand-over, as the target does: a cap shows in the difference."""
    spans = [Stream([10 * (at + 1)], 0, handed_ns=10 * at) for at in range(3)]
    summary = summarise(streamed(*spans, Stream([40], 30)))["in_flight"]
    assert (summary["max"], summary["handed_max"]) == (3, 1)
    assert summary["mean"] == pytest.approx(60 / 30)
    assert summary["handed_mean"] == pytest.approx(30 / 30)


def test_classes_are_told_apart() -> None:
    """Each with its own figures; a run of one class has no split."""
    streams = [Stream([(10 + at) * MS], asked=1) for at in range(4)]
    summary = summarise(streamed(*streams, request_class=[0, 1, 1, 0], class_names=("chat", "code")))
    assert {name: split["requests"] for name, split in summary["by_class"].items()} == {"chat": 2, "code": 2}
    assert summary["by_class"]["chat"]["ttft_ms"]["max"] == 13
    assert summary["by_class"]["code"]["e2e_ms"]["mean"] == 11.5
    assert summarise(streamed(*streams))["by_class"] == {}


def test_turns_are_told_apart_up_to_the_tenth() -> None:
    """From 1 on; what is later stands together; single questions have no split."""
    streams = [Stream([(10 + at) * MS], asked=1) for at in range(13)]
    summary = summarise(streamed(*streams, turn=list(range(13)), session=[1] * 13))
    assert list(summary["by_turn"]) == [*(str(turn) for turn in range(1, 11)), "11 and later"]
    assert summary["by_turn"]["1"]["ttft_ms"]["max"] == 10
    assert summary["by_turn"]["11 and later"]["requests"] == 3
    assert summarise(streamed(*streams))["by_turn"] == {}


def test_stalls_are_requests_that_stood_still() -> None:
    """More than 200 ms between two events, of the requests that have two; the limit is a threshold."""
    streams = [
        Stream([0, 200 * MS], asked=2), Stream([0, 200 * MS + 1], asked=2), Stream([0], asked=1),
        Stream([0, S], asked=2, status=Status.TRUNCATED),
    ]  # fmt: skip
    stalls = summarise(streamed(*streams))["stalls"]
    assert stalls == {"limit_ms": 200, "requests": 2, "share": 0.5}
