"""The run folder: readable at any moment, whatever the process was doing when it died."""

import hashlib
import json
import shutil
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from loadgen.config import from_texts
from loadgen.session import execute, prepare
from results.columns import int64
from results.recording import PART_TABLES, Recording, RecordingPart, SlotEvent, merge
from results.schedule import Schedule, make_schedule
from results.slo import parse_slo
from results.status import Status
from results.store import (
    COMPLETE,
    INCOMPLETE,
    RUNNING,
    SCHEMA_VERSION,
    STOPPED,
    WRITE_ORDER,
    PartWriter,
    Run,
    RunFolder,
    digest,
    file_sha256,
    load_run,
    write_json,
)
from results.summary import summarise
from tests.results.test_recording import part

IDENTICAL = ("schedule.parquet", "requests.parquet", "tokens.parquet", "steps.parquet", "summary.json")
PARTS, STEPS_A_PART = 3, 4


def schedule_of_six() -> Schedule:
    """Two requests a part."""
    return make_schedule([0, 10, 100, 110, 200, 210], [3] * 6, [4] * 6)


def parts_of_six(modelled: bool = False) -> list[RecordingPart]:
    """Three parts of four steps of 25 ns: in part k requests 2k and 2k + 1 get a token a step and end."""
    made = []
    for number in range(PARTS):
        pair, steps = (2 * number, 2 * number + 1), range(STEPS_A_PART * number, STEPS_A_PART * (number + 1))
        end = 25 * steps[-1] + 25
        one = part(
            steps=[(step, 1, 1, 1, 0, 2, *[0] * 10, 25 * step, 25 * step + 25) for step in steps],
            token_ids=[[100 * row + step] for step in steps for row in pair],
            tokens=[(row, step, 1) for step in steps for row in pair],
            slot_events=[(row, SlotEvent.ADMITTED, steps[0], at) for at, row in enumerate(pair)],
            requests=[(row, 50 * row - 40 * (row % 2), 50 * row, end, Status.OK, "length", None) for row in pair],
            host=[(end, 1, 2, 3, 4, 5, 6)],
            flight=[(end, 1)],
        )
        if modelled:
            steps_table = {
                name: values for name, values in one.tables["steps"].items() if name not in ("start_ns", "end_ns")
            }
            steps_table |= {"start_ps": int64([25_000 * step for step in steps]), "cost_ps": int64([25_000] * 4),
                            "cost_slope_ps": int64([0] * 4)}  # fmt: skip
            one = RecordingPart({**one.tables, "steps": steps_table})
        made.append(one)
    return made


def running(folder: Path, modelled: bool = False) -> list[dict[str, int]]:
    """A folder whose process was killed after three parts; the sizes of its streams after each of them."""
    run = RunFolder(folder, schedule_of_six(), {"config": {}})
    writer = run.writer()
    sizes = [dict.fromkeys(WRITE_ORDER, 0)]
    for one in parts_of_six(modelled):
        writer.write(one)
        sizes.append({name: stream(folder, name).stat().st_size for name in WRITE_ORDER})
    return sizes


def stream(folder: Path, name: str) -> Path:
    """The file of one table's parts."""
    return folder / "parts" / f"0000-{name}.arrows"


def cut(source: Path, target: Path, sizes: dict[str, int]) -> Run:
    """A copy of a folder with its streams cut to these sizes, read."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target)
    for name, size in sizes.items():
        path = stream(target, name)
        if size:
            path.write_bytes(path.read_bytes()[:size])
        else:
            path.unlink()
    return load_run(target)


def check_consistent(run: Run) -> None:
    """Labelled, and every row refers only to what is there."""
    recording = run.recording
    assert run.label == INCOMPLETE
    assert recording.requests["request_id"].tolist() == list(range(6))
    steps = set(recording.steps["step"].tolist())
    assert recording.token_step is not None
    assert set(recording.token_step.tolist()) <= steps
    assert len(recording.token_ids) <= int(recording.token_count.sum())
    told = recording.requests["admitted_step"][recording.requests["admitted_step"] >= 0].tolist()
    assert set(told) <= steps
    json.dumps(summarise(recording), allow_nan=False)
    for row in range(6):
        tokens = int(recording.requests["output_tokens"][row])
        begin, end = recording.token_offsets[row : row + 2]
        assert tokens == int(recording.token_count[begin:end].sum())
        if recording.requests["end_ns"][row] >= 0:
            assert (recording.requests["status"][row], tokens) == (Status.OK, 4)


@pytest.mark.parametrize("modelled", [False, True], ids=["ns", "ps"])
def test_a_write_cut_off_at_any_byte_leaves_a_consistent_run(tmp_path: Path, modelled: bool) -> None:
    """Streams are written in one order: wherever the writing stopped, what can be read fits together."""
    sizes = running(tmp_path / "run", modelled)
    for before, after in pairwise(sizes):
        for at, name in enumerate(WRITE_ORDER):
            whole = {**before, **{done: after[done] for done in WRITE_ORDER[:at]}}
            for size in offsets(before[name], after[name]):
                run = cut(tmp_path / "run", tmp_path / "cut", {**whole, name: size})
                check_consistent(run)
                finished = int((run.recording.requests["end_ns"] >= 0).sum())
                assert finished >= 2 * sizes.index(before)


@pytest.mark.parametrize("name", WRITE_ORDER)
def test_a_stream_cut_at_any_byte_is_readable(tmp_path: Path, name: str) -> None:
    """One damaged stream among whole ones (a disk that lost its last pages) still gives a consistent run."""
    whole = running(tmp_path / "run")[-1]
    for size in [*offsets(0, whole[name]), 0]:
        run = cut(tmp_path / "run", tmp_path / "cut", {**whole, name: size})
        assert run.label == INCOMPLETE
        recording = run.recording
        assert recording.token_step is not None
        assert set(recording.token_step.tolist()) <= set(recording.steps["step"].tolist())
        assert len(recording.token_ids) <= int(recording.token_count.sum())
        json.dumps(summarise(recording), allow_nan=False)


@pytest.mark.slow
@pytest.mark.parametrize("name", WRITE_ORDER)
def test_a_stream_cut_at_any_of_many_bytes_is_readable(tmp_path: Path, name: str) -> None:
    """The same at hundreds of offsets of a stream, so close together that no part of a message is left out."""
    whole = running(tmp_path / "run")[-1]
    for size in range(0, whole[name], max(1, whole[name] // 300)):
        assert cut(tmp_path / "run", tmp_path / "cut", {**whole, name: size}).label == INCOMPLETE


def offsets(begin: int, end: int) -> list[int]:
    """A sample of the bytes between, both edges and their neighbours included."""
    edges = {begin, begin + 1, begin + 8, end - 8, end - 1, end}
    return sorted(size for size in {*edges, *np.linspace(begin, end, 5).astype(int).tolist()} if begin <= size <= end)


def test_what_was_flushed_before_the_kill_is_all_there(tmp_path: Path) -> None:
    """Without any closing of streams, the rows of a killed run equal the merge of its parts."""
    running(tmp_path / "run")
    recording = load_run(tmp_path / "run").recording
    expected = merge(schedule_of_six(), parts_of_six())
    assert {name: column.tolist() for name, column in recording.requests.items()} == {
        name: column.tolist() for name, column in expected.requests.items()
    }
    assert recording.token_ids.tolist() == expected.token_ids.tolist()
    assert recording.in_flight_request_ns == expected.in_flight_request_ns == PARTS


def test_requests_that_were_due_before_the_kill_are_unfinished(tmp_path: Path) -> None:
    """Due by the last step and without an end: unfinished. Due later: never dispatched."""
    run = RunFolder(tmp_path / "run", make_schedule([0, 50, 100, 101], [1] * 4, [1] * 4), {"config": {}})
    with run.writer() as writer:
        writer.write(part(steps=[(0, 1, 1, 1, *[0] * 12, 0, 100)], requests=[(0, 0, 0, 100, Status.OK, None, None)],
                          tokens=[(0, 0, 1)], token_ids=[[5]]))  # fmt: skip
    statuses = load_run(tmp_path / "run").recording.requests["status"].tolist()
    assert statuses == [Status.OK, Status.UNFINISHED, Status.UNFINISHED, Status.NOT_DISPATCHED]


def test_ids_beyond_the_told_tokens_are_left_out(tmp_path: Path) -> None:
    """Ids reach the disk before their tokens: those whose tokens did not are dropped."""
    sizes = running(tmp_path / "run")
    run = cut(tmp_path / "run", tmp_path / "cut", {**sizes[3], "tokens": sizes[2]["tokens"]})
    assert int(run.recording.token_count.sum()) == len(run.recording.token_ids) == 16


def test_a_folder_without_any_part_is_a_run_that_had_just_begun(tmp_path: Path) -> None:
    """Killed before the first part: incomplete, nothing dispatched, and a summary all the same."""
    RunFolder(tmp_path / "run", schedule_of_six(), {"config": {}})
    run = load_run(tmp_path / "run")
    assert run.label == INCOMPLETE
    assert set(run.recording.requests["status"].tolist()) <= {Status.NOT_DISPATCHED, Status.UNFINISHED}
    json.dumps(summarise(run.recording), allow_nan=False)


def test_a_process_that_died_while_finishing_leaves_its_parts(tmp_path: Path) -> None:
    """Until run.json says complete the parts are what counts, however much of the tables is there."""
    running(tmp_path / "run")
    (tmp_path / "run/requests.parquet").write_bytes(b"PAR1 half a file")
    (tmp_path / "run/summary.partial").write_text('{"half":')
    run = load_run(tmp_path / "run")
    check_consistent(run)
    assert run.recording.requests["status"].tolist() == [Status.OK] * 6


def test_a_disk_that_refuses_says_so_once(tmp_path: Path) -> None:
    """When a part is written: what closes the streams afterwards must not hide which folder it was."""
    (tmp_path / "0000-requests.arrows").symlink_to("/dev/full")
    with PartWriter(tmp_path, 0) as writer, pytest.raises(OSError, match="No space left"):
        writer.write(parts_of_six()[-1])


def test_several_writers_parts_are_one_run(tmp_path: Path) -> None:
    """Each writer has streams of its own number; all are read."""
    run = RunFolder(tmp_path / "run", schedule_of_six(), {"config": {}})
    first, second, third = parts_of_six()
    with run.writer(0) as one, run.writer(1) as two:
        one.write(first)
        two.write(second)
        one.write(third)
    assert (tmp_path / "run/parts/0001-steps.arrows").exists()
    recording = load_run(tmp_path / "run").recording
    assert recording.requests["status"].tolist() == [Status.OK] * 6
    assert len(recording.token_count) == 24


def finished(folder: Path, status: str = COMPLETE) -> tuple[Recording, dict[str, Any]]:
    """A folder of a run that came to its end."""
    run = RunFolder(folder, schedule_of_six(), {"config": {"rate": "4"}})
    with run.writer() as writer:
        for one in parts_of_six():
            writer.write(one)
    recording = merge(schedule_of_six(), parts_of_six())
    summary = summarise(recording)
    run.finish(recording, summary, status, "2026-01-01T00:00:00+00:00")
    return recording, summary


def test_a_running_folder_holds_what_is_known_before_the_start(tmp_path: Path) -> None:
    """run.json says running; schedule and conditions are there; parts wait for rows."""
    RunFolder(tmp_path / "runs" / "one", schedule_of_six(), {"config": {"rate": "4"}})
    folder = tmp_path / "runs" / "one"
    assert sorted(path.name for path in folder.iterdir()) == [
        "conditions.json", "parts", "run.json", "schedule.parquet",
    ]  # fmt: skip
    assert json.loads((folder / "run.json").read_text()) == {
        "schema_version": SCHEMA_VERSION, "status": RUNNING, "config": {"rate": "4"},
    }  # fmt: skip
    assert list((folder / "parts").iterdir()) == []


def test_a_folder_that_is_there_is_not_written_over(tmp_path: Path) -> None:
    """A run never goes into a folder that exists."""
    RunFolder(tmp_path / "run", schedule_of_six(), {})
    with pytest.raises(FileExistsError):
        RunFolder(tmp_path / "run", schedule_of_six(), {})


@pytest.mark.parametrize(("status", "label"), [(COMPLETE, None), (STOPPED, "STOPPED")])
def test_a_finished_folder_has_tables_and_hashes_and_no_parts(tmp_path: Path, status: str, label: str | None) -> None:
    """Complete or stopped: Parquet tables, summary, the SHA-256 of each file, and the parts gone."""
    recording, summary = finished(tmp_path / "run", status)
    names = {path.name for path in (tmp_path / "run").iterdir()}
    assert names == {*IDENTICAL, "host.parquet", "conditions.json", "run.json"}
    info = json.loads((tmp_path / "run/run.json").read_text())
    assert info["status"] == status
    assert set(info["files_sha256"]) == names - {"run.json"}
    for name, sha256 in info["files_sha256"].items():
        assert hashlib.sha256((tmp_path / "run" / name).read_bytes()).hexdigest() == sha256
    assert json.loads((tmp_path / "run/summary.json").read_text()) == summary
    run = load_run(tmp_path / "run")
    assert run.label == label
    assert (run.folder, run.info) == (tmp_path / "run", info)
    assert summarise(run.recording) == summary
    assert info["digest_sha256"] == digest(recording) == digest(run.recording)


def test_the_digest_is_of_what_was_asked_and_what_came() -> None:
    """SHA-256 over id, due time, prompt tokens, output tokens asked and received, and status, as int64 columns."""
    recording = merge(schedule_of_six(), parts_of_six())
    sha = hashlib.sha256()
    for name in ("request_id", "due_ns", "prompt_tokens", "output_tokens_asked", "output_tokens", "status"):
        sha.update(f"{name}|int64|6|".encode() + recording.requests[name].astype("<i8").tobytes())
    assert digest(recording) == sha.hexdigest()
    other = merge(schedule_of_six(), parts_of_six()[:2])
    assert digest(other) != digest(recording)


def modelled_run(out: Path, **texts: str) -> Path:
    """A run in modelled time."""
    config = from_texts({"rate": "20", "requests": "60", "clock": "modelled", "out": str(out), **texts})
    return execute(prepare(config), lambda ended: None).folder


@pytest.mark.parametrize("engine", ["continuous,batch=4", "static,batch=4,return=end", "naive"])
def test_two_modelled_runs_give_identical_files(tmp_path: Path, engine: str) -> None:
    """Schedule, requests, tokens, steps and summary of two runs of one config are equal byte for byte."""
    one, two = (modelled_run(tmp_path, engine=engine) for _ in range(2))
    assert one != two
    for name in IDENTICAL:
        assert (one / name).read_bytes() == (two / name).read_bytes(), name


def test_another_seed_gives_other_files(tmp_path: Path) -> None:
    """The comparison above can fail: a run of another seed differs in every file."""
    one, two = modelled_run(tmp_path, seed="1"), modelled_run(tmp_path, seed="2")
    for name in IDENTICAL:
        assert (one / name).read_bytes() != (two / name).read_bytes(), name


@pytest.mark.parametrize("engine", ["continuous,batch=4", "static,batch=4,wait=full,max-wait=50ms", "one-by-one"])
def test_the_summary_is_rebuilt_from_the_folder(tmp_path: Path, engine: str) -> None:
    """What is stored as the summary is what the rows of the folder give, figure by figure."""
    folder = modelled_run(tmp_path, engine=engine)
    stored = json.loads((folder / "summary.json").read_text())
    assert summarise(load_run(folder).recording, parse_slo("ttft<=1s,tpot<=50ms")) == stored


def test_a_notebook_reads_the_tables(tmp_path: Path) -> None:
    """pandas sees statuses as texts and missing values as missing."""
    folder = modelled_run(tmp_path, timeout="300ms", engine="one-by-one")
    requests = pd.read_parquet(folder / "requests.parquet")
    assert set(requests["status"]) == {"ok", "timeout_total"}
    waited = requests["admitted_step"].isna()
    assert waited.any()
    assert set(requests["status"][waited]) == {"timeout_total"}
    assert len(pd.read_parquet(folder / "tokens.parquet")) == len(requests) == 60
    assert (pd.read_parquet(folder / "steps.parquet")["n_steps"] >= 1).all()


def _no_folder(folder: Path) -> None:
    shutil.rmtree(folder)


def _a_file(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.write_text("nothing")


def _write(name: str, text: str) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        (folder / name).write_text(text)

    return write


def _remove(name: str) -> Callable[[Path], None]:
    def remove(folder: Path) -> None:
        (folder / name).unlink()

    return remove


def _change(**fields: Any) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        info = json.loads((folder / "run.json").read_text())
        info.update(fields)
        kept = {name: value for name, value in info.items() if value != "gone"}
        (folder / "run.json").write_text(json.dumps(kept))

    return change


def _directory(folder: Path) -> None:
    (folder / "run.json").unlink()
    (folder / "run.json").mkdir()


DAMAGE = {
    "no folder": _no_folder,
    "a file": _a_file,
    "no run.json": _remove("run.json"),
    "run.json is a folder": _directory,
    "not JSON": _write("run.json", '{"schema_version": 1, "status"'),
    "empty": _write("run.json", ""),
    "a list": _write("run.json", "[]"),
    "a number": _write("run.json", "7"),
    "null": _write("run.json", "null"),
    "nested without end": _write("run.json", "[" * 100_000),
    "facts that are a number": _change(facts=7),
    "a server that is a list": _change(server=[1]),
    "an engine that is a word": _change(engine="continuous"),
    "another version": _change(schema_version=SCHEMA_VERSION + 1),
    "no version": _change(schema_version="gone"),
    "no status": _change(status="gone"),
    "an unknown status": _change(status="asleep"),
    "no in-flight integral": _change(in_flight_request_ns="gone"),
    "no schedule": _remove("schedule.parquet"),
    "a damaged schedule": _write("schedule.parquet", "PAR1 nothing"),
    "no requests": _remove("requests.parquet"),
    "damaged tokens": _write("tokens.parquet", "PAR1"),
    "no steps": _remove("steps.parquet"),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE.keys())
def test_a_damaged_folder_is_refused_in_one_line(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    """What is no run folder, of another version, or has lost a file is a ValueError of one line."""
    finished(tmp_path / "run")
    damage(tmp_path / "run")
    with pytest.raises(ValueError) as caught:
        load_run(tmp_path / "run")
    assert "\n" not in str(caught.value)
    assert str(caught.value)


def test_a_table_of_another_shape_is_refused_in_one_line(tmp_path: Path) -> None:
    """A Parquet file without the columns of its table is a ValueError of one line."""
    finished(tmp_path / "run")
    shutil.copy(tmp_path / "run/requests.parquet", tmp_path / "run/tokens.parquet")
    with pytest.raises(ValueError) as caught:
        load_run(tmp_path / "run")
    assert "\n" not in str(caught.value)


def test_json_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    """Sorted, ended by a newline, and without NaN: a document that has one leaves the old file as it was."""
    write_json(tmp_path / "one.json", {"b": 1, "a": None})
    assert (tmp_path / "one.json").read_text() == '{\n "a": null,\n "b": 1\n}\n'
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(tmp_path / "one.json", {"a": float("nan")})
    assert json.loads((tmp_path / "one.json").read_text()) == {"a": None, "b": 1}
    assert [path.name for path in tmp_path.iterdir()] == ["one.json"]


def test_a_files_hash_is_of_its_bytes(tmp_path: Path) -> None:
    """SHA-256, as any other tool computes it."""
    (tmp_path / "file").write_bytes(b"abc")
    assert file_sha256(tmp_path / "file") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


def test_every_table_of_a_part_is_written(tmp_path: Path) -> None:
    """The order of writing names every table, and puts what is referred to before what refers to it."""
    assert set(WRITE_ORDER) == set(PART_TABLES)
    at = {name: index for index, name in enumerate(WRITE_ORDER)}
    assert at["steps"] < at["tokens"] < at["requests"]
    assert at["token_ids"] < at["tokens"]
    assert at["steps"] < at["slot_events"]
    running(tmp_path / "run")
    assert {path.name for path in (tmp_path / "run/parts").iterdir()} == {f"0000-{name}.arrows" for name in PART_TABLES}
