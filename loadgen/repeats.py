"""What is known of a point only when all its repeats have run: its headline figures, and how much the runs vary."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from results import metrics
from results.headline import headline
from results.recording import Recording
from results.store import Run, load_run, seal, write_json
from results.verdicts.run_facts import facts_of
from results.verdicts.verdict import judge

Json = dict[str, Any]


def headline_of(folders: Sequence[Path]) -> Json:
    """Of the run folders of one engine at one load; each is told how much the figures vary between them."""
    summaries = [json.loads((folder / "summary.json").read_text()) for folder in folders]
    if len(folders) < 2:  # noqa: PLR2004 - nothing to spread, and no need to read rows
        return headline(summaries)
    rows = []
    runs = (load_run(folder) for folder in folders)
    cv = headline(summaries)["run_cv_ratio"]
    for run in runs:
        rows.append(_values_ns(run.recording))
        if cv is not None:
            _tell(run, cv)
    return headline(summaries, rows)


def _values_ns(recording: Recording) -> dict[str, metrics.Float64]:
    events, chosen = metrics.events_of(recording), metrics.measured(recording)
    functions = {"ttft": metrics.ttft_ns, "tpot": metrics.tpot_ns, "e2e": metrics.e2e_ns}
    return {name: function(recording, events)[chosen] for name, function in functions.items()}


def _tell(run: Run, run_cv_ratio: float) -> None:
    """Judge a run anew with what its siblings have shown; its rows and its summary stay as they are."""
    facts = {**(run.info.get("facts") or {}), "run_cv_ratio": run_cv_ratio}
    info = {**run.info, "facts": facts}
    info["verdict"] = judge(run.recording, facts_of(info, run.label)).to_json()
    write_json(run.folder / "run.json", seal(info))


def by_point(places: Iterable[tuple[str, str, Path]]) -> list[Json]:
    """Of (engine, load, folder of a complete run): the headline of each engine at each load, in their order."""
    together: dict[tuple[str, str], list[Path]] = {}
    for engine, load, folder in places:
        together.setdefault((engine, load), []).append(folder)
    return [
        {"engine": engine, "load": load, **headline_of(folders)} for (engine, load), folders in together.items()
    ]
