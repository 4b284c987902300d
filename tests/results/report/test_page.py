"""The page: the same bytes from the same folder, one file that needs nothing else, everything said in order."""

import re
from pathlib import Path

import pytest

from results.report import write_report
from tests.results.report.folders import INVALID, edit, make_run, make_sweep, point_of
from tests.results.report.reading import read

SIX_MB = 6 * 1000 * 1000
SECTIONS = ("verdict", "answer", "scorecard", "charts", "slots", "conditions", "claims", "again")


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = make_sweep(tmp_path_factory.mktemp("sweep"))
    write_report(folder)
    return folder


def test_two_reports_of_one_folder_are_the_same_bytes(sweep: Path) -> None:
    """No time of building, no random id: the page is a function of the folder."""
    first = (sweep / "report.html").read_bytes()
    assert write_report(sweep) == sweep / "report.html"
    assert (sweep / "report.html").read_bytes() == first
    assert not list(sweep.glob("*.partial"))


def test_the_page_stays_below_six_megabytes(sweep: Path) -> None:
    """Plotly travels compressed."""
    assert (sweep / "report.html").stat().st_size < SIX_MB


def test_nothing_is_loaded_from_anywhere(sweep: Path) -> None:
    """No address in an attribute, a style or our script; and the page forbids itself all requests."""
    html = (sweep / "report.html").read_text()
    for tag, attributes in read(html).elements:
        assert not {"src", "href", "srcset", "action", "data", "poster"} & attributes.keys(), tag
    ours = re.sub(r'<script type="application/octet-stream".*?</script>', "", html, flags=re.DOTALL)
    for word in ("http://", "https://", "url(", "@import", "import(", "fetch(", "XMLHttpRequest", "<link", "<iframe"):
        assert word not in ours, word
    assert "default-src 'none'" in html


def test_the_sections_stand_in_their_order(sweep: Path) -> None:
    """The verdict comes first, the definitions last."""
    html = (sweep / "report.html").read_text()
    places = [html.index(f'<section id="{name}"') for name in SECTIONS]
    assert places == sorted(places)


def test_chart_places_and_ids_are_fixed_and_unique(sweep: Path) -> None:
    """Every chart has its element, and no id stands twice."""
    found = read((sweep / "report.html").read_text())
    ids = [attributes["id"] for _, attributes in found.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert {f"chart-{name}" for name in found.charts} <= set(ids)


def test_the_first_sentences_answer_which_engine_carries_the_rate(tmp_path: Path) -> None:
    """At a rate that tells the engines apart, by name, with the share of requests that attain."""
    text = read(write_report(make_sweep(tmp_path, requests="200")).read_text()).text
    assert "At 16 req/s within ttft<=1s,tpot<=50ms (attainment ≥ 99 %): static,batch=4 (100 %) and " in text
    assert "continuous,batch=4 (100 %) carry it; one-by-one (42 %) does not." in text
    assert "times the output tokens/s of one-by-one serving, and continuous batching makes" in text


def test_latencies_of_overloaded_points_and_bursts_stand_in_brackets(tmp_path: Path) -> None:
    """They are of this run, grow with its length, and are drawn hollow; TPOT is not touched."""
    found = read(write_report(make_sweep(tmp_path, loads=("4", "64", "burst"), requests="200")).read_text())
    for head in ("one-by-one @ 64/s", "static,batch=4 @ burst"):
        assert re.fullmatch(r"\[[\d,.]+\]", found.texts["scorecard", head, "ttft_ms.p50"]), head
        assert not found.texts["scorecard", head, "tpot_ms.p50"].startswith("[")
    assert not found.texts["scorecard", "static,batch=4 @ 4/s", "ttft_ms.p50"].startswith("[")
    assert "overloaded: […] of this run of 200 requests, grows with its length" in found.text
    one_by_one = found.charts["ttft"]["data"][0]["marker"]["symbol"]
    assert one_by_one[0] == "square" and one_by_one[1] == "square-open"


def test_a_withheld_latency_of_the_stored_summary_is_no_difference(tmp_path: Path) -> None:
    """{value: null, withheld, of_this_run} holds the same figures in another form."""
    import json

    run = make_run(tmp_path)
    summary = json.loads((run / "summary.json").read_text())
    figures = summary["ttft_ms"]
    nulls = {name: None for name in figures if name != "reasons"}
    summary["ttft_ms"] = {**nulls, "withheld": "OVERLOADED", "of_this_run": figures}
    (run / "summary.json").write_text(json.dumps(summary))
    edit(run / "run.json", files_sha256={})
    assert "is not what the rows give" not in write_report(run).read_text()


def test_an_invalid_point_says_why_and_what_to_do(tmp_path: Path) -> None:
    """And no rate is carried on its evidence."""
    sweep = make_sweep(tmp_path, requests="200")
    edit(point_of(sweep, "static,batch=4", "16") / "run.json", verdict=INVALID)
    found = read(write_report(sweep).read_text())
    assert "INVALID at 1 of 9 points" in found.text
    assert "3 % of the requests failed" in found.text and "→ mend the engine" in found.text
    assert found.texts["answer", "static,batch=4", "slo.attainment"] == "! 100 %"
    assert "static,batch=4 (100 %) is INVALID there and says nothing" in found.text
    assert "the verdict in run.json is INVALID (FAILURES) with a load that is STABLE, the rows give VALID" in found.text


def test_repeats_show_their_mean_with_the_smallest_and_the_largest(tmp_path: Path) -> None:
    """And the caption says so."""
    found = read(write_report(make_sweep(tmp_path, loads=("16",), repeats=3)).read_text())
    assert "Mean of 3 runs; the smallest and largest beneath." in found.text
    assert "3 repeats" in found.text and "seeds 7, 8, 9" in found.text


def test_a_single_run_has_the_same_page_with_what_applies(tmp_path: Path) -> None:
    """No claims about engines that are not there; the command is put together from its config."""
    found = read(write_report(make_run(tmp_path)).read_text())
    assert "static,batch=4 at 16 req/s" in found.text
    assert "tokenload run --clock modelled --engine static,batch=4 --rate 16.0 --requests 60" in found.text
    assert "What the texts claim" not in found.text
    assert str(tmp_path) not in found.text.partition("Conditions:")[0]


def test_without_a_stored_verdict_the_rows_are_judged(tmp_path: Path) -> None:
    """A run of before the verdicts has one all the same."""
    run = make_run(tmp_path)
    edit(run / "run.json", verdict=None)
    assert "VALID" in read(write_report(run).read_text()).text


def test_what_cannot_be_judged_is_said_to_be_not_judged(tmp_path: Path) -> None:
    """Absence of a verdict is not a verdict."""
    run = make_run(tmp_path)
    edit(run / "run.json", verdict=None, clock="sundial")
    text = read(write_report(run).read_text()).text
    assert "NOT JUDGED: no verdict is stored" in text
    assert "? 100 %" in text and "✓ 100 %" not in text


def test_the_conditions_line_covers_all_rows(sweep: Path) -> None:
    """Model, machine, loads, lengths, seed, size, repeats, clock and time in one line."""
    text = read((sweep / "report.html").read_text()).text
    line = next(line for line in text.splitlines() if line.startswith("Conditions: "))
    for part in ("poisson 4-16/s and burst", "seed 7", "60 requests a point", "1 repeat", "modelled clock",
                 "measured 2026-11-29T12:00:00+00:00 to 2026-11-29T12:01:00+00:00"):  # fmt: skip
        assert part in line, part


def test_what_is_neither_run_nor_sweep_is_refused_in_one_line(tmp_path: Path) -> None:
    """ValueError, and nothing is written."""
    with pytest.raises(ValueError, match="no run folder and no sweep folder"):
        write_report(tmp_path)
    assert not list(tmp_path.iterdir())


def test_the_command_prints_the_path_and_refuses_in_one_line(tmp_path: Path) -> None:
    """`tokenload report FOLDER`."""
    from click.testing import CliRunner

    from loadgen.cli.report import report

    run = make_run(tmp_path / "runs")
    done = CliRunner().invoke(report, [str(run)])
    assert (done.exit_code, done.output) == (0, f"{run / 'report.html'}\n")
    refused = CliRunner().invoke(report, [str(tmp_path)])
    assert refused.exit_code == 2 and len(refused.output.strip().splitlines()) == 1


def test_a_failed_run_is_invalid_and_its_quantiles_are_infinite(tmp_path: Path) -> None:
    """Shown as inf (failures), never as a number of the others."""
    found = read(write_report(make_run(tmp_path, "one-by-one", "64", timeout="100ms")).read_text())
    assert found.texts["scorecard", "one-by-one @ 64/s", "ttft_ms.p95"] == "inf (failures)"
    assert "INVALID" in found.text and "timeout_total" in found.text
