"""`tokenload run`: what it prints, what it writes, and what its exit code says."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from loadgen.cli import main
from loadgen.config import from_texts
from results.store import COMPLETE, load_run

ONE_ROW = (
    "class Mine:\n"
    "    def __init__(self, tokens: int = 1):\n"
    "        self.open = []\n"
    "    def add_request(self, request):\n"
    "        self.open.append(request)\n"
    "    def has_work(self):\n"
    "        return bool(self.open)\n"
    "    def step(self):\n"
    "        request = self.open.pop(0)\n"
    "        return [(request.request_id, [1] * request.params.max_tokens, True, 'length')]\n"
)


def run(out: Path, *words: str, rate: str | None = "20") -> Result:
    """`tokenload run` in modelled time, 30 requests, into this folder."""
    given = ["run", "--clock", "modelled", "--requests", "30", "--out", str(out), *words]
    return CliRunner().invoke(main, [*given, *(["--rate", rate] if rate else [])])


def strict(text: str) -> Any:
    """Exactly one JSON document, without NaN or Infinity."""

    def refuse(constant: str) -> None:
        raise ValueError(f"{constant} is not JSON")

    return json.loads(text, parse_constant=refuse)


def only(out: Path) -> Path:
    """The one run folder there is."""
    (folder,) = out.iterdir()
    return folder


def test_a_run_writes_a_folder_and_prints_a_scorecard(tmp_path: Path) -> None:
    """Plan on stderr, scorecard and the report's path on stdout, exit code 0."""
    result = run(tmp_path)
    assert result.exit_code == 0
    assert "workload  30 requests, poisson, 20 req/s" in result.stderr
    assert "schedule  " in result.stderr
    assert result.stdout.splitlines()[-1] == str(only(tmp_path) / "report.html")
    assert (only(tmp_path) / "report.html").is_file()
    assert "30 scheduled, 30 sent: 30 ok" in result.stdout
    for name in ("TTFT", "ITL", "E2E", "goodput_rps", "wasted_slot_fraction", "held_back_fraction"):
        assert name in result.stdout
    assert load_run(only(tmp_path)).info["status"] == COMPLETE


def test_json_is_one_document_on_stdout_and_nothing_else(tmp_path: Path) -> None:
    """--json: the summary with the folder; the plan stays on stderr."""
    result = run(tmp_path, "--json")
    assert result.exit_code == 0
    document = strict(result.stdout)
    assert document["folder"] == str(only(tmp_path))
    assert document["stopped"] is False
    stored = json.loads((only(tmp_path) / "summary.json").read_text())
    assert {name: document[name] for name in stored} == stored
    assert "schedule" in result.stderr


def test_a_dry_run_writes_nothing(tmp_path: Path) -> None:
    """--dry-run prints what would run and stops before there is a folder."""
    result = run(tmp_path / "runs", "--dry-run")
    assert result.exit_code == 0
    assert "engine    continuous (8 slots), modelled clock" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_dry_run_with_json_is_one_document_too(tmp_path: Path) -> None:
    """For machines --json is one document on stdout, also of what would run."""
    result = run(tmp_path / "runs", "--dry-run", "--json")
    assert result.exit_code == 0
    assert isinstance(strict(result.stdout), dict)
    assert list(tmp_path.iterdir()) == []


def test_a_dry_run_still_refuses(tmp_path: Path) -> None:
    """What could not run is refused before the start."""
    assert run(tmp_path, "--dry-run", "--engine", "perpetual").exit_code == 2


def test_the_plan_shows_the_schedules_hash(tmp_path: Path) -> None:
    """The hash printed before the start is the one stored with the run."""
    result = run(tmp_path)
    info = load_run(only(tmp_path)).info
    assert info["schedule_sha256"][:16] in result.stderr


@pytest.mark.parametrize("words", [
    (), ("--arrival", "gamma", "--cv", "2"), ("--engine", "static,batch=4,wait=full,max-wait=50ms,return=end"),
    ("--prompt-tokens", "5", "--output-tokens", "2:4", "--seed", "3", "--slo", "ttft<=100ms,stall<=80ms"),
    ("--timeout", "1500ms", "--drain", "2s", "--name", "ünï"),
], ids=lambda words: " ".join(words) or "defaults")  # fmt: skip
def test_a_saved_config_reproduces_the_run(tmp_path: Path, words: tuple[str, ...]) -> None:
    """--config RUN_FOLDER: the same config, schedule and rows again, and a folder of its own."""
    assert run(tmp_path / "one", *words).exit_code == 0
    first = only(tmp_path / "one")
    result = CliRunner().invoke(main, ["run", "--config", str(first), "--out", str(tmp_path / "two")])
    assert result.exit_code == 0, result.output
    second = only(tmp_path / "two")
    one, two = (load_run(folder).info for folder in (first, second))
    assert {**one["config"], "out": ""} == {**two["config"], "out": ""}
    for name in ("schedule_sha256", "content_sha256", "digest_sha256"):
        assert one[name] == two[name]
    assert from_texts(one["config"]).out == str(tmp_path / "one")


def test_a_saved_config_needs_no_further_option(tmp_path: Path) -> None:
    """The folder alone, its run.json, or a file of options can be given; a new folder appears beside the first."""
    assert run(tmp_path / "runs").exit_code == 0
    first = only(tmp_path / "runs")
    options = tmp_path / "options.json"
    options.write_text(json.dumps(json.loads((first / "run.json").read_text())["config"]))
    for source in (first, first / "run.json", options):
        assert CliRunner().invoke(main, ["run", "--config", str(source)]).exit_code == 0
    assert len(list((tmp_path / "runs").iterdir())) == 4


def test_flags_stand_over_a_saved_config(tmp_path: Path) -> None:
    """A flag beside --config replaces that option and no other."""
    assert run(tmp_path / "one", "--output-tokens", "3").exit_code == 0
    first = only(tmp_path / "one")
    result = CliRunner().invoke(main, ["run", "--config", str(first), "--seed", "9", "--out", str(tmp_path / "two")])
    assert result.exit_code == 0, result.output
    one, two = (load_run(folder).info["config"] for folder in (first, only(tmp_path / "two")))
    assert two == {**one, "seed": "9", "out": str(tmp_path / "two")}


def test_every_request_failed_is_exit_code_1(tmp_path: Path) -> None:
    """A time limit that nobody meets: all rows are there, none completed, exit code 1."""
    result = run(tmp_path, "--timeout", "1ns", "--json")
    assert result.exit_code == 1
    assert strict(result.stdout)["requests"]["by_status"] == {"timeout_total": 30}
    assert load_run(only(tmp_path)).info["status"] == COMPLETE


def test_too_many_failures_are_exit_code_3(tmp_path: Path) -> None:
    """More than 1 % failed: everything is written and printed, and the run is INVALID for FAILURES."""
    result = run(tmp_path, "--engine", "one-by-one", "--timeout", "300ms", "--json")
    assert result.exit_code == 3
    document = strict(result.stdout)
    assert document["requests"]["failed"] > 0
    assert document["requests"]["completed"] > 0
    assert "FAILURES" in json.dumps(document["verdict"])
    assert load_run(only(tmp_path)).info["status"] == COMPLETE


def test_every_process_runs(tmp_path: Path) -> None:
    """Each arrival process and the preset play to their end and are measured."""
    for words, rate in (
        (("--arrival", "burst"), None), (("--arrival", "closed", "--users", "3", "--think", "10ms"), None),
        (("--arrival", "conditioned"), "20"), (("--arrival", "constant"), "20"), (("--preset", "seed1"), "8"),
    ):  # fmt: skip
        result = run(tmp_path, *words, "--json", rate=rate)
        assert result.exit_code == 0, result.output
        assert strict(result.stdout)["requests"]["by_status"] == {"ok": 30}


def test_a_users_engine_runs_from_its_file(tmp_path: Path) -> None:
    """FILE.py:CLASS with three methods: every request is served, slots are not observable, the scorecard prints."""
    file = tmp_path / "mine.py"
    file.write_text(ONE_ROW)
    words = ["run", "--engine", f"{file}:Mine", "--rate", "2000", "--requests", "30", "--out", str(tmp_path / "runs")]
    result = CliRunner().invoke(main, [*words, "--json"])
    assert result.exit_code == 0, result.output
    document = strict(result.stdout)
    assert document["requests"]["by_status"] == {"ok": 30}
    assert document["slots"]["wasted_slot_fraction"] is None
    assert document["slots"]["reasons"]["wasted_slot_fraction"] == "NOT_OBSERVABLE"
    shown = CliRunner().invoke(main, words)
    assert shown.exit_code == 0
    assert "- (NOT_OBSERVABLE)" in shown.stdout
    assert "- (none)" not in shown.stdout


@pytest.mark.parametrize("name", ["../../escape", "/escape/there", "a/b", "a/../../../b", "\x1b[31mred", "x" * 60])
def test_a_name_stays_inside_the_folder_of_runs(tmp_path: Path, name: str) -> None:
    """--name is part of a folder's name: no separator, dots or terminal escape lets it be anything else."""
    out = tmp_path / "deep" / "down" / "runs"
    result = run(out, "--name", name)
    assert result.exit_code == 0
    folder = only(out)
    assert (folder / "run.json").is_file()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["deep"]
    assert "\x1b" not in folder.name
    assert "\x1b" not in result.output


def test_a_run_folder_is_named_by_time_name_and_six_digits(tmp_path: Path) -> None:
    """<UTC>-<name>-<6 hex>; the name is the engine's where none is given."""
    assert run(tmp_path / "one", "--name", "base").exit_code == 0
    assert run(tmp_path / "two", "--engine", "static,batch=2").exit_code == 0
    assert re.fullmatch(r"\d{8}T\d{6}Z-base-[0-9a-f]{6}", only(tmp_path / "one").name)
    assert re.fullmatch(r"\d{8}T\d{6}Z-static-[0-9a-f]{6}", only(tmp_path / "two").name)
