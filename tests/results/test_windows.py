"""A load that changes by design, window by window."""

import numpy as np
import pytest

from results.columns import int64
from results.recording import Recording
from results.report.differences import differences
from results.slo import parse_slo
from results.summary import summarise
from results.verdicts.judged import judged
from results.verdicts.run_facts import RunFacts
from results.windows import WINDOWS
from tests.results.streams import Stream, streamed

S, MS = 1_000_000_000, 1_000_000
SPIKE = range(8, 11)
"""Windows of the spike, a second each."""


def spike(stationary: bool = False, kind: str = "trace") -> Recording:
    """Twenty seconds: 10 requests/s that take 20 ms, in three of them 100/s that take 400 ms."""
    streams = []
    for second in range(WINDOWS):
        count, ms = (100, 400) if second in SPIKE else (10, 20)
        for at in range(count):
            due_ns = second * S + at * S // count
            streams.append(Stream([due_ns + ms * MS, due_ns + (ms + 1) * MS], due_ns))
    origin = {"process": "trace", "stationary": stationary, "window": {"kind": kind, "end_ns": 20 * S}}
    return streamed(*streams, origin=origin)


def test_each_window_has_its_own_figures() -> None:
    """Offered, TTFT, in flight and attainment of each second; pooled they are of neither load."""
    recording = spike()
    summary = summarise(recording, parse_slo("ttft<=100ms"))
    rows = summary["windows"]["rows"]
    assert len(rows) == WINDOWS
    assert [row["requests"] for row in rows] == [100 if at in SPIKE else 10 for at in range(WINDOWS)]
    assert [row["offered_rps"] for row in rows] == [100.0 if at in SPIKE else 10.0 for at in range(WINDOWS)]
    assert [row["ttft_p50_ms"] for row in rows] == [400.0 if at in SPIKE else 20.0 for at in range(WINDOWS)]
    assert rows[9]["ttft_p99_ms"] == 400.0
    assert rows[0]["ttft_p99_ms"] is None and rows[0]["reasons"]["ttft_p99_ms"] == "N_TOO_SMALL"
    assert [row["attainment"] for row in rows] == [0.0 if at in SPIKE else 1.0 for at in range(WINDOWS)]
    assert rows[0]["in_flight"] == pytest.approx(10 * 0.021)
    assert rows[9]["in_flight"] == pytest.approx(100 * 0.401)
    assert sum(row["requests"] for row in rows) == summary["requests"]["scheduled"]


def test_time_over_the_slo_and_the_longest_stretch_of_it() -> None:
    """Three seconds in one piece; a good second within them parts it in two."""
    recording = spike()
    limits = parse_slo("ttft<=100ms")
    assert summarise(recording, limits)["windows"]["over_slo_s"] == 3.0
    assert summarise(recording, limits)["windows"]["longest_over_slo_s"] == 3.0
    due = int64(recording.requests["due_ns"])
    moved = np.where((due >= 9 * S) & (due < 10 * S), due + 390 * MS, due)
    times = recording.token_t_ns
    assert times is not None
    inside = np.repeat(moved != due, 2)
    times[inside] -= 390 * MS
    parted = summarise(recording, limits)["windows"]
    assert (parted["over_slo_s"], parted["longest_over_slo_s"]) == (2.0, 1.0)
    untold = summarise(recording)["windows"]
    assert untold["over_slo_s"] is None and untold["reasons"]["over_slo_s"] == "NOT_ASKED"


@pytest.mark.parametrize(("stationary", "kind"), [(True, "schedule"), (False, "makespan")])
def test_one_rate_and_bursts_have_no_windows(stationary: bool, kind: str) -> None:
    """There the pooled figures say all, or no window can be laid."""
    windows = summarise(spike(stationary, kind))["windows"]
    assert windows["rows"] is None
    assert windows["reasons"]["rows"] == "ONE_WINDOW"


def test_no_window_shows_what_the_verdict_withholds() -> None:
    """A server that does not stream: no TTFT anywhere; what the rows know all the same is no change of the file."""
    streams = [Stream([(at * S // 10 + 20 * MS, 8)], at * S // 10) for at in range(200)]
    origin = {"process": "trace", "stationary": False, "window": {"kind": "trace", "end_ns": 20 * S}}
    recording = streamed(*streams, origin=origin)
    facts = RunFacts("real", recording.schedule.sha256, target="http")
    limits = parse_slo("e2e<=1s")
    summary, verdict = judged(recording, limits, facts)
    assert verdict.checks["NOT_STREAMING"] == "failed"
    assert all(row["ttft_p50_ms"] is None for row in summary["windows"]["rows"])
    assert summary["windows"]["rows"][0]["reasons"]["ttft_p50_ms"] == "NOT_STREAMING"
    assert differences(summary, summarise(recording, limits)) == []
    summary["e2e_ms"]["p50"] = 1.0
    assert len(differences(summary, summarise(recording, limits))) == 1
