"""What is to be reproduced: the runs of a folder with all their rows, or of a report that carries their recipes."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from loadgen.config import RunConfig, from_texts
from loadgen.workload import build_schedule
from results.comparison.trials import refuse_changed
from results.report.differences import differences
from results.report.page_seal import is_as_written
from results.report.recipe import FORMAT, SCRIPT_ID, conditions_of
from results.schedule import Schedule
from results.server.of_run import server_of_run
from results.slo import parse_slo
from results.store import COMPLETE, Run, digest, json_sha256, load_run
from results.summary import SCHEMA_VERSION
from results.verdicts.judged import judged
from results.verdicts.run_facts import facts_of

Json = dict[str, Any]
_RECIPE = re.compile(rf'<script type="application/json" id="{SCRIPT_ID}">(.*?)</script>', re.DOTALL)


@dataclass(frozen=True, slots=True)
class Original:
    """A first run as far as it is known."""

    name: str
    info: Json
    """run.json, or what the report has of it."""
    summary: Json
    conditions: Json
    checks: tuple[str, ...]
    """What was verified, in plain words."""
    faults: tuple[str, ...] = ()
    """What does not fit, and is no reason to refuse."""
    folder: Path | None = None
    """Where its rows lie; None: a report has none."""

    @property
    def config(self) -> RunConfig:
        """As it was asked for."""
        return from_texts(self.info["config"])


def read_originals(path: Path, point: str | None = None) -> tuple[Original, ...]:
    """Of a run folder, a sweep folder or a report: the run, all the runs, or the one named.

    ValueError in one line when one of them is not complete, or was changed.
    """
    if not path.is_dir():
        recipe = _recipe(path)
        runs = {str(one["name"]): one for one in recipe["runs"]}
        names = _chosen(path, list(runs), point)
        _refuse_left_out(path, recipe.get("left_out", ()) if point is None else ())
        return tuple(_of_recipe(path, recipe, runs[name]) for name in names)
    if (path / "sweep.json").is_file():
        names = _chosen(path, _points_of(path), point)
        _refuse_missing(path, [name for name in names if not (path / name / "run.json").is_file()])
        return tuple(_from_folder(path / name, name) for name in names)
    if point is not None:
        raise ValueError(f"{path} is one run and has no point {point!r}: leave --point out")
    return (_from_folder(path, path.name),)


def regenerated(original: Original) -> Schedule:
    """The workload made anew from the config. ValueError in one line when it is not the one that was played."""
    config, expected = original.config, str(original.info["schedule_sha256"])
    if config.trace is not None and not Path(config.trace).is_file():
        raise ValueError(f"{original.name} replays the trace {config.trace!r}, which is not here: put it there again")
    schedule = build_schedule(config)
    if schedule.sha256 != expected:
        source = f"the trace {config.trace!r} is another one" if config.trace else "this version draws it differently"
        raise ValueError(
            f"{original.name}: the workload cannot be regenerated: {source} "
            f"(schedule {schedule.sha256[:16]}, expected {expected[:16]})"
        )
    return schedule


def _from_folder(folder: Path, name: str) -> Original:
    run = load_run(folder)
    if run.info["status"] != COMPLETE:
        raise ValueError(f"{folder} holds no complete run ({run.label}): there is nothing whole to reproduce")
    refuse_changed(folder, run.info)
    for kind, found in (("schedule", run.recording.schedule.sha256), ("digest", digest(run.recording))):
        if run.info.get(f"{kind}_sha256") != found:
            raise ValueError(f"{folder}: its rows have the {kind} {found[:16]}, run.json says another: it was changed")
    stored = _document(folder / "summary.json")
    faults = _rebuilt(run, stored, (folder / "summary.json").read_text())
    checks = (
        f"{len(run.info['files_sha256'])} files have the hashes that they were written with",
        *(() if faults else ("the summary rebuilt from the rows is the stored one, byte for byte",)),
    )
    return Original(name, run.info, stored, _document(folder / "conditions.json"), checks, faults, folder)


def _rebuilt(run: Run, stored: Json, text: str) -> tuple[str, ...]:
    """Where the summary that the rows give now is not the stored one."""
    limits = run.info["config_effective"].get("slo")
    fresh, _ = judged(run.recording, parse_slo(limits) if limits else None, facts_of(run.info, run.label))
    if run.info.get("server"):
        fresh["server"] = server_of_run(run.folder, run.info, run.recording.schedule, fresh["window_ns"])
    if json.dumps(fresh, indent=1, sort_keys=True, allow_nan=False, default=str) + "\n" == text:
        return ()
    found = differences(stored, json.loads(json.dumps(fresh, default=str)))
    what = "; ".join(found[:3]) if found else "figures that only one of the two versions knows"
    return (f"the summary rebuilt from the rows is not the stored one: {what} ({versions(run.info, stored)})",)


def versions(info: Mapping[str, Any], summary: Mapping[str, Any]) -> str:
    """Who wrote a summary, who reads it, and where its figures stand as they are made now."""
    from importlib.metadata import version

    first = f"tokenload {info.get('tokenload_version')}, summary schema {summary.get('schema_version')}"
    again = f"{version('tokenload')}, schema {SCHEMA_VERSION}"
    return f"written by {first}, read by {again}; tokenload report FOLDER makes its page from the rows anew"


def _recipe(path: Path) -> Json:
    """What a report carries. ValueError for a page that is none, or is not as it was written."""
    try:
        page = path.read_text(encoding="utf-8")
        match = _RECIPE.search(page)
        recipe = json.loads(match[1]) if match else None
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} is no run folder and no report: {' '.join(str(error).split())}") from None
    if not isinstance(recipe, dict) or recipe.get("format") != FORMAT:
        raise ValueError(f"{path} carries no recipe: it is no report of this program, or an older one")
    if not is_as_written(page):
        raise ValueError(f"{path} was changed since it was written: its text does not have the hash that stands in it; "
                         "take the file itself, or make it anew with tokenload report FOLDER")  # fmt: skip
    return recipe


def _of_recipe(path: Path, recipe: Json, one: Json) -> Original:
    """ValueError when what it says of a run does not fit together, though the page was sealed."""
    name, info, summary = str(one["name"]), one["info"], one["summary"]
    if json_sha256(summary) != info.get("files_sha256", {}).get("summary.json"):
        raise ValueError(f"{path}: the summary of {name} does not have the hash that the run was written with")
    checks = (
        "the report is as it was written, and its summary has the hash that the run's file had",
        "the report alone: it has no rows, so the summary cannot be rebuilt",
    )
    return Original(name, info, summary, conditions_of(one, recipe["groups"]), checks)


def _chosen(path: Path, names: list[str], point: str | None) -> list[str]:
    if point is not None and point not in names:
        raise ValueError(f"{path} has no point {point!r}: it has {', '.join(names)}")
    if not names:
        raise ValueError(f"{path} holds no complete run: there is nothing to reproduce")
    return names if point is None else [point]


def _refuse_missing(path: Path, missing: list[str]) -> None:
    if missing:
        raise ValueError(
            f"{path}: {', '.join(missing)} has not run: go on with tokenload sweep --resume {path}, or name a point "
            "that has with --point"
        )


def _refuse_left_out(path: Path, names: Sequence[str]) -> None:
    if names:
        raise ValueError(
            f"{path}: {', '.join(names)} had no complete run that fits together when the page was written: take a page "
            "of the whole sweep, or name a point that had one with --point"
        )


def _points_of(folder: Path) -> list[str]:
    points = _document(folder / "sweep.json").get("points", [])
    names = [str(one.get("folder")) for one in points if isinstance(one, Mapping)]
    outside = [name for name in names if Path(name).is_absolute() or ".." in Path(name).parts]
    if outside:
        raise ValueError(f"{folder}: the folder {outside[0]} of a point lies outside it")
    return names


def _document(path: Path) -> Json:
    try:
        document = json.loads(path.read_text())
    except (OSError, ValueError):
        raise ValueError(f"{path} is missing or damaged") from None
    if not isinstance(document, dict):
        raise ValueError(f"{path} is damaged: it is no JSON object")
    return document
