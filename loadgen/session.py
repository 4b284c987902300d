"""One run: from a config to a run folder. Prepare, play, write; stopped by Ctrl-C, it writes what there is."""

from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from loadgen.config import RunConfig, to_full_json, to_json
from loadgen.player import EnginePlayer, Player
from loadgen.run_folders import new_folder
from loadgen.steering import Emit, Progress, Steering, listening
from loadgen.workload import build_schedule
from results.conditions import Stamp, begin_stamp, finish, start_again, unfinished
from results.metrics import events_of
from results.recording import Recording
from results.schedule import Schedule
from results.server.of_run import server_of_run
from results.slo import parse_slo
from results.stamp.given import engine_facts, workload_facts
from results.stamp.occasion import ended_run, since_previous_run_s
from results.store import COMPLETE, STOPPED, RunFolder, file_sha256
from results.summary import window
from results.tables import write_warmup
from results.verdicts.judged import judged
from results.verdicts.run_facts import facts_of, stamp_facts

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Prepared:
    """A run that could start now."""

    config: RunConfig
    schedule: Schedule
    player: Player


@dataclass(frozen=True, slots=True)
class Outcome:
    """A run that has ended."""

    folder: Path
    summary: Json
    verdict: Json
    stopped: bool
    """Somebody stopped it."""


def prepare(config: RunConfig) -> Prepared:
    """Schedule and what plays it. ValueError in one line when one cannot be made."""
    schedule = build_schedule(config)
    if config.target is None:
        return Prepared(config, schedule, EnginePlayer(config, schedule))
    from loadgen.target_player import TargetPlayer

    return Prepared(config, schedule, TargetPlayer(config, schedule))


def execute(
    prepared: Prepared,
    progress: Progress,
    folder: Path | None = None,
    repeats: int = 1,
    order: int | None = None,
) -> Outcome:
    """Play it and write its folder, a new one in --out unless told where.

    `repeats`: how many independent runs it is one of. `order`: its place among runs that follow one another.

    ValueError when it cannot be played; OSError when the folder cannot be written: what has been written by then
    stays readable.
    """
    config, player = prepared.config, prepared.player
    control = Steering(config, progress, config.drain_ns if config.drain_ns is not None else player.drain_ns)
    with ExitStack() as closing:
        closing.callback(player.close)
        player.open()
        run, stamp = _begun(prepared, folder, repeats, order)
        warmed = player.warm_up(run.folder)
        if warmed is not None:
            write_warmup(warmed, run.folder)
        stamp = start_again(stamp)
        closing.enter_context(listening(control))  # to the end: Ctrl-C while files are written must not lose them
        with run.writer() as writer:
            emit = Emit(writer.write, control)
            recording = player.play(run.folder, emit, control)
        conditions = finish(stamp)
        ended_run()
        if emit.error is not None:
            raise OSError(f"{run.folder} cannot be written on: {emit.error.strerror}; what was written can be read")
        found = player.found()
        run.info.update(found, ended_early=control.reason)
        run.info["facts"] = {**stamp_facts(conditions), **_limits(config), **found.get("facts", {})}
        _server_side(run, recording)
        return _finished(run, recording, conditions, control)


def _begun(
    prepared: Prepared, folder: Path | None, repeats: int, order: int | None
) -> tuple[RunFolder, Stamp]:
    """The folder, and the stamp as far as it is known."""
    started = datetime.now(UTC)
    stamp = _stamp(prepared, started, order)
    stamped = unfinished(stamp)
    info = {**_info(prepared, started), "repeats": repeats, "clean_tree": _is_clean(stamped)}
    return RunFolder(folder or _new_folder(prepared.config, started), prepared.schedule, info, stamped), stamp


def _limits(config: RunConfig) -> Json:
    """How near to the SLO requests are aborted, where they are."""
    ratio = parse_slo(config.slo).cut_ratio(config.timeout_ns, config.first_timeout_ns) if config.slo else None
    return {} if ratio is None else {"timeout_slo_ratio": ratio}


def _server_side(run: RunFolder, recording: Recording) -> None:
    """What the server told, of the measured window where that is not the whole run."""
    if run.info.get("server"):
        found = server_of_run(run.folder, run.info, recording.schedule, window(recording, events_of(recording)))
        run.info["server"] = found
        run.info["facts"]["slots_observed"] = found.get("unused_slot_fraction") is not None


def _finished(run: RunFolder, recording: Recording, conditions: Json, control: Steering) -> Outcome:
    stopped = recording.stopped_ns is not None
    limits = run.info["config_effective"]["slo"]
    facts = facts_of(run.info, STOPPED.upper() if stopped else None)
    summary, verdict = judged(recording, parse_slo(limits) if limits else None, facts)
    if run.info.get("server"):
        summary["server"] = run.info["server"]
    run.info["verdict"] = verdict.to_json()
    run.finish(recording, summary, STOPPED if stopped else COMPLETE, utc_text(datetime.now(UTC)), conditions)
    return Outcome(run.folder, summary, run.info["verdict"], stopped and control.reason is None)


def _stamp(prepared: Prepared, started: datetime, order: int | None) -> Stamp:
    config = prepared.config
    told = {"order_index": order, "since_previous_run_s": since_previous_run_s()}
    identity = {
        "config_requested": to_json(config),
        "config_effective": to_full_json(config),
        "started_utc": utc_text(started),
        **{name: value for name, value in told.items() if value is not None},
    }
    engine = engine_facts(prepared.player.describe(), config.clock)
    return begin_stamp(identity, {**workload_facts(prepared.schedule), **_tokenizer(config)}, engine)


def _tokenizer(config: RunConfig) -> Json:
    """The hash of the file that counts tokens, where there is one."""
    path = Path(config.tokenizer) if config.tokenizer else None
    return {"tokenizer_sha256": file_sha256(path)} if path is not None and path.is_file() else {}


def _is_clean(stamped: Json) -> bool:
    """Whether the program runs from a commit of its own without changes."""
    git = stamped["groups"]["identity"]["fields"].get("git")
    return isinstance(git, dict) and git.get("dirty") is False


def _info(prepared: Prepared, started: datetime) -> Json:
    from importlib.metadata import version

    return {
        "tokenload_version": version("tokenload"),
        "started_utc": utc_text(started),
        "config": to_json(prepared.config),
        "config_effective": to_full_json(prepared.config),
        "target": prepared.player.target,
        "engine": dict(prepared.player.describe()),
        "clock": prepared.config.clock,
        "thresholds": dict(prepared.config.threshold),
        "schedule_sha256": prepared.schedule.sha256,
        "content_sha256": prepared.schedule.content_sha256,
    }


def _new_folder(config: RunConfig, started: datetime) -> Path:
    """Called after what is under load, unless --name says otherwise."""
    subject = urlsplit(config.target).netloc if config.target else config.engine.partition(",")[0].rpartition("/")[2]
    return new_folder(config.out, started, config.name or subject)


def utc_text(moment: datetime) -> str:
    """ISO 8601 to the second."""
    return moment.isoformat(timespec="seconds")
