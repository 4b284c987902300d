"""Repeats of a sweep's points: intervals in sweep.json, variation told to each run, and a run.json that is sealed."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from loadgen.config import from_texts
from loadgen.original import read_originals
from loadgen.sweep import Point, Sweep, plan_sweep, run_sweep
from results.comparison.trials import read_trials
from results.headline import largest_cv
from results.report import write_report
from results.report.folder import read_folder
from results.store import SEAL, is_sealed, seal


def quiet(point: Point, ended_requests: int, requests: int) -> None:
    """Shows nothing."""


def swept(out: Path, repeats: int, *thresholds: str) -> tuple[Sweep, dict[str, Any]]:
    """One engine at one rate in modelled time."""
    config = replace(
        from_texts({"clock": "modelled", "requests": "120", "threshold": list(thresholds)}, complete=False),
        out=str(out),
    )
    sweep = plan_sweep(config, ("static,batch=4",), "16", repeats)
    run_sweep(sweep, quiet)
    return sweep, json.loads((sweep.folder / "sweep.json").read_text())


def infos_of(sweep: Sweep) -> list[dict[str, Any]]:
    """run.json of each point."""
    return [json.loads((sweep.folder / point.folder / "run.json").read_text()) for point in sweep.points]


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> tuple[Sweep, dict[str, Any]]:
    """A sweep of three repeats."""
    return swept(tmp_path_factory.mktemp("three"), 3)


def test_a_sweep_has_the_interval_of_each_point(three: tuple[Sweep, dict[str, Any]]) -> None:
    """Over its repeats, with the pooled figure, in sweep.json; the page shows it."""
    sweep, told = three
    (one,) = told["intervals"]
    assert (one["engine"], one["load"], one["runs"]) == ("static,batch=4", "16", 3)
    figure = one["figures"]["ttft_p50"]
    assert figure["low"] < figure["value"] < figure["high"]
    assert figure["pooled"]["value"] > 0
    page = write_report(sweep.folder).read_text()
    assert "How sure this is" in page and "over 3 independent runs" in page


def test_every_run_is_told_how_much_the_runs_vary(three: tuple[Sweep, dict[str, Any]]) -> None:
    """The largest variation of a headline figure is a fact of each run, and UNSTABLE is judged by it."""
    sweep, told = three
    summaries = [json.loads((sweep.folder / point.folder / "summary.json").read_text()) for point in sweep.points]
    cv = largest_cv(summaries)
    assert cv is not None and cv == told["intervals"][0]["run_cv_ratio"]
    for info in infos_of(sweep):
        assert info["facts"]["run_cv_ratio"] == cv
        assert info["verdict"]["checks"]["UNSTABLE"] == ("warned" if cv > 0.10 else "passed")
    assert not any(point.faults for point in read_folder(sweep.folder).points)


def test_one_run_is_a_quick_look(tmp_path: Path) -> None:
    """No interval, no variation, and the label says so."""
    sweep, told = swept(tmp_path, 1)
    (one,) = told["intervals"]
    assert one["label"] == "a quick look: no interval"
    assert one["figures"]["ttft_p50"]["low"] is None
    assert "run_cv_ratio" not in infos_of(sweep)[0]["facts"]


def test_thresholds_are_drawn_elsewhere_and_stamped(tmp_path: Path) -> None:
    """In the verdict, in the config, in the folder's facts; the page judges by them too."""
    sweep, _ = swept(tmp_path, 3, "unstable_cv_ratio=0.0001", "standard_requests=100")
    for info in infos_of(sweep):
        assert info["verdict"]["thresholds"]["unstable_cv_ratio"] == 0.0001
        assert info["verdict"]["checks"]["UNSTABLE"] == "warned"
        assert info["thresholds"] == {"unstable_cv_ratio": 0.0001, "standard_requests": 100}
        assert info["config"]["threshold"] == ["unstable_cv_ratio=0.0001", "standard_requests=100.0"]
    assert "--threshold unstable_cv_ratio=0.0001" in json.loads((sweep.folder / "sweep.json").read_text())["command"]
    assert not any(point.faults for point in read_folder(sweep.folder).points)
    assert read_trials(sweep.folder)[0].verdict["thresholds"]["standard_requests"] == 100


@pytest.mark.parametrize("text", ["nonsense=1", "failed_fraction", "failed_fraction=x", "repeats=1.5", "repeats=-1"])
def test_a_threshold_that_is_none_is_refused(text: str) -> None:
    """One line that names the option."""
    with pytest.raises(ValueError, match="--threshold") as caught:
        from_texts({"rate": "4", "threshold": [text]})
    assert "\n" not in str(caught.value)


def test_a_changed_run_json_is_refused(tmp_path: Path) -> None:
    """By reproduce and compare alike, whatever field it is, since it holds the other files' hashes."""
    sweep, _ = swept(tmp_path, 1)
    folder = sweep.folder / sweep.points[0].folder
    read_originals(folder)
    text = (folder / "run.json").read_text()
    (folder / "run.json").write_text(text.replace('"clock": "modelled"', '"clock": "modelleD"', 1))
    with pytest.raises(ValueError, match=r"run\.json"):
        read_originals(folder)
    with pytest.raises(ValueError, match=r"run\.json"):
        read_trials(folder)
    (folder / "run.json").write_text(text)
    read_originals(folder)


def test_a_seal_is_of_all_else() -> None:
    """It holds through a file and back; any change breaks it; what was never sealed has none."""
    info = {"b": [1, 2.5, None], "a": {"x": Path("y")}}
    sealed = seal(info)
    again = json.loads(json.dumps(sealed))
    assert is_sealed(again) and seal(again) == sealed
    assert not is_sealed({**again, "b": [1, 2.5, 0]})
    assert not is_sealed({**again, "c": 1})
    assert is_sealed({"b": 1}) and SEAL not in info


def test_each_run_is_stamped_with_its_place_in_the_sweep(three: tuple[Sweep, dict[str, Any]]) -> None:
    """What a run found warm, the one before it left: its order, and the time since then, which the first has not."""
    sweep, _ = three
    told = [
        json.loads((sweep.folder / point.folder / "conditions.json").read_text())["groups"]["run"]
        for point in sweep.points
    ]
    assert [one["fields"]["order_index"] for one in told] == [0, 1, 2]
    assert all(one["fields"]["since_previous_run_s"] > 0 for one in told[1:])
