"""`tokenload reproduce`: what is checked, what is refused, and what the verdict says."""

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
from loadgen.sweep import plan_sweep, run_sweep
from results.report import write_report
from results.store import seal

ENGINE = """
import json
from pathlib import Path
from engines.engine import Step, StepOutput


class Mine:
    def __init__(self):
        self.open = []

    def add_request(self, request):
        self.open.append([request, 0])

    def has_work(self):
        return bool(self.open)

    def step(self):
        row = self.open[0]
        row[1] += 1
        done = row[1] == row[0].params.max_tokens
        if done:
            self.open.pop(0)
        output = StepOutput(row[0].request_id, [7], done, "length" if done else None)
        return Step([output], modelled_cost_ps=COST)
"""


def ran(out: Path, **texts: str) -> Path:
    """A run of 120 requests in modelled time, with its report."""
    given = {"rate": "8", "requests": "120", "clock": "modelled", "engine": "static,batch=4", "out": str(out)}
    folder = execute(prepare(from_texts({**given, **texts})), lambda ended: None).folder
    write_report(folder)
    return folder


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that nobody changes."""
    return ran(tmp_path_factory.mktemp("original"))


def reproduce(*words: str | Path) -> Result:
    """The command."""
    return CliRunner().invoke(main, ["reproduce", *map(str, words)])


def test_a_modelled_run_is_reproduced_bit_for_bit(original: Path, tmp_path: Path) -> None:
    """Hashes, summary, workload, rows: everything is the same; one new run is enough to see it."""
    result = reproduce(original, "--runs", "1", "--out", tmp_path, "--json")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert (document["verdict"], document["identical_files"], document["faults"]) == ("REPRODUCED", True, [])
    assert len(document["checks"]) == 3
    (folder,) = tmp_path.iterdir()
    assert json.loads((folder / "reproduce.json").read_text())["verdict"] == "REPRODUCED"
    assert (folder / "runs/000/run.json").is_file()


def test_the_report_alone_is_enough(original: Path, tmp_path: Path) -> None:
    """One HTML file, moved away from its folder, makes the same workload and compares the same figures."""
    page = tmp_path / "mailed.html"
    shutil.copy(original / "report.html", page)
    result = reproduce(page, "--runs", "1", "--out", tmp_path / "out", "--json")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert (document["verdict"], document["identical_files"]) == ("REPRODUCED", True)
    assert "no rows" in document["checks"][0]


@pytest.mark.parametrize("name", ["requests.parquet", "tokens.parquet", "summary.json", "schedule.parquet"])
def test_one_flipped_byte_is_refused(original: Path, tmp_path: Path, name: str) -> None:
    """In any file, exit code 2, one line that names it."""
    copy = tmp_path / "copy"
    shutil.copytree(original, copy)
    content = bytearray((copy / name).read_bytes())
    content[len(content) // 2] ^= 1
    (copy / name).write_bytes(bytes(content))
    result = reproduce(copy, "--out", tmp_path / "out")
    assert result.exit_code == 2
    assert len(result.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "out").exists()


def edit(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change run.json as somebody would who knows of its seal."""
    info = json.loads((folder / "run.json").read_text())
    change(info)
    (folder / "run.json").write_text(json.dumps(seal(info)))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda info: info.update(digest_sha256="0" * 64), "it was changed"),
        (lambda info: info.update(schedule_sha256="0" * 64), "it was changed"),
        (lambda info: info["config"].update(seed="8"), "cannot be regenerated"),
        (lambda info: info["config"].update(rate="9"), "cannot be regenerated"),
        (lambda info: info.update(status="running"), "no complete run"),
    ],
)
def test_another_story_in_run_json_is_refused(
    original: Path, tmp_path: Path, change: Callable[[dict[str, Any]], None], says: str
) -> None:
    """Hashes that the rows do not have, a config that makes another workload, a run that did not end."""
    copy = tmp_path / "copy"
    shutil.copytree(original, copy)
    edit(copy, change)
    result = reproduce(copy, "--out", tmp_path / "out")
    assert result.exit_code == 2
    assert says in result.stderr and len(result.stderr.strip().splitlines()) == 1


def test_an_engine_that_became_slower_differs(tmp_path: Path) -> None:
    """The same file of an engine, 30 % slower now: DIFFERS, exit code 5."""
    engine = tmp_path / "mine.py"
    engine.write_text(ENGINE.replace("COST", str(2 * 10**9)))
    folder = ran(tmp_path / "out", engine=f"{engine}:Mine")
    engine.write_text(ENGINE.replace("COST", str(26 * 10**8)))
    result = reproduce(folder, "--runs", "3", "--out", tmp_path / "again")
    assert result.exit_code == 5, result.output
    assert "DIFFERS" in result.stdout


def test_an_engine_that_answers_otherwise_differs(tmp_path: Path) -> None:
    """As fast as before, with other tokens: greedy outputs must be equal."""
    engine = tmp_path / "mine.py"
    engine.write_text(ENGINE.replace("COST", str(10**9)))
    folder = ran(tmp_path / "out", engine=f"{engine}:Mine")
    engine.write_text(ENGINE.replace("COST", str(10**9)).replace("[7]", "[8]"))
    result = reproduce(folder, "--runs", "3", "--out", tmp_path / "again")
    assert result.exit_code == 5, result.output
    assert "the outputs are not the same" in result.stdout


def test_few_requests_decide_nothing(tmp_path: Path) -> None:
    """Below 100, unless every bit is the same."""
    engine = tmp_path / "mine.py"
    engine.write_text(ENGINE.replace("COST", str(10**9)))
    folder = ran(tmp_path / "out", engine=f"{engine}:Mine", requests="40")
    engine.write_text(ENGINE.replace("COST", str(10**9 + 1000)))
    result = reproduce(folder, "--runs", "3", "--out", tmp_path / "again")
    assert result.exit_code == 6, result.output
    assert "TOO_FEW_REQUESTS" in result.stdout


def test_a_trace_must_be_there_and_be_the_same(tmp_path: Path) -> None:
    """Missing and changed: one line each that names the file."""
    trace = tmp_path / "trace.csv"
    rows = [f"{0.2 * at:.1f},20,{5 + at % 7}" for at in range(120)]
    trace.write_text("\n".join(["time,prompt,output", *rows]) + "\n")
    given = {"clock": "modelled", "engine": "static", "out": str(tmp_path / "out"), "trace": str(trace)}
    config = from_texts({**given, "columns": "time=time,prompt=prompt,output=output", "time-unit": "s"})
    folder = execute(prepare(config), lambda ended: None).folder
    assert reproduce(folder, "--runs", "1", "--out", tmp_path / "a").exit_code == 0
    trace.write_text("\n".join(["time,prompt,output", *rows[:-1], "23.8,20,99"]) + "\n")
    changed = reproduce(folder, "--out", tmp_path / "b")
    assert changed.exit_code == 2 and "is another one" in changed.stderr
    trace.unlink()
    missing = reproduce(folder, "--out", tmp_path / "c")
    assert missing.exit_code == 2 and "trace.csv" in missing.stderr


def test_a_point_of_a_sweep_is_named(tmp_path: Path) -> None:
    """A sweep folder and its report hold several runs."""
    config = from_texts({"requests": "100", "clock": "modelled", "out": str(tmp_path)}, complete=False)
    sweep = plan_sweep(config, ("static,batch=4",), "4,8", 1)
    run_sweep(sweep, lambda point, ended, requests: None)
    page = write_report(sweep.folder)
    for path in (sweep.folder, page):
        refused = reproduce(path)
        assert refused.exit_code == 2 and "points/001" in refused.stderr
        done = reproduce(path, "--point", "points/001", "--runs", "1", "--out", tmp_path / "again")
        assert done.exit_code == 0, done.output
    assert reproduce(page, "--point", "nothing").exit_code == 2


@pytest.mark.parametrize("text", ["", "<html></html>", '<script type="application/json" id="recipe">{</script>'])
def test_what_is_no_report_is_refused(tmp_path: Path, text: str) -> None:
    """One line."""
    page = tmp_path / "page.html"
    page.write_text(text)
    result = reproduce(page)
    assert result.exit_code == 2 and len(result.stderr.strip().splitlines()) == 1


def test_a_report_carries_its_recipe_and_stays_the_same(original: Path) -> None:
    """Written twice it has the same bytes."""
    first = (original / "report.html").read_bytes()
    assert b'id="recipe"' in first
    assert write_report(original).read_bytes() == first
