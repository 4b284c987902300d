"""How sure the page is: intervals over repeats, a lower bound from one run, and loads that change window by window."""

from pathlib import Path

import pytest

from results.report.folder import read_folder
from results.report.uncertainty import uncertainty_table, window_table
from results.store import load_run
from results.summary import summarise
from tests.results.report.folders import make_run, make_sweep


def test_one_run_shows_a_lower_bound_and_calls_it_that(tmp_path: Path) -> None:
    """The summary's own bounds, and the reason where there are none."""
    folder = make_run(tmp_path, requests="1000", clock="modelled")
    table = uncertainty_table(read_folder(folder))
    assert table is not None and "lower bound" in table.caption and table.kind.endswith("lower-bound")
    (row,) = table.rows
    bounds = summarise(load_run(folder).recording)["in_run"]
    assert row.cells[0].text == f"{bounds['ttft_p50']['low']:.1f}–{bounds['ttft_p50']['high']:.1f}"
    assert row.cells[0].metric == "in_run.ttft_p50"


def test_few_requests_have_no_bounds_of_their_tail(tmp_path: Path) -> None:
    """Too few values in a section for its p99."""
    table = uncertainty_table(read_folder(make_run(tmp_path, requests="100", clock="modelled")))
    assert table is not None
    assert table.rows[0].cells[1].text == "too few values"


def test_repeats_show_their_interval(tmp_path: Path) -> None:
    """Mean and half of the interval over three runs; what grows with the run has none."""
    sweep = make_sweep(tmp_path, ("static,batch=4",), ("16", "burst"), repeats=3)
    table = uncertainty_table(read_folder(sweep))
    assert table is not None and "3 independent runs" in table.caption
    at_rate, burst = table.rows
    assert "±" in at_rate.cells[0].text and at_rate.cells[0].metric == "interval.ttft_p50"
    assert burst.cells[0].text == "grows with the run"
    assert "±" in burst.cells[2].text


def test_a_trace_is_shown_window_by_window(tmp_path: Path) -> None:
    """Twenty rows with the time over the SLO; a run of one rate has no such table."""
    trace = tmp_path / "trace.csv"
    rows = [f"2024-01-01 00:00:{at // 10:02d}.{at % 10}000000,40,20" for at in range(200)]
    trace.write_text("\n".join(["TIMESTAMP,ContextTokens,GeneratedTokens", *rows]) + "\n")
    from loadgen.config import from_texts
    from loadgen.session import execute, prepare

    texts = {"engine": "static,batch=4", "clock": "modelled", "trace": str(trace), "out": str(tmp_path / "runs")}
    folder = execute(prepare(from_texts(texts)), lambda ended_requests: None).folder
    table = window_table(read_folder(folder))
    assert table is not None and len(table.rows) == 20
    assert "Over the SLO" in table.caption
    assert table.rows[0].cells[0].metric == "windows.offered_rps"
    assert float(table.rows[3].cells[0].raw) == pytest.approx(10, rel=0.15)
    assert window_table(read_folder(make_run(tmp_path, clock="modelled"))) is None
