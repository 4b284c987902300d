"""Fluidity: deadlines by hand, and against a token by token reading of the definition."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from results.fluidity import Deadlines, deadlines_met, fluidity
from results.metrics import events_of
from results.recording import Recording
from results.schedule import FILL, MEASURE
from results.slo import parse_slo
from results.status import Status
from results.summary import summarise
from tests.results.streams import Stream, streamed

MS = 10**6
READER = Deadlines(first_ns=100, further_ns=10)
FREE = {"ignore_eos": False}


def met(recording: Recording, deadlines: Deadlines = READER) -> list[tuple[int, int]]:
    """(missed, total) of every request."""
    found = deadlines_met(recording, events_of(recording), deadlines)
    return list(zip(found.missed.tolist(), found.total.tolist(), strict=True))


def by_the_word(due_ns: int, events: Sequence[tuple[int, int]], deadlines: Deadlines) -> tuple[int, int]:
    """Token by token, as the definition says it."""
    missed = total = 0
    deadline_ns = due_ns + deadlines.first_ns
    for t_ns, tokens in events:
        for _ in range(tokens):
            if t_ns <= deadline_ns:
                total += 1
                deadline_ns += deadlines.further_ns
            else:
                late = (t_ns - deadline_ns) // deadlines.further_ns + 1
                missed, total = missed + late, total + late
                deadline_ns = t_ns + deadlines.further_ns
    return missed, total


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([100, 110, 120], (0, 3)),
        ([101, 111, 121], (1, 3)),
        ([109], (1, 1)),
        ([110], (2, 2)),
        ([111], (2, 2)),
        ([50, 150, 160], (5, 7)),
        ([50, 110, 120], (0, 3)),
        ([100, 111, 121], (1, 3)),
        ([100, 125, 135], (2, 4)),
        ([(100, 4), 140], (0, 5)),
        ([(120, 2), 140, 150], (3, 6)),
        ([], (0, 0)),
    ],
    ids=["on the stroke", "one late and the clock anew", "late by 9", "late by exactly one", "late by 11",
         "a pause longer than the slack", "the first one's slack", "one late by 1", "late by 15", "four at once",
         "two at once, late", "none"],
)  # fmt: skip
def test_deadlines_by_hand(events: list[int | tuple[int, int]], expected: tuple[int, int]) -> None:
    """First due 100 ns after the request, each further one 10 ns after: (missed, total)."""
    assert met(streamed(Stream(events, asked=9), sampling=FREE)) == [expected]


def test_deadlines_start_when_the_request_was_due() -> None:
    """Not when it was sent: a client's lateness cannot be made up for."""
    assert met(streamed(Stream([150], due_ns=50, handed_ns=90))) == [(0, 1)]
    assert met(streamed(Stream([151], due_ns=50, handed_ns=90))) == [(1, 1)]


def test_tokens_that_nobody_placed_have_deadlines_too() -> None:
    """Four tokens an event, as usage tells: 40 ns from event to event are in time."""
    assert met(streamed(Stream([100, 140, 180], told={"told_output_tokens": 12}))) == [(0, 12)]
    assert met(streamed(Stream([100, 140, 180], told={"told_output_tokens": 3}))) == [(8, 9)]


def test_an_event_that_holds_no_token_has_no_deadline() -> None:
    """One token for two late events: it counts with the second one, and the first is late for nothing."""
    assert met(streamed(Stream([150, 160], told={"told_output_tokens": 1}))) == [(7, 7)]


def test_exact_multiples_are_exact() -> None:
    """A quarter of a second late at 50 ms a token misses six deadlines, on any machine."""
    deadlines = Deadlines(first_ns=0, further_ns=50 * MS)
    assert met(streamed(Stream([250 * MS])), deadlines) == [(6, 6)]
    assert met(streamed(Stream([250 * MS - 1])), deadlines) == [(5, 5)]


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 300), st.lists(st.tuples(st.integers(0, 400), st.integers(1, 4)), max_size=8).map(sorted)
        ),
        max_size=5,
    ).map(sorted),
    st.integers(0, 150),
    st.integers(1, 40),
)
def test_any_streams_are_read_by_the_word(
    requests: list[tuple[int, list[tuple[int, int]]]], first_ns: int, further_ns: int
) -> None:
    """Whatever came and whenever: the same as token by token."""
    deadlines = Deadlines(first_ns, further_ns)
    streams = [Stream([(due + at, tokens) for at, tokens in events], due, asked=9) for due, events in requests]
    recording = streamed(*streams, sampling=FREE)
    assert met(recording, deadlines) == [by_the_word(one.due_ns, one.pairs, deadlines) for one in streams]


def test_a_failed_request_meets_no_limit_and_spoils_no_mean() -> None:
    """-inf where it failed, NaN where nothing came; the summary's figures are of the others."""
    late = Stream([100 * MS, 125 * MS, 135 * MS], told={"told_output_tokens": 3})
    streams = [late, Stream([MS], status=Status.TRUNCATED, asked=2), Stream((), asked=1)]
    recording = streamed(*streams)
    slo = parse_slo("fluidity@100ms/10ms>=0.5")
    assert slo.deadlines is not None
    found = deadlines_met(recording, events_of(recording), slo.deadlines)
    assert_array_equal(fluidity(recording, found), [0.5, -float("inf"), float("nan")])
    summary = summarise(recording, slo)
    assert summary["fluidity"]["requests"] == 1
    assert summary["fluidity"]["mean"] == summary["fluidity"]["of_deadlines"] == 0.5
    assert summary["fluidity"]["first_deadline_ms"] == 100
    assert summary["slo"]["attainment"] == pytest.approx(1 / 3)
    assert summarise(recording, parse_slo("fluidity@100ms/10ms>=0.51"))["slo"]["attainment"] == 0


def test_only_measured_requests_are_in_the_figures() -> None:
    """A request of the fill that met nothing changes no figure of the window."""
    streams = [Stream([200 * MS], told={"told_output_tokens": 1}), Stream([450 * MS], due_ns=400 * MS)]
    found = summarise(streamed(*streams, phase=[FILL, MEASURE]), parse_slo("fluidity@100ms/10ms>=0.5"))["fluidity"]
    assert (found["requests"], found["mean"], found["of_deadlines"]) == (1, 1.0, 1.0)


def test_the_limits_of_ttft_and_tpot_serve_as_deadlines() -> None:
    """With both of them in the SLO nothing else need be said; without an SLO nobody asked."""
    recording = streamed(Stream([100 * MS, 125 * MS], asked=2))
    assert summarise(recording, parse_slo("ttft<=100ms,tpot<=10ms"))["fluidity"]["of_deadlines"] == pytest.approx(1 / 3)
    assert summarise(recording, parse_slo("ttft<=100ms"))["fluidity"]["reasons"]["mean"] == "NOT_ASKED"
    assert summarise(recording)["fluidity"]["mean"] is None


def test_attainment_is_joint_over_all_metrics() -> None:
    """One that misses any one limit is missed, whatever it does with the others."""
    good = Stream([50 * MS, 60 * MS, 70 * MS], asked=3)
    jerky = Stream([50 * MS, 52 * MS, 300 * MS], asked=3)
    slow = Stream([150 * MS, 155 * MS, 160 * MS], asked=3)
    recording = streamed(good, jerky, slow)
    limits = {
        "ttft<=100ms": 2, "stall<=200ms": 2, "norm<=60ms": 2, "e2e<=160ms": 2, "fluidity@100ms/10ms>=0.9": 1,
        "ttft<=100ms,fluidity@1s/10ms>=0.9": 2, "ttft<=100ms,stall<=200ms": 1, "ttft<=1s,tpot<=1s": 3,
    }  # fmt: skip
    attained = {text: round(3 * summarise(recording, parse_slo(text))["slo"]["attainment"]) for text in limits}
    assert attained == limits
