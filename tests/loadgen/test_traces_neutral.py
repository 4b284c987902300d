"""The neutral format: a schedule saved and read back is the same schedule."""

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadgen.traces.catalog import read_trace
from loadgen.traces.neutral import write_neutral
from loadgen.traces.replay import Replay, replay
from results.columns import NULL
from results.schedule import Schedule, make_schedule

HEADER: dict[str, Any] = {"format": "loadtrace/1", "name": "small"}
ROW: dict[str, Any] = {"i": 0, "at_ns": 0, "in": 10, "out": 20}


def write(folder: Path, *rows: Any, header: Any = HEADER) -> Path:
    path = folder / "t.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in (header, *rows)), encoding="utf-8")
    return path


def refusal(path: Path) -> str:
    with pytest.raises(ValueError) as caught:
        read_trace(path)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def followers() -> Schedule:
    """Two sessions of three turns, with think times, beside a request of its own."""
    return make_schedule(
        [95_000_000, NULL, 120_000_001, NULL, NULL, 10**15],
        [5, 6, 7, 8, 9, 1],
        [1, 2, 3, 4, 5, 6],
        after=[[], [0], [], [1], [1, 2], []],
        think_ns=[NULL, 0, NULL, 10**9, 7, NULL],
        session=[4, 4, 9, 4, 9, NULL],
        turn=[0, 1, 0, 2, 1, NULL],
        request_class=[0, 1, 1, 2, 0, 0],
        class_names=("chat", "línea\nzwei", "unused too"),
        recipe={"prompt": {"kind": "uniform", "seed": 7}},
        origin={"process": "poisson", "window": {"kind": "arrivals", "end_ns": 2 * 10**15}},
    )


@st.composite
def schedules(draw: st.DrawFn) -> Schedule:
    rows = draw(st.integers(1, 12))
    waits = [row > 0 and draw(st.booleans()) for row in range(rows)]
    due = sorted(draw(st.lists(st.integers(0, 2**50), min_size=rows, max_size=rows)))
    counts = st.lists(st.integers(1, 2**31), min_size=rows, max_size=rows)
    labels = st.lists(st.one_of(st.just(NULL), st.integers(-(2**40), 2**40)), min_size=rows, max_size=rows)
    names = tuple(draw(st.lists(st.text('ab é\n"', max_size=5), min_size=1, max_size=3, unique=True)))
    schedule = make_schedule(
        [NULL if waits[row] else due[row] for row in range(rows)],
        draw(counts),
        draw(counts),
        after=[
            draw(st.lists(st.integers(0, row - 1), min_size=1, max_size=3, unique=True)) if waits[row] else []
            for row in range(rows)
        ],
        think_ns=[draw(st.integers(0, 2**40)) if waits[row] else NULL for row in range(rows)],
        session=draw(labels),
        turn=draw(labels),
        request_class=draw(st.lists(st.integers(0, len(names) - 1), min_size=rows, max_size=rows)),
        class_names=names,
    )
    phase = np.array(draw(st.lists(st.integers(0, 3), min_size=rows, max_size=rows)), dtype=np.int64)
    return replace(schedule, phase=phase)


@pytest.mark.parametrize("name", ["s.jsonl", "s.jsonl.gz"])
def test_a_saved_schedule_comes_back_with_its_hash(name: str, tmp_path: Path) -> None:
    """Followers, sessions, classes and think times survive the file: the hash is the same."""
    schedule = followers()
    write_neutral(schedule, tmp_path / name)
    trace = read_trace(tmp_path / name)
    again = replay(trace, Replay(), schedule.recipe)
    assert again.sha256 == schedule.sha256
    assert again.content_sha256 == schedule.content_sha256
    assert trace.header["declared"]["schedule"]["recipe"] == schedule.recipe
    assert trace.header["name"] == "poisson"


@settings(deadline=None)
@given(schedule=schedules())
def test_any_schedule_comes_back_with_its_hash(schedule: Schedule, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Whatever a schedule's columns hold, file and replay give the same hash."""
    path = tmp_path_factory.mktemp("neutral") / "s.jsonl"
    write_neutral(schedule, path)
    assert replay(read_trace(path), Replay(), {}).sha256 == schedule.sha256


def test_the_same_schedule_gives_the_same_bytes(tmp_path: Path) -> None:
    """Neither name nor time of writing enters the file, compressed or not."""
    for name in ("a.jsonl.gz", "b.jsonl.gz", "c.jsonl"):
        write_neutral(followers(), tmp_path / name)
    assert (tmp_path / "a.jsonl.gz").read_bytes() == (tmp_path / "b.jsonl.gz").read_bytes()
    assert gzip.decompress((tmp_path / "a.jsonl.gz").read_bytes()) == (tmp_path / "c.jsonl").read_bytes()


def test_a_saved_window_keeps_its_length(tmp_path: Path) -> None:
    """The window of a saved replay is its own, not its last arrival: rate and loop mean the same again."""
    first = replay(read_trace(write(tmp_path, ROW, ROW | {"i": 1, "at_ns": 10**9}, ROW | {"i": 2, "at_ns": 9 * 10**9})),
                   Replay(window_ns=(0, 4 * 10**9)), {})  # fmt: skip
    write_neutral(first, tmp_path / "w.jsonl")
    again = replay(read_trace(tmp_path / "w.jsonl"), Replay(loop=2), {})
    assert again.origin["rate_rps"] == first.origin["rate_rps"] == 0.5
    assert again.due_ns.tolist() == [0, 10**9, 4 * 10**9, 5 * 10**9]


def test_rows_are_brought_into_the_order_of_their_numbers(tmp_path: Path) -> None:
    """A file sorted in another way is the same trace."""
    rows = [ROW | {"i": 7, "at_ns": None, "after": [2], "sid": "x"}, ROW | {"i": 2, "at_ns": 5, "sid": "y"}]
    trace = read_trace(write(tmp_path, *rows))
    assert trace.source_row.tolist() == [2, 7]
    assert trace.after == ((), (2,))
    assert trace.session is not None
    assert trace.session.tolist() == [1, 0]


def test_fields_that_cannot_be_replayed_are_counted(tmp_path: Path) -> None:
    """Blocks, bodies and models of other writers are not dropped in silence."""
    trace = read_trace(write(tmp_path, ROW | {"blk": [1, 2]}, ROW | {"i": 1, "blk": [3], "model": None}))
    assert trace.header["warnings"] == ["blk is not replayed by this version: 2 rows have it"]


def test_unknown_lengths_and_failures_are_kept(tmp_path: Path) -> None:
    """A null length is unknown, not 0; ok = false is a failure."""
    trace = read_trace(write(tmp_path, ROW | {"in": None}, ROW | {"i": 1, "ok": False}, ROW | {"i": 2, "out": 0}))
    assert trace.prompt_tokens.tolist() == [NULL, 10, 10]
    assert trace.header["rows"]["failed"] == 2
    assert trace.header["rows"]["zero_out"] == 1


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"i": 1}, "neither at_ns nor after"),
        (ROW | {"i": -1}, "i is -1, not from 0 to"),
        (ROW | {"i": 1, "at_ns": 1.5}, "at_ns is 1.5, not a whole number"),
        (ROW | {"i": 1, "at_ns": 2**70}, "at_ns is 1180591620717411303424, not from -4,611"),
        (ROW | {"i": 1, "at_ns": True}, "at_ns is true"),
        (ROW | {"i": 1, "in": -5}, "in is -5, not from 0 to 1,000,000,000,000"),
        (ROW | {"i": 1, "out": float("nan")}, "out is NaN"),
        (ROW | {"i": 1, "think_ns": -1}, "think_ns is -1"),
        (ROW | {"i": 1, "after": [1]}, "after is [1], not a list of rows before it"),
        (ROW | {"i": 1, "after": "0"}, 'after is "0", not a list'),
        (ROW | {"i": 1, "ok": "yes"}, 'ok is "yes", not one of [true, false]'),
        (ROW | {"i": 1, "kind": 3}, "kind is 3, not a text"),
        (ROW | {"i": 1, "sid": [3]}, "sid is [3], not a text"),
        (ROW | {"i": 1, "x": {"phase": "late"}}, 'phase is "late", not one of'),
        ([1], "not a JSON object"),
    ],
)
def test_a_bad_row_says_why(row: Any, reason: str, tmp_path: Path) -> None:
    """Every kind of bad row is named with its line."""
    assert f"1 row cannot be read, at line 3 (line 3: {reason}" in refusal(write(tmp_path, ROW, row))


def test_numbers_and_references_must_hold(tmp_path: Path) -> None:
    """A row's number stands once, and who waits, waits for a row of the file."""
    assert "i = 0 stands in more than one row" in refusal(write(tmp_path, ROW, ROW))
    assert "row i = 9 waits for rows that are not in the file: [3]" in refusal(
        write(tmp_path, ROW, ROW | {"i": 9, "after": [3]})
    )


def test_another_header_is_refused(tmp_path: Path) -> None:
    """Another version, another format or a header that is wrong is said, and no row is read."""
    assert "this version reads 'loadtrace/1'" in refusal(write(tmp_path, ROW, header={"format": "loadtrace/2"}))
    assert "end_ns" in refusal(write(tmp_path, ROW, header=HEADER | {"time": {"end_ns": "late"}}))
    assert "class_names" in refusal(write(tmp_path, ROW, header=HEADER | {"class_names": "chat"}))
    assert "no rows" in refusal(write(tmp_path))
    path = write(tmp_path)
    path.write_text(path.read_text() + "{\n")
    assert "line 2: not JSON" in refusal(path)
    path = write(tmp_path, header=[1])
    with pytest.raises(ValueError, match="says format None"):
        read_trace(path, "loadtrace")
    with pytest.raises(ValueError, match="leave columns and time unit out"):
        read_trace(path, "loadtrace", time_unit="s")


def test_a_path_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    """A folder that is not there is a user's error, in one line."""
    with pytest.raises(ValueError, match="cannot be written: No such file"):
        write_neutral(followers(), tmp_path / "none" / "s.jsonl")
