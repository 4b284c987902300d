"""`tokenload runs`: every folder there is, whatever is in it."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from loadgen.cli import main
from loadgen.config import from_texts
from loadgen.session import execute, prepare
from loadgen.workload import build_schedule
from results.store import RunFolder, load_run
from results.summary import summarise

TEXTS = {"rate": "20", "requests": "20", "clock": "modelled"}


def ran(out: Path, **texts: str) -> Path:
    """A run in modelled time."""
    config = from_texts({**TEXTS, "out": str(out), **texts})
    return execute(prepare(config), lambda ended: None).folder


def killed(out: Path, name: str = "20260101T000000Z-killed-abcdef") -> Path:
    """A folder whose process died before its first part."""
    schedule = build_schedule(from_texts(TEXTS))
    info = {"config": TEXTS, "clock": "modelled", "schedule_sha256": schedule.sha256}
    return RunFolder(out / name, schedule, info).folder


def runs(*words: str) -> Result:
    """The command, which must succeed."""
    result = CliRunner().invoke(main, ["runs", *words])
    assert result.exit_code == 0, (result.output, result.exception)
    return result


def listed(out: Path) -> list[dict[str, Any]]:
    """The rows of --json."""
    rows: list[dict[str, Any]] = json.loads(runs("--out", str(out), "--json").stdout)
    return rows


def test_every_run_is_a_row(tmp_path: Path) -> None:
    """Folder, status, engine, clock, arrival, rate and headline figures of each run, in the order of names."""
    folders = sorted([ran(tmp_path), ran(tmp_path, engine="static,batch=2", name="b")])
    rows = listed(tmp_path)
    assert [row["folder"] for row in rows] == [folder.name for folder in folders]
    row = next(row for row in rows if row["engine"] == "static,batch=2")
    assert (row["status"], row["clock"], row["arrival"]) == ("complete", "modelled", "poisson")
    assert (row["requests"], row["failed"]) == (20, 0)
    assert row["ttft_p50_ms"] > 0
    text = runs("--out", str(tmp_path)).stdout
    for folder in folders:
        assert folder.name in text


def test_a_rate_in_json_is_a_number(tmp_path: Path) -> None:
    """Numbers are numbers: the rate is not a text in the document for machines."""
    ran(tmp_path)
    assert listed(tmp_path)[0]["rate_rps"] == 20


def test_a_killed_run_is_marked_incomplete(tmp_path: Path) -> None:
    """A folder whose status is still running is INCOMPLETE in the list and when it is shown."""
    folder = killed(tmp_path)
    assert [row["status"] for row in listed(tmp_path)] == ["INCOMPLETE"]
    assert "INCOMPLETE" in runs("--out", str(tmp_path)).stdout
    shown = runs(str(folder))
    assert "INCOMPLETE" in shown.stdout
    document = json.loads(runs(str(folder), "--json").stdout)
    assert document["label"] == "INCOMPLETE"
    assert document["requests"]["completed"] == 0


def test_a_run_is_shown_from_its_rows(tmp_path: Path) -> None:
    """`runs FOLDER` recomputes what was stored: the same figures, without a label for a complete run."""
    folder = ran(tmp_path, slo="ttft<=100ms")
    document = json.loads(runs(str(folder), "--json").stdout)
    stored = json.loads((folder / "summary.json").read_text())
    assert {name: document[name] for name in stored} == stored
    assert (document["label"], document["folder"]) == (None, str(folder))
    text = runs(str(folder)).stdout
    assert "20 scheduled, 20 sent: 20 ok" in text
    assert "ttft<=100ms" in text
    (folder / "summary.json").unlink()
    assert json.loads(runs(str(folder), "--json").stdout) == {**document, "changed": ["summary.json"]}


def test_no_folder_and_an_empty_one_have_no_runs(tmp_path: Path) -> None:
    """Nothing there is no error."""
    for out in (tmp_path / "nothing", tmp_path):
        assert listed(out) == []
        assert "no runs in" in runs("--out", str(out)).stdout


def _info(document: Any) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        (folder / "run.json").write_text(json.dumps(document))

    return write


def _bytes(content: bytes) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        (folder / "run.json").write_bytes(content)

    return write


def _summary(content: str) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        _info({"schema_version": 1, "status": "complete", "clock": "real", "config": {}})(folder)
        (folder / "summary.json").write_text(content)

    return write


def _folder(folder: Path) -> None:
    (folder / "run.json").mkdir()


def _dangling(folder: Path) -> None:
    (folder / "run.json").symlink_to(folder / "nowhere")


def _nothing(folder: Path) -> None:
    (folder / "notes.txt").write_text("not a run")


JUNK = {
    "no run.json": _nothing,
    "not JSON": _bytes(b"{"),
    "binary": _bytes(b"\xff\xfe\x00"),
    "empty": _bytes(b""),
    "a list": _info([]),
    "null": _info(None),
    "a number": _info(7),
    "no status": _info({}),
    "no config": _info({"status": "complete", "clock": "real"}),
    "config is a list": _info({"status": "complete", "clock": "real", "config": []}),
    "config is null": _info({"status": "complete", "clock": "real", "config": None}),
    "config is a text": _info({"status": "complete", "clock": "real", "config": "rate"}),
    "status is a list": _info({"status": [], "clock": {}, "config": {"engine": ["[red]"], "rate": {}}}),
    "run.json is a folder": _folder,
    "run.json is a dangling link": _dangling,
    "summary is not JSON": _summary("{"),
    "summary is a list": _summary("[]"),
    "summary is a text": _summary('"text"'),
    "summary lacks parts": _summary('{"requests": {}}'),
    "summary has other types": _summary('{"requests": [], "ttft_ms": 5, "rates": null}'),
}


@pytest.mark.parametrize("junk", JUNK.values(), ids=JUNK.keys())
def test_a_folder_that_cannot_be_read_hides_no_other(tmp_path: Path, junk: Callable[[Path], None]) -> None:
    """Whatever lies beside it, a good run is listed; what cannot be read is a row of its own or none."""
    good = ran(tmp_path)
    (tmp_path / "20990101T000000Z-junk-000000").mkdir()
    junk(tmp_path / "20990101T000000Z-junk-000000")
    assert next(row for row in listed(tmp_path) if row["folder"] == good.name)["status"] == "complete"
    assert good.name in runs("--out", str(tmp_path)).stdout


@pytest.mark.parametrize("junk", JUNK.values(), ids=JUNK.keys())
def test_showing_junk_is_one_line(tmp_path: Path, junk: Callable[[Path], None]) -> None:
    """`runs FOLDER` of something unreadable: exit code 2, one line, no traceback."""
    folder = tmp_path / "junk"
    folder.mkdir()
    junk(folder)
    result = CliRunner().invoke(main, ["runs", str(folder)])
    assert result.exit_code == 2, result.exception
    assert result.stdout == ""
    assert len(result.stderr.splitlines()) == 1
    assert result.stderr.startswith("Error: ")


@pytest.mark.parametrize("name", ["config", "clock", "schedule_sha256", "status", "schema_version"])
@pytest.mark.parametrize("value", ["gone", None, 7, [], {}], ids=repr)
def test_a_run_whose_description_is_damaged_is_one_line(tmp_path: Path, name: str, value: Any) -> None:
    """A field of run.json that is missing or of another type never ends in a traceback."""
    folder = ran(tmp_path)
    info = json.loads((folder / "run.json").read_text())
    info[name] = value
    kept = {key: one for key, one in info.items() if one != "gone"}
    (folder / "run.json").write_text(json.dumps(kept))
    result = CliRunner().invoke(main, ["runs", str(folder)])
    assert result.exit_code in (0, 2), result.exception
    assert result.exit_code == 0 or len(result.stderr.splitlines()) == 1
    assert len(listed(tmp_path)) == 1


WEIRD = [
    "\x1b[31mred\x1b[0m",
    "\x1b]0;title\x07",
    "[red]markup[red]",
    "[bold",
    "tab\there",
    "\x9b31m",
    "ünï ✓",
    "a" * 200,
]


@pytest.mark.parametrize("name", WEIRD, ids=[ascii(name)[:20] for name in WEIRD])
def test_no_name_reaches_the_terminal_as_a_command(tmp_path: Path, name: str) -> None:
    """Terminal escapes in a folder's name are not passed on, and markup is text like any other."""
    ran(tmp_path).rename(tmp_path / name)
    result = runs("--out", str(tmp_path))
    assert "\x1b" not in result.output
    assert "\x9b" not in result.output
    assert "\x07" not in result.output
    if name.startswith("["):
        assert name in result.stdout
    assert [row["folder"] for row in listed(tmp_path)] == [name]


@pytest.mark.parametrize("text", ["\x1b[2J", "[bold red]x[/bold red]", "[/]"])
def test_no_text_of_a_run_reaches_the_terminal_as_a_command(tmp_path: Path, text: str) -> None:
    """The same for what stands in run.json: engine, trace and status of a folder that somebody sent."""
    folder = ran(tmp_path)
    info = json.loads((folder / "run.json").read_text())
    info["config"]["engine"] = text
    info["clock"] = text
    (folder / "run.json").write_text(json.dumps(info))
    for words in (("--out", str(tmp_path)), (str(folder),)):
        assert "\x1b" not in CliRunner().invoke(main, ["runs", *words]).output


@pytest.mark.parametrize("name", ["run.json", "summary.json", "conditions.json"])
def test_a_run_that_was_changed_says_so_before_its_verdict(tmp_path: Path, name: str) -> None:
    """In words and as JSON: whoever reads VALID has read that first. An untouched one says nothing of it."""
    folder = ran(tmp_path)
    assert "CHANGED" not in runs(str(folder)).stdout
    assert json.loads(runs(str(folder), "--json").stdout)["changed"] == []
    content = (folder / name).read_bytes()
    changed = content.replace(b"started_utc", b"begun_utc") if name == "run.json" else content + b" "
    (folder / name).write_bytes(changed)
    text = runs(str(folder)).stdout
    assert text.startswith(f"CHANGED since the run was written: {name}\n")
    assert json.loads(runs(str(folder), "--json").stdout)["changed"] == [name]


def test_a_sweep_says_how_to_see_it(tmp_path: Path) -> None:
    """One line with both ways: one of its runs, and the page of all."""
    (tmp_path / "sweep.json").write_text("{}")
    result = CliRunner().invoke(main, ["runs", str(tmp_path)])
    assert result.exit_code == 2 and len(result.stderr.splitlines()) == 1
    assert "points/000" in result.stderr and "tokenload report" in result.stderr


def test_an_escape_in_an_error_is_not_passed_on(tmp_path: Path) -> None:
    """What is wrong with a file is told without the file's escapes."""
    folder = tmp_path / "evil"
    folder.mkdir()
    (folder / "run.json").write_text(json.dumps({"schema_version": "\x1b[2J"}))
    for words in (("--out", str(tmp_path)), (str(folder),)):
        assert "\x1b" not in CliRunner().invoke(main, ["runs", *words]).output


def test_a_run_of_another_version_is_refused(tmp_path: Path) -> None:
    """A folder of a later version is not half understood."""
    folder = ran(tmp_path)
    info = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps({**info, "schema_version": 99}))
    result = CliRunner().invoke(main, ["runs", str(folder)])
    assert result.exit_code == 2
    assert "version 99" in result.stderr


def test_a_folder_that_was_moved_is_the_same_run(tmp_path: Path) -> None:
    """A run folder is complete in itself."""
    folder = ran(tmp_path / "here")
    before = summarise(load_run(folder).recording)
    shutil.move(folder, tmp_path / "there")
    assert summarise(load_run(tmp_path / "there").recording) == before
