"""Metrics against recordings made by hand: one for each row of the table of edge cases that a stepping engine meets."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from results.columns import NULL, Table, int64
from results.metrics import (
    completed,
    e2e_ns,
    events_of,
    failed,
    gaps_ns,
    lag_ns,
    little_error_ns,
    measured,
    norm_ns,
    stall_ns,
    tpot_ns,
    ttft_ns,
)
from results.recording import PART_TABLES, Recording, RecordingPart, merge
from results.schedule import make_schedule
from results.slots import WORK_COLUMNS
from results.status import Status

NAN, INF = float("nan"), float("inf")
FAILURES = [
    Status.HTTP_ERROR, Status.SHED, Status.TRANSPORT_ERROR, Status.PROTOCOL_ERROR, Status.ENGINE_ERROR,
    Status.TRUNCATED, Status.TIMEOUT_CONNECT, Status.TIMEOUT_FIRST, Status.TIMEOUT_TOTAL, Status.CANCELLED,
    Status.UNFINISHED, Status.NOT_DISPATCHED, Status.WORKER_LOST,
]  # fmt: skip


def recorded(
    due_ns: Sequence[int],
    *,
    steps: Sequence[tuple[int, ...]] = (),
    tokens: Sequence[tuple[int, int, int]] = (),
    ends: Sequence[tuple[int, int, Status]] = (),
    handed_ns: Sequence[int] | None = None,
    asked: Sequence[int] | None = None,
    in_flight_request_ns: int = 0,
    sampling: dict[str, Any] | None = None,
    **columns: Any,
) -> Recording:
    """A run told row by row.

    steps: (start_ns, end_ns), or (n_steps, start_ps, cost_ps, slope_ps). tokens: (request, step, tokens).
    ends: (request, end_ns, status).
    """
    rows = len(due_ns)
    schedule = make_schedule(due_ns, [5] * rows, asked or [1] * rows, recipe={"sampling": sampling or {}}, **columns)
    handed = handed_ns or due_ns
    names = ("request_id", "due_ns", "handed_ns", "end_ns", "status")
    rows_of_ends = [(row, due_ns[row], handed[row], end_ns, status) for row, end_ns, status in ends]
    requests = table(names, rows_of_ends)
    for name in ("finish_reason", "error"):
        requests[name] = np.full(len(ends), None, dtype=object)
    tables = {
        **{name: table(columns, []) for name, columns in PART_TABLES.items()},
        "requests": requests,
        "tokens": table(("request_id", "step", "tokens"), tokens),
        "steps": step_table(steps),
        "flight": {"until_ns": int64([0]), "request_ns": int64([in_flight_request_ns])},
    }
    return merge(schedule, [RecordingPart(tables)])


def table(names: Sequence[str], rows: Sequence[Sequence[int]]) -> Table:
    """Columns from rows."""
    return {name: int64([row[at] for row in rows]) for at, name in enumerate(names)}


def step_table(steps: Sequence[tuple[int, ...]]) -> Table:
    """A step table whose work nobody told."""
    stretches = [len(step) == 4 for step in steps]
    lengths = [step[0] if is_stretch else 1 for step, is_stretch in zip(steps, stretches, strict=True)]
    first = [sum(lengths[:at]) for at in range(len(steps))]
    names = ("start_ps", "cost_ps", "cost_slope_ps") if any(stretches) else ("start_ns", "end_ns")
    missing = int64([NULL] * len(steps))
    return {
        "step": int64(first),
        "n_steps": int64(lengths),
        "kind": missing,
        "told": int64([0] * len(steps)),
        **dict.fromkeys(WORK_COLUMNS, missing),
        **table(names, [step[-len(names) :] for step in steps]),
    }


def figures(recording: Recording) -> dict[str, list[float]]:
    """Every latency of every request."""
    events = events_of(recording)
    functions = {"ttft": ttft_ns, "tpot": tpot_ns, "e2e": e2e_ns, "norm": norm_ns, "stall": stall_ns}
    return {name: function(recording, events).tolist() for name, function in functions.items()}


def itl(recording: Recording) -> list[int]:
    """Gaps between the deliveries of all requests."""
    return gaps_ns(recording, events_of(recording), np.ones(len(recording.schedule), dtype=np.bool_))[0].tolist()


def check(recording: Recording, **expected: list[float]) -> None:
    """Compare with NaN equal to NaN."""
    found = figures(recording)
    for name, values in expected.items():
        assert_array_equal(found[name], values, err_msg=name)


FOUR_STEPS = [(100, 200), (200, 350), (350, 400), (500, 900)]


def test_an_ordinary_stream() -> None:
    """Due at 40, tokens at 200, 350, 400 and 900: every latency is counted from when it was due."""
    recording = recorded(
        [40], steps=FOUR_STEPS, tokens=[(0, step, 1) for step in range(4)], ends=[(0, 900, Status.OK)], asked=[4]
    )
    check(recording, ttft=[160], e2e=[860], tpot=[700 / 3], norm=[860 / 4], stall=[500])
    assert itl(recording) == [150, 50, 500]


def test_latency_starts_when_due_and_not_when_handed_over() -> None:
    """A late hand-over lengthens the latency and shows in its own column."""
    recording = recorded(
        [40, 50], steps=FOUR_STEPS, tokens=[(0, 0, 1)], ends=[(0, 200, Status.OK)], handed_ns=[190, 0], asked=[1, 1]
    )
    assert ttft_ns(recording, events_of(recording)).tolist()[0] == 160
    assert_array_equal(lag_ns(recording), [150, NAN])


def test_one_token_has_no_tpot() -> None:
    """n = 1: TPOT, ITL and stall are undefined; TTFT equals E2E."""
    recording = recorded([0], steps=FOUR_STEPS, tokens=[(0, 1, 1)], ends=[(0, 350, Status.OK)])
    check(recording, ttft=[350], e2e=[350], tpot=[NAN], norm=[350], stall=[NAN])
    assert itl(recording) == []


def test_a_clean_end_without_tokens_is_empty() -> None:
    """n = 0: status empty, TTFT undefined, E2E from due to the end, no failure."""
    recording = recorded([10], steps=FOUR_STEPS, ends=[(0, 400, Status.OK)], asked=[3])
    assert recording.requests["status"].tolist() == [Status.EMPTY]
    check(recording, ttft=[NAN], e2e=[390], tpot=[NAN], norm=[NAN], stall=[NAN])
    assert not failed(recording).any()
    assert completed(recording).all()


def test_several_tokens_in_a_delivery_are_counted_by_tokens() -> None:
    """TPOT = (last - first) / (n - tokens of the first delivery), whatever the deliveries hold."""
    recording = recorded(
        [0], steps=FOUR_STEPS, tokens=[(0, 0, 3), (0, 1, 1), (0, 3, 4)], ends=[(0, 900, Status.OK)], asked=[8]
    )
    check(recording, ttft=[200], e2e=[900], tpot=[700 / 5], norm=[900 / 8], stall=[550])
    assert itl(recording) == [150, 550]


def test_all_tokens_at_once_have_neither_tpot_nor_gaps() -> None:
    """Handed back at the batch's end: TTFT = E2E by definition, TPOT and ITL undefined."""
    recording = recorded([50], steps=FOUR_STEPS, tokens=[(0, 3, 7)], ends=[(0, 900, Status.OK)], asked=[7])
    check(recording, ttft=[850], e2e=[850], tpot=[NAN], norm=[850 / 7], stall=[NAN])
    assert itl(recording) == []
    assert recording.requests["status"].tolist() == [Status.OK]


def test_a_delivery_without_tokens_is_no_token() -> None:
    """A finish-only delivery bears no token: latencies end with the last token before it, gaps do not count it."""
    recording = recorded(
        [0], steps=FOUR_STEPS, tokens=[(0, 0, 1), (0, 1, 1), (0, 3, 0)], ends=[(0, 900, Status.OK)], asked=[2]
    )
    check(recording, ttft=[200], e2e=[350], tpot=[150], norm=[175], stall=[150])
    assert itl(recording) == [150]


def test_an_answer_of_nothing_but_an_end_is_empty() -> None:
    """A finish-only delivery alone is n = 0: its TTFT is undefined."""
    recording = recorded([10], steps=FOUR_STEPS, tokens=[(0, 3, 0)], ends=[(0, 900, Status.OK)], asked=[2])
    assert recording.requests["status"].tolist() == [Status.EMPTY]
    check(recording, ttft=[NAN], e2e=[890], tpot=[NAN], norm=[NAN], stall=[NAN])


def test_a_leading_delivery_without_tokens_is_not_the_first_token() -> None:
    """TTFT is the first token, not the first event."""
    recording = recorded(
        [0], steps=FOUR_STEPS, tokens=[(0, 0, 0), (0, 1, 1), (0, 2, 1)], ends=[(0, 400, Status.OK)], asked=[2]
    )
    check(recording, ttft=[350], e2e=[400], tpot=[50], stall=[50])


@pytest.mark.parametrize("status", FAILURES, ids=lambda status: status.name.lower())
@pytest.mark.parametrize("tokens", [[], [(0, 0, 1)], [(0, 0, 1), (0, 1, 1), (0, 3, 1)]], ids=["none", "one", "some"])
def test_a_failure_is_infinitely_late(status: Status, tokens: list[tuple[int, int, int]]) -> None:
    """Every latency of a failed request is +inf, with or without the tokens that came before; its times are kept."""
    recording = recorded([0], steps=FOUR_STEPS, tokens=tokens, ends=[(0, 900, status)], asked=[9])
    check(recording, ttft=[INF], e2e=[INF], tpot=[INF], norm=[INF], stall=[INF])
    assert failed(recording).tolist() == [True]
    assert completed(recording).tolist() == [False]
    assert recording.requests["status"].tolist() == [status]
    assert recording.requests["end_ns"].tolist() == [900]
    assert recording.requests["output_tokens"].tolist() == [len(tokens)]


def test_a_request_that_no_row_tells_of_is_not_dispatched() -> None:
    """No request vanishes: without an end it is not_dispatched, a failure at its due time."""
    recording = recorded([0, 100], steps=FOUR_STEPS, tokens=[(0, 0, 1)], ends=[(0, 200, Status.OK)])
    assert recording.requests["status"].tolist() == [Status.OK, Status.NOT_DISPATCHED]
    assert recording.requests["due_ns"].tolist() == [0, 100]
    check(recording, ttft=[200, INF], e2e=[200, INF])
    assert measured(recording).tolist() == [True, True]


@pytest.mark.parametrize("received", [1, 3, 5])
def test_another_length_than_asked_is_wrong_length_but_no_failure(received: int) -> None:
    """Where the workload pins lengths, n != asked is wrong_length, with its latencies."""
    tokens = [(0, step, 1 if step < 3 else received - 3) for step in range(min(received, 4))]
    recording = recorded([0], steps=FOUR_STEPS, tokens=tokens, ends=[(0, 900, Status.OK)], asked=[4])
    assert recording.requests["status"].tolist() == [Status.WRONG_LENGTH]
    assert not failed(recording).any()
    assert completed(recording).all()
    assert figures(recording)["ttft"] == [200]


def test_where_lengths_are_not_pinned_an_early_stop_is_ok() -> None:
    """With ignore_eos off a shorter answer is an answer; without a token it is still empty."""
    recording = recorded(
        [0, 0], steps=FOUR_STEPS, tokens=[(0, 0, 1)], ends=[(0, 200, Status.OK), (1, 200, Status.OK)], asked=[4, 4],
        sampling={"ignore_eos": False},
    )  # fmt: skip
    assert recording.requests["status"].tolist() == [Status.OK, Status.EMPTY]


@pytest.mark.parametrize("status", [Status.CANCELLED_PLANNED, Status.BUDGET_SPENT_HIDDEN])
def test_two_other_ends_are_no_failures(status: Status) -> None:
    """A planned cancel and a budget spent out of sight keep their latencies; only the second has come to an end."""
    recording = recorded([0], steps=FOUR_STEPS, tokens=[(0, 0, 1), (0, 1, 1)], ends=[(0, 400, status)], asked=[9])
    check(recording, ttft=[200], e2e=[350], tpot=[150])
    assert failed(recording).tolist() == [False]
    assert completed(recording).tolist() == [status == Status.BUDGET_SPENT_HIDDEN]


def test_a_request_that_nobody_made_due_is_not_measured() -> None:
    """A follower whose turn never came has no due time and stands outside the figures."""
    recording = recorded(
        [0, NULL],
        steps=FOUR_STEPS,
        tokens=[(0, 0, 1)],
        ends=[(0, 200, Status.OK)],
        after=[(), (0,)],
        think_ns=[NULL, 0],
    )
    assert measured(recording).tolist() == [True, False]
    assert figures(recording)["ttft"] == [200, INF]


def test_only_the_measured_phase_is_measured() -> None:
    """Warm-up, fill and cool-down rows are in the file and in no figure."""
    base = recorded([0, 0, 0, 0])
    base.requests["phase"] = int64([0, 1, 2, 3])
    assert measured(base).tolist() == [False, False, True, False]


def test_requests_are_told_apart_however_their_tokens_are_mixed() -> None:
    """Deliveries of several requests in one step, some requests without any, are grouped by request."""
    recording = recorded(
        [0, 10, 20, 30],
        steps=FOUR_STEPS,
        tokens=[(2, 0, 1), (0, 0, 1), (0, 1, 1), (2, 2, 2), (0, 3, 1), (3, 3, 1)],
        ends=[(0, 900, Status.OK), (1, 901, Status.OK), (2, 400, Status.OK), (3, 900, Status.OK)],
        asked=[3, 2, 3, 1],
    )
    check(
        recording,
        ttft=[200, NAN, 180, 870],
        e2e=[900, 891, 380, 870],
        tpot=[350, NAN, 100, NAN],
        stall=[550, NAN, 200, NAN],
    )
    assert itl(recording) == [150, 550, 200]
    gaps, owner = gaps_ns(recording, events_of(recording), np.array([False, True, True, True]))
    assert (gaps.tolist(), owner.tolist()) == ([200], [2])


def test_modelled_time_with_stretches_is_an_obvious_loop() -> None:
    """Tokens of a stretch of 3 steps that get dearer, in picoseconds, floored to ns once at each delivery."""
    stretches = [(1, 0, 1_500, 0), (3, 10_000, 2_000, 400), (2, 20_000, 999, 1)]
    ends_ps, now_ps = [], 0
    for n_steps, start_ps, cost_ps, slope_ps in stretches:
        now_ps = start_ps
        for taken in range(n_steps):
            now_ps += cost_ps + taken * slope_ps
            ends_ps.append(now_ps)
    assert ends_ps == [1_500, 12_000, 14_400, 17_200, 20_999, 21_999]
    recording = recorded(
        [1], steps=stretches, tokens=[(0, step, 1) for step in range(6)], ends=[(0, 21, Status.OK)], asked=[6]
    )
    assert events_of(recording).t_ns.tolist() == [1, 12, 14, 17, 20, 21]
    check(recording, ttft=[0], e2e=[20], tpot=[20 / 5], norm=[20 / 6], stall=[11])
    assert itl(recording) == [11, 2, 3, 3, 1]


def test_a_streaming_targets_deliveries_have_their_own_times() -> None:
    """Where tokens carry t_ns no step table is asked; two deliveries at once have a gap of 0."""
    base = recorded([5], ends=[(0, 60, Status.OK)], asked=[4])
    recording = Recording(
        base.schedule, {**base.requests, "output_tokens": int64([4])}, int64([0, 3]), None, int64([20, 20, 50]),
        int64([1, 2, 1]), int64([]), base.steps, base.host, 0,
    )  # fmt: skip
    assert events_of(recording).t_ns.tolist() == [20, 20, 50]
    assert figures(recording)["ttft"] == [15]
    assert figures(recording)["tpot"] == [10]
    assert itl(recording) == [0, 30]
    assert figures(recording)["stall"] == [30]


def test_a_longest_gap_of_0_is_a_gap() -> None:
    """Two deliveries at one moment have a stall of 0, which is not the same as none."""
    base = recorded([5], ends=[(0, 60, Status.OK)], asked=[4])
    recording = Recording(
        base.schedule, {**base.requests, "output_tokens": int64([4])}, int64([0, 2]), None, int64([20, 20]),
        int64([3, 1]), int64([]), base.steps, base.host, 0,
    )  # fmt: skip
    assert figures(recording)["stall"] == [0]
    assert figures(recording)["tpot"] == [0]


def test_littles_law_holds_when_no_row_is_lost() -> None:
    """Sum of (end - due) over the rows = requests in flight over time; a lost row shows as its time."""
    ends = [(0, 900, Status.OK), (1, 400, Status.TIMEOUT_TOTAL)]
    assert little_error_ns(recorded([0, 100], ends=ends, in_flight_request_ns=1_200)) == 0
    assert little_error_ns(recorded([0, 100], ends=ends[:1], in_flight_request_ns=1_200)) == -300


def test_a_run_of_nothing_has_no_figures_and_no_errors() -> None:
    """Neither an empty schedule nor one that nobody played is an error."""
    for recording in (recorded([]), recorded([0, 1])):
        rows = len(recording.schedule)
        check(recording, **dict.fromkeys(("ttft", "tpot", "e2e", "norm", "stall"), [INF] * rows))
        assert itl(recording) == []
        assert little_error_ns(recording) == 0
        assert_array_equal(lag_ns(recording), [NAN] * rows)
