"""Reproduction: a first run is checked, its workload made anew, and the run made again, on the same schedule.

The outcome is a verdict of a test of equivalence, REPRODUCED, DIFFERS or INCONCLUSIVE, never "the intervals overlap".
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from loadgen.config import RunConfig
from loadgen.original import Original, regenerated, versions
from loadgen.run_folders import new_folder
from loadgen.session import Outcome, execute, prepare, utc_text
from loadgen.stopped import StoppedError
from results.comparison.conditions import Difference, differences, refuse, together
from results.equivalence import MARGIN_RATIO, Likeness, worst
from results.gates import LEAST_REQUESTS
from results.likeness import Likened, conclusion, liken, runs_needed
from results.outputs import is_greedy, same_outputs
from results.stamp.facts import IDENTITY, INFO, PERFORMANCE
from results.store import load_run, write_json

SCHEMA_VERSION = 1
RUNS = 5
MODELLED = "modelled"
ROWS = ("schedule.parquet", "requests.parquet", "tokens.parquet", "steps.parquet")
BIT_FOR_BIT = (*ROWS, "summary.json")
"""Files that two modelled runs of one config have in common to the byte."""
Json = dict[str, Any]
Progress = Callable[[str, int, int], None]


@dataclass(slots=True)
class Reproduction:
    """One that could start now."""

    original: Original
    folder: Path
    count: int
    margin_ratio: float
    started_utc: str
    outcomes: list[Outcome] = field(default_factory=list)


def plan_reproductions(
    originals: Sequence[Original], out: str, count: int = RUNS, margin_ratio: float = MARGIN_RATIO
) -> tuple[Path, tuple[Reproduction, ...]]:
    """The folder of it all, and one of each, in a folder of its own where there are several.

    ValueError in one line when a workload cannot be made anew: nothing is run then.
    """
    for original in originals:
        regenerated(original)
    started = datetime.now(UTC)
    folder = new_folder(out, started, "reproduce")
    places = [folder / "points" / f"{number:03d}" for number in range(len(originals))]
    one_of = zip(originals, places if len(originals) > 1 else [folder], strict=True)
    return folder, tuple(Reproduction(one, place, count, margin_ratio, utc_text(started)) for one, place in one_of)


def run_reproductions(
    folder: Path, name: str, planned: Sequence[Reproduction], progress: Progress, allowed: tuple[str, ...] = ()
) -> Json:
    """One after another; the document of the only one, or of all of them together. As `run_reproduction` raises."""
    documents = [run_reproduction(one, progress, allowed) for one in planned]
    return documents[0] if len(documents) == 1 else together_of(folder, name, documents)


def run_reproduction(one: Reproduction, progress: Progress, allowed: tuple[str, ...] = ()) -> Json:
    """Run again and judge. StoppedError when somebody stopped it; ValueError where it is not the same thing."""
    config = replace(one.original.config, out=str(one.folder))
    found: list[Difference] = []
    for number in range(one.count):
        prepared = prepare(config)
        rows = len(prepared.schedule)

        def show(ended_requests: int, number: int = number, rows: int = rows) -> None:
            progress(f"{one.original.name}: run {number + 1} of {one.count}", ended_requests, rows)

        outcome = execute(prepared, show, one.folder / "runs" / f"{number:03d}", one.count)
        if outcome.stopped:
            raise StoppedError
        one.outcomes.append(outcome)
        found = together([found, differences(one.original.conditions, _conditions(outcome))])
        refuse(found, allowed, one.original.name, "this machine's run")
        if config.clock == MODELLED and _settled(one.original, outcome):
            break  # bit for bit, and so would be all others
    document = judge(one, found)
    write_json(one.folder / "reproduce.json", document)
    return document


def together_of(folder: Path, name: str, documents: Sequence[Json]) -> Json:
    """Of several: a verdict each, and the worst of them as the verdict of all."""
    document = {
        "schema_version": SCHEMA_VERSION,
        "kind": "reproductions",
        "original": name,
        "verdict": worst([Likeness(one["verdict"]) for one in documents]),
        "invalid": [{**bad, "point": one["original"]} for one in documents for bad in one["invalid"]],
        "points": list(documents),
    }
    write_json(folder / "reproduce.json", document)
    return document


def judge(one: Reproduction, found: Sequence[Difference]) -> Json:
    """Everything that was found, and the verdict."""
    likened = liken(one.original.summary, [outcome.summary for outcome in one.outcomes], one.margin_ratio)
    outputs = _outputs(one)
    identical = all(_identical(one.original, outcome) for outcome in one.outcomes)
    settled = all(_settled(one.original, outcome) for outcome in one.outcomes)
    if settled:
        likened = [_bit_for_bit(figure) for figure in likened]
    verdict, why = _verdict(one, likened, outputs, settled)
    if settled and not identical:
        more = "" if one.original.faults else f": {versions(one.original.info, one.original.summary)}"
        why = f"{why}; its summary alone is another file{more}"
    kinds = (IDENTITY, PERFORMANCE, INFO)
    return {
        "schema_version": SCHEMA_VERSION,
        "kind": "reproduction",
        "original": one.original.name,
        "subject": subject_of(one.original.config),
        "started_utc": one.started_utc,
        "ended_utc": utc_text(datetime.now(UTC)),
        "verdict": verdict,
        "why": why,
        "checks": [*one.original.checks, "the workload made anew has the schedule's hash"],
        "faults": list(one.original.faults),
        "identical_files": identical,
        "outputs": outputs,
        "figures": {figure.name: figure.to_json() for figure in likened},
        "needed": runs_needed(likened) if _fewest(one) >= LEAST_REQUESTS else None,
        "differences": {kind: [item.to_json() for item in found if item.comparability == kind] for kind in kinds},
        "invalid": _invalid(one),
        "runs": [outcome.folder.name for outcome in one.outcomes],
    }


def subject_of(config: RunConfig) -> str:
    """Engine or server, and load."""
    rate = f"{config.rate_rps:g}/s" if config.rate_rps is not None else "its own times"
    load = {"closed": f"{config.users} users", "burst": "burst"}.get(config.arrival, rate)
    return f"{config.target or config.engine} at {load}, seed {config.seed}"


def _fewest(one: Reproduction) -> int:
    """Requests of the smallest new run: where they are too few, more such runs would decide nothing."""
    return min(int(outcome.summary["requests"]["scheduled"]) for outcome in one.outcomes)


def _verdict(one: Reproduction, likened: list[Likened], outputs: Json | None, settled: bool) -> tuple[Likeness, str]:
    """Bytes settle it; wrong answers settle it; then the figures do."""
    if settled:
        return Likeness.REPRODUCED, "the rows of every new run are those of the first, bit for bit"
    if outputs is not None and outputs["same"] is False:
        return Likeness.DIFFERS, f"the outputs are not the same: {outputs['text']}"
    fewest = _fewest(one)
    if fewest < LEAST_REQUESTS:
        return Likeness.INCONCLUSIVE, f"TOO_FEW_REQUESTS: {fewest} requests a run, {LEAST_REQUESTS} decide something"
    likeness = conclusion(likened)
    decisive = [figure for figure in likened if figure.likeness is likeness]
    text = "; ".join(f"{figure.to_json()['title']} {figure.text}" for figure in decisive[:3])
    return likeness, text or "no figure could be compared"


def _bit_for_bit(figure: Likened) -> Likened:
    """No test is needed to see that a figure is the same; one that the first run does not give stays without."""
    if figure.likeness is None:
        return figure
    return replace(figure, likeness=Likeness.REPRODUCED, text="the same to the last bit", equivalence=None)


def _outputs(one: Reproduction) -> Json | None:
    """Of the first new run against the original; None where only a report is known."""
    if one.original.folder is None or not one.outcomes:
        return None
    first, again = (load_run(folder).recording for folder in (one.original.folder, one.outcomes[0].folder))
    return same_outputs(first, again, is_greedy(one.original.info))


def _settled(original: Original, outcome: Outcome) -> bool:
    """The same rows, and figures that agree to the last bit: a summary of another version may have others beside."""
    figures = liken(original.summary, [outcome.summary])
    return _identical(original, outcome, ROWS) and all(one.again == (one.first,) for one in figures)


def _identical(original: Original, outcome: Outcome, files: Sequence[str] = BIT_FOR_BIT) -> bool:
    told = original.info.get("files_sha256")
    again = json.loads((outcome.folder / "run.json").read_text())["files_sha256"]
    names = [name for name in files if isinstance(told, dict) and name in told]
    return bool(names) and all(told[name] == again.get(name) for name in names) if isinstance(told, dict) else False


def _invalid(one: Reproduction) -> list[Json]:
    bad = [outcome for outcome in one.outcomes if not outcome.verdict["valid"]]
    return [
        {"run": outcome.folder.name, "codes": [found["code"] for found in outcome.verdict["invalid"]]}
        for outcome in bad
    ]


def _conditions(outcome: Outcome) -> Json:
    document: Json = json.loads((outcome.folder / "conditions.json").read_text())
    return document
