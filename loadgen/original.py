"""What is to be reproduced: a run folder with all its rows, or a report that carries config, recipe and hashes."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from loadgen.config import RunConfig, from_texts
from loadgen.workload import build_schedule
from results.comparison.trials import refuse_changed
from results.recording import Recording
from results.report.differences import differences
from results.report.recipe import FORMAT, SCRIPT_ID, conditions_of
from results.schedule import Schedule
from results.slo import parse_slo
from results.store import COMPLETE, Run, digest, load_run
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
    recording: Recording | None = None
    """None: a report has no rows."""

    @property
    def config(self) -> RunConfig:
        """As it was asked for."""
        return from_texts(self.info["config"])


def read_original(path: Path, point: str | None = None) -> Original:
    """ValueError in one line when it holds no complete run, was changed, or holds several and none is named."""
    if path.is_dir():
        if (path / "sweep.json").is_file():
            return _from_folder(path / (point or _several(path, _points_of(path))))
        return _from_folder(path)
    return _from_report(path, point)


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


def _from_folder(folder: Path) -> Original:
    run = load_run(folder)
    if run.info["status"] != COMPLETE:
        raise ValueError(f"{folder} holds no complete run ({run.label}): there is nothing whole to reproduce")
    refuse_changed(folder, run.info)
    for name, found in (("schedule", run.recording.schedule.sha256), ("digest", digest(run.recording))):
        if run.info.get(f"{name}_sha256") != found:
            raise ValueError(f"{folder}: its rows have the {name} {found[:16]}, run.json says another: it was changed")
    stored = _document(folder / "summary.json")
    faults = _rebuilt(run, stored, (folder / "summary.json").read_text())
    checks = (
        f"{len(run.info['files_sha256'])} files have the hashes that they were written with",
        *(() if faults else ("the summary rebuilt from the rows is the stored one, byte for byte",)),
    )
    return Original(folder.name, run.info, stored, _document(folder / "conditions.json"), checks, faults, run.recording)


def _rebuilt(run: Run, stored: Json, text: str) -> tuple[str, ...]:
    """Where the summary that the rows give now is not the stored one."""
    limits = run.info["config_effective"].get("slo")
    fresh, _ = judged(run.recording, parse_slo(limits) if limits else None, facts_of(run.info, run.label))
    if json.dumps(fresh, indent=1, sort_keys=True, allow_nan=False, default=str) + "\n" == text:
        return ()
    found = differences(stored, json.loads(json.dumps(fresh, default=str)))
    what = "; ".join(found[:3]) if found else "figures that only one of the two versions knows"
    return (f"the summary rebuilt from the rows is not the stored one: {what}",)


def _from_report(path: Path, point: str | None) -> Original:
    try:
        match = _RECIPE.search(path.read_text(encoding="utf-8"))
        recipe = json.loads(match[1]) if match else None
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} is no run folder and no report: {' '.join(str(error).split())}") from None
    if not isinstance(recipe, dict) or recipe.get("format") != FORMAT:
        raise ValueError(f"{path} carries no recipe: it is no report of this program, or an older one")
    runs: dict[str, Json] = {str(one["name"]): one for one in recipe["runs"]}
    name = point or (next(iter(runs)) if len(runs) == 1 else _several(path, list(runs)))
    if name not in runs:
        raise ValueError(f"{path} has no point {name!r}: it has {', '.join(runs)}")
    one = runs[name]
    checks = ("the report alone: it has no rows, so hashes of files and the summary cannot be checked",)
    return Original(name, one["info"], one["summary"], conditions_of(one, recipe["groups"]), checks)


def _several(path: Path, names: list[str]) -> str:
    raise ValueError(f"{path} holds {len(names)} runs: name one with --point, one of {', '.join(names)}")


def _points_of(folder: Path) -> list[str]:
    points = _document(folder / "sweep.json").get("points", [])
    return [str(one.get("folder")) for one in points if isinstance(one, Mapping)]


def _document(path: Path) -> Json:
    try:
        document = json.loads(path.read_text())
    except (OSError, ValueError):
        raise ValueError(f"{path} is missing or damaged") from None
    if not isinstance(document, dict):
        raise ValueError(f"{path} is damaged: it is no JSON object")
    return document
