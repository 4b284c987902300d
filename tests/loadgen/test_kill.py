"""What is left of a run that is killed, and of one that is interrupted, from outside."""

import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from results.columns import NULL
from results.metrics import events_of
from results.status import Status
from results.store import STOPPED, Run, load_run
from results.summary import summarise

SCRIPT = str(Path(sys.executable).parent / "tokenload")
S = 10**9
LOST_AT_MOST_NS = S
"""A request that had ended so long before the kill is in the folder."""
SERVED_WITHIN_NS = S // 10
"""The cost-only executor computes nothing: in real time a request ends milliseconds after it was due."""
SLOW_ENGINE = """
import pathlib, time
class Slow:
    def __init__(self, start_s: str = "0", step_s: str = "0.005"):
        self.open, self.step_s = [], float(step_s)
        pathlib.Path(__file__).with_suffix(".began").touch()
        time.sleep(float(start_s))
    def add_request(self, request):
        self.open.append([request, 0])
    def has_work(self):
        return bool(self.open)
    def abort(self, request_id):
        self.open = [row for row in self.open if row[0].request_id != request_id]
    def step(self):
        time.sleep(self.step_s)
        row = self.open[0]
        row[1] += 1
        done = row[1] == row[0].params.max_tokens
        if done:
            self.open.pop(0)
        return [(row[0].request_id, [7], done, "length" if done else None)]
"""


@dataclass
class Child:
    """A run in a process of its own."""

    process: subprocess.Popen[str]
    out: Path

    def folder(self) -> Path:
        """Its run folder, as soon as it has a run.json."""
        return wait_for(lambda: next(self.out.glob("[!.]*/run.json"), None)).parent

    def rows(self) -> Path:
        """The same, as soon as its first part has been written."""
        folder = self.folder()
        wait_for(lambda: (path := folder / "parts" / "0000-flight.arrows").exists() and path.stat().st_size)
        return folder

    def end(self, within_s: float = 30) -> tuple[int, str, str]:
        """Exit code, stdout and stderr."""
        out, err = self.process.communicate(timeout=within_s)
        return self.process.returncode, out, err


def wait_for(found: Callable[[], Any], within_s: float = 30) -> Any:
    """What `found` returns, once that is something."""
    until_s = time.monotonic() + within_s
    while time.monotonic() < until_s:
        value = found()
        if value:
            return value
        time.sleep(0.002)
    raise AssertionError("nothing came")


Start = Callable[..., Child]


@pytest.fixture
def start() -> Iterator[Start]:
    """`tokenload run` on the real clock, as often as it is called; what still runs in the end is killed."""
    children = []

    def started(out: Path, *words: str) -> Child:
        command = [SCRIPT, "run", "--clock", "real", "--out", str(out), *words]
        children.append(
            Child(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True), out)
        )
        return children[-1]

    yield started
    for child in children:
        child.process.kill()
        child.process.wait()


def slow(tmp_path: Path, **options: str) -> str:
    """The spec of an engine that takes its time."""
    (tmp_path / "slow.py").write_text(SLOW_ENGINE)
    return f"{tmp_path / 'slow.py'}:Slow" + "".join(f",{key.replace('_', '-')}={text}" for key, text in options.items())


def killed_after(start: Start, out: Path, seconds: float) -> tuple[Run, int, int]:
    """A run killed -9 so long after it began: what is left, and the moment, on the monotonic and the wall clock."""
    child = start(out, "--engine", "static,batch=8,executor=cost", "--rate", "40", "--duration", "12s")
    child.folder()
    time.sleep(seconds)
    assert child.process.poll() is None
    moment_ns, wall_ns = time.perf_counter_ns(), time.time_ns()
    child.process.kill()
    assert child.end()[0] == -signal.SIGKILL
    return load_run(child.folder()), moment_ns, wall_ns


def check_left_over(run: Run, moment_ns: int, wall_ns: int) -> None:
    """Labelled, consistent, and without a loss of what had ended more than a second before the kill."""
    assert run.label == "INCOMPLETE"
    json.dumps(summarise(run.recording), allow_nan=False)
    requests = run.recording.requests
    ended = requests["status"] == Status.OK
    assert (requests["output_tokens"][ended] == requests["output_tokens_asked"][ended]).all()
    assert run.recording.token_step is not None
    assert set(run.recording.token_step.tolist()) <= set(run.recording.steps["step"].tolist())
    surely = requests["due_ns"] <= run_time_ns(run, moment_ns, wall_ns) - LOST_AT_MOST_NS - SERVED_WITHIN_NS
    assert ended[surely].all(), f"lost {int((~ended[surely]).sum())} of {int(surely.sum())}"


def run_time_ns(run: Run, moment_ns: int, wall_ns: int) -> int:
    """How long the run had been going on, by its own samples of the host; at most the age of run.json."""
    host = run.recording.host
    if len(host["t_ns"]):
        return int(moment_ns - host["wall_ns"][0] + host["t_ns"][0])
    return wall_ns - (run.folder / "run.json").stat().st_mtime_ns


def kill_at(start: Start, out: Path, moments_s: list[float]) -> None:
    """One run a moment, side by side."""
    out.mkdir()
    with ThreadPoolExecutor(len(moments_s)) as pool:
        found = list(pool.map(lambda at: killed_after(start, out / f"{at:.3f}", at), moments_s))
    for left_over in found:
        check_left_over(*left_over)


@pytest.mark.realtime
def test_a_killed_run_is_readable_and_has_lost_a_second_at_most(tmp_path: Path, start: Start) -> None:
    """kill -9 at 4 random moments: readable, INCOMPLETE, and everything that had ended a second before is there."""
    chance = random.Random("kill")
    kill_at(start, tmp_path / "runs", [chance.uniform(second, second + 1) for second in range(4)])


@pytest.mark.slow
@pytest.mark.realtime
def test_twenty_killed_runs_are_readable(tmp_path: Path, start: Start) -> None:
    """The same at 20 random moments, other ones each time."""
    chance = random.SystemRandom()
    for group in range(5):
        kill_at(start, tmp_path / f"runs{group}", [chance.uniform(0, 8) for _ in range(4)])


@pytest.mark.realtime
def test_a_run_that_is_killed_as_it_begins_is_readable(tmp_path: Path, start: Start) -> None:
    """Readable at any moment: a folder that exists is a run folder, from the first instant on."""
    child = start(tmp_path / "runs", "--engine", "continuous,executor=cost", "--rate", "40")
    folder = wait_for(lambda: next((tmp_path / "runs").glob("[!.]*"), None))
    child.process.kill()
    child.end()
    run = load_run(folder)
    assert run.label == "INCOMPLETE"
    assert set(run.recording.requests["status"].tolist()) == {Status.NOT_DISPATCHED}


@pytest.mark.realtime
def test_a_run_with_a_backlog_that_is_killed_keeps_its_finished_requests(tmp_path: Path, start: Start) -> None:
    """Finished, half served and waiting: after kill -9 the first are ok, the others unfinished, none is lost."""
    child = start(tmp_path / "runs", "--engine", slow(tmp_path), "--arrival", "burst", "--output-tokens", "10")
    folder = child.rows()
    time.sleep(1.2)
    moment_ns = time.perf_counter_ns()
    child.process.kill()
    child.end()
    recording = load_run(folder).recording
    status = recording.requests["status"]
    assert set(status.tolist()) == {Status.OK, Status.UNFINISHED}
    assert (recording.requests["end_ns"][status == Status.UNFINISHED] == NULL).all()
    run_ns = int(moment_ns - recording.host["wall_ns"][0] + recording.host["t_ns"][0])
    newest_ns = int(events_of(recording).t_ns.max())
    assert newest_ns > run_ns - LOST_AT_MOST_NS
    assert int((status == Status.OK).sum()) >= 0.8 * newest_ns / (10 * 7_000_000)


@pytest.mark.realtime
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "term"])
def test_one_interrupt_stops_drains_and_writes(tmp_path: Path, start: Start, number: signal.Signals) -> None:
    """Ctrl-C once: exit code 130, status stopped, the rest not_dispatched, the summary written and printed."""
    child = start(tmp_path, "--engine", "continuous,executor=cost", "--rate", "40", "--duration", "60s", "--json")
    folder = child.rows()
    child.process.send_signal(number)
    code, out, err = child.end()
    assert code == 130
    assert "Traceback" not in err
    document = json.loads(out)
    assert document["stopped"] is True
    run = load_run(folder)
    assert (run.info["status"], run.label) == (STOPPED, "STOPPED")
    assert json.loads((folder / "summary.json").read_text()).items() <= document.items()
    status = run.recording.requests["status"]
    assert set(status.tolist()) == {Status.OK, Status.NOT_DISPATCHED}
    last = int(np.flatnonzero(status == Status.OK)[-1])
    assert (status[: last + 1] == Status.OK).all()
    assert not (folder / "parts").exists()


@pytest.mark.realtime
def test_two_interrupts_cancel_a_long_backlog(tmp_path: Path, start: Start) -> None:
    """Ctrl-C twice: what is left is cancelled at once; finished requests stay ok; exit code 130."""
    child = start(tmp_path / "runs", "--engine", slow(tmp_path), "--arrival", "burst", "--json")
    folder = child.rows()
    child.process.send_signal(signal.SIGINT)
    time.sleep(0.4)
    assert child.process.poll() is None, "one interrupt drains"
    child.process.send_signal(signal.SIGINT)
    code, out, _ = child.end(within_s=10)
    assert code == 130
    assert set(json.loads(out)["requests"]["by_status"]) == {"ok", "cancelled"}
    assert load_run(folder).info["status"] == STOPPED


@pytest.mark.realtime
def test_an_interrupt_before_the_run_is_130(tmp_path: Path, start: Start) -> None:
    """Ctrl-C while the engine is being made: exit code 130 and not that of failed requests, no traceback, no folder."""
    child = start(tmp_path / "runs", "--engine", slow(tmp_path, start_s="20"), "--rate", "4")
    wait_for((tmp_path / "slow.began").exists)
    time.sleep(0.1)
    child.process.send_signal(signal.SIGINT)
    code, out, err = child.end(within_s=10)
    assert code == 130
    assert out == ""
    assert "Traceback" not in err
    assert not (tmp_path / "runs").exists()


@pytest.mark.realtime
def test_an_interrupt_during_the_warm_up_is_130(tmp_path: Path, start: Start) -> None:
    """Ctrl-C before time 0: exit code 130, no traceback, and the folder that was begun is readable."""
    child = start(tmp_path / "runs", "--engine", slow(tmp_path, step_s="0.2"), "--rate", "4")
    folder = child.folder()
    time.sleep(0.3)
    child.process.send_signal(signal.SIGINT)
    code, _, err = child.end(within_s=10)
    assert code == 130
    assert "Traceback" not in err
    assert load_run(folder).label in ("INCOMPLETE", "STOPPED")
