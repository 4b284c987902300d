"""The slot picture: its columns add up to the step table, and it is drawn only when they do."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from results.columns import NULL, int64
from results.recording import Recording
from results.report import write_report
from results.report.answer import STATES
from results.report.slot_picture import DECODING, FINISHED, PREFILLING, STALLED, agrees, slot_picture, step_at
from results.report.slot_svg import counts_text, draw
from results.slots import SLOT_STATES, slot_steps
from results.store import load_run
from tests.engines.playing import Steering, engine_of, play, schedule_of
from tests.results.report.folders import make_run, make_sweep

SPECS = (
    "one-by-one", "static,batch=3", "static,batch=4,return=end", "static,batch=4,wait=full,max-wait=50ms",
    "static-bucketed,batch=4,window=16", "continuous,batch=3", "continuous,batch=8", "naive",
)  # fmt: skip


def recording_of(folder: Path) -> tuple[Recording, int]:
    """The rows of a run folder, and its engine's slots."""
    run = load_run(folder)
    return run.recording, int(run.info["engine"]["slots"])


def all_steps(recording: Recording) -> int:
    """How many steps a run had."""
    return int(recording.steps["n_steps"].sum())


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("load", ["16", "burst"])
def test_the_pictures_counts_are_the_step_tables(tmp_path: Path, spec: str, load: str) -> None:
    """Over a whole run, step by step, in all six states: exactly."""
    recording, slots = recording_of(make_run(tmp_path, spec, load, timeout="400ms"))
    picture = slot_picture(recording, slots, 0, all_steps(recording))
    drawn = np.stack([(picture.state == state).sum(axis=0) for state in range(6)])
    steps = recording.steps
    counts = np.stack([np.repeat(int64(steps[name]), int64(steps["n_steps"])) for name in SLOT_STATES])
    assert (drawn == counts).all()
    assert dict(zip(SLOT_STATES, drawn.sum(axis=1).tolist(), strict=True)) == slot_steps(steps)


def test_a_static_batch_is_drawn_as_worked_out_by_hand() -> None:
    """Outputs 2, 4 and 8 in four slots, eight steps: prefilling 3, decoding 11, finished 10, idle 8."""
    from engines.policies import static

    recording = play(schedule_of([2, 4, 8]), engine_of(static(batch=4)))
    picture = slot_picture(recording, 4, 0, 8)
    assert picture.state[0].tolist() == [PREFILLING, DECODING, *[FINISHED] * 6]
    assert picture.state[1].tolist() == [PREFILLING, *[DECODING] * 3, *[FINISHED] * 4]
    assert picture.state[2].tolist() == [PREFILLING, *[DECODING] * 7]
    assert picture.request_id[:, 0].tolist() == [0, 1, 2, NULL]
    text = counts_text(picture)
    assert "prefilling 3, decoding 11, finished 10, stalled 0, empty queued 0, idle 8" in text
    assert "wasted_slot_fraction of this stretch 0.417" in text


def test_others_prefill_stalls_whoever_decodes() -> None:
    """In continuous batching the step in which a second request joins is a pause of the first."""
    from engines.policies import continuous

    recording = play(schedule_of([4, 2], [0, 2]), engine_of(continuous(batch=2)))
    picture = slot_picture(recording, 2, 0, all_steps(recording))
    assert STALLED in picture.state[0].tolist() and STALLED not in picture.state[1].tolist()
    assert agrees(picture)


def test_an_aborted_request_leaves_its_slot_empty_from_the_next_step_on() -> None:
    """It is never drawn as finished."""
    from engines.policies import static

    recording = play(schedule_of([3, 30]), engine_of(static(batch=2)), Steering(timeout_ns=10))
    picture = slot_picture(recording, 2, 0, all_steps(recording))
    assert agrees(picture) and FINISHED not in picture.state[1].tolist()


def test_rows_that_do_not_add_up_are_not_drawn(tmp_path: Path) -> None:
    """A picture that the step table contradicts would be a fiction."""
    recording, slots = recording_of(make_run(tmp_path))
    later = recording.requests["ended_step"].copy()
    later[np.flatnonzero(later < recording.requests["released_step"])[0]] += 1
    broken = replace(recording, requests={**recording.requests, "ended_step": later})
    with pytest.raises(ValueError, match="do not add up"):
        slot_picture(broken, slots, 0, all_steps(broken))


def test_an_engine_that_does_not_tell_has_no_picture(tmp_path: Path) -> None:
    """And the page says why."""
    engine = tmp_path / "mine.py"
    engine.write_text(
        "class Mine:\n"
        "    def __init__(self): self.waiting = []\n"
        "    def add_request(self, request): self.waiting.append([request.request_id, request.params.max_tokens])\n"
        "    def has_work(self): return bool(self.waiting)\n"
        "    def step(self):\n"
        "        from engines.engine import Step, StepOutput\n"
        "        first = self.waiting[0]; first[1] -= 1; done = first[1] == 0\n"
        "        if done: self.waiting.pop(0)\n"
        "        return Step([StepOutput(first[0], [0], done, 'length' if done else None)], modelled_cost_ps=10**9)\n"
    )
    html = write_report(make_run(tmp_path / "runs", f"{engine}:Mine")).read_text()
    assert "Not drawn: the engine does not tell" in html
    assert "The engine does not tell what its slots do." in html


def test_the_stretch_is_as_long_as_asked_or_as_there_is(tmp_path: Path) -> None:
    """Near the end it is moved back, not cut."""
    recording, slots = recording_of(make_run(tmp_path))
    steps = all_steps(recording)
    assert slot_picture(recording, slots, steps - 5, 120).state.shape == (4, 120)
    assert slot_picture(recording, slots, 0, 10**6).state.shape == (4, steps)
    assert step_at(recording, 0) == 0 and step_at(recording, 10**15) == int(recording.steps["step"][-1])


def test_the_drawing_covers_every_slot_of_every_step(tmp_path: Path) -> None:
    """Rectangles side by side, each with its state and, where somebody sits, the request's id."""
    recording, slots = recording_of(make_run(tmp_path))
    picture = slot_picture(recording, slots, 100, 120)
    found = re.findall(r'<rect class="s-(\w+)" x="(\d+)" y="\d+" width="(\d+)".*?<title>(.*?)</title>', draw(picture))
    assert sum(round(int(width) / 10 + 0.01) for _, _, width, _ in found) == slots * 120
    assert {state for state, *_ in found} <= set(STATES)
    assert all(title.startswith("request ") == (state not in ("idle", "empty_queued")) for state, _, _, title in found)


def test_both_pictures_show_the_same_moment_of_the_same_schedule(tmp_path: Path) -> None:
    """Static and continuous at the rate next to what static can do, with the counts in words."""
    html = write_report(make_sweep(tmp_path, requests="120")).read_text()
    titles = re.findall(r"<figcaption><b>([^<]*)\.</b>", html)
    assert titles == ["static,batch=4 at 16 req/s", "continuous,batch=4 at 16 req/s"]
    assert len(re.findall(r"120 steps from [\d.]+ s to [\d.]+ s x 4 slots = 480 slot-steps: ", html)) == 2
