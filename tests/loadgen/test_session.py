"""One run, from a config to a folder, to its end or to where it was stopped."""

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from loadgen.config import RunConfig, from_texts
from loadgen.session import Outcome, execute, prepare
from results.columns import NULL
from results.status import Status
from results.store import COMPLETE, STOPPED, load_run

ROOT = Path(__file__).parents[2]
MINE = """
class Mine:
    def __init__(self, breaks_at: int = 10**9, refuses_above: int = 10**9):
        self.open, self.steps, self.breaks_at, self.refuses_above = [], 0, breaks_at, refuses_above
    def add_request(self, request):
        if len(request.prompt_token_ids) > self.refuses_above:
            raise ValueError("too long for me")
        self.open.append([request, 0])
    def has_work(self):
        return bool(self.open)
    def abort(self, request_id):
        self.open = [row for row in self.open if row[0].request_id != request_id]
    def step(self):
        self.steps += 1
        if self.steps >= self.breaks_at:
            raise RuntimeError("out of memory\\nat line 3")
        row = self.open[0]
        row[1] += 1
        done = row[1] == row[0].params.max_tokens
        if done:
            self.open.pop(0)
        return [(row[0].request_id, [7], done, "length" if done else None)]
"""


def config(out: Path, **texts: str) -> RunConfig:
    """A small run in modelled time, unless told otherwise."""
    base = {"rate": "40", "requests": "25", "clock": "modelled", "out": str(out)}
    if texts.get("arrival") in ("burst", "closed"):
        del base["rate"]
    return from_texts({**base, **{key.replace("_", "-"): text for key, text in texts.items()}})


def silent(ended_requests: int) -> None:
    """A progress that shows nothing."""


def ran(one: RunConfig, progress: Callable[[int], None] = silent) -> Outcome:
    """Prepared and played."""
    return execute(prepare(one), progress)


def statuses(outcome: Outcome) -> dict[str, int]:
    """How many requests ended how, by name, those that were never due included."""
    codes = load_run(outcome.folder).recording.requests["status"]
    return {Status(code).name.lower(): int((codes == code).sum()) for code in np.unique(codes)}


class Signals:
    """A progress that sends signals to this process at its n-th call."""

    def __init__(self, at_call: int, *numbers: signal.Signals) -> None:
        self._calls = 0
        self._at_call = at_call
        self._numbers = numbers

    def __call__(self, ended_requests: int) -> None:
        self._calls += 1
        if self._calls == self._at_call:
            for number in self._numbers:
                signal.raise_signal(number)


@pytest.mark.parametrize(
    ("clock", "engine"),
    [("modelled", "continuous"), ("charged", "continuous,executor=cost"), ("real", "static,executor=cost")],
)
def test_a_run_of_every_clock_ends_complete(tmp_path: Path, clock: str, engine: str) -> None:
    """Every request is served; the folder says complete, which clock, which engine, and holds every table."""
    outcome = ran(config(tmp_path, clock=clock, engine=engine, rate="200"))
    run = load_run(outcome.folder)
    assert (run.info["status"], run.info["clock"], run.label) == (COMPLETE, clock, None)
    assert statuses(outcome) == {"ok": 25}
    assert outcome.stopped is False
    assert outcome.summary == json.loads((outcome.folder / "summary.json").read_text())
    assert run.info["engine"]["slots"] == 8
    assert ("start_ps" in run.recording.steps) == (clock == "modelled")
    assert (outcome.folder / "warmup.parquet").exists() == (clock != "modelled")


def test_the_folder_says_what_was_run(tmp_path: Path) -> None:
    """run.json holds the config as it would be typed, both hashes of the workload, times and the tool's version."""
    one = config(tmp_path, seed="3", timeout="5s")
    info = load_run(ran(one).folder).info
    assert from_texts(info["config"]) == one
    schedule = prepare(one).schedule
    assert (info["schedule_sha256"], info["content_sha256"]) == (schedule.sha256, schedule.content_sha256)
    assert info["tokenload_version"]
    assert info["started_utc"] <= info["ended_utc"]
    assert info["started_utc"].endswith("+00:00")


def test_two_runs_in_one_second_have_two_folders(tmp_path: Path) -> None:
    """Names never meet: the time is followed by random digits."""
    folders = {ran(config(tmp_path)).folder for _ in range(4)}
    assert len(folders) == 4
    assert {folder.parent for folder in folders} == {tmp_path}


def test_a_folder_can_be_named_by_the_caller(tmp_path: Path) -> None:
    """A sweep says where each of its points goes."""
    outcome = execute(prepare(config(tmp_path)), silent, tmp_path / "points" / "007")
    assert outcome.folder == tmp_path / "points" / "007"
    assert load_run(outcome.folder).info["status"] == COMPLETE


def test_without_an_objective_the_run_is_summarised_all_the_same(tmp_path: Path) -> None:
    """slo None: goodput is null with a reason."""
    one = RunConfig(rate_rps=40.0, requests=5, clock="modelled", out=str(tmp_path), slo=None)
    assert ran(one).summary["slo"]["goodput_rps"] is None


def test_progress_rises_to_the_end(tmp_path: Path) -> None:
    """Progress is told how many have ended so far: never fewer than before, never more than there are."""
    told: list[int] = []
    ran(config(tmp_path, requests="8000", rate="25"), told.append)
    assert told
    assert told == sorted(told)
    assert told[-1] <= 8_000


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_before_the_first_arrival_stops_everything(tmp_path: Path, number: signal.Signals) -> None:
    """Stopped at once: nothing was sent, the folder says stopped, and the summary is whole and empty."""
    outcome = ran(config(tmp_path), Signals(1, number))
    assert outcome.stopped is True
    assert statuses(outcome) == {"not_dispatched": 25}
    run = load_run(outcome.folder)
    assert (run.info["status"], run.label) == (STOPPED, "STOPPED")
    assert outcome.summary["requests"]["scheduled"] == 0
    json.dumps(outcome.summary, allow_nan=False)


def test_one_signal_drains_what_was_handed_over(tmp_path: Path) -> None:
    """Once: nobody new is handed over, those in the engine are served to their end, the rest are not_dispatched."""
    one = config(tmp_path, requests="15000", rate="15")
    outcome = ran(one, Signals(2, signal.SIGINT))
    found = statuses(outcome)
    assert set(found) == {"ok", "not_dispatched"}
    recording = load_run(outcome.folder).recording
    requests = recording.requests
    served = requests["status"] == Status.OK
    assert requests["due_ns"][served].max() < requests["due_ns"][~served].min()
    assert (requests["end_ns"][~served] == NULL).all()
    assert recording.stopped_ns is not None
    assert requests["due_ns"][served].max() <= recording.stopped_ns <= requests["due_ns"][~served].min()
    assert outcome.summary["requests"]["by_status"] == {"ok": found["ok"]}
    assert outcome.summary["little_error_ns"] == 0
    assert outcome.summary["ttft_ms"]["p50"] is not None


def test_one_signal_in_a_burst_serves_the_whole_burst(tmp_path: Path) -> None:
    """What is in the engine is drained, however much it is: the run is stopped, and nothing is lost."""
    outcome = ran(config(tmp_path, arrival="burst", requests="200"), Signals(1, signal.SIGINT))
    assert outcome.stopped is True
    assert statuses(outcome) == {"ok": 200}


def test_two_signals_abort_what_is_left(tmp_path: Path) -> None:
    """Twice: those in the engine are cancelled, with the tokens they had; the rest are not_dispatched."""
    outcome = ran(config(tmp_path, arrival="burst", requests="200"), Signals(1, signal.SIGINT, signal.SIGTERM))
    assert outcome.stopped is True
    assert statuses(outcome) == {"cancelled": 200}
    assert load_run(outcome.folder).info["status"] == STOPPED
    later = ran(config(tmp_path, requests="15000", rate="300"), Signals(2, signal.SIGINT, signal.SIGINT))
    assert set(statuses(later)) == {"ok", "cancelled", "not_dispatched"}
    assert later.summary["little_error_ns"] == 0


def test_followers_of_a_stopped_run_are_not_dispatched(tmp_path: Path) -> None:
    """A closed loop that is stopped ends with the requests under way; turns that never came are in no figure."""
    one = config(tmp_path, arrival="closed", users="3", requests="30", fill="0")
    outcome = ran(one, Signals(1, signal.SIGINT))
    assert statuses(outcome) == {"ok": 3, "not_dispatched": 27}
    assert outcome.summary["requests"]["scheduled"] == 3


def failing(ended_requests: int) -> None:
    """A progress that breaks."""
    raise ZeroDivisionError("of our own")


def test_signals_are_the_callers_again_after_the_run(tmp_path: Path) -> None:
    """The handlers of before are put back, also when the run was stopped or failed."""
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    ran(config(tmp_path))
    ran(config(tmp_path), Signals(1, signal.SIGINT))
    with suppress(ZeroDivisionError):
        ran(config(tmp_path), failing)
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


def test_a_fault_of_the_harness_is_not_the_engines(tmp_path: Path) -> None:
    """What breaks outside the engine is never written down as engine_error of requests: it ends the command."""
    with pytest.raises(ZeroDivisionError):
        ran(config(tmp_path), failing)


def test_a_run_in_another_thread_listens_to_no_signal(tmp_path: Path) -> None:
    """Only the main thread may have handlers; elsewhere a run goes on without."""
    outcomes: list[Outcome] = []
    thread = threading.Thread(target=lambda: outcomes.append(ran(config(tmp_path))))
    thread.start()
    thread.join()
    assert statuses(outcomes[0]) == {"ok": 25}


def mine(tmp_path: Path, **options: int) -> str:
    """The spec of an engine in a file."""
    (tmp_path / "mine.py").write_text(MINE)
    return f"{tmp_path / 'mine.py'}:Mine" + "".join(
        f",{key.replace('_', '-')}={value}" for key, value in options.items()
    )


@pytest.mark.parametrize("breaks_at", [1, 60, 300])
def test_an_engine_that_breaks_ends_its_run_with_rows(tmp_path: Path, breaks_at: int) -> None:
    """Whenever an engine raises, warm-up included, its requests are rows with the error, and the folder is written."""
    spec = mine(tmp_path, breaks_at=breaks_at)
    outcome = ran(config(tmp_path / "runs", clock="charged", engine=spec, arrival="burst"))
    found = statuses(outcome)
    assert found["engine_error"] > 0
    assert set(found) <= {"ok", "engine_error"}
    errors = load_run(outcome.folder).recording.requests["error"]
    assert "RuntimeError: out of memory" in str(errors[-1])


def test_a_request_that_never_fits_is_a_row(tmp_path: Path) -> None:
    """Refused by the engine with a ValueError: engine_error with its reason, and the others are served."""
    spec = mine(tmp_path, refuses_above=60)
    one = config(tmp_path / "runs", clock="charged", engine=spec, arrival="burst")
    outcome = ran(one)
    long = prepare(one).schedule.prompt_tokens > 60
    requests = load_run(outcome.folder).recording.requests
    assert long.any()
    assert (requests["status"] == np.where(long, Status.ENGINE_ERROR, Status.OK)).all()
    assert set(requests["error"][long]) == {"too long for me"}


def describing(tmp_path: Path, told: str) -> RunConfig:
    """A burst against an engine that says this of itself."""
    (tmp_path / "mine.py").write_text(MINE + f"    def describe(self):\n        return {told}\n")
    return config(tmp_path / "runs", clock="charged", engine=f"{tmp_path / 'mine.py'}:Mine", arrival="burst")


def test_an_engines_own_figures_are_written_as_texts(tmp_path: Path) -> None:
    """What a user's engine says of itself need not be JSON for the run to be written."""
    outcome = ran(describing(tmp_path, "{'dtype': complex(1, 2), 'shape': (1, 2)}"))
    assert load_run(outcome.folder).info["engine"]["dtype"] == "(1+2j)"


def test_an_engine_whose_figures_cannot_be_written_leaves_no_half_folder(tmp_path: Path) -> None:
    """Infinity is in no file: such a description is refused before there is a folder, or written in another way."""
    try:
        outcome = ran(describing(tmp_path, "{'limit': float('inf')}"))
    except ValueError:
        assert not (tmp_path / "runs").exists()
    else:
        assert statuses(outcome) == {"ok": 25}


def test_an_engine_that_says_what_no_step_is_ends_its_run_with_rows(tmp_path: Path) -> None:
    """A step whose work is of an unknown kind is the engine's error, not the harness's end."""
    text = (
        "from engines.engine import Step, StepOutput\nfrom results.slots import StepWork\n"
        + MINE
        + "    def told(self):\n"
        "        rows = Mine.plain(self)\n"
        "        work = StepWork('speculative', 0, 1, 0, 0, 0, 0, None, 0, 0, 0)\n"
        "        return Step([StepOutput(*row) for row in rows], work=work)\n"
        "Mine.plain, Mine.step = Mine.step, Mine.told\n"
    )
    (tmp_path / "mine.py").write_text(text)
    outcome = ran(config(tmp_path / "runs", clock="charged", engine=f"{tmp_path / 'mine.py'}:Mine", arrival="burst"))
    assert set(statuses(outcome)) <= {"ok", "engine_error"}


def command(out: Path, *words: str) -> list[str]:
    """The console command of a run in modelled time, 2,000 requests."""
    script = str(Path(sys.executable).parent / "tokenload")
    return [script, "run", "--clock", "modelled", "--rate", "300", "--requests", "2000", "--out", str(out), *words]


LIMITED = """
import os, resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, ({0}, {0}))
os.execv(sys.argv[1], sys.argv[1:])
"""


@pytest.mark.parametrize("limit_bytes", [2_000, 40_000, 700_000])
def test_a_disk_that_refuses_to_be_written_is_one_line(tmp_path: Path, limit_bytes: int) -> None:
    """Files cannot grow, at any stage of the run: exit code 2, one line, and what was written is readable."""
    limited = [sys.executable, "-c", LIMITED.format(limit_bytes), *command(tmp_path / "runs")]
    done = subprocess.run(limited, capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    assert [line.startswith("Error: ") for line in done.stderr.splitlines()].count(True) == 1
    assert done.stderr.splitlines()[-1].startswith("Error: ")
    (folder,) = (tmp_path / "runs").iterdir()
    if (folder / "run.json").exists():
        only_the_page = limit_bytes == 700_000 and done.stdout  # the run is whole, and its figures were shown
        assert load_run(folder).label == (None if only_the_page else "INCOMPLETE")
        assert bool(done.stdout) == bool(only_the_page)
    else:
        assert limit_bytes < 40_000, "a folder without run.json"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MiB, where one can be mounted."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", place], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("this user may not mount a file system")
    yield place
    subprocess.run(["umount", place], check=True)


def test_a_full_disk_is_one_line(small_disk: Path) -> None:
    """No space left: exit code 2, one line, and what was written is readable."""
    done = subprocess.run(
        command(small_disk / "runs", "--requests", "20000"), capture_output=True, text=True, check=False
    )
    assert done.returncode == 2, done.stderr
    assert "No space left on device" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
    (folder,) = (small_disk / "runs").iterdir()
    assert load_run(folder).label == "INCOMPLETE"


def test_an_out_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    """A folder that the system does not allow: exit code 2 and one line that names it."""
    done = subprocess.run(command(Path("/proc/nowhere")), capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("Error: ")
    assert "/proc/nowhere" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(("timeout", "truncated"), [("9s", True), ("10s", False), (None, False)])
def test_a_time_limit_near_the_slo_is_said_with_the_run(tmp_path: Path, timeout: str | None, truncated: bool) -> None:
    """Requests aborted before ten times the SLO's limit: the verdict calls it truncated, here and in the file."""
    more = {} if timeout is None else {"timeout": timeout}
    outcome = ran(config(tmp_path, rate="4", slo="ttft<=1s", **more))
    stored = load_run(outcome.folder).info["verdict"]
    for verdict in (outcome.verdict, stored):
        assert any("TRUNCATED" in found["text"] for found in verdict["warnings"]) is truncated
