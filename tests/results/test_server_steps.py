"""The server's own steps: what is believed of them, on whose clock they are, and the figures of the right ones."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from engines.policies import Policy, continuous, static
from results.columns import NULL, Int64, Table, int64
from results.recording import KINDS, Recording
from results.schedule import FILL, MEASURE, make_schedule
from results.server.of_run import server_of_run
from results.server.step_figures import FRACTIONS, own_steps
from results.server.step_table import (
    STEP_COLUMNS,
    ServerSteps,
    empty_steps,
    read_server_steps,
    read_told_steps,
    write_server_steps,
)
from results.slots import SLOT_STATES
from results.steps import ends_ns, starts_ns
from results.summary import summarise
from tests.engines.playing import engine_of, play, schedule_of

S = 1_000_000_000
UPTIME_NS = 1_000 * S
"""What the clock of the host told when the server made its first step."""
WHOLE = (0, None)


def played(policy: Policy | None = None) -> Recording:
    """Three requests of unlike lengths, by an engine in this process."""
    return play(schedule_of([8, 4, 12], prompts=[4, 9, 2]), engine_of(policy or static(3)))


def steps_of(policy: Policy | None = None) -> Table:
    """Its steps; step i runs from i to i + 1 s."""
    steps = played(policy).steps
    times = {"start_ns": starts_ns(steps) * S, "end_ns": ends_ns(steps) * S}
    return {name: int64({**steps, **times}[name]) for name in STEP_COLUMNS}


def told(
    parts: Path, steps: Mapping[str, Any], *, same_host: bool = True, t0_ns: int = UPTIME_NS, **changes: Any
) -> ServerSteps:
    """Those steps, as they are read back from a run's parts."""
    moved = {**steps, **{name: _later(int64(steps[name])) for name in ("start_ns", "end_ns")}}
    last_ns = int(int64(moved["end_ns"])[-1]) if len(moved["step"]) else UPTIME_NS
    fetching = {
        "reason": "", "begin_step": 0, "missed_steps": 0, "asked_ns": UPTIME_NS, "stood_ns": UPTIME_NS,
        "fetched_ns": last_ns, "kinds": KINDS, **changes,
    }  # fmt: skip
    arrays = {name: pa.array(values, mask=int64(values) == NULL) for name, values in moved.items()}
    table = pa.table(arrays).replace_schema_metadata({b"tokenload_steps": json.dumps(fetching).encode()})
    with (parts / "0000-journal.arrows").open("wb") as file, pa.ipc.new_stream(file, table.schema) as stream:
        stream.write_table(table)
    return read_told_steps(parts, t0_ns, same_host)


def _later(times: Int64) -> Int64:
    return int64(np.where(times == NULL, NULL, times + UPTIME_NS))


@pytest.mark.parametrize("policy", [static(3), static(2), continuous(2)], ids=["one", "two", "continuous"])
def test_figures_are_those_of_the_engine_in_process(policy: Policy, tmp_path: Path) -> None:
    """The same steps told over HTTP come to the same fractions and shares, to the last bit."""
    expected = summarise(played(policy))["slots"]
    own = own_steps(told(tmp_path, steps_of(policy)), WHOLE)
    for name in ("wasted_slot_fraction", "unused_slot_fraction", "padding_fraction", "slot_time_share", "slot_steps",
                 "total_slot_steps", "wasted_slot_steps", "steps", "span"):  # fmt: skip
        assert own[name] == expected[name], name


def test_what_steps_cannot_tell_is_null_with_its_reason(tmp_path: Path) -> None:
    """Which request was held back stands in no step."""
    own = own_steps(told(tmp_path, steps_of()), WHOLE)
    assert own["held_back_fraction"] is None and own["reasons"] == {"held_back_fraction": "NOT_OBSERVABLE"}
    assert "which request" in own["advice"]["held_back_fraction"]


def test_steps_of_another_window_do_not_count(tmp_path: Path) -> None:
    """By the time at which they start, on the run's axis: neither the warm-up's nor those around the window."""
    steps = told(tmp_path, steps_of(), t0_ns=UPTIME_NS + 2 * S)
    assert int64(steps.steps["start_ns"]).tolist()[:3] == [-2 * S, -S, 0]
    assert own_steps(steps, WHOLE)["steps"] == 10
    window = own_steps(steps, (3 * S, 6 * S))
    assert (window["span"], window["chosen_by"], window["steps"], window["busy_ns"]) == (
        "measured window", "time", 3, 3 * S,
    )  # fmt: skip
    assert window["slot_steps"]["decoding_slots"] == 2 + 2 + 2


@pytest.mark.parametrize(
    "changes",
    [{"same_host": False}, {"asked_ns": UPTIME_NS + 2 * S}, {"fetched_ns": UPTIME_NS + 11 * S}, {"asked_ns": None}],
    ids=["another address", "ended before they were asked for", "ended after they had come", "never asked"],
)
def test_the_clock_of_another_host_is_not_this_one(changes: dict[str, Any], tmp_path: Path) -> None:
    """Then steps count by their numbers, from the first one after time 0, and the document says so."""
    steps = told(tmp_path, steps_of(), begin_step=2, **changes)
    own = own_steps(steps, (3 * S, 6 * S))
    assert not steps.same_clock and int(int64(steps.steps["start_ns"])[0]) == UPTIME_NS
    assert (own["chosen_by"], own["span"], own["steps"]) == ("step number", "whole run", 10)


def test_a_server_that_was_asked_too_late_has_no_figures(tmp_path: Path) -> None:
    """The first steps of the run are left out then, and nobody knows how many."""
    late = told(tmp_path, steps_of(), stood_ns=UPTIME_NS + 1)
    own = own_steps(late, WHOLE)
    assert own["slot_time_share"] is None and "the run had begun" in own["advice"]["slot_time_share"]


def test_a_step_may_end_a_little_outside(tmp_path: Path) -> None:
    """It was being written down while somebody asked."""
    assert told(tmp_path, steps_of(), asked_ns=UPTIME_NS + S + 50_000_000).same_clock


def test_dropped_steps_withhold_every_figure(tmp_path: Path) -> None:
    """Unless all of the window's are there; how many were dropped is said, with the remedy."""
    steps = {name: values[4:] for name, values in steps_of().items()}
    short = told(tmp_path, steps, missed_steps=4)
    own = own_steps(short, WHOLE)
    assert {own[name] for name in FRACTIONS} == {None} and own["slot_time_share"] is None
    assert "dropped 4 steps" in own["advice"]["wasted_slot_fraction"]
    assert "--record" in own["advice"]["wasted_slot_fraction"]
    assert (own["missed_steps"], own["reasons"]["wasted_slot_fraction"]) == (4, "NOT_OBSERVABLE")
    assert own_steps(short, (4 * S, None))["wasted_slot_fraction"] is not None
    assert own_steps(replace(short, same_clock=False), (4 * S, None))["wasted_slot_fraction"] is None


def test_steps_dropped_in_the_middle_withhold_every_figure(tmp_path: Path) -> None:
    """The ring ran over while pages were fetched: that the first step is an early one does not help."""
    steps = {name: int64(values)[[0, 1, 2, 7, 8, 9]] for name, values in steps_of().items()}
    short = told(tmp_path, steps, missed_steps=4)
    assert short.reason == "" and own_steps(short, (S, None))["wasted_slot_fraction"] is None


def without(name: str, at: int = 3) -> dict[str, Any]:
    """One number missing."""
    return changed(name, at, NULL)


def changed(name: str, at: int, value: int) -> dict[str, Any]:
    """One number changed."""
    steps = {key: int64(values).copy() for key, values in steps_of().items()}
    steps[name][at] = value - (UPTIME_NS if name.endswith("_ns") and value != NULL else 0)
    return {"steps": steps}


FAULTS: dict[str, tuple[dict[str, Any], str]] = {
    "a step without a number": (without("step"), "leave out"),
    "a step without an end": (without("end_ns"), "leave out"),
    "steps out of order": (changed("step", 3, 2), "not in order"),
    "a negative number": (changed("step", 0, -1), "not in order"),
    "a gap that was not told": (changed("step", 11, 15), "leave out steps"),
    "stretches": (changed("n_steps", 3, 1 << 50), "not in order"),
    "an end before the start": (changed("end_ns", 3, UPTIME_NS), "times"),
    "steps at the same time": (changed("start_ns", 3, UPTIME_NS + 2 * S), "times"),
    "a time out of every range": (changed("end_ns", 11, 1 << 62), "times"),
    "negative slots": (changed("idle_slots", 3, -2), "cannot be"),
    "slots without end": (changed("idle_slots", 3, 1 << 60), "cannot be"),
    "told more than once": (changed("told", 3, -1), "cannot be"),
    "other slots than before": (changed("idle_slots", 3, 7), "do not add up"),
    "a kind that is none": (changed("kind", 3, 3), "kind"),
    "a negative kind": (changed("kind", 3, -1), "kind"),
    "kinds of its own": ({"kinds": ["", "decode", "mixed"]}, "kind"),
}


@pytest.mark.parametrize(("changes", "reason"), FAULTS.values(), ids=FAULTS.keys())
def test_what_no_engine_does_is_not_believed(changes: dict[str, Any], reason: str, tmp_path: Path) -> None:
    """No step of it is kept, and no figure made; the reason is."""
    found = told(tmp_path, **{"steps": steps_of(), **changes})
    assert reason in found.reason and not len(found.steps["step"])
    own = own_steps(found, WHOLE)
    assert own["slot_time_share"] is None and own["advice"]["slot_time_share"] == found.reason


def test_an_engine_that_does_not_tell_its_work_has_steps_without_figures(tmp_path: Path) -> None:
    """Null, and not 0: of an engine of somebody else's behind `serve`."""
    blank = {name: int64([NULL] * 12) for name in SLOT_STATES}
    steps = {**steps_of(), **blank, "kind": int64([NULL] * 12), "told": int64([0] * 12)}
    found = told(tmp_path, steps)
    own = own_steps(found, WHOLE)
    assert (found.reason, own["steps"], own["slot_steps"]) == ("", 12, None)
    assert own["reasons"]["slot_time_share"] and own["reasons"]["wasted_slot_fraction"]


def test_kinds_are_known_by_their_names(tmp_path: Path) -> None:
    """A server may number them otherwise."""
    steps = steps_of()
    theirs = {**steps, "kind": 2 - int64(steps["kind"])}
    assert told(tmp_path, theirs, kinds=["mixed", "decode", "prefill"]).steps["kind"].tolist() == (
        steps["kind"].tolist()
    )


def test_steps_that_never_came_are_said_not_to_have(tmp_path: Path) -> None:
    """No file, and half a file."""
    assert "in time" in read_told_steps(tmp_path, 0, same_host=True).reason
    (tmp_path / "0000-journal.arrows").write_bytes(b"ARROW")
    assert "in time" in read_told_steps(tmp_path, 0, same_host=True).reason


def test_a_server_without_steps_has_no_document(tmp_path: Path) -> None:
    """Its run has no file of steps, and its server's side says nothing of them."""
    found = told(tmp_path, empty_steps(), begin_step=None, reason="HTTP 404")
    assert (found.begin_step, found.reason) == (None, "HTTP 404")
    schedule = make_schedule([0], [1], [1])
    assert server_of_run(tmp_path, {"server": {"kind": "vllm"}}, schedule, (0, S)) == {"kind": "vllm"}


def test_the_file_gives_back_what_was_told(tmp_path: Path) -> None:
    """All columns, nulls and facts; kinds by name for whoever reads it; the same steps give the same bytes."""
    steps = steps_of()
    found = told(tmp_path, {**steps, "waiting_requests": int64([NULL, *[0] * 11])}, missed_steps=3, begin_step=1)
    path = write_server_steps(found, tmp_path)
    again = read_server_steps(tmp_path)
    assert again is not None
    for name in STEP_COLUMNS:
        assert again.steps[name].tolist() == found.steps[name].tolist(), name
    assert replace(again, steps={}) == replace(found, steps={})
    frame = pd.read_parquet(path)
    assert frame["kind"].tolist() == ["prefill"] + ["decode"] * 11 and frame["waiting_requests"].isna().sum() == 1
    before = path.read_bytes()
    assert write_server_steps(again, tmp_path).read_bytes() == before
    assert read_server_steps(tmp_path / "none") is None


def test_a_finished_run_has_them_on_the_servers_side(tmp_path: Path) -> None:
    """Of the measured window where a fill surrounds it; beside what run.json says where nothing was scraped."""
    write_server_steps(told(tmp_path, steps_of()), tmp_path)
    at = int64([0, 5 * S, 11 * S])
    filled = make_schedule(at, at + 1, at + 1, phase=[FILL, MEASURE, MEASURE])
    found = server_of_run(tmp_path, {"server": {"kind": "tokenload"}}, filled, (5 * S, 11 * S))
    assert found["kind"] == "tokenload"
    assert (found["own_steps"]["span"], found["own_steps"]["steps"]) == ("measured window", 7)
    plain = server_of_run(tmp_path, {}, make_schedule(at, at + 1, at + 1), (0, 11 * S))
    assert (plain["own_steps"]["span"], plain["own_steps"]["steps"]) == ("whole run", 12)
