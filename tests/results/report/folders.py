"""Run folders and sweep folders to report on, made by playing schedules in modelled time."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from engines.engine import Engine
from loadgen.clock import make_clock
from loadgen.config import from_texts
from loadgen.drive import play_engine
from loadgen.engine_spec import make_engine
from loadgen.session import execute, prepare
from results.recording import RecordingPart
from results.store import PartWriter, write_json
from tests.engines.playing import Steering

ENGINES = ("one-by-one", "static,batch=4", "continuous,batch=4")
LOADS = ("4", "16", "burst")
INVALID: dict[str, Any] = {
    "valid": False,
    "label": "EXPLORATORY",
    "suffices_for": "enough for a look",
    "invalid": [{"code": "FAILURES", "text": "3 % of the requests failed", "remedy": "mend the engine"}],
    "withheld": {"itl_ms": {"code": "CHUNKED", "text": "several tokens an event"}},
    "warnings": [{"code": "DIRTY_TREE", "text": "the program was changed", "remedy": "commit"}],
    "checks": {"FAILURES": "failed", "DIRTY_TREE": "warned", "CLOCK_SKEW": "does not apply"},
    "load": {"state": "STABLE", "g": 0.01, "p": 0.4, "rho_hat": None},
}
"""Judged by another version of the rules."""


def make_run(out: Path, engine: str = "static,batch=4", load: str = "16", **options: str) -> Path:
    """One complete run folder."""
    prepared = prepare(from_texts(_texts(engine, load, out, **options)))
    return execute(prepared, _ignore).folder


def make_sweep(
    out: Path,
    engines: tuple[str, ...] = ENGINES,
    loads: tuple[str, ...] = LOADS,
    repeats: int = 1,
    **options: str,
) -> Path:
    """A complete sweep folder; the points' order is not interleaved, which nothing here depends on."""
    sweep = out / "20261129T120000Z-sweep-abcdef"
    points = []
    for repeat in range(repeats):
        for load in loads:
            for engine in engines:
                place = f"points/{len(points):03d}"
                run = make_run(out / "runs", engine, load, **{"seed": str(7 + repeat), **options})
                (sweep / place).parent.mkdir(parents=True, exist_ok=True)
                run.rename(sweep / place)
                points.append(_point(place, engine, load, repeat))
    write_json(sweep / "sweep.json", _told(engines, loads, repeats, points, options))
    return sweep


def edit(path: Path, **changes: Any) -> None:
    """Change top-level values of a JSON file."""
    write_json(path, {**json.loads(path.read_text()), **changes})


def points_of(sweep: Path) -> list[dict[str, Any]]:
    """The rows of sweep.json."""
    points: list[dict[str, Any]] = json.loads((sweep / "sweep.json").read_text())["points"]
    return points


def point_of(sweep: Path, engine: str, load: str) -> Path:
    """The folder of a point."""
    return sweep / next(one["folder"] for one in points_of(sweep) if (one["engine"], one["load"]) == (engine, load))


def lose_point(sweep: Path, engine: str, load: str) -> None:
    """As if this point had never run."""
    lost = point_of(sweep, engine, load)
    shutil.rmtree(lost)
    points = [
        {**one, "status": "missing"} if sweep / one["folder"] == lost else one for one in points_of(sweep)
    ]
    edit(sweep / "sweep.json", points=points, status="stopped")


def as_killed(folder: Path) -> None:
    """As if the process had died in the middle: parts, no tables, no summary."""
    info = json.loads((folder / "run.json").read_text())
    parts = _parts(folder, info["config"])
    for path in (*folder.glob("*.parquet"), folder / "summary.json"):
        if path.name != "schedule.parquet":
            path.unlink()
    (folder / "parts").mkdir()
    with PartWriter(folder / "parts", 0) as writer:
        for part in parts[: max(1, len(parts) // 2)]:
            writer.write(part)
    for name in ("digest_sha256", "ended_utc", "files_sha256", "in_flight_request_ns", "verdict"):
        info.pop(name, None)
    write_json(folder / "run.json", {**info, "status": "running"})


def _parts(folder: Path, config: dict[str, str]) -> list[RecordingPart]:
    prepared = prepare(from_texts(config))
    engine: Engine = make_engine(prepared.config.engine, prepared.config.clock, prepared.schedule)
    parts: list[RecordingPart] = []
    clock = make_clock("modelled", str(engine.describe()["cost_source"]))
    keep: Callable[[RecordingPart], None] = parts.append
    play_engine(prepared.schedule, engine, clock, keep, Steering())
    return parts


def _texts(engine: str, load: str, out: Path, **options: str) -> dict[str, str]:
    texts = {"engine": engine, "clock": "modelled", "requests": "60", "out": str(out), **options}
    if load == "burst":
        return {**texts, "arrival": "burst"}
    if load.startswith("closed:"):
        return {**texts, "arrival": "closed", "users": load.removeprefix("closed:")}
    return {**texts, "rate": load}


def _point(place: str, engine: str, load: str, repeat: int) -> dict[str, Any]:
    rate_rps = float(load) if load.replace(".", "").isdigit() else None
    return {
        "folder": place, "engine": engine, "load": load, "rate_rps": rate_rps, "repeat": repeat, "seed": 7 + repeat,
        "order": 0, "status": "complete",
    }  # fmt: skip


def _told(
    engines: tuple[str, ...],
    loads: tuple[str, ...],
    repeats: int,
    points: list[dict[str, Any]],
    options: dict[str, str],
) -> dict[str, Any]:
    return {
        "schema_version": 1, "kind": "sweep", "status": "complete", "started_utc": "2026-11-29T12:00:00+00:00",
        "ended_utc": "2026-11-29T12:01:00+00:00", "command": "tokenload sweep --clock modelled", "config": options,
        "engines": list(engines), "loads": list(loads), "repeats": repeats, "order_seed": 7, "points": points,
    }  # fmt: skip


def _ignore(ended_requests: int) -> None:
    """Progress to nobody."""
