"""What a comparison reads of a folder: its runs, each summarised anew from its rows."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from results import metrics
from results.recording import Recording
from results.report.asked import config_of, engine_of, limits_of, load_of
from results.slo import parse_slo
from results.store import INCOMPLETE, changed_files, load_run
from results.verdicts.judged import judged
from results.verdicts.run_facts import facts_of

Json = dict[str, Any]
POINT_FILES = ("sweep.json", "ab.json")
PER_REQUEST = {"ttft": metrics.ttft_ns, "e2e": metrics.e2e_ns}
"""What is compared request by request: for description, never for the decision."""


@dataclass(frozen=True, slots=True, eq=False)
class Trial:
    """One run as a comparison sees it; each is itself, whatever it has in common with another."""

    folder: Path
    engine: str
    load: str
    repeat_id: int
    schedule_sha256: str
    summary: Json
    verdict: Json
    conditions: Json
    values_ns: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)
    """Of each measured request by id; +inf failed, NaN undefined."""
    mean_output_tokens: float | None = None
    """Of measured requests that were served; None: none was."""


@dataclass(frozen=True, slots=True)
class Side:
    """One of the things compared."""

    label: str
    trials: tuple[Trial, ...]

    @property
    def loads(self) -> tuple[str, ...]:
        """In their own order."""
        return tuple(dict.fromkeys(trial.load for trial in self.trials))

    @property
    def engines(self) -> tuple[str, ...]:
        """In their own order."""
        return tuple(dict.fromkeys(trial.engine for trial in self.trials))


def read_sides(folders: tuple[Path, ...], slo: str | None = None) -> tuple[Side, ...]:
    """A side a folder; a single sweep folder has a side an engine.

    `slo`: the limits for goodput on all sides; else those of the first run. ValueError in one line for a folder
    that holds no runs, was changed since it was written, or is alone without engines to compare.
    """
    found = []
    for folder in folders:
        trials = read_trials(folder, slo)
        slo = slo or str(trials[0].summary["slo"].get("limits") or "") or None
        found.append(Side(folder.resolve().name, trials))
    if len(found) > 1:
        return tuple(found)
    (alone,) = found
    if len(alone.engines) < 2:  # noqa: PLR2004 - a comparison takes two
        raise ValueError(f"{folders[0]} holds one engine: name a second folder to compare it with")
    return tuple(Side(name, tuple(t for t in alone.trials if t.engine == name)) for name in alone.engines)


def read_trials(folder: Path, slo: str | None = None) -> tuple[Trial, ...]:
    """The runs of a run folder or of a folder of points."""
    points = _points(folder)
    if points is None:
        return (read_trial(folder, slo),)
    trials = []
    for point in points:
        place = Path(str(point["folder"]))
        if place.is_absolute() or ".." in place.parts:
            raise ValueError(f"{folder}: the folder {place} of a point lies outside it")
        if (folder / place / "run.json").is_file():
            trials.append(read_trial(folder / place, slo, point))
    if not trials:
        raise ValueError(f"{folder} holds no run that was begun")
    return tuple(trials)


def read_trial(folder: Path, slo: str | None = None, point: Mapping[str, Any] | None = None) -> Trial:
    """One run folder. ValueError when its files are not those that were written."""
    run = load_run(folder)
    if run.label != INCOMPLETE:
        refuse_changed(folder, run.info)
    limits = slo or limits_of(_json(folder / "summary.json"), config_of(run.info))
    facts = facts_of(run.info, run.label)
    summary, verdict = judged(run.recording, parse_slo(limits) if limits else None, facts)
    told = point or {}
    return Trial(
        folder=folder,
        engine=str(told.get("engine") or engine_of(run.info)),
        load=str(told.get("load") or load_of(run.info, run.recording.schedule)[0]),
        repeat_id=int(told.get("repeat") or 0),
        schedule_sha256=run.recording.schedule.sha256,
        summary=summary,
        verdict=verdict.to_json(),
        conditions=_json(folder / "conditions.json") or {},
        values_ns=values_of(run.recording),
        mean_output_tokens=mean_length(run.recording),
    )


def mean_length(recording: Recording) -> float | None:
    """Output tokens of an answer."""
    served = metrics.completed(recording) & metrics.measured(recording)
    return float(recording.requests["output_tokens"][served].mean()) if served.any() else None


def values_of(recording: Recording) -> dict[str, NDArray[np.float64]]:
    """The metrics of each measured request."""
    events, chosen = metrics.events_of(recording), metrics.measured(recording)
    return {name: function(recording, events)[chosen] for name, function in PER_REQUEST.items()}


def refuse_changed(folder: Path, info: Mapping[str, Any]) -> None:
    """ValueError that names the files whose bytes are not those that were written."""
    changed = changed_files(folder, info)
    if changed:
        raise ValueError(f"{folder}: changed since the run was written: {', '.join(changed)}; run it again")


def _points(folder: Path) -> list[Json] | None:
    """Of a sweep or another folder of points, engines and loads as they were given; None: it is a run folder."""
    for name in POINT_FILES:
        document = _json(folder / name)
        if document is not None:
            points = [one for one in document.get("points", []) if isinstance(one, dict) and one.get("folder")]
            return sorted(points, key=lambda point: _place(document, point))
    return None


def _place(document: Mapping[str, Any], point: Mapping[str, Any]) -> list[int]:
    """By engine, then by load; points keep their order otherwise."""
    names = [([str(one) for one in document.get(f"{key}s", [])], str(point.get(key))) for key in ("engine", "load")]
    return [given.index(name) if name in given else len(given) for given, name in names]


def _json(path: Path) -> Json | None:
    try:
        document = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    return document if isinstance(document, dict) else None
