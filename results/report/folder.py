"""What a folder holds: a run or a sweep of points, each summarised anew from its rows.

Rows are read, summarised and let go; what needs them again asks for `recording_of` a point.
"""

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from results.recording import Recording
from results.report.asked import (
    DEFAULT_SLO,
    Workload,
    command_of,
    config_of,
    engine_of,
    limits_of,
    load_of,
    workload_of,
)
from results.report.differences import differences
from results.report.failures import Failures, failures_of
from results.report.judging import verdict_of
from results.report.scrapes import with_server
from results.report.servers import cap_text, is_server, unlike_names
from results.report.verdicts import NOT_JUDGED, Verdict
from results.report.wire import End, ends_of, wire_figures
from results.slo import parse_slo
from results.store import INCOMPLETE, Run, changed_files, load_run
from results.summary import summarise

Json = dict[str, Any]
COMPLETE, MISSING, UNREADABLE = "complete", "missing", "unreadable"
SHOWN_DIFFERENCES = 3


@dataclass(frozen=True, slots=True)
class Point:
    """One run: an engine at a load."""

    folder: Path
    name: str
    engine: str
    load: str
    """`16`, `burst`, `closed:8`."""
    rate_rps: float | None
    repeat_id: int
    state: str
    """complete, STOPPED, INCOMPLETE, missing or unreadable."""
    info: Json = field(default_factory=dict)
    conditions: Json = field(default_factory=dict)
    summary: Json | None = None
    """From the rows; None where there are none."""
    workload: Workload | None = None
    failures: Failures | None = None
    verdict: Verdict = NOT_JUDGED
    faults: tuple[str, ...] = ()
    """What does not fit together in its folder, loudly shown."""
    remote: bool = False
    """A server was under load, and `engine` is its name."""
    wire: Json = field(default_factory=dict)
    """Of a server: figures of its replies that no summary holds."""
    ends: tuple[End, ...] = ()
    """Of a server: how its requests ended."""
    left_out_rows: int = 0
    """Ways in which requests ended that are not among `ends`."""
    rows: Recording | None = field(default=None, repr=False, compare=False)
    """Of a folder of one run, whose rows are read once."""


@dataclass(frozen=True, slots=True)
class Folder:
    """A run folder (one point) or a sweep folder."""

    kind: str
    status: str
    """complete, stopped or running."""
    command: str
    started_utc: str
    ended_utc: str
    version: str
    slo: str
    repeats: tuple[int, ...]
    engines: tuple[str, ...]
    loads: tuple[str, ...]
    """In the order of the page: rates as they grow, then the others."""
    points: tuple[Point, ...]

    @property
    def servers(self) -> tuple[str, ...]:
        """Those of `engines` that are servers."""
        remote = {one.engine for one in self.points if one.remote}
        return tuple(engine for engine in self.engines if engine in remote)

    @property
    def local_engines(self) -> tuple[str, ...]:
        """The others: engines in the process of the run, which tell their steps."""
        remote = self.servers
        return tuple(engine for engine in self.engines if engine not in remote)

    def at(self, engine: str, load: str) -> tuple[Point, ...]:
        """The repeats of one engine at one load that have rows."""
        return tuple(one for one in self.of(engine, load) if one.summary is not None)

    def of(self, engine: str, load: str) -> tuple[Point, ...]:
        """All its repeats, with rows or without."""
        return tuple(one for one in self.points if one.engine == engine and one.load == load)


def read_folder(folder: Path) -> Folder:
    """ValueError in one line when it holds neither a run nor a sweep."""
    if (folder / "sweep.json").is_file():
        return _read_sweep(folder)
    if not (folder / "run.json").is_file():
        raise ValueError(f"{folder} is no run folder and no sweep folder: it has neither run.json nor sweep.json")
    run = load_run(folder)
    load, rate_rps = load_of(run.info, run.recording.schedule)
    remote = is_server(run.info)
    plain = Point(folder, folder.name, engine_of(run.info), load, rate_rps, 0, COMPLETE, remote=remote)
    point = _named((_with_rows(replace(plain, rows=run.recording), {}, 1, run),))[0]
    return Folder(
        kind="run",
        status=str(run.info.get("status")),
        command=command_of(run.info),
        started_utc=str(run.info.get("started_utc") or ""),
        ended_utc=str(run.info.get("ended_utc") or ""),
        version=str(run.info.get("tokenload_version") or ""),
        slo=_limits(point),
        repeats=(0,),
        engines=(point.engine,),
        loads=(point.load,),
        points=(point,),
    )


def recording_of(point: Point) -> Recording:
    """Its rows, of a sweep read once more."""
    return point.rows if point.rows is not None else load_run(point.folder).recording


def number_of(load: str) -> float | None:
    """The rate in requests/s that a load is, or None."""
    try:
        return float(load)
    except ValueError:
        return None


def _read_sweep(folder: Path) -> Folder:
    try:
        told: Json = json.loads((folder / "sweep.json").read_text())
        rows = [row for row in told["points"] if isinstance(row, dict)]
        points = tuple(_read_point(folder, row, told) for row in rows)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{folder / 'sweep.json'} is damaged: {type(error).__name__}") from None
    engines = list(map(str, told.get("engines") or dict.fromkeys(point.engine for point in points)))
    names = dict(zip((point.engine for point in points), (point.engine for point in _named(points)), strict=True))
    points = tuple(replace(point, engine=names[point.engine]) for point in points)
    loads = dict.fromkeys([*map(str, told.get("loads") or []), *(point.load for point in points)])
    versions = [str(point.info["tokenload_version"]) for point in points if point.info.get("tokenload_version")]
    return Folder(
        kind="sweep",
        status=str(told.get("status")),
        command=str(told.get("command") or ""),
        started_utc=str(told.get("started_utc") or ""),
        ended_utc=str(told.get("ended_utc") or ""),
        version=str(told.get("tokenload_version") or next(iter(versions), "")),
        slo=next((_limits(point) for point in points if point.summary), DEFAULT_SLO),
        repeats=tuple(sorted({point.repeat_id for point in points})) or (0,),
        engines=tuple(dict.fromkeys(names.get(engine, engine) for engine in engines)),
        loads=tuple(sorted(loads, key=_order_of_loads)),
        points=points,
    )


def _limits(point: Point) -> str:
    return str((point.summary or {}).get("slo", {}).get("limits") or "")


def _order_of_loads(load: str) -> tuple[int, float, str]:
    rate_rps = number_of(load)
    if rate_rps is not None:
        return 0, rate_rps, ""
    users = number_of(load.removeprefix("closed:"))
    return (1, users, "") if users is not None else (2 if load == "burst" else 1, 0.0, load)


def _named(points: tuple[Point, ...]) -> tuple[Point, ...]:
    """Servers by short names in place of addresses, with the cap of a schedule that had one."""
    remote = [point for point in points if point.remote]
    infos = {point.engine: point.info for point in remote if point.info}
    names = unlike_names(dict.fromkeys(point.engine for point in remote), infos)
    caps = {engine: cap_text(config_of(info)) for engine, info in infos.items()}
    shown = {engine: f"{name}, {caps[engine]}" if caps.get(engine) else name for engine, name in names.items()}
    return tuple(replace(point, engine=shown[point.engine]) if point.remote else point for point in points)


def _read_point(sweep: Path, row: Json, told: Json) -> Point:
    place = Path(str(row["folder"]))
    rate_rps = float(row["rate_rps"]) if row.get("rate_rps") is not None else None
    repeat_id = int(row.get("repeat") or 0)
    inside = not place.is_absolute() and ".." not in place.parts
    engine, load = str(row["engine"]), str(row["load"])
    remote = is_server({}, engine)
    point = Point(sweep / place, str(place), engine, load, rate_rps, repeat_id, MISSING, remote=remote)
    if not inside:
        return _unread(point, f"its folder {place} lies outside the sweep")
    if not (point.folder / "run.json").is_file():
        return point
    return _with_rows(point, config_of(told), max(int(told.get("repeats") or 1), 1))


def _with_rows(point: Point, shared_config: Json, count: int, read: Run | None = None) -> Point:
    """The point with what its folder holds, one of `count` repeats; a folder that cannot be read is a point too."""
    try:
        run = read or load_run(point.folder)
        limits = limits_of(_read_json(point.folder / "summary.json"), config_of(run.info), shared_config)
        summary = summarise(run.recording, parse_slo(limits) if limits else None)
        verdict, faults = verdict_of(run.info, run.recording, run.label, count)
        conditions = _read_json(point.folder / "conditions.json") or {}
    except (ValueError, OSError, KeyError, TypeError, IndexError) as error:
        text = " ".join(str(error).replace(str(point.folder), point.name).split())
        return _unread(point, f"cannot be read: {type(error).__name__}: {text}")
    return replace(
        point,
        state=run.label or COMPLETE,
        conditions=conditions,
        summary=summary,
        workload=workload_of(run.recording.schedule),
        failures=failures_of(run.recording),
        verdict=verdict,
        faults=(*faults, *([] if run.label == INCOMPLETE else _faults(point.folder, run.info, summary))),
        **(_of_server(run) if is_server(run.info) else {"info": run.info}),
    )


def _of_server(run: Run) -> Json:
    shown, left_out_rows = ends_of(run.recording)
    of_replies = {"wire": wire_figures(run.recording), "ends": shown, "left_out_rows": left_out_rows}
    return {"remote": True, "info": with_server(run.folder, run.info), **of_replies}


def _unread(point: Point, fault: str) -> Point:
    return replace(point, state=UNREADABLE, faults=(fault,))


def _faults(folder: Path, info: Json, summary: Json) -> tuple[str, ...]:
    return (*_changed(folder, info), *_stored(folder, summary))


def _changed(folder: Path, info: Json) -> tuple[str, ...]:
    """Files whose bytes are not those that were written."""
    changed = changed_files(folder, info)
    return (f"changed since the run was written: {', '.join(changed)}",) if changed else ()


def _stored(folder: Path, summary: Json) -> tuple[str, ...]:
    """Where the stored summary is not what the rows give."""
    stored = _read_json(folder / "summary.json")
    if stored is None:
        return ("summary.json is missing or damaged: figures here are of the rows",)
    found = differences(stored, summary)
    if not found:
        return ()
    more = f"; {len(found) - SHOWN_DIFFERENCES} more" if len(found) > SHOWN_DIFFERENCES else ""
    return ("summary.json is not what the rows give: " + "; ".join(found[:SHOWN_DIFFERENCES]) + more,)


def _read_json(path: Path) -> Json | None:
    try:
        document = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    return document if isinstance(document, dict) else None
