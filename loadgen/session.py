"""One run: from a config to a run folder. Prepare, play, write; stopped by Ctrl-C, it writes what there is."""

import json
import re
import secrets
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from engines.engine import Engine
from loadgen.clock import Clock, make_clock
from loadgen.config import RunConfig, to_full_json, to_json
from loadgen.drive import Decision, play_engine
from loadgen.engine_spec import make_engine
from loadgen.warmup import warm_up
from loadgen.workload import build_schedule
from results.conditions import Stamp, begin_stamp, finish, start_again, unfinished
from results.judged import facts_of, judged
from results.recording import RecordingPart
from results.schedule import Schedule
from results.slo import parse_slo
from results.stamp.given import engine_facts, workload_facts
from results.store import COMPLETE, STOPPED, RunFolder
from results.tables import write_warmup

Json = dict[str, Any]
Progress = Callable[[int], None]
"""Called with how many requests have ended so far."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A run that could start now."""

    config: RunConfig
    schedule: Schedule
    engine: Engine


@dataclass(frozen=True, slots=True)
class Outcome:
    """A run that has ended."""

    folder: Path
    summary: Json
    verdict: Json
    stopped: bool


def prepare(config: RunConfig) -> Prepared:
    """Schedule and engine. ValueError in one line when one cannot be made."""
    schedule = build_schedule(config)
    engine = make_engine(config.engine, config.clock, schedule)
    try:
        json.dumps(dict(engine.describe()), allow_nan=False, default=str)
    except (ValueError, TypeError) as error:
        raise ValueError(f"engine {config.engine} describes itself with what JSON cannot hold: {error}") from None
    return Prepared(config, schedule, engine)


def execute(prepared: Prepared, progress: Progress, folder: Path | None = None, repeats: int = 1) -> Outcome:
    """Play it and write its folder, a new one in --out unless told where.

    `repeats`: how many independent runs it is one of.

    OSError when the folder cannot be written; what has been written by then stays readable.
    """
    config, schedule, engine = prepared.config, prepared.schedule, prepared.engine
    started = datetime.now(UTC)
    stamp = _stamp(prepared, started)
    stamped = unfinished(stamp)
    info = {**_info(prepared, started), "repeats": repeats, "clean_tree": _is_clean(stamped)}
    run = RunFolder(folder or _new_folder(config, started), schedule, info, stamped)
    if config.clock != "modelled":
        write_warmup(warm_up(engine, schedule), run.folder)
    stamp = start_again(stamp)
    with run.writer() as writer, _steering(config, progress) as control:
        emit = _Emit(writer.write, control)
        recording = play_engine(schedule, engine, _clock(config, engine), emit, control)
    conditions = finish(stamp)
    if emit.error is not None:
        raise OSError(f"{run.folder} cannot be written on: {emit.error.strerror}; what was written can be read")
    label = STOPPED.upper() if control.stops else None
    slo = parse_slo(config.slo) if config.slo else None
    summary, verdict = judged(recording, slo, facts_of(run.info, label))
    run.info["verdict"] = verdict.to_json()
    run.finish(recording, summary, STOPPED if label else COMPLETE, utc_text(datetime.now(UTC)), conditions)
    return Outcome(run.folder, summary, run.info["verdict"], bool(control.stops))


def _stamp(prepared: Prepared, started: datetime) -> Stamp:
    config = prepared.config
    identity = {
        "config_requested": to_json(config),
        "config_effective": to_full_json(config),
        "started_utc": utc_text(started),
    }
    engine = engine_facts(prepared.engine.describe(), config.clock)
    return begin_stamp(identity, workload_facts(prepared.schedule), engine)


def _is_clean(stamped: Json) -> bool:
    """Whether the program runs from a commit of its own without changes."""
    git = stamped["groups"]["identity"]["fields"].get("git")
    return isinstance(git, dict) and git.get("dirty") is False


class _Emit:
    """Writes parts; when the disk refuses one, the run is stopped and the error kept."""

    def __init__(self, write: Callable[[RecordingPart], None], control: "_Steering") -> None:
        self.error: OSError | None = None
        self._write = write
        self._control = control

    def __call__(self, part: RecordingPart) -> None:
        self._control.count(part)
        if self.error is not None:
            return
        try:
            self._write(part)
        except OSError as error:
            self.error = error
            self._control.decision = Decision.CANCEL


class _Steering:
    """Ctrl-C once: hand over nothing more and drain; twice: abort what is left."""

    def __init__(self, config: RunConfig, progress: Progress) -> None:
        self.timeout_ns = config.timeout_ns
        self.drain_ns = config.drain_ns
        self.decision = Decision.GO
        self.stops = 0
        self._progress = progress
        self._ended_requests = 0

    def __call__(self, now_ns: int, newest: RecordingPart | None) -> Decision:
        self._progress(self._ended_requests)
        return self.decision

    def count(self, part: RecordingPart) -> None:
        self._ended_requests += len(part.tables["requests"]["request_id"])

    def interrupt(self, signal_number: int, frame: object) -> None:
        self.stops += 1
        self.decision = Decision.STOP if self.stops == 1 else Decision.CANCEL


@contextmanager
def _steering(config: RunConfig, progress: Progress) -> Iterator[_Steering]:
    """A control that listens to SIGINT and SIGTERM while the run lasts."""
    control = _Steering(config, progress)
    if threading.current_thread() is not threading.main_thread():
        yield control
        return
    before = {number: signal.signal(number, control.interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield control
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _clock(config: RunConfig, engine: Engine) -> Clock:
    return make_clock(config.clock, str(engine.describe().get("cost_source", "wall")))


def _info(prepared: Prepared, started: datetime) -> Json:
    from importlib.metadata import version

    return {
        "tokenload_version": version("tokenload"),
        "started_utc": utc_text(started),
        "config": to_json(prepared.config),
        "config_effective": to_full_json(prepared.config),
        "engine": dict(prepared.engine.describe()),
        "clock": prepared.config.clock,
        "schedule_sha256": prepared.schedule.sha256,
        "content_sha256": prepared.schedule.content_sha256,
    }


def _new_folder(config: RunConfig, started: datetime) -> Path:
    """<out>/<UTC>-<name>-<6 hex>."""
    asked = config.name or config.engine.partition(",")[0].rpartition("/")[2]
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", asked).strip(".-")
    return Path(config.out) / f"{started:%Y%m%dT%H%M%SZ}-{name}-{secrets.token_hex(3)}"


def utc_text(moment: datetime) -> str:
    """ISO 8601 to the second."""
    return moment.isoformat(timespec="seconds")
