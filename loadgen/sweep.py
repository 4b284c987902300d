"""A sweep: engines x loads x repeats, each point a run folder, all engines on the same schedules.

Points run one after another in a seeded, interleaved order, so that a drift of the machine falls on all engines
alike. A sweep that was stopped or killed goes on where it was.
"""

import json
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from loadgen.config import RunConfig, check, from_texts, key_of, options, parse_load, to_json
from loadgen.probe import Speed, probe
from loadgen.repeats import by_point
from loadgen.run_folders import new_folder
from loadgen.session import Prepared, execute, prepare, utc_text
from loadgen.streams import uniforms
from loadgen.units import NS_PER_S
from loadgen.workload import build_schedule
from results.store import COMPLETE, RUNNING, STOPPED, write_json

SCHEMA_VERSION = 1
AUTO_RATES = 6
AUTO_LOWEST_RATIO, AUTO_HIGHEST_RATIO = 0.25, 1.25
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Point:
    """One run of a sweep."""

    folder: str
    engine: str
    load: str
    repeat: int
    order: int
    expected_s: float


@dataclass(frozen=True, slots=True)
class Sweep:
    """A sweep that could start, or go on, now."""

    folder: Path
    config: RunConfig
    """What all points share."""
    engines: tuple[str, ...]
    loads: tuple[str, ...]
    repeats: int
    points: tuple[Point, ...]
    """In the order in which they run."""
    started_utc: str

    @property
    def expected_s(self) -> float:
        """Of all points that are still to run, from a short probe of each engine."""
        return sum(point.expected_s for point in self.points if not is_complete(self.folder / point.folder))


def plan_sweep(config: RunConfig, engines: tuple[str, ...], rates: str, repeats: int) -> Sweep:
    """Probe each engine, settle the loads, order the points. Writes nothing. ValueError in one line.

    `engines`: specs of engines or addresses of servers; a server is not probed.
    """
    if len(set(engines)) != len(engines):
        raise ValueError("the same engine is given twice: points of a sweep differ in engine, load or repeat")
    if rates == "auto" and any(is_address(engine) for engine in engines):
        raise ValueError("--rates auto measures engines first: for a server write the rates, as in --rates 1,2,4")
    started = datetime.now(UTC)
    speeds = {engine: probe(config, engine) for engine in engines if not is_address(engine)}
    loads = _auto(config, speeds) if rates == "auto" else tuple(part.strip() for part in rates.split(","))
    folder = new_folder(config.out, started, "sweep")
    points: list[Point] = []
    for repeat in range(repeats):
        for engine, load in _shuffled([(engine, load) for load in loads for engine in engines], config.seed, repeat):
            point = point_config(config, engine, load, repeat)
            number = len(points)
            expected_s = _expected_s(point, speeds.get(engine))
            points.append(Point(f"points/{number:03d}", engine, load, repeat, number, expected_s))
    return Sweep(folder, config, engines, loads, repeats, tuple(points), utc_text(started))


def load_sweep(folder: Path) -> Sweep:
    """A sweep that was begun. ValueError when the folder holds none."""
    try:
        document = json.loads((folder / "sweep.json").read_text())
        points = tuple(Point(**{name: one[name] for name in Point.__slots__}) for one in document["points"])
    except (OSError, ValueError, KeyError, TypeError):
        raise ValueError(f"{folder} holds no sweep: it has no readable sweep.json") from None
    return Sweep(
        folder=folder,
        config=from_texts(document["config"], complete=False),
        engines=tuple(document["engines"]),
        loads=tuple(document["loads"]),
        repeats=document["repeats"],
        points=points,
        started_utc=document["started_utc"],
    )


def run_sweep(sweep: Sweep, progress: Callable[[Point, int, int], None]) -> str:
    """Run what is not complete yet; complete or stopped. `progress` gets the point, ended and all requests."""
    sweep.folder.mkdir(parents=True, exist_ok=True)
    _write(sweep, RUNNING)
    hashes: dict[tuple[str, int], str] = {}
    for point in sweep.points:
        folder = sweep.folder / point.folder
        if is_complete(folder):
            continue
        _set_aside(folder)
        prepared = prepare(point_config(sweep.config, point.engine, point.load, point.repeat))
        _same_schedule(hashes, point, prepared)
        outcome = execute(prepared, _on(point, len(prepared.schedule), progress), folder, sweep.repeats, point.order)
        if outcome.stopped:
            _write(sweep, STOPPED)
            return STOPPED
    _write(sweep, COMPLETE, intervals_of(sweep))
    return COMPLETE


def intervals_of(sweep: Sweep) -> list[Json]:
    """Headline figures of each engine at each load over its complete repeats; the runs are told how they vary."""
    ordered = sorted(sweep.points, key=lambda one: (_place(sweep, one), one.repeat))
    places = [(point.engine, point.load, sweep.folder / point.folder) for point in ordered]
    return by_point((engine, load, folder) for engine, load, folder in places if is_complete(folder))


def _place(sweep: Sweep, point: Point) -> tuple[int, int]:
    return sweep.engines.index(point.engine), sweep.loads.index(point.load)


def point_config(config: RunConfig, engine: str, load: str, repeat: int) -> RunConfig:
    """The config of one point: repeat k has the seed of the sweep + k in all streams."""
    kind, value = parse_load(load)
    subject: dict[str, Any] = {"target": engine, "clock": "real"} if is_address(engine) else {"engine": engine}
    changes: dict[str, Any] = {**subject, "seed": config.seed + repeat}
    if kind == "rate":
        changes.update(rate_rps=value, think_ns=None)
    elif kind == "burst":
        changes.update(arrival="burst", think_ns=None, cv=None)
    else:
        changes.update(arrival="closed", users=int(value), cv=None)
    point = replace(config, **changes)
    check(point)
    return point


def is_address(engine: str) -> bool:
    """Whether it is a server's address, and no engine's spec."""
    return engine.startswith(("http://", "https://"))


def is_complete(folder: Path) -> bool:
    """Whether a point's run folder says so."""
    try:
        return bool(json.loads((folder / "run.json").read_text())["status"] == COMPLETE)
    except (OSError, ValueError, KeyError):
        return False


def command_of(sweep: Sweep) -> str:
    """The command line that runs this sweep again."""
    words = ["tokenload", "sweep", *(word for engine in sweep.engines for word in _flag(engine))]
    words += ["--rates", ",".join(sweep.loads), "--repeats", str(sweep.repeats)]
    flags = {key_of(option) for _, option in options().values() if option.is_flag}
    for key, texts in to_json(sweep.config).items():
        for text in texts if isinstance(texts, list) else [texts]:
            words += [] if key == "out" else [f"--{key}"] if key in flags else [f"--{key}", text]
    return shlex.join(words)


def _flag(engine: str) -> tuple[str, str]:
    return ("--target" if is_address(engine) else "--engine"), engine


def _write(sweep: Sweep, status: str, intervals: list[Json] | None = None) -> None:
    document = {
        "schema_version": SCHEMA_VERSION,
        "kind": "sweep",
        "status": status,
        "started_utc": sweep.started_utc,
        "ended_utc": None if status == RUNNING else utc_text(datetime.now(UTC)),
        "command": command_of(sweep),
        "config": to_json(sweep.config),
        "engines": list(sweep.engines),
        "loads": list(sweep.loads),
        "repeats": sweep.repeats,
        "order_seed": sweep.config.seed,
        **({} if intervals is None else {"intervals": intervals}),
        "points": [_point_json(sweep, point) for point in sweep.points],
    }
    write_json(sweep.folder / "sweep.json", document)


def _point_json(sweep: Sweep, point: Point) -> Json:
    kind, value = parse_load(point.load)
    return {
        **{name: getattr(point, name) for name in Point.__slots__},
        "rate_rps": value if kind == "rate" else None,
        "seed": sweep.config.seed + point.repeat,
        "status": COMPLETE if is_complete(sweep.folder / point.folder) else "missing",
    }


def _set_aside(folder: Path) -> None:
    """Keep what an interrupted run of this point left, under another name."""
    number = 1
    while folder.exists():
        aside = folder.with_name(f"{folder.name}-partial-{number}")
        number += 1
        if not aside.exists():
            folder.rename(aside)


def _same_schedule(hashes: dict[tuple[str, int], str], point: Point, prepared: Prepared) -> None:
    """Every engine gets the same schedule at a load and repeat."""
    sha256 = prepared.schedule.sha256
    if hashes.setdefault((point.load, point.repeat), sha256) != sha256:
        raise ValueError(f"the schedule at load {point.load} changed between two engines of one sweep")


def _on(point: Point, requests: int, progress: Callable[[Point, int, int], None]) -> Callable[[int], None]:
    return lambda ended_requests: progress(point, ended_requests, requests)


def _shuffled(pairs: list[tuple[str, str]], seed: int, repeat: int) -> Iterator[tuple[str, str]]:
    for at in np.argsort(uniforms(seed, f"order.{repeat}", len(pairs)), kind="stable").tolist():
        yield pairs[at]


def _auto(config: RunConfig, speeds: Mapping[str, Speed]) -> tuple[str, ...]:
    """Geometric from 0.25 x the slowest to 1.25 x the fastest engine's burst rate, and the burst itself."""
    bursts = [speed.burst_rps for speed in speeds.values()]
    rates_rps = np.geomspace(AUTO_LOWEST_RATIO * min(bursts), AUTO_HIGHEST_RATIO * max(bursts), AUTO_RATES)
    return (*(f"{rate_rps:.3g}" for rate_rps in rates_rps.tolist()), "burst")


def _expected_s(config: RunConfig, speed: Speed | None) -> float:
    """Compute of one point: while busy, an engine is as fast as the load asks, within what it can.

    Of a server only the time of its schedule is known before.
    """
    schedule = build_schedule(config)
    if speed is None:
        return int(schedule.due_ns.max()) / NS_PER_S
    tokens = int(schedule.output_tokens.sum())
    offered = (config.rate_rps or np.inf) * tokens / len(schedule)
    busy_s = tokens / min(max(offered, speed.single_tokens_per_s), speed.burst_tokens_per_s)
    if config.clock == "real":
        return max(busy_s, int(schedule.due_ns.max()) / NS_PER_S)
    return busy_s * speed.wall_ratio
