"""Folders in any state have a page: missing, stopped, killed, damaged and changed points say what they are first."""

import json
import shutil
from pathlib import Path

import pytest

from engines.cost import LinearCost
from engines.policies import one_by_one
from results.report import write_report
from results.report.differences import differences
from results.summary import summarise
from results.verdicts.judged import judged
from results.verdicts.run_facts import RunFacts
from tests.engines.playing import engine_of, play
from tests.results.report.folders import as_killed, edit, lose_point, make_run, make_sweep, point_of
from tests.results.report.reading import Reading, read
from tests.results.summaries import modelled_schedule


def page_of(folder: Path) -> Reading:
    """Written and read."""
    return read(write_report(folder).read_text())


def first_words(found: Reading) -> str:
    """What stands before the first table."""
    return found.text.partition("Carries up to")[0]


def test_missing_points_are_shown_as_missing(tmp_path: Path) -> None:
    """First in words, then in their rows; the others are as they were."""
    sweep = make_sweep(tmp_path)
    lose_point(sweep, "one-by-one", "burst")
    found = page_of(sweep)
    assert "1 of 9 points is missing: one-by-one at burst." in first_words(found)
    assert "STOPPED: this sweep was stopped" in first_words(found)
    assert "no rows: missing" in found.text
    assert found.texts["scorecard", "one-by-one @ burst", "ttft_ms.p50"] == "missing"
    assert ("scorecard", "static,batch=4 @ burst", "ttft_ms.p50") in found.values


def test_a_sweep_without_any_point_has_a_page(tmp_path: Path) -> None:
    """Nothing can be said, and that is said."""
    sweep = make_sweep(tmp_path)
    shutil.rmtree(sweep / "points")
    found = page_of(sweep)
    assert "9 of 9 points are missing" in first_words(found)
    assert "cannot be judged" in found.text and "holds" not in found.text


def test_a_killed_run_says_that_it_is_incomplete(tmp_path: Path) -> None:
    """It is read from its parts."""
    run = make_run(tmp_path)
    as_killed(run)
    found = page_of(run)
    assert "INCOMPLETE: this run did not come to its end" in first_words(found)
    assert "INCOMPLETE_FILE" in first_words(found)
    assert ("scorecard", "static,batch=4 @ 16/s", "rates.output_tokens_per_s") in found.texts


def test_a_killed_point_says_so_in_its_row(tmp_path: Path) -> None:
    """And no rate is carried on what was recorded of it."""
    sweep = make_sweep(tmp_path)
    as_killed(point_of(sweep, "static,batch=4", "16"))
    found = page_of(sweep)
    assert "static,batch=4 at 16 is INCOMPLETE" in first_words(found)
    assert "INCOMPLETE: of what was recorded" in found.text
    assert "; static,batch=4 (100 %) was not recorded to its end" in found.text
    assert found.texts["answer", "static,batch=4", "slo.attainment"] == "– 100 %"


def test_a_run_killed_before_its_first_step_has_a_page(tmp_path: Path) -> None:
    """No step, no token, no figure: reasons in their places."""
    run = make_run(tmp_path)
    as_killed(run)
    for path in (run / "parts").iterdir():
        path.unlink()
    found = page_of(run)
    assert "INCOMPLETE" in first_words(found)
    assert "Not drawn: no step was recorded." in found.text


def test_a_stopped_run_says_so_first(tmp_path: Path) -> None:
    """STOPPED, before every figure."""
    run = make_run(tmp_path)
    edit(run / "run.json", status="stopped")
    assert "STOPPED: this run was stopped" in first_words(page_of(run))


def test_a_running_sweep_says_that_it_has_not_ended(tmp_path: Path) -> None:
    """Its page can be looked at meanwhile."""
    sweep = make_sweep(tmp_path, loads=("16",))
    edit(sweep / "sweep.json", status="running", ended_utc=None)
    assert "INCOMPLETE: this sweep did not come to its end" in first_words(page_of(sweep))


@pytest.mark.parametrize("damage", ["tokens.parquet", "schedule.parquet", "run.json", "requests.parquet"])
def test_a_damaged_point_is_unreadable_and_the_page_is_there(tmp_path: Path, damage: str) -> None:
    """It names the file or the error, and not where the folder lies on this machine."""
    sweep = make_sweep(tmp_path, loads=("16",))
    (point_of(sweep, "static,batch=4", "16") / damage).write_bytes(b"PAR1 not any more")
    found = page_of(sweep)
    assert "static,batch=4 at 16 (points/001): cannot be read: " in first_words(found)
    assert str(tmp_path) not in found.text.partition("Conditions:")[0]
    assert ("scorecard", "one-by-one @ 16/s", "ttft_ms.p50") in found.values


def test_files_changed_after_the_run_are_named(tmp_path: Path) -> None:
    """The page says whose bytes are not those that were hashed."""
    run = make_run(tmp_path)
    (run / "conditions.json").write_text("{}")
    (run / "host.parquet").unlink()
    shutil.copy(make_run(tmp_path / "other", seed="8") / "host.parquet", run)
    assert "changed since the run was written: conditions.json" in first_words(page_of(run))


def test_a_point_outside_the_sweep_is_not_read(tmp_path: Path) -> None:
    """sweep.json cannot make the page show another folder."""
    sweep = make_sweep(tmp_path, loads=("16",))
    told = json.loads((sweep / "sweep.json").read_text())
    told["points"][0]["folder"] = "../runs"
    (sweep / "sweep.json").write_text(json.dumps(told))
    assert "lies outside the sweep" in first_words(page_of(sweep))


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"points": 3}', '{"points": [{"folder": "x"}]}', "{"])
def test_a_damaged_sweep_file_is_refused_in_one_line(tmp_path: Path, text: str) -> None:
    """ValueError names the file."""
    (tmp_path / "sweep.json").write_text(text)
    with pytest.raises(ValueError, match=r"sweep\.json is damaged"):
        write_report(tmp_path)


def test_conditions_are_shown_flat_or_in_groups_with_reasons(tmp_path: Path) -> None:
    """Whatever is stamped is there; null has its reason; long values are folded."""
    run = make_run(tmp_path)
    groups = {"hardware": {"fields": {"cpu_model": "Zilog", "turbo": None, "flags": ["x"] * 80},
                           "reasons": {"turbo": "NO_FILE"}, "sha256": "ab"}}  # fmt: skip
    edit(run / "run.json", files_sha256={})
    (run / "conditions.json").write_text(json.dumps({"groups": groups}))
    found = page_of(run)
    assert "Zilog" in found.text and "null: NO_FILE" in found.text and "hardware: 4 facts" in found.text
    (run / "conditions.json").write_text(json.dumps({"cpu_model": "Z80", "git": None, "reasons": {"git": "none"}}))
    found = page_of(run)
    assert "x Z80" in found.text and "null: none" in found.text


def test_what_a_verdict_withholds_is_no_difference() -> None:
    """Of an overloaded run the rows give bounds and a certificate that its summary does not."""
    schedule = modelled_schedule(600, rate_rps=20.0)
    recording = play(schedule, engine_of(one_by_one(), LinearCost()))
    stored, verdict = judged(recording, None, RunFacts(clock="modelled", schedule_sha256=schedule.sha256))
    assert "ttft_ms" in verdict.withheld
    assert differences(stored, summarise(recording)) == []


def test_differences_of_summaries_are_named_by_their_path() -> None:
    """Missing, changed and null; what only the stored one has is nobody's claim here."""
    fresh = {"a": {"b": 1.0, "c": None}, "d": [1, 2]}
    assert differences({"a": {"b": 1.0, "c": None, "more": 1}, "d": [1, 2]}, fresh) == []
    assert differences({"a": {"b": 1.0 + 1e-12, "c": None}, "d": [1, 2]}, fresh) == []
    assert differences({"a": {"b": 2.0}, "d": [1]}, fresh) == [
        "a.b says 2.0, the rows give 1.0", "d says [1], the rows give [1, 2]",
    ]  # fmt: skip
