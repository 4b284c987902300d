"""The summary: figures worked out by hand, and a reason beside every null of any run whatever."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from results.columns import NULL, int64
from results.metrics import events_of
from results.recording import PART_TABLES, Recording, RecordingPart, SlotEvent, merge
from results.schedule import Schedule, make_schedule
from results.slo import Slo, parse_slo
from results.slots import SLOT_STATES, WORK_COLUMNS
from results.status import NOT_FAILURES, Status
from results.summary import summarise, window
from tests.results.test_recording import part

S, MS = 10**9, 10**6
OFFERED = {"rate_rps": 2.0, "window": {"kind": "schedule"}}
MAKESPAN = {"rate_rps": None, "window": {"kind": "makespan"}}


def played(
    due_s: Sequence[float],
    tokens_at_s: Sequence[Sequence[float]],
    origin: dict[str, Any] | None = None,
    statuses: Sequence[Status | None] | None = None,
    stopped_ns: int | None = None,
) -> Recording:
    """Requests due at these seconds that got one token at each of those; each ends with its last one.

    A status None: no row tells of it. Every prompt has 10 tokens, every token is a step of its own.
    """
    moments = sorted({round(at * S) for times in tokens_at_s for at in times})
    told = statuses or [Status.OK] * len(due_s)
    schedule = make_schedule(
        [round(at * S) for at in due_s], [10] * len(due_s), [max(len(times), 1) for times in tokens_at_s],
        origin=origin if origin is not None else OFFERED,
    )  # fmt: skip
    rows = [
        (row, due := round(due_s[row] * S), due, round(max(times, default=due_s[row]) * S), status, None, None)
        for row, (times, status) in enumerate(zip(tokens_at_s, told, strict=True))
        if status is not None
    ]
    tokens = [(row, moments.index(round(at * S)), 1) for row, times in enumerate(tokens_at_s) for at in times]
    steps = [(step, 1, NULL, 0, *[NULL] * len(WORK_COLUMNS), at - 1, at) for step, at in enumerate(moments)]
    in_flight = sum(row[3] - row[1] for row in rows)
    merged = merge(schedule, [part(requests=rows, tokens=tokens, steps=steps, flight=[(0, in_flight)])])
    return replace(merged, stopped_ns=stopped_ns)


def window_of(recording: Recording) -> tuple[int, int]:
    """The measured window."""
    return window(recording, events_of(recording))


def test_a_generated_schedule_is_measured_to_its_last_arrival() -> None:
    """The window is [0, last due time], whenever the last request ends; its kind is told."""
    recording = played([1, 2, 5], [[3], [4], [60]])
    assert window_of(recording) == (0, 5 * S)
    assert summarise(recording)["window_ns"] == [0, 5 * S]
    assert summarise(recording)["window_kind"] == "schedule"


def test_a_trace_is_measured_over_its_window() -> None:
    """A replayed trace's window is as long as what was asked for, not as its last arrival."""
    trace = {"rate_rps": 1.0, "window": {"kind": "trace", "end_ns": 10 * S}}
    assert window_of(played([1, 2], [[3], [4]], trace)) == (0, 10 * S)


def test_bursts_and_closed_modes_are_measured_over_their_makespan() -> None:
    """Makespan mode: from 0 to the last token, which is inside; nothing is offered."""
    recording = played([0, 0], [[2, 4], [3, 8]], MAKESPAN)
    assert window_of(recording) == (0, 8 * S)
    rates = summarise(recording)["rates"]
    assert rates["output_tokens_per_s"] == pytest.approx(4 / 8)
    assert rates["completed_rps"] == pytest.approx(2 / 8)
    assert rates["total_tokens_per_s"] == pytest.approx(24 / 8)
    assert rates["offered_rps"] is None
    assert rates["reasons"]["offered_rps"]
    assert rates["realised_rps"] is None


def test_a_schedule_that_says_nothing_of_its_window_is_measured_to_its_last_arrival() -> None:
    """Without an origin the rule is that of a generated schedule, and no rate was asked for."""
    recording = played([1, 4], [[2], [5]], {})
    assert window_of(recording) == (0, 4 * S)
    assert summarise(recording)["rates"]["offered_rps"] is None


def test_throughput_is_of_events_inside_the_window() -> None:
    """Tokens and completions after the last arrival do not count; N / makespan is given beside it, under its name."""
    rates = summarise(played([1, 2, 4], [[1.5, 2], [3, 9], [5, 20]]))["rates"]
    assert rates["output_tokens_per_s"] == pytest.approx(3 / 4)
    assert rates["completed_rps"] == pytest.approx(1 / 4)
    assert rates["makespan_output_tokens_per_s"] == pytest.approx(6 / 20)


def test_a_failure_completes_nothing() -> None:
    """It ended within the window, and not by itself."""
    statuses = [Status.OK, Status.TIMEOUT_TOTAL, Status.OK]
    rates = summarise(played([0, 1, 4], [[1], [2], [3]], statuses=statuses))["rates"]
    assert rates["completed_rps"] == pytest.approx(2 / 4)


def test_a_stall_is_a_gap_above_the_limit_in_an_answer_that_could_have_one() -> None:
    """Of gaps of 200 and 201 ms one is above 200 ms; one token has no gap, and a failure no answer."""
    tokens = [[0.1, 0.3], [1.1, 1.301], [2.1], [3.1, 4.1]]
    statuses = [Status.OK, Status.OK, Status.OK, Status.TIMEOUT_TOTAL]
    stalls = summarise(played([0, 1, 2, 3], tokens, statuses=statuses))["stalls"]
    assert stalls == {"limit_ms": 200, "requests": 2, "share": 0.5}


def test_total_tokens_are_prompts_and_outputs() -> None:
    """When everything happens inside the window, total tokens are those of all prompts and all outputs."""
    rates = summarise(played([0, 1, 8], [[1], [2, 3], [8]]))["rates"]
    assert rates["total_tokens_per_s"] == pytest.approx((30 + 4) / 8)


def test_the_offered_rate_is_what_was_asked_and_the_realised_one_what_came() -> None:
    """offered = asked rate; realised = (N - 1) / (last - first arrival)."""
    rates = summarise(played([1, 2, 5], [[2], [3], [6]]))["rates"]
    assert rates["offered_rps"] == 2.0
    assert rates["realised_rps"] == pytest.approx(2 / 4)


def test_every_scheduled_request_is_counted_by_how_it_ended() -> None:
    """scheduled = sent + never sent; completed and failed are told apart, and by name."""
    statuses = [Status.OK, Status.TIMEOUT_TOTAL, None, Status.CANCELLED_PLANNED, Status.OK]
    counts = summarise(played([0, 1, 2, 3, 4], [[1], [2], [], [4], []], statuses=statuses))["requests"]
    assert counts["scheduled"] == 5
    assert counts["sent"] == 4
    assert counts["completed"] == 2
    assert counts["failed"] == 2
    assert counts["by_status"] == {"ok": 1, "empty": 1, "timeout_total": 1, "cancelled_planned": 1, "not_dispatched": 1}
    assert counts["output_tokens"] == 3
    assert counts["prompt_tokens"] == 50


def test_latencies_are_in_ms_from_the_due_time() -> None:
    """p50, mean and max of a hand-made run, and how many values there are."""
    summary = summarise(played([0, 1, 2], [[0.5, 1], [1.1, 1.2, 1.5], [6]]))
    assert summary["ttft_ms"]["n"] == 3
    assert summary["ttft_ms"]["p50"] == pytest.approx(500)
    assert summary["ttft_ms"]["max"] == pytest.approx(4000)
    assert summary["ttft_ms"]["mean"] == pytest.approx((500 + 100 + 4000) / 3)
    assert summary["e2e_ms"]["p50"] == pytest.approx(1000)
    assert (summary["tpot_ms"]["n"], summary["tpot_ms"]["undefined"]) == (2, 1)
    assert summary["tpot_ms"]["mean"] == pytest.approx((500 + 200) / 2)
    assert summary["itl_ms"]["n"] == 3
    assert summary["itl_ms"]["max"] == pytest.approx(500)
    assert summary["itl_ms"]["p50"] == pytest.approx(300)
    assert summary["stall_ms"]["max"] == pytest.approx(500)
    assert summary["norm_ms"]["max"] == pytest.approx(4000)
    assert summary["queue_wait_ms"]["max"] == 0


def test_a_small_sample_has_no_tail() -> None:
    """p90 needs 10 values, p95 20 and p99 100: below that null and N_TOO_SMALL; the maximum always stands."""
    nineteen = summarise(played(range(19), [[row + 0.5] for row in range(19)]))["ttft_ms"]
    assert nineteen["p90"] == pytest.approx(500)
    assert (nineteen["p95"], nineteen["p99"]) == (None, None)
    assert nineteen["reasons"] == {"p95": "N_TOO_SMALL", "p99": "N_TOO_SMALL"}
    assert nineteen["max"] == pytest.approx(500)
    hundred = summarise(played(range(100), [[row + 0.5] for row in range(100)]))["ttft_ms"]
    assert hundred["p99"] == pytest.approx(500)
    assert hundred["reasons"] == {}


def test_failures_spoil_the_tail_and_not_the_median() -> None:
    """With 2 of 20 failed p50 stands; p95, mean and max are null for FAILED_TAIL, but given of those that went well."""
    statuses = [Status.OK] * 18 + [Status.TIMEOUT_TOTAL, None]
    summary = summarise(played(range(20), [[row + 0.5] for row in range(19)] + [[]], statuses=statuses))
    assert summary["ttft_ms"]["p50"] == pytest.approx(500)
    for name in ("p95", "mean", "max"):
        assert summary["ttft_ms"][name] is None
        assert summary["ttft_ms"]["reasons"][name] == "FAILED_TAIL"
    assert summary["ttft_ms"]["n"] == 20
    assert summary["ttft_ok_ms"]["n"] == 18
    assert summary["ttft_ok_ms"]["max"] == pytest.approx(500)


def test_failures_without_a_token_count_in_every_latency() -> None:
    """A request that failed before its first token is in the n of TTFT, TPOT, E2E and normalised latency alike."""
    statuses = [Status.OK, Status.TIMEOUT_FIRST]
    summary = summarise(played([0, 1], [[1, 2], []], statuses=statuses))
    assert {name: summary[f"{name}_ms"]["n"] for name in ("ttft", "tpot", "e2e", "norm", "stall")} == {
        "ttft": 2, "tpot": 2, "e2e": 2, "norm": 2, "stall": 2,
    }  # fmt: skip


def test_attainment_is_of_the_scheduled_and_goodput_per_second_of_the_window() -> None:
    """Of 5 scheduled: one good, one late, one empty, one failed, one never sent: attainment .2, goodput 1 in 4 s."""
    statuses = [Status.OK, Status.OK, Status.OK, Status.ENGINE_ERROR, None]
    recording = played([0, 1, 2, 3, 4], [[0.5], [3], [], [3.1], []], statuses=statuses)
    slo = summarise(recording, parse_slo("ttft<=1s"))["slo"]
    assert slo == {"limits": "ttft<=1s", "attainment": pytest.approx(0.2), "goodput_rps": pytest.approx(1 / 4)}


def test_an_empty_answer_misses_every_objective() -> None:
    """No token, no service: an empty answer attains no SLO, whichever metric it limits."""
    recording = played([0, 4], [[], [4.5]])
    for limits in ("e2e<=1000s", "tpot<=1s", "stall<=1s", "ttft<=1000s"):
        assert summarise(recording, parse_slo(limits))["slo"]["attainment"] == 0.5


def test_a_workload_may_allow_empty_answers() -> None:
    """Then one that came to its end meets limits of what it does not have; others are judged as ever."""
    strict = played([0, 4], [[], [4.5]])
    allowed = replace(strict, schedule=replace(strict.schedule, recipe={"allow_empty": True}))
    for limits, attainment in (("ttft<=1s,tpot<=1s", 1.0), ("ttft<=100ms", 0.5)):
        assert summarise(allowed, parse_slo(limits))["slo"]["attainment"] == attainment


def test_one_token_passes_a_tpot_limit() -> None:
    """TPOT is undefined for one token, and its limit passes vacuously."""
    recording = played([0, 4], [[1], [5, 7]])
    assert summarise(recording, parse_slo("ttft<=1s,tpot<=1s"))["slo"]["attainment"] == 0.5
    assert summarise(recording, parse_slo("ttft<=1s,tpot<=2s"))["slo"]["attainment"] == 1.0


def test_without_an_objective_there_is_no_goodput() -> None:
    """Nothing asked, nothing said: null with a reason."""
    slo = summarise(played([0, 1], [[1], [2]]))["slo"]
    assert (slo["limits"], slo["attainment"], slo["goodput_rps"]) == (None, None, None)
    assert set(slo["reasons"]) == {"limits", "attainment", "goodput_rps"}


def test_a_stopped_run_is_judged_up_to_the_stop() -> None:
    """What was due after the stop is no failure and in no figure; the window ends with the stop."""
    recording = played([0, 1, 2, 8], [[0.5], [1.5], [], []], statuses=[Status.OK, Status.OK, None, None],
                       stopped_ns=2 * S)  # fmt: skip
    summary = summarise(recording, Slo({"ttft": S}))
    assert summary["window_ns"] == [0, 2 * S]
    assert summary["requests"]["scheduled"] == 3
    assert summary["requests"]["by_status"] == {"ok": 2, "not_dispatched": 1}
    assert summary["slo"]["attainment"] == pytest.approx(2 / 3)
    assert summary["rates"]["output_tokens_per_s"] == pytest.approx(2 / 2)


def told_step(step: int, start: int, end: int, kind: int, **counts: int) -> tuple[int, ...]:
    """A row of the step table with its work; what is not given is 0."""
    return (step, 1, kind, 1, *(counts.get(name, 0) for name in WORK_COLUMNS), start, end)


def test_slots_and_waits_of_a_told_run() -> None:
    """Two requests on two slots: one joint prefill of a padded pair, one decode; figures by hand."""
    steps = [
        told_step(0, 10 * MS, 30 * MS, 0, prefilling_slots=2, prefill_tokens=15, padding_tokens=5),
        told_step(1, 30 * MS, 40 * MS, 1, decoding_slots=1, finished_slots=1),
    ]
    events = [(0, SlotEvent.ADMITTED, 0, 0), (1, SlotEvent.ADMITTED, 0, 1)]
    requests = [(0, 0, 0, 30 * MS, Status.OK, None, None), (1, 4 * MS, 4 * MS, 40 * MS, Status.OK, None, None)]
    tokens = [(0, 0, 1), (1, 0, 1), (1, 1, 1)]
    schedule = make_schedule([0, 4 * MS], [5, 10], [1, 2], origin=MAKESPAN)
    summary = summarise(
        merge(
            schedule, [part(requests=requests, tokens=tokens, steps=steps, slot_events=events, flight=[(0, 66 * MS)])]
        )
    )
    slots = summary["slots"]
    assert (slots["steps"], slots["busy_ns"]) == (2, 30 * MS)
    assert (slots["total_slot_steps"], slots["wasted_slot_steps"]) == (4, 1)
    assert slots["slot_steps"] == {**dict.fromkeys(SLOT_STATES, 0), "prefilling_slots": 2, "decoding_slots": 1,
                                   "finished_slots": 1}  # fmt: skip
    assert slots["wasted_slot_fraction"] == pytest.approx(1 / 4)
    assert slots["unused_slot_fraction"] == pytest.approx(1 / 4)
    assert slots["padding_fraction"] == pytest.approx(5 / 20)
    assert slots["held_back_fraction"] == pytest.approx(10 / 40)
    assert slots["slot_time_share"]["prefilling"] == pytest.approx(40 / 60)
    assert sum(slots["slot_time_share"].values()) == pytest.approx(1)
    waits = summary["admission_wait_ms"]
    assert waits["n"] == 2
    assert waits["mean"] == pytest.approx((10 + 6) / 2)
    assert waits["step_mean"] + waits["collect_mean"] + waits["slot_mean"] == pytest.approx(waits["mean"])
    assert waits["collect_mean"] == pytest.approx(8)
    assert summary["little_error_ns"] == 0


def test_an_engine_that_tells_nothing_has_no_slot_figures() -> None:
    """Untold work is null with a reason, never 0 or 1; so are the admission waits, every one of them."""
    summary = summarise(played([0, 1], [[1], [2]]))
    for name in ("wasted_slot_fraction", "unused_slot_fraction", "padding_fraction", "held_back_fraction"):
        assert summary["slots"][name] is None
        assert summary["slots"]["reasons"][name] == "NOT_OBSERVABLE"
    waits = summary["admission_wait_ms"]
    for name in ("p50", "p95", "p99", "max", "mean"):
        assert waits[name] is None
        assert waits["reasons"][name] == "NOT_OBSERVABLE"


def test_the_summary_names_its_schedule_and_checks_its_rows() -> None:
    """The schedule's hash is in it, and Little's law holds when every row is there."""
    recording = played([0, 1], [[1], [2, 3]])
    summary = summarise(recording)
    assert summary["schedule_sha256"] == recording.schedule.sha256
    assert summary["little_error_ns"] == 0


STATUSES = st.sampled_from([*Status])
ORIGINS = st.sampled_from(
    [{}, OFFERED, MAKESPAN, {"rate_rps": 1.0, "window": {"kind": "trace", "end_ns": 40}},
     {"rate_rps": 1.0, "window": {"kind": "schedule", "end_ns": None}},
     {"rate_rps": None, "window": {"kind": "trace", "end_ns": 0}}]
)  # fmt: skip


def _schedule(draw: st.DrawFn) -> Schedule:
    rows = draw(st.integers(0, 6))
    waits = [row > 0 and draw(st.booleans()) for row in range(rows)]
    due = iter(sorted(draw(st.lists(st.integers(0, 60), min_size=rows, max_size=rows))))
    return make_schedule(
        [NULL if wait else next(due) for wait in waits],
        [3] * rows,
        draw(st.lists(st.integers(1, 3), min_size=rows, max_size=rows)),
        after=[[row - 1] if wait else [] for row, wait in enumerate(waits)],
        think_ns=[0 if wait else NULL for wait in waits],
        recipe={"sampling": {"ignore_eos": draw(st.booleans())}},
        origin=draw(ORIGINS),
    )


def _steps(draw: st.DrawFn, modelled: bool) -> list[list[int]]:
    """Rows of the step table: work of four slots, or untold; times that rise, stretches in modelled time."""
    rows, step, now = [], 0, 0
    for _ in range(draw(st.integers(0, 5))):
        now += draw(st.integers(0, 9))
        n_steps = draw(st.integers(1, 3)) if modelled else 1
        told = draw(st.booleans())
        states = draw(st.permutations([2, 1, 1, 0, 0, 0])) if told else [NULL] * 6
        others = draw(st.lists(st.integers(0, 9), min_size=6, max_size=6)) if told else [NULL] * 6
        cost = draw(st.integers(1, 9))
        times = [now * 1000, cost * 1000, 500] if modelled else [now, now + cost]
        rows.append([step, n_steps, 1 if told else NULL, int(told), *states, *others, *times])
        step, now = step + n_steps, now + cost * n_steps + 2 * n_steps
    return rows


@st.composite
def recordings(draw: st.DrawFn) -> Recording:
    """Any recording: any statuses, rows missing, steps untold or none, requests without a token, streams, stops."""
    schedule, modelled = _schedule(draw), draw(st.booleans())
    steps = _steps(draw, modelled)
    count = sum(row[1] for row in steps)
    ids = range(len(schedule))
    requests = [
        (row, draw(st.integers(0, 50)), draw(st.integers(0, 60)), draw(st.integers(60, 90)), draw(STATUSES), None, None)
        for row in ids
        if draw(st.booleans())
    ]
    tokens = [
        (row, step, draw(st.integers(1, 3))) for step in range(count) for row in ids if draw(st.integers(0, 3)) == 0
    ]
    events = [
        (row, SlotEvent.ADMITTED, draw(st.integers(0, count - 1)), 0) for row in ids if count and draw(st.booleans())
    ]
    tables = dict(
        part(requests=requests, tokens=tokens, slot_events=events, flight=[(0, draw(st.integers(0, 99)))]).tables
    )
    times = ("start_ps", "cost_ps", "cost_slope_ps") if modelled else ("start_ns", "end_ns")
    names = (*PART_TABLES["steps"], *times)
    tables["steps"] = {name: int64([row[at] for row in steps]) for at, name in enumerate(names)}
    if draw(st.booleans()) and not modelled:
        tables["tokens"] = {**tables["tokens"], "t_ns": tables["tokens"]["step"] * 7}
        del tables["tokens"]["step"]
    stopped_ns = draw(st.one_of(st.none(), st.integers(0, 70)))
    return replace(merge(schedule, [RecordingPart(tables)]), stopped_ns=stopped_ns)


def nulls(document: Any, path: str = "") -> Iterator[str]:
    """Where a null stands without a reason beside it."""
    if isinstance(document, dict):
        reasons = document.get("reasons", {})
        for name, value in document.items():
            if value is None and not (isinstance(reasons.get(name), str) and reasons[name]):
                yield f"{path}.{name}"
            yield from nulls(value, f"{path}.{name}")
    elif isinstance(document, list):
        for at, value in enumerate(document):
            if value is None:
                yield f"{path}[{at}]"
            yield from nulls(value, f"{path}[{at}]")


@settings(deadline=None, max_examples=200)
@given(recordings(), st.sampled_from([None, Slo({"ttft": 20}), Slo({"e2e": 50, "tpot": 3, "stall": 4})]))
def test_any_run_has_a_summary_without_nan_and_with_a_reason_for_every_null(
    recording: Recording, slo: Slo | None
) -> None:
    """Whatever happened, the summary is plain JSON: no NaN, no inf, and each null has its reason beside it."""
    summary = summarise(recording, slo)
    assert json.loads(json.dumps(summary, allow_nan=False)) == summary
    assert list(nulls(summary)) == []


@settings(deadline=None)
@given(recordings())
def test_counts_of_any_run_add_up(recording: Recording) -> None:
    """by_status sums to the scheduled; failed, completed and planned cancels are all there are."""
    counts = summarise(recording)["requests"]
    assert sum(counts["by_status"].values()) == counts["scheduled"] <= len(recording.schedule)
    planned = counts["by_status"].get("cancelled_planned", 0)
    assert counts["failed"] + counts["completed"] + planned == counts["scheduled"]
    assert counts["sent"] == counts["scheduled"] - counts["by_status"].get("not_dispatched", 0)


@settings(deadline=None)
@given(recordings(), st.integers(0, 80))
def test_attainment_and_goodput_of_any_run_count_the_same_requests(recording: Recording, limit_ns: int) -> None:
    """attainment x scheduled = goodput x window = the requests that ended well, with a token, within the limit."""
    summary = summarise(recording, Slo({"ttft": limit_ns}))
    assume("cancelled_planned" not in summary["requests"]["by_status"])
    slo, window_ns = summary["slo"], summary["window_ns"][1]
    good = 0
    for row in range(len(recording.schedule)):
        requests = {name: int(recording.requests[name][row]) for name in ("due_ns", "status")}
        begin, end = recording.token_offsets[row : row + 2]
        if requests["due_ns"] == NULL or begin == end:
            continue
        ok = requests["status"] in NOT_FAILURES
        good += ok and int(events_of(recording).t_ns[begin]) - requests["due_ns"] <= limit_ns
    if summary["requests"]["scheduled"]:
        assert round(slo["attainment"] * summary["requests"]["scheduled"]) == good
    if window_ns:
        assert slo["goodput_rps"] * window_ns / 1e9 == pytest.approx(good)


def test_the_same_rows_give_the_same_document() -> None:
    """A summary is a function of rows: nothing of the moment is in it, and it changes no row."""
    recording = played([0, 1, 2], [[0.5, 1], [1.1], []], statuses=[Status.OK, Status.OK, None])
    before = {name: column.copy() for name, column in recording.requests.items()}
    assert summarise(recording) == summarise(recording)
    for name, column in before.items():
        assert np.array_equal(column, recording.requests[name]), name
