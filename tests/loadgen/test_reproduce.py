"""`tokenload reproduce`: what is checked, what is refused, and what the verdict says."""

import json
import re
import shutil
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from loadgen.cli import main
from loadgen.config import from_texts
from loadgen.reproduce import together_of
from loadgen.session import execute, prepare
from loadgen.sweep import plan_sweep, run_sweep
from results.report import write_report
from results.report.page_seal import BLANK, sealed
from results.store import file_sha256, seal, write_json

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
    assert {one["likeness"] for one in document["figures"].values()} <= {"REPRODUCED", None}
    (folder,) = tmp_path.iterdir()
    assert json.loads((folder / "reproduce.json").read_text())["verdict"] == "REPRODUCED"
    assert (folder / "runs/000/run.json").is_file()


def test_a_run_has_no_points(original: Path, tmp_path: Path) -> None:
    """A point that was asked for is never left out of account: one line, and nothing runs."""
    result = reproduce(original, "--point", "points/003", "--out", tmp_path / "out")
    assert result.exit_code == 2 and "'points/003'" in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1 and not (tmp_path / "out").exists()


def test_the_report_alone_is_enough(original: Path, tmp_path: Path) -> None:
    """One HTML file, moved away from its folder, makes the same workload and compares the same figures."""
    page = tmp_path / "mailed.html"
    shutil.copy(original / "report.html", page)
    result = reproduce(page, "--runs", "1", "--out", tmp_path / "out", "--json")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert (document["verdict"], document["identical_files"]) == ("REPRODUCED", True)
    assert "no rows" in document["checks"][1]


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


def of_another_version(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """The summary as an earlier version would have written it, with the hash that it then had."""
    summary = json.loads((folder / "summary.json").read_text())
    change(summary)
    write_json(folder / "summary.json", summary)
    hashed = {"summary.json": file_sha256(folder / "summary.json")}
    edit(folder, lambda info: info.update(tokenload_version="0.0.9", files_sha256={**info["files_sha256"], **hashed}))


@pytest.mark.parametrize("from_page", [False, True])
def test_a_summary_of_another_version_does_not_hide_that_the_rows_are_the_same(
    original: Path, tmp_path: Path, from_page: bool
) -> None:
    """The rows decide, after one run; who wrote the summary and how to see its figures anew is said in one line."""
    copy = tmp_path / "copy"
    shutil.copytree(original, copy)
    of_another_version(copy, lambda summary: summary.update(schema_version=0, by_moon={}))
    path = write_report(copy) if from_page else copy
    result = reproduce(path, "--runs", "3", "--out", tmp_path / "out", "--json")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert (document["verdict"], document["identical_files"], len(document["runs"])) == ("REPRODUCED", False, 1)
    assert "are those of the first, bit for bit; its summary alone is another file" in document["why"]
    (line,) = document["faults"] or [document["why"]]
    assert f"tokenload 0.0.9, summary schema 0, read by {version('tokenload')}, schema 1" in line
    assert "tokenload report FOLDER" in line


def test_a_summary_whose_figures_are_not_those_of_the_rows_is_not_reproduced(original: Path, tmp_path: Path) -> None:
    """Whoever wrote it: the same rows do not make another figure right."""
    copy = tmp_path / "copy"
    shutil.copytree(original, copy)
    of_another_version(copy, lambda summary: summary["ttft_ms"].update(p50=summary["ttft_ms"]["p50"] / 2))
    result = reproduce(copy, "--runs", "3", "--out", tmp_path / "out", "--json")
    assert result.exit_code == 5, result.output
    assert "ttft_ms.p50 says" in json.loads(result.stdout)["faults"][0]


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
    result = reproduce(folder, "--runs", "2", "--out", tmp_path / "again")
    assert result.exit_code == 6, result.output
    assert "TOO_FEW_REQUESTS" in result.stdout
    assert "would decide it" not in result.stdout  # more runs as small would not


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


def swept(out: Path, engine: str = "static,batch=4", rates: str = "4,8") -> Path:
    """A sweep of 100 requests a point in modelled time, with its report."""
    config = from_texts({"requests": "100", "clock": "modelled", "out": str(out)}, complete=False)
    sweep = plan_sweep(config, (engine,), rates, 1)
    run_sweep(sweep, lambda point, ended, requests: None)
    write_report(sweep.folder)
    return sweep.folder


def test_every_run_of_a_sweep_has_a_verdict(tmp_path: Path) -> None:
    """Of its folder and of its page: one verdict each, the worst as that of all, and a run that is bit for bit the
    same is not run again in modelled time."""
    folder = swept(tmp_path)
    for number, path in enumerate((folder, folder / "report.html")):
        out = tmp_path / f"again-{number}"
        result = reproduce(path, "--out", out, "--json")
        assert result.exit_code == 0, result.output
        document = json.loads(result.stdout)
        assert (document["kind"], document["verdict"]) == ("reproductions", "REPRODUCED")
        assert [one["original"] for one in document["points"]] == ["points/000", "points/001"]
        assert [len(one["runs"]) for one in document["points"]] == [1, 1]
        (made,) = out.iterdir()
        assert json.loads((made / "reproduce.json").read_text())["verdict"] == "REPRODUCED"
        assert (made / "points/001/runs/000/run.json").is_file()


def test_one_point_of_a_sweep_may_be_named(tmp_path: Path) -> None:
    """By --point, of the folder and of the page; one that is not there is refused."""
    folder = swept(tmp_path)
    for path in (folder, folder / "report.html"):
        done = reproduce(path, "--point", "points/001", "--out", tmp_path / "again", "--json")
        assert done.exit_code == 0, done.output
        assert json.loads(done.stdout)["original"] == "points/001"
        refused = reproduce(path, "--point", "points/002")
        assert refused.exit_code == 2 and "points/001" in refused.stderr


@pytest.mark.parametrize(
    ("cost_ps", "code", "verdict"), [(26 * 10**8, 5, "DIFFERS"), (2 * 10**9 + 1000, 6, "INCONCLUSIVE")]
)
def test_the_worst_verdict_of_a_sweep_is_its_exit_code(
    tmp_path: Path, cost_ps: int, code: int, verdict: str
) -> None:
    """One engine that is slower now, or was measured on too few requests to say: exit code 5, else 6."""
    engine = tmp_path / "mine.py"
    engine.write_text(ENGINE.replace("COST", str(2 * 10**9)))
    config = from_texts({"clock": "modelled", "out": str(tmp_path), "requests": "100" if code == 5 else "40"}, False)
    sweep = plan_sweep(config, ("static,batch=4", f"{engine}:Mine"), "8", 1)
    run_sweep(sweep, lambda point, ended, requests: None)
    engine.write_text(ENGINE.replace("COST", str(cost_ps)))
    result = reproduce(sweep.folder, "--runs", "3", "--out", tmp_path / "again")
    assert result.exit_code == code, result.output
    assert result.stdout.startswith(f"{verdict}: of 2 runs ")
    assert "1 REPRODUCED" in result.stdout and f"{engine}:Mine at 8/s, seed 7: {verdict}" in result.stdout


@pytest.mark.parametrize(
    ("verdicts", "worst"),
    [
        (["REPRODUCED", "REPRODUCED"], "REPRODUCED"),
        (["REPRODUCED", "INCONCLUSIVE"], "INCONCLUSIVE"),
        (["INCONCLUSIVE", "REPRODUCED", "DIFFERS"], "DIFFERS"),
    ],
)
def test_of_several_verdicts_the_worst_counts(tmp_path: Path, verdicts: list[str], worst: str) -> None:
    """Wherever it stands; INVALID runs are told with their point."""
    bad = {"run": "000", "codes": ["FAILURES"]}
    documents = [
        {"original": f"points/{at:03d}", "verdict": verdict, "invalid": [bad] * at}
        for at, verdict in enumerate(verdicts)
    ]
    document = together_of(tmp_path, "sweep", documents)
    assert document["verdict"] == worst
    assert document["invalid"][0] == {**bad, "point": "points/001"}


def test_a_sweep_is_refused_whole(tmp_path: Path) -> None:
    """A flipped byte in one point, a point that has not run, a point that lies outside: one line, and nothing runs."""
    folder = swept(tmp_path)
    point = folder / "points/001"
    kept = (point / "requests.parquet").read_bytes()
    (point / "requests.parquet").write_bytes(kept[:-9] + bytes([kept[-9] ^ 1]) + kept[-8:])
    changed = reproduce(folder, "--out", tmp_path / "out")
    shutil.rmtree(point)
    missing = reproduce(folder, "--out", tmp_path / "out")
    document = json.loads((folder / "sweep.json").read_text())
    document["points"][1]["folder"] = "../elsewhere"
    (folder / "sweep.json").write_text(json.dumps(document))
    outside = reproduce(folder, "--out", tmp_path / "out")
    for result, says in ((changed, "points/001"), (missing, "sweep --resume"), (outside, "lies outside")):
        assert result.exit_code == 2 and says in result.stderr
        assert len(result.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"summary":{', '"summary":{"more":1,'),
        ('"rate":"8.0"', '"rate":"9.0"'),
        ("<h1", "<h1 title='x'"),
        ('<meta name="tokenload-sha256"', '<meta name="other"'),
    ],
)
def test_an_edited_page_is_refused(original: Path, tmp_path: Path, old: str, new: str) -> None:
    """Its recipe, what people read on it, or the hash that would have told: one line, exit code 2."""
    page = tmp_path / "mailed.html"
    text = (original / "report.html").read_text()
    assert old in text
    page.write_text(text.replace(old, new, 1))
    result = reproduce(page, "--out", tmp_path / "out")
    assert result.exit_code == 2 and "was changed since it was written" in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1 and not (tmp_path / "out").exists()


def test_a_page_sealed_anew_must_still_fit_its_run(original: Path, tmp_path: Path) -> None:
    """Whoever edits the summary and knows of the page's hash is found by the hash of the run's file."""
    page = tmp_path / "mailed.html"
    text = (original / "report.html").read_text()
    blank = re.sub(r'(tokenload-sha256" content=")[0-9a-f]{64}', rf"\g<1>{BLANK}", text)
    page.write_text(sealed(blank.replace('"summary":{', '"summary":{"more":1,', 1)))
    result = reproduce(page, "--out", tmp_path / "out")
    assert result.exit_code == 2 and "does not have the hash" in result.stderr


def test_a_page_of_a_run_json_that_was_edited_says_so_and_carries_no_recipe(original: Path, tmp_path: Path) -> None:
    """Its seal tells; writing the page anew does not wash it."""
    copy = tmp_path / "copy"
    shutil.copytree(original, copy)
    text = (copy / "run.json").read_text()
    (copy / "run.json").write_text(text.replace('"started_utc"', '"begun_utc"'))
    page = write_report(copy)
    assert "changed since the run was written: run.json" in page.read_text()
    result = reproduce(page, "--out", tmp_path / "out")
    assert result.exit_code == 2 and "holds no complete run" in result.stderr


def test_a_page_of_a_sweep_with_a_damaged_point_is_refused_whole(tmp_path: Path) -> None:
    """As its folder is: a verdict of all but one is none of the sweep; one that is whole may be named."""
    folder = swept(tmp_path)
    (folder / "points/001/steps.parquet").write_bytes(b"PAR1")
    page = write_report(folder)
    result = reproduce(page, "--out", tmp_path / "out")
    assert result.exit_code == 2 and "points/001 had no complete run" in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1 and not (tmp_path / "out").exists()
    named = reproduce(page, "--point", "points/000", "--out", tmp_path / "out")
    assert named.exit_code == 0 and named.stdout.startswith("REPRODUCED")


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
