"""`tokenload compare`: what it prints, writes and refuses, and what its exit code says."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner, Result

from loadgen.cli import main
from loadgen.config import from_texts
from loadgen.session import execute, prepare
from loadgen.sweep import plan_sweep, run_sweep
from results.comparison.trials import read_trial
from results.store import load_run
from tests.results.report.reading import read

TEXTS = {"rate": "4", "requests": "120", "clock": "modelled"}


def ran(out: Path, **texts: str) -> Path:
    """A run in modelled time."""
    config = from_texts({**TEXTS, "out": str(out), **{k.replace("_", "-"): v for k, v in texts.items()}})
    return execute(prepare(config), lambda ended: None).folder


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two engines, two loads, six repeats."""
    out = tmp_path_factory.mktemp("sweep")
    config = from_texts({"requests": "120", "clock": "modelled", "out": str(out)}, complete=False)
    planned = plan_sweep(config, ("static,batch=8", "one-by-one"), "2,8", 6)
    run_sweep(planned, lambda point, ended, requests: None)
    return planned.folder


def compare(*words: str | Path) -> Result:
    """The command."""
    return CliRunner().invoke(main, ["compare", *map(str, words)])


def told(result: Result) -> dict[str, Any]:
    """Its JSON document."""
    document: dict[str, Any] = json.loads(result.stdout)
    return document


def test_the_engines_of_a_sweep(sweep: Path) -> None:
    """One sweep alone: each engine against the one that was given first, load by load."""
    result = compare(sweep, "--json")
    assert result.exit_code == 0, result.output
    document = told(result)
    (one,) = document["comparisons"]
    assert (document["a"]["label"], one["b"]["label"]) == ("static,batch=8", "one-by-one")
    assert [(cell["load"], cell["pairs"]) for cell in one["cells"]] == [("2", 6), ("8", 6)]
    assert one["cells"][1]["figures"]["ttft_p99"]["word"] == "worse"
    text = compare(sweep).stdout
    for word in ("one-by-one against static,batch=8", "TTFT p99", "worse", "engine.slots: 8, 1"):
        assert word in text


def test_the_length_of_answers_is_read_from_the_rows(sweep: Path) -> None:
    """Both engines gave what was asked: the mean of the schedule, and no remark about lengths."""
    (cell, *_) = told(compare(sweep, "--json"))["comparisons"][0]["cells"]
    trial = read_trial(sweep / "points/000")
    assert trial.mean_output_tokens == load_run(sweep / "points/000").recording.schedule.output_tokens.mean()
    assert cell["output_lengths"]["ratio"] == 1.0


def test_a_sweep_equals_itself(sweep: Path) -> None:
    """Each engine at each load with itself: same, everywhere, and the relative gate passes on six pairs."""
    result = compare(sweep, sweep, "--json", "--fail-on", "ttft_p99>+10%")
    assert result.exit_code == 0, result.output
    (one,) = told(result)["comparisons"]
    assert len(one["cells"]) == 4
    words = {figure["word"] for cell in one["cells"] for figure in cell["figures"].values() if "word" in figure}
    assert words == {"same"}


def test_gates_decide_the_exit_code_and_are_written_for_ci(sweep: Path, tmp_path: Path) -> None:
    """A missed gate is exit code 4; JUnit has a test a gate and load, Markdown the tables."""
    files = ("--junit", tmp_path / "j.xml", "--markdown", tmp_path / "m.md")
    result = compare(sweep, *files, "--fail-on", "ttft_p99>+10%,attainment<10%")
    assert result.exit_code == 4
    assert "MISSED: ttft_p99>+10%" in result.stdout
    suite = ElementTree.parse(tmp_path / "j.xml").getroot()[0]
    assert suite.get("tests") == "4"
    assert "| TTFT p99 |" in (tmp_path / "m.md").read_text()


def test_two_runs_show_a_ratio_and_decide_nothing(tmp_path: Path) -> None:
    """One pair: the ratio stands, nothing is resolved, a relative gate fails and says what it takes."""
    a, b = ran(tmp_path / "a", engine="one-by-one"), ran(tmp_path / "b", engine="static,batch=8")
    result = compare(a, b, "--json", "--fail-on", "ttft_p50>+900%")
    assert result.exit_code == 4
    (one,) = told(result)["comparisons"]
    assert one["conclusion"] == "unresolved"
    assert one["cells"][0]["figures"]["ttft_p50"]["ratio"] > 0
    assert one["gates"][0]["needed"] == 3


def test_three_sides(tmp_path: Path) -> None:
    """B and C are each compared with A."""
    folders = [ran(tmp_path / name, engine=name) for name in ("one-by-one", "static", "continuous")]
    document = told(compare(*folders, "--json"))
    assert len(document["comparisons"]) == 2


@pytest.mark.parametrize(
    ("texts", "field"),
    [({"rate": "5"}, "workload.rate_rps"), ({"seed": "8"}, "schedule_sha256"), ({"output_tokens": "9"}, "output_to")],
)
def test_another_workload_is_refused_unless_allowed(tmp_path: Path, texts: dict[str, str], field: str) -> None:
    """One line, exit code 2, with the words that would allow it; these words do allow it."""
    a, b = ran(tmp_path / "a"), ran(tmp_path / "b", **texts)
    result = compare(a, b)
    assert result.exit_code == 2
    assert field in result.stderr and len(result.stderr.strip().splitlines()) == 1
    insisted = result.stderr.strip().partition("to compare anyway: ")[2].split()
    assert compare(a, b, *insisted).exit_code == 0


def test_a_field_that_there_is_not_is_refused_by_compare_reproduce_and_ab(tmp_path: Path) -> None:
    """Before anything runs; a slip would else be taken for leave that nobody gave."""
    folder, out = ran(tmp_path / "a"), tmp_path / "out"
    load = ["--rate", "12", "--requests", "100", "--clock", "modelled", "--pairs", "1"]
    for words in (
        ["compare", str(folder), str(folder)],
        ["reproduce", str(folder), "--runs", "1", "--out", str(out)],
        ["ab", "--a", "static", "--b", "continuous", *load, "--out", str(out)],
    ):
        result = CliRunner().invoke(main, [*words, "--allow", "workload.rate"])
        assert result.exit_code == 2 and "near are workload." in result.stderr, words
        assert len(result.stderr.strip().splitlines()) == 1 and not out.exists()
        assert CliRunner().invoke(main, [*words, "--allow", "workload.rate_rps"]).exit_code == 0, words
        shutil.rmtree(out, ignore_errors=True)


def flip_a_byte(folder: Path) -> None:
    """In the middle of the requests."""
    file = folder / "requests.parquet"
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(bytes(content))


def invent_a_figure(folder: Path) -> None:
    """Another summary than the one that was written."""
    (folder / "summary.json").write_text("{}")


@pytest.mark.parametrize("change", [flip_a_byte, invent_a_figure])
def test_a_changed_folder_is_refused(tmp_path: Path, change: Callable[[Path], None]) -> None:
    """Figures of files that are not those that were written are compared with nothing."""
    a, b = ran(tmp_path / "a"), ran(tmp_path / "b")
    change(b)
    result = compare(a, b)
    assert result.exit_code == 2
    assert len(result.stderr.strip().splitlines()) == 1


def test_an_invalid_run_is_exit_code_3(tmp_path: Path) -> None:
    """It is shown, with its codes, and no gate passes on it."""
    a, b = ran(tmp_path / "a"), ran(tmp_path / "b", timeout="5ms")
    result = compare(a, b, "--fail-on", "failed>99%")
    assert result.exit_code == 3
    assert "INVALID" in result.stdout and "FAILURES" in result.stdout


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["nowhere", "either"], "nowhere"),
        ([".", "--fail-on", "ttft>5"], "ttft>5"),
        ([".", ".", "--slo", "ttft<5"], "ttft<5"),
    ],
)
def test_bad_input_is_one_line(words: list[str], says: str) -> None:
    """Exit code 2 and the value."""
    result = compare(*words)
    assert result.exit_code == 2
    assert says in result.stderr and len(result.stderr.strip().splitlines()) == 1


def test_one_run_alone_has_nothing_to_be_compared_with(tmp_path: Path) -> None:
    """A single folder must be a sweep of several engines."""
    result = compare(ran(tmp_path))
    assert result.exit_code == 2 and "name a second folder" in result.stderr


def test_two_models_on_hardware_that_is_not_here_are_two_models(tmp_path: Path) -> None:
    """What a roofline bills is a model like any other: `compare` refuses, and names both."""
    folders = []
    for model in ("llama-3.1-8b", "mistral-7b"):
        words = ("--clock", "modelled", "--rate", "8", "--requests", "20", "--out", tmp_path / model)
        result = CliRunner().invoke(main, [*map(str, ("run", "--hardware", "h100-sxm", "--model", model, *words))])
        assert result.exit_code in (0, 3), result.output
        folders.append(next(one for one in (tmp_path / model).iterdir() if one.is_dir()))
        line = read((folders[-1] / "report.html").read_text()).text.partition("Conditions: ")[2]
        assert line.startswith(f"{model}, ") or f", {model}, " in line.splitlines()[0], line[:300]
    result = CliRunner().invoke(main, ["compare", *map(str, folders)])
    assert result.exit_code == 2
    assert "engine.model (llama-3.1-8b, mistral-7b)" in result.stderr
