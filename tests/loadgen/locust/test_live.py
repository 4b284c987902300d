"""The live view: while a run goes on, the figures that its summary will have; and what its banner says."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadgen.config import from_texts
from loadgen.locust.histogram import EXACT_FRACTION, Curves, LogHistogram, bins_of, quantile_of_bins
from loadgen.locust.live import SUMMARY_ROWS, LiveView
from loadgen.locust.seconds import Seconds
from results.columns import int64
from results.recording import RecordingPart, merge
from results.schedule import Schedule
from results.slo import parse_slo
from results.stats import quantile
from results.status import Status
from results.summary import summarise
from results.unroll import IMPLIED
from tests.loadgen.locust.parts import cut_at_steps, played
from tests.results.streams import Stream, part_of, schedule_of

S, MS = 10**9, 10**6
QUANTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}
SERVER = {"target": "http://127.0.0.1:8000/v1", "rate": "10", "clock": "real"}

values = st.lists(
    st.one_of(st.floats(1, 1e13), st.integers(0, 10**6).map(float), st.just(0.0), st.just(float("inf"))), max_size=400
)


@given(values, st.sampled_from(sorted(QUANTILES)))
@settings(deadline=None)
def test_a_quantile_is_the_exact_one_to_two_thousandths(given_values: list[float], name: str) -> None:
    """The histogram's quantile is that of the values themselves, null where that is null, for the same reason."""
    column = np.array(given_values)
    histogram = LogHistogram()
    for some in np.array_split(column, 3):
        histogram.add(some)
    exact, reason = quantile(column, QUANTILES[name])
    found, why = histogram.quantile(QUANTILES[name])
    assert why == reason
    assert (found is None) == (exact is None)
    if exact is not None and found is not None:
        assert abs(found - exact) <= EXACT_FRACTION * exact * (1 + 1e-9)


@given(st.lists(st.floats(1e-3, 1e9), min_size=100, max_size=300), st.sampled_from(sorted(QUANTILES)))
@settings(deadline=None)
def test_bins_of_two_calls_add_up(given_values: list[float], name: str) -> None:
    """Counts by bin may be added across calls, and quantiles of the sum are exact to two thousandths."""
    column = np.array(given_values)
    bins: dict[float, int] = {}
    for some in np.array_split(column, 4):
        for middle, count in bins_of(some).items():
            bins[middle] = bins.get(middle, 0) + count
    exact, found = quantile(column, QUANTILES[name])[0], quantile_of_bins(bins, QUANTILES[name])
    assert found is not None
    assert exact is not None
    assert sum(bins.values()) == len(column)
    assert abs(found - exact) <= EXACT_FRACTION * exact * (1 + 1e-9)


def test_curves_stay_few_and_lose_nothing() -> None:
    """A day of values makes no more points than an hour, and every value is in one of them."""
    curves = Curves()
    for hour in range(24):
        at_ns = int64([(hour * 3600 + second) * S for second in range(0, 3600, 60)])
        curves.add(np.full(len(at_ns), 5.0 * MS), at_ns)
    middles, (medians,) = curves.quantiles(0.5)
    assert len(middles) <= Curves.MOST_STRETCHES
    assert middles == sorted(middles)
    assert sum(one.count for one in curves._stretches.values()) == 24 * 60
    assert medians == pytest.approx([5.0 * MS] * len(middles), rel=Curves.ERROR_FRACTION)


def test_what_is_spread_over_time_keeps_its_sum_and_its_shape() -> None:
    """Requests in flight over 1.5 s fall on two seconds in the proportion of their time."""
    seconds = Seconds()
    seconds.spread(S // 2, 2 * S, 3.0)
    seconds.spread(70 * S, 71 * S, 4.0)
    assert seconds.over(0, 3).tolist() == pytest.approx([1.0, 2.0, 0.0])
    assert seconds.total(60, 80) == pytest.approx(4.0)


def view_of(schedule: Schedule, texts: dict[str, str], parts: Sequence[RecordingPart], ranks: int = 1) -> LiveView:
    """A view that has been told of these parts, by workers in turn."""
    live = LiveView()
    live.begin(schedule, from_texts(texts))
    for at, part in enumerate(parts):
        live.add(part, at % ranks)
    return live


def rows(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in document["latency"]}


def agrees(document: dict[str, Any], summary: dict[str, Any]) -> None:
    """Every figure of the table and every count is the summary's, within the error that the histogram states."""
    allowed = EXACT_FRACTION * (1 + 1e-9)  # the last bit of a float is not the histogram's
    for name, row in rows(document).items():
        exact = summary[SUMMARY_ROWS[name]]
        assert row["n"] == exact["n"], name
        for figure in (*QUANTILES, "mean", "max"):
            assert row["reasons"].get(figure) == exact["reasons"].get(figure), (name, figure)
            if exact[figure] is None:
                assert row[figure] is None, (name, figure)
            else:
                assert row[figure] == pytest.approx(exact[figure], rel=allowed, abs=1e-9), (name, figure)
    counts, told = document["counts"], summary["requests"]
    assert {name: counts[name] for name in ("completed", "failed", "output_tokens", "by_status")} == {
        name: told[name] for name in ("completed", "failed", "output_tokens", "by_status")
    }
    assert counts["attainment"] == pytest.approx(summary["slo"]["attainment"])


ends = st.sampled_from([Status.OK, Status.OK, Status.OK, Status.HTTP_ERROR, Status.TRUNCATED])


@st.composite
def streams(draw: st.DrawFn) -> list[Stream]:
    """Requests to a server: some fail, some get nothing, some another length, with usage told or not."""
    made = []
    due_ns = 0
    for _ in range(draw(st.integers(1, 130))):
        due_ns += draw(st.integers(0, S))
        handed_ns = due_ns + draw(st.integers(0, 20 * MS))
        gaps = draw(st.lists(st.integers(0, 200 * MS), max_size=6))
        events = (np.cumsum([handed_ns + 1, *gaps])[1:]).tolist() if gaps else []
        told = {"told_output_tokens": len(events) + draw(st.integers(0, 3))} if draw(st.booleans()) else {}
        status = draw(ends)
        made.append(Stream(events, due_ns, max(len(events), 1), status, handed_ns=handed_ns, told=told,
                           error="gone" if status is not Status.OK else None))  # fmt: skip
    return made


@given(streams(), st.integers(1, 5))
@settings(deadline=None, max_examples=60)
def test_figures_of_a_server_are_those_of_the_summary(made: list[Stream], parts: int) -> None:
    """However a run is cut into parts, and whoever tells of them, the table ends with the summary's figures."""
    schedule = schedule_of(made)
    cut = [part_of({row: one for row, one in enumerate(made) if row % parts == at}) for at in range(parts)]
    live = view_of(schedule, SERVER, cut, ranks=2)
    slo = parse_slo("ttft<=1s,tpot<=50ms")
    agrees(live.snapshot(), summarise(merge(schedule, cut), slo))


@pytest.mark.parametrize("engine", ["one-by-one", "static,batch=4", "static,batch=4,return=end", "continuous,batch=4"])
@pytest.mark.parametrize("pieces", [1, 4])
def test_figures_of_an_engine_are_those_of_the_summary(engine: str, pieces: int) -> None:
    """Also where steps come as stretches that imply their tokens: latencies, counts and slots are the summary's."""
    schedule, part, recording = played(engine)
    parts = cut_at_steps(part, pieces)
    live = view_of(schedule, {"engine": engine, "clock": "modelled", "rate": "12", "requests": "150"}, parts)
    summary = summarise(recording, parse_slo("ttft<=1s,tpot<=50ms"))
    document = live.snapshot()
    agrees(document, summary)
    now = document["now"]
    assert now["wasted_slot_fraction"] == pytest.approx(summary["slots"]["wasted_slot_fraction"])
    assert now["unused_slot_fraction"] == pytest.approx(summary["slots"]["unused_slot_fraction"])


def test_stretches_are_among_what_is_tested() -> None:
    """The engines above do tell stretches, or the test before would not try them."""
    _, part, _ = played("continuous,batch=4")
    assert part.tables["steps"][IMPLIED].any()


def steady(count: int, every_ns: int, lasts_ns: int, late_ns: int = 0) -> list[Stream]:
    """Requests at equal distances that take equally long, three tokens each."""
    return [
        Stream(
            [at * every_ns + late_ns + lasts_ns * share // 3 for share in (1, 2, 3)], at * every_ns,
            handed_ns=at * every_ns + late_ns,
        )
        for at in range(count)
    ]  # fmt: skip


def in_time(made: list[Stream], until_ns: int, every_ns: int = S // 2) -> list[RecordingPart]:
    """Parts as a driver emits them, each half second, of what has ended by then."""
    parts = []
    told: set[int] = set()
    for now_ns in range(every_ns, until_ns + 1, every_ns):
        ended = {row: one for row, one in enumerate(made) if one.ended_ns <= now_ns and row not in told}
        told |= set(ended)
        flight = sum(
            max(0, min(one.ended_ns, now_ns) - max(one.due_ns, now_ns - every_ns)) for one in made
        )
        part = part_of(ended)
        flights = {"until_ns": int64([now_ns]), "request_ns": int64([flight])}
        parts.append(RecordingPart({**part.tables, "flight": flights}))
    return parts


def kinds(live: LiveView) -> list[str]:
    return [alarm["kind"] for alarm in live.snapshot()["alarms"]]


def test_live_rates_are_of_the_last_seconds() -> None:
    """A load that doubled half a minute ago is shown as it is now, not as an average."""
    slow, fast = steady(100, S // 5, S // 10), steady(200, S // 10, S // 10)
    later = [replace(one, due_ns=one.due_ns + 20 * S, handed_ns=one.due_ns + 20 * S,
                     events=[at + 20 * S for at, _ in one.pairs]) for one in fast]  # fmt: skip
    made = [*slow, *later]
    live = view_of(schedule_of(made), SERVER, in_time(made, 40 * S))
    now = live.snapshot()["now"]
    assert now["arrivals_rps"] == pytest.approx(10.0)
    assert now["completions_rps"] == pytest.approx(10.0)
    assert now["output_tokens_per_s"] == pytest.approx(30.0)
    assert now["in_flight"] == pytest.approx(1.0)
    series = live.snapshot()["series"]
    assert series["arrivals_rps"][5] == pytest.approx(5.0)
    assert series["in_flight"][5] == pytest.approx(0.5)
    assert kinds(live) == []


def test_what_was_not_sent_after_a_stop_has_not_arrived() -> None:
    """The curve of arrivals ends there; what had arrived by then stays."""
    made = steady(200, S // 10, S // 10)
    live = view_of(schedule_of(made), SERVER, in_time(made[:100], 10 * S))
    live.stopped()
    for part in in_time(made[:100], 20 * S):  # what had been sent drains
        live.add(part, 0)
    series = live.snapshot()["series"]["arrivals_rps"]
    assert series[5] == pytest.approx(10.0)
    assert series[12:18] == [0.0] * 6
    live.begin(schedule_of(made), from_texts(SERVER))
    for part in in_time(made, 30 * S):
        live.add(part, 0)
    assert live.snapshot()["series"]["arrivals_rps"][15] == pytest.approx(10.0)


def test_overload_is_said_and_a_busy_server_is_not() -> None:
    """Served at half the rate it arrives: a banner. Slow but steady: none."""
    overloaded = [
        Stream([at * S // 5 + S // 10, at * S // 5 + S // 5], at * S // 10, handed_ns=at * S // 10) for at in range(400)
    ]
    live = view_of(schedule_of(overloaded), SERVER, in_time(overloaded, 30 * S))
    assert kinds(live) == ["overload"]
    slow = steady(400, S // 10, 4 * S)
    assert kinds(view_of(schedule_of(slow), SERVER, in_time(slow, 30 * S))) == []
    closed = {**SERVER, "arrival": "closed", "users": "400"}
    closed.pop("rate")
    assert kinds(view_of(schedule_of(overloaded), closed, in_time(overloaded, 30 * S))) == []


def test_late_sends_are_said() -> None:
    """Hand-overs 30 ms late are above the verdict's line; what waits for an engine's step or a cap is not late."""
    late = steady(60, S // 10, S // 10, late_ns=30 * MS)
    live = view_of(schedule_of(late), SERVER, in_time(late, 8 * S))
    assert kinds(live) == ["lateness"]
    assert "30.0 ms" in live.snapshot()["alarms"][0]["text"]
    for other in (
        {"engine": "continuous", "clock": "modelled", "rate": "10"},
        {"engine": "continuous", "clock": "real", "rate": "10"},
        {**SERVER, "max-concurrency": "5"},
    ):
        assert kinds(view_of(schedule_of(late), other, in_time(late, 8 * S))) == []


def test_a_lost_worker_and_failures_are_said() -> None:
    """Who is lost is named, from 1 on as in messages and logs, and failures above one in a hundred are."""
    made = [replace(one, status=Status.SHED, events=[], error="HTTP 503") for one in steady(30, S // 10, S // 10)]
    live = view_of(schedule_of(made), SERVER, in_time(made, 8 * S), ranks=3)
    live.lost(2)
    document = live.snapshot()
    assert kinds(live) == ["worker", "failures"]
    assert "Worker 3" in document["alarms"][0]["text"]
    assert [(one["rank"], one["lost"]) for one in document["workers"]] == [(0, False), (1, False), (2, True)]
    assert document["counts"]["by_status"] == {"shed": 30}
    assert document["counts"]["newest_error"] == "HTTP 503"
    assert rows(document)["ttft"]["reasons"]["p50"] == "FAILED_TAIL"


def test_once_a_run_has_ended_its_summary_is_shown(tmp_path: Path) -> None:
    """The table of the page and the report beside it cannot differ; a new run begins with nothing."""
    made = steady(50, S // 10, S // 10)
    schedule, parts = schedule_of(made), in_time(made, 3 * S)
    live = view_of(schedule, SERVER, parts)
    summary = summarise(merge(schedule, parts), parse_slo("ttft<=1s,tpot<=50ms"))
    verdict = {"valid": False, "label": "EXPLORATORY", "suffices_for": "", "invalid": [{"code": "X", "text": "y"}]}
    live.end(tmp_path, summary, verdict)
    document = live.snapshot()
    assert (document["state"], document["report"], live.folder) == ("ended", True, tmp_path)
    assert document["verdict"]["reasons"] == [{"code": "X", "text": "y"}]
    assert document["counts"]["by_status"] == {"ok": 30, "not_dispatched": 20}
    for name, row in rows(document).items():
        assert row["p50"] == summary[SUMMARY_ROWS[name]]["p50"]
    live.add(parts[0], 0)
    assert live.snapshot()["counts"]["by_status"] == {"ok": 30, "not_dispatched": 20}
    live.begin(schedule, from_texts(SERVER))
    fresh = live.snapshot()
    assert (fresh["state"], fresh["counts"]["ended"], fresh["verdict"], fresh["alarms"]) == ("running", 0, None, [])


def test_a_request_told_of_twice_counts_once() -> None:
    """What two workers tell of the same request is as first told, as in the merged run."""
    made = steady(10, S // 10, S // 10)
    part = part_of(dict(enumerate(made)))
    document = view_of(schedule_of(made), SERVER, [part, part], ranks=2).snapshot()
    assert document["counts"]["ended"] == 10
    assert rows(document)["itl"]["n"] == 20


def test_the_document_is_strict_json() -> None:
    """No NaN and no infinity reaches a browser, before a run, in it, and when every request has failed."""
    live = LiveView()
    assert json.loads(json.dumps(live.snapshot(), allow_nan=False))["state"] == "idle"
    made = [replace(one, status=Status.TRUNCATED) for one in steady(5, S // 10, S // 10)]
    for parts in ([], in_time(made, 2 * S)):
        json.dumps(view_of(schedule_of(made), SERVER, parts).snapshot(), allow_nan=False)
