"""The tables of a finished run: what is written is read back, by us and by a notebook."""

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings

from results.columns import NULL, Table, int64
from results.recording import Recording, RecordingPart, SlotEvent, merge
from results.schedule import make_schedule
from results.status import Status
from results.summary import summarise
from results.tables import TABLE_FILES, read_tables, write_tables, write_warmup
from tests.results.test_recording import part
from tests.results.test_summary import recordings


def back(recording: Recording) -> Recording:
    """Written to a folder and read again."""
    with TemporaryDirectory() as name:
        write_tables(recording, Path(name))
        return read_tables(recording.schedule, Path(name), recording.in_flight_request_ns)


def columns(table: Table) -> dict[str, list[object]]:
    """As plain lists."""
    return {name: values.tolist() for name, values in table.items()}


def check(recording: Recording) -> None:
    """Fails when the recording read back differs in anything."""
    read = back(recording)
    for name in ("requests", "steps", "host"):
        assert columns(getattr(read, name)) == columns(getattr(recording, name)), name
    for name in ("token_offsets", "token_step", "token_t_ns", "token_count", "token_ids"):
        mine, others = getattr(recording, name), getattr(read, name)
        assert (mine is None) == (others is None), name
        assert mine is None or mine.tolist() == others.tolist(), name
    assert read.in_flight_request_ns == recording.in_flight_request_ns


def small() -> Recording:
    """Three requests: one served, one failed with an error, one never sent, with a class each."""
    schedule = make_schedule([0, 10, 20], [3, 4, 5], [2, 2, 2], request_class=[0, 1, 0], class_names=("short", "long"))
    told = part(
        requests=[
            (0, 0, 1, 90, Status.OK, "length", None),
            (1, 10, 11, 60, Status.ENGINE_ERROR, None, 'say "no", ünï'),
        ],
        tokens=[(0, 0, 1), (0, 1, 1)],
        token_ids=[[7], [8]],
        slot_events=[(0, SlotEvent.ADMITTED, 0, 3)],
        steps=[(0, 1, 0, 1, 1, *[0] * 11, 5, 30), (1, 1, NULL, 0, *[NULL] * 12, 30, 90)],
        host=[(5, 6, 7, 8, NULL, 9, 10)],
        flight=[(90, 140)],
    )
    return merge(schedule, [told])


@settings(deadline=None, max_examples=60)
@given(recordings())
def test_any_recording_comes_back_as_it_was(recording: Recording) -> None:
    """Requests, steps, host samples and deliveries of any run survive the files, missing values included."""
    check(replace(recording, stopped_ns=None))


def test_ids_errors_and_host_samples_come_back() -> None:
    """Token ids, texts with quotes and accents, and a host fact that the kernel does not tell survive."""
    check(small())


@pytest.mark.parametrize("counts", [[1, 1, 1], [2, 1], [4], [1, 1, 3], []])
def test_counts_of_tokens_come_back(counts: list[int]) -> None:
    """Counts are left out of the file when all are 1, and are there when one is not."""
    tokens = [(0, step, count) for step, count in enumerate(counts)]
    steps = [(step, 1) for step in range(len(counts))]
    check(merge(make_schedule([0], [1], [3]), [part(tokens=tokens, steps=steps)]))


@pytest.mark.parametrize("counts", [[2, 0], [0, 2], [0, 1, 2], [3, 0, 0]])
def test_counts_that_only_average_1_come_back(counts: list[int]) -> None:
    """As many tokens as deliveries does not mean one in each: the counts of the file are the run's."""
    tokens = [(0, step, count) for step, count in enumerate(counts)]
    steps = [(step, 1) for step in range(len(counts))]
    recording = merge(make_schedule([0], [1], [3]), [part(tokens=tokens, steps=steps)])
    assert back(recording).token_count.tolist() == recording.token_count.tolist()


def test_the_figures_are_the_same_from_the_files() -> None:
    """A summary of what was read equals the summary of what was written."""
    assert summarise(back(small())) == summarise(small())


def test_a_run_of_nothing_comes_back() -> None:
    """No part, or no request at all, is a set of readable files."""
    check(merge(make_schedule([0, 1], [1, 1], [1, 1]), []))
    check(merge(make_schedule([], [], []), []))


def test_the_same_recording_gives_the_same_bytes(tmp_path: Path) -> None:
    """Two writings of one recording are equal byte for byte."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        write_tables(small(), tmp_path / name)
    for file in TABLE_FILES:
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes(), file


def test_a_notebook_sees_null_for_missing_and_names_for_codes(tmp_path: Path) -> None:
    """In pandas a missing value is missing, and status, phase, kind and class are texts."""
    write_tables(small(), tmp_path)
    requests = pd.read_parquet(tmp_path / "requests.parquet")
    assert requests["status"].tolist() == ["ok", "engine_error", "not_dispatched"]
    assert requests["phase"].tolist() == ["measure"] * 3
    assert requests["request_class"].tolist() == ["short", "long", "short"]
    assert requests["end_ns"].isna().tolist() == [False, False, True]
    assert requests["session"].isna().all()
    assert requests["admitted_step"].isna().tolist() == [False, True, True]
    assert requests["error"].tolist()[1] == 'say "no", ünï'
    assert requests["error"].isna().tolist() == [True, False, True]
    steps = pd.read_parquet(tmp_path / "steps.parquet")
    assert steps["kind"].isna().tolist() == [False, True]
    assert steps["kind"].tolist()[0] == "prefill"
    assert steps["idle_slots"].isna().tolist() == [False, True]
    host = pd.read_parquet(tmp_path / "host.parquet")
    assert host["run_queue_wait_ns"].isna().all()


def test_tokens_are_one_row_a_request_with_lists(tmp_path: Path) -> None:
    """tokens.parquet has a list of steps a request; counts are null when all are 1, ids when there are none."""
    write_tables(small(), tmp_path)
    tokens = pq.read_table(tmp_path / "tokens.parquet").to_pydict()
    assert tokens["request_id"] == [0, 1, 2]
    assert tokens["step"] == [[0, 1], [], []]
    assert tokens["token_ids"][0] == [7, 8]
    assert tokens["tokens"][0] is None


def test_no_file_holds_the_number_that_stands_for_missing(tmp_path: Path) -> None:
    """Missing is null in every column of every file, never its code in memory."""
    write_tables(small(), tmp_path)
    for name in TABLE_FILES:
        table = pq.read_table(tmp_path / name)
        for column in table.column_names:
            assert NULL not in table.column(column).to_pylist(), (name, column)


def test_a_streaming_targets_times_come_back() -> None:
    """Deliveries with times of their own keep them, under their own name."""
    base = part(requests=[(0, 0, 1, 90, Status.OK, None, None)])
    tokens: Table = {"request_id": int64([0, 0]), "t_ns": int64([40, 90]), "tokens": int64([1, 1])}
    recording = merge(make_schedule([0], [1], [2]), [RecordingPart({**base.tables, "tokens": tokens})])
    assert recording.token_t_ns is not None
    check(recording)


def test_warm_up_rows_have_a_file_of_their_own(tmp_path: Path) -> None:
    """What was served before time 0 keeps its negative times, apart from the measured requests."""
    write_warmup({"request_id": int64([9, 10]), "due_ns": int64([-50, -20]), "end_ns": int64([-20, -1])}, tmp_path)
    assert pq.read_table(tmp_path / "warmup.parquet").to_pydict() == {
        "request_id": [9, 10], "due_ns": [-50, -20], "end_ns": [-20, -1],
    }  # fmt: skip
    assert [path.name for path in tmp_path.iterdir()] == ["warmup.parquet"]
