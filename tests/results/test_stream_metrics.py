"""Metrics of streaming targets: one hand-made stream for each row of the table of edge cases, and then any stream."""

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from results.columns import NULL
from results.metrics import (
    decode_speed_tokens_per_s,
    events_of,
    failed,
    gaps_ns,
    measured,
    tokens_by_event,
    tokens_within,
)
from results.recording import Recording
from results.status import NOT_FAILURES, Status
from results.summary import latencies_of, summarise
from results.verdicts.stream_shape import stream_shape
from tests.results.streams import Stream, streamed
from tests.results.test_summary import nulls

NAN, INF = float("nan"), float("inf")
MS, S = 10**6, 10**9
FIVE = (100, 130, 150, 200, 240)
FREE = {"ignore_eos": False}


def usage(tokens: int, **more: Any) -> dict[str, Any]:
    """What a server tells of its tokens."""
    return {"told_output_tokens": tokens, **more}


def check(stream: Stream, **expected: float) -> None:
    """Latencies of one request, in ns; NaN: undefined."""
    recording = streamed(stream, sampling=FREE)
    events = events_of(recording)
    for name, value in expected.items():
        assert_array_equal(latencies_of(recording)[name](recording, events), [value], err_msg=name)


def gaps(stream: Stream) -> list[int]:
    """Between the events of one request."""
    recording = streamed(stream, sampling=FREE)
    return gaps_ns(recording, events_of(recording), measured(recording))[0].tolist()


def test_an_ordinary_stream() -> None:
    """Due at 40, sent at 50, events at 100 to 240, end at 260."""
    stream = Stream(FIVE, due_ns=40, handed_ns=50, end_ns=260, told=usage(5))
    check(stream, ttft=60, ttft_net=50, e2e=200, tpot=140 / 4, tpot_std=140 / 4, norm=40, stall=50, tail=20, ttat=NAN)
    assert gaps(stream) == [30, 20, 50, 40]


def test_one_token() -> None:
    """n = 1: no TPOT, no gap, no stall."""
    check(Stream([100], told=usage(1)), ttft=100, e2e=100, tpot=NAN, tpot_std=NAN, stall=NAN, norm=100, tail=0)


def test_as_many_tokens_as_the_first_event_holds() -> None:
    """The second event is in no count, so that there is no later token whose time could be told."""
    check(Stream([100, 160], told=usage(1)), ttft=100, e2e=160, tpot=NAN, tpot_std=NAN, stall=60)
    check(Stream([(100, 4), 160], told=usage(3)), tpot=NAN, tpot_std=60 / 2)


def test_only_who_streamed_reasoning_has_an_answer_proper() -> None:
    """Of a failure without any its time to the answer is undefined, of one with some it is infinite."""
    for reasoning_events, ttat in ((0, NAN), (1, INF)):
        told = usage(1, reasoning_events=reasoning_events)
        check(Stream([100], status=Status.TRUNCATED, told=told), ttat=ttat, ttft=INF)


def test_what_was_never_sent_is_infinitely_late_net_of_the_client_too() -> None:
    """It has no lateness that could be taken off."""
    check(Stream((), handed_ns=NULL, status=Status.NOT_DISPATCHED), ttft=INF, ttft_net=INF)


def test_both_ends_of_a_window_belong_to_it() -> None:
    """Tokens that come on the stroke of its beginning or its end are within."""
    recording = streamed(Stream([10, 20, 30, 40]))
    events = events_of(recording)
    assert [tokens_within(recording, events, one) for one in ((20, 30), (21, 30), (20, 29), (11, 19))] == [2, 1, 1, 0]


def test_a_clean_end_without_a_token() -> None:
    """n = 0: empty, TTFT undefined, E2E to the end of the reply."""
    stream = Stream((), due_ns=10, end_ns=400, told=usage(0), asked=4)
    check(stream, ttft=NAN, ttft_net=NAN, e2e=390, tpot=NAN, norm=NAN, stall=NAN, tail=NAN)
    assert streamed(stream).requests["status"].tolist() == [Status.EMPTY]


def test_a_reply_that_came_whole() -> None:
    """J = 1, n > 1: TTFT equals E2E, no gaps, and no TPOT of 0."""
    stream = Stream([300], told=usage(16))
    check(stream, ttft=300, e2e=300, tpot=NAN, tpot_std=NAN, stall=NAN, norm=300 / 16)
    assert stream_shape(streamed(stream)).whole_fraction == 1.0


def test_a_reply_whose_events_came_in_one_read() -> None:
    """Buffered: events with gaps of 0 are events; reads / events says how they came."""
    stream = Stream([300] * 8, told=usage(8, content_reads=1))
    assert gaps(stream) == [0] * 7
    check(stream, ttft=300, tpot=0, stall=0)
    shape = stream_shape(streamed(stream))
    assert (shape.reads_per_event_ratio, shape.no_gap_fraction) == (1 / 8, 1.0)


def test_hidden_reasoning() -> None:
    """900 tokens counted and not sent, 100 in 990 ns: TPOT is of those that came, as if nothing had been hidden."""
    events = [1_000 + 10 * at for at in range(100)]
    hidden = Stream(events, told=usage(1_000, told_reasoning_tokens=900))
    check(hidden, tpot=10, tpot_std=10)
    check(Stream(events, told=usage(100)), tpot=10)


def test_several_tokens_an_event() -> None:
    """TPOT = (last - first) / (n - tokens of the first event); the other TPOT counts one for it."""
    told = Stream([(100, 3), (150, 1), (200, 4)], told=usage(8))
    check(told, tpot=100 / 5, tpot_std=100 / 7, norm=200 / 8)
    untold = Stream([100, 150, 200], told=usage(12))
    check(untold, tpot=100 / 11)
    shape = stream_shape(streamed(told, untold))
    assert shape.tokens_per_event_ratio == 20 / 6
    assert shape.several_tokens_fraction == 1.0


def test_several_events_in_one_read() -> None:
    """They share a moment, and a gap of 0 is no error."""
    stream = Stream([100, 100, 120], told=usage(3, content_reads=2))
    assert gaps(stream) == [0, 20]
    assert stream_shape(streamed(stream)).reads_per_event_ratio == 2 / 3


def test_streamed_reasoning() -> None:
    """Reasoning counts as tokens: TTFT is the first of any kind, TTAT the first of the answer."""
    told = usage(5, told_reasoning_tokens=3, reasoning_events=3, answer_ns=200)
    check(Stream(FIVE, due_ns=40, told=told), ttft=60, ttat=160, tpot=140 / 4)
    check(Stream(FIVE, due_ns=40, told=usage(5, answer_ns=100)), ttat=NAN)
    thinks = usage(5, told_reasoning_tokens=5, reasoning_events=5)
    check(Stream(FIVE, told=thinks), ttat=NAN, tpot=140 / 4)
    check(Stream(FIVE, told=thinks, status=Status.TRUNCATED), ttat=INF)


def test_without_usage_the_chunks_are_counted() -> None:
    """And said to be approximate."""
    stream = Stream(FIVE)
    check(stream, tpot=140 / 4, norm=240 / 5)
    tokens = summarise(streamed(stream, sampling=FREE))["tokens"]
    assert (tokens["source"], tokens["approximate"]) == ({"chunks": 1}, True)
    assert summarise(streamed(Stream(FIVE, told=usage(5))))["tokens"]["approximate"] is False


FAILURES = [status for status in Status if status not in NOT_FAILURES and status != Status.NOT_DISPATCHED]


@pytest.mark.parametrize("status", FAILURES, ids=lambda status: status.name.lower())
@pytest.mark.parametrize("events", [(), (100,), FIVE], ids=["none", "one", "some"])
def test_a_failure_is_infinitely_late_and_keeps_its_rows(status: Status, events: tuple[int, ...]) -> None:
    """http_error, truncated, timeouts and the rest: +inf in every latency, its events and times kept."""
    stream = Stream(events, status=status, end_ns=900, asked=9, told=usage(len(events)) if events else {})
    check(stream, ttft=INF, ttft_net=INF, e2e=INF, tpot=INF, tpot_std=INF, norm=INF, stall=INF, tail=INF)
    recording = streamed(stream)
    assert recording.requests["end_ns"].tolist() == [900]
    assert recording.token_t_ns is not None
    assert recording.token_t_ns.tolist() == list(events)


def test_unfinished_requests_are_rows_and_misses() -> None:
    """In flight at the end: counted by name, infinitely late, and in nobody's goodput."""
    streams = [Stream(FIVE, told=usage(5)), Stream(FIVE[:2], status=Status.UNFINISHED, end_ns=900, asked=5)]
    summary = summarise(streamed(*streams, sampling=FREE))
    assert summary["requests"]["by_status"] == {"ok": 1, "unfinished": 1}
    assert summary["e2e_ms"]["reasons"]["max"] == "FAILED_TAIL"
    assert summary["ttft_ok_ms"]["n"] == 1


def test_a_late_hand_over_counts_into_every_latency_but_the_net_one() -> None:
    """TTFT_net starts with the request's first byte."""
    check(Stream(FIVE, due_ns=40, handed_ns=90, told=usage(5)), ttft=60, ttft_net=10, e2e=200)


def test_the_end_of_the_reply_is_not_in_e2e() -> None:
    """E2E ends with the last token; what the server took to close is the tail."""
    check(Stream(FIVE, end_ns=1_000, told=usage(5)), e2e=240, tail=760)


def test_decode_speed_is_a_ratio_of_sums() -> None:
    """Tokens after the first events / time after them, over all: not the mean of the speeds."""
    fast = Stream([0, 100 * MS], told=usage(11), end_ns=S)
    slow = Stream([0, 900 * MS], told=usage(2), end_ns=S)
    recording = streamed(fast, slow, Stream([0, S], status=Status.TRUNCATED), sampling=FREE)
    speed = decode_speed_tokens_per_s(recording, events_of(recording), measured(recording))
    assert speed == pytest.approx((10 + 1) / 1.0)
    fewer = streamed(Stream([(0, 3), 100 * MS], told=usage(2)), Stream([0, 100 * MS], told=usage(2)), sampling=FREE)
    assert decode_speed_tokens_per_s(fewer, events_of(fewer), measured(fewer)) == pytest.approx(1 / 0.2)
    alone = streamed(Stream([0], told=usage(9)))
    assert decode_speed_tokens_per_s(alone, events_of(alone), measured(alone)) is None


@pytest.mark.parametrize(
    ("events", "counted", "expected"),
    [
        ([10, 20, 30, 40], 4, [1, 1, 1, 1]),
        ([10, 20, 30, 40], 16, [4, 4, 4, 4]),
        ([10, 20, 30, 40], 6, [1, 2, 1, 2]),
        ([(10, 3), (20, 1)], 8, [6, 2]),
        ([10, 20, 30], 2, [0, 1, 1]),
    ],
)
def test_tokens_that_nobody_placed_are_spread_over_the_events(
    events: list[Any], counted: int, expected: list[int]
) -> None:
    """So that throughput counts every token once, at about its time."""
    recording = streamed(Stream([5]), Stream(events, told=usage(counted)), sampling=FREE)
    assert tokens_by_event(recording, events_of(recording)).tolist() == [1, *expected]


def test_throughput_counts_what_was_counted() -> None:
    """Four tokens an event are four tokens, though the event does not say so; hidden ones never came."""
    streams = [Stream([S, 2 * S], told=usage(8), due_ns=0), Stream([2 * S], told=usage(901, told_reasoning_tokens=900),
                                                                 due_ns=2 * S)]  # fmt: skip
    rates = summarise(streamed(*streams, sampling=FREE))["rates"]
    assert rates["output_tokens_per_s"] == pytest.approx((8 + 1) / 2)
    assert rates["makespan_output_tokens_per_s"] == pytest.approx((8 + 1) / 2)


def test_the_phases_of_a_request_follow_one_another() -> None:
    """From due to the first token, each part over the requests that got there; connects only where one was needed."""
    whole = {"dispatched_ns": MS, "connected_ns": 3 * MS, "uploaded_ns": 7 * MS, "header_ns": 12 * MS,
             "first_byte_ns": 18 * MS, "connect_ns": 2 * MS, "tls_ns": MS}  # fmt: skip
    streams = [
        Stream([25 * MS], handed_ns=4 * MS, told={**whole, "connection_reused": 0, **usage(1)}),
        Stream((), status=Status.TRANSPORT_ERROR, told={"dispatched_ns": 3 * MS}),
    ]
    summary = summarise(streamed(*streams))
    phases = summary["phases"]
    shown = {name: phases[name]["max"] for name in phases}
    assert shown == {
        "dispatch_ms": 3, "connection_ms": 2, "upload_ms": 3, "wait_ms": 5, "head_to_body_ms": 6,
        "body_to_token_ms": 7, "connect_ms": 2, "tls_ms": 1,
    }  # fmt: skip
    assert phases["dispatch_ms"]["n"] == 2
    assert phases["connect_ms"]["n"] == phases["tls_ms"]["n"] == 1
    assert summary["stream"]["connections_reused_share"] == 0.0


def test_counts_of_server_and_tokenizer_are_held_against_each_other() -> None:
    """Within 2 tokens or 2 % they agree; hidden tokens are no disagreement; prompts show what a cache gave."""
    streams = [
        Stream(FIVE, told=usage(5, counted_tokens=7, told_prompt_tokens=10, cached_tokens=4)),
        Stream(FIVE, told=usage(5, counted_tokens=8, told_prompt_tokens=30, cached_tokens=0)),
        Stream(FIVE, told=usage(905, counted_tokens=5, told_reasoning_tokens=900, told_prompt_tokens=10)),
        Stream(FIVE, told=usage(5)),
    ]
    tokens = summarise(streamed(*streams, sampling=FREE))["tokens"]
    assert (tokens["compared_requests"], tokens["unlike_requests"]) == (3, 1)
    assert tokens["hidden"] == 900
    assert tokens["received"] == 920
    assert tokens["cached_share"] == 0.1
    assert tokens["prompt_told"] == 50


def test_the_client_tells_how_late_it_was() -> None:
    """Quantiles of hand-over - due, and its share of all time to first token."""
    streams = [Stream([100 * MS], handed_ns=2 * MS), Stream([200 * MS], handed_ns=4 * MS)]
    client = summarise(streamed(*streams))["client"]
    assert client["lag_ms"]["max"] == 4
    assert client["lag_of_ttft_share"] == pytest.approx(6 / 300)


def test_an_engines_summary_has_nothing_of_a_wire() -> None:
    """Phases, reads and usage are a streaming target's."""
    from tests.results.test_summary import played

    assert {"phases", "stream", "tokens", "client", "icl_ms", "ttft_net_ms"}.isdisjoint(summarise(played([0], [[1]])))


@st.composite
def any_streams(draw: st.DrawFn) -> Recording:
    """Any replies, told or not told in any way."""
    count = st.one_of(st.none(), st.integers(0, 40))
    streams = []
    for due in sorted(draw(st.lists(st.integers(0, 100), max_size=6))):
        times = draw(st.lists(st.integers(0, 500), max_size=6).map(sorted))
        names = ("told_output_tokens", "counted_tokens", "told_reasoning_tokens", "reasoning_events", "content_reads",
                 "told_prompt_tokens", "cached_tokens", "http_status", "dispatched_ns", "header_ns", "answer_ns",
                 "uploaded_ns", "connect_ns", "connection_reused")  # fmt: skip
        told = {name: value for name in names if (value := draw(count)) is not None}
        events = [(due + at, draw(st.integers(1, 3))) for at in times]
        status = draw(st.sampled_from([*Status, None]))
        reason = draw(st.sampled_from(["length", "stop", None]))
        streams.append(Stream(events, due, draw(st.integers(1, 9)), status, reason, told=told))
    return streamed(*streams, sampling=draw(st.sampled_from([{}, FREE])))


@settings(deadline=None)
@given(any_streams())
def test_any_run_has_a_summary_with_a_reason_for_every_null(recording: Recording) -> None:
    """No NaN, no infinity, no bare null, whatever a server tells and leaves out."""
    summary = summarise(recording)
    json.dumps(summary, allow_nan=False)
    assert not list(nulls(summary))


@settings(deadline=None)
@given(any_streams())
def test_spread_tokens_add_up_in_any_run(recording: Recording) -> None:
    """A request's events share out exactly its streamed tokens, none of them less than 0."""
    spread = tokens_by_event(recording, events_of(recording))
    owner = np.repeat(np.arange(len(recording.schedule)), np.diff(recording.token_offsets))
    sums = np.bincount(owner, weights=spread, minlength=len(recording.schedule))
    has = np.diff(recording.token_offsets) > 0
    assert (spread >= 0).all()
    assert sums[has].tolist() == recording.requests["streamed_tokens"][has].tolist()
    assert not failed(recording)[recording.requests["status"] == Status.OK].any()
