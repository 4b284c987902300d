"""Parts of the requests on the page: classes, turns, and what was not measured."""

from pathlib import Path

import pytest

from loadgen.config import from_texts
from loadgen.session import execute, prepare
from loadgen.traces.neutral import write_neutral
from results.report import write_report
from results.report.folder import read_folder
from results.report.split_table import split_table
from results.schedule import make_schedule


def ran(out: Path, **texts: str) -> Path:
    """A run of one engine in modelled time."""
    given = {"engine": "static,batch=4", "clock": "modelled", "out": str(out), **texts}
    return execute(prepare(from_texts(given)), lambda ended_requests: None).folder


def titles(folder: Path) -> list[str] | None:
    """Of the rows of the table; None: there is none."""
    table = split_table(read_folder(folder))
    return None if table is None else [row.head.text for row in table.rows]


def test_first_turns_of_a_closed_loop_stand_apart(tmp_path: Path) -> None:
    """As fill; without one as turn 1 of many."""
    folder = ran(tmp_path, arrival="closed", users="4", requests="40")
    assert titles(folder) == ["fill, in no other figure"]
    assert "By part of the requests" in write_report(folder).read_text()
    found = titles(ran(tmp_path, arrival="closed", users="4", requests="40", fill="0"))
    assert found is not None and found[0] == "turn 1" and found[-1] == "turn 10"


def test_phases_have_figures_of_their_own(tmp_path: Path) -> None:
    """Fill and cool-down of an open schedule, with as many requests as they have; none where all is measured."""
    folder = ran(tmp_path, rate="8", requests="40", fill="20", cooldown="10")
    table = split_table(read_folder(folder))
    assert table is not None
    assert [row.cells[0].raw for row in table.rows] == ["20.0", "10.0"]
    assert titles(ran(tmp_path, rate="8", requests="40")) is None


def test_classes_of_a_trace_are_told_apart(tmp_path: Path) -> None:
    """By their names, each with its own latencies."""
    path = tmp_path / "two.jsonl"
    due = [100_000_000 * at for at in range(20)]
    lengths = [4 + 60 * (at % 2) for at in range(20)]
    classes = [at % 2 for at in range(20)]
    schedule = make_schedule(due, [8] * 20, lengths, request_class=classes, class_names=("short", "long"))
    write_neutral(schedule, path)
    table = split_table(read_folder(ran(tmp_path, trace=str(path))))
    assert table is not None
    short, long = table.rows
    assert {short.head.text, long.head.text} == {"class short", "class long"}
    ratio = float(long.cells[4].raw) / float(short.cells[4].raw)
    assert (short.head.text == "class short") is (ratio > 1)
    assert ratio != pytest.approx(1, rel=0.3)
