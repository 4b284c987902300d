"""Reproduction: the first run is checked, its workload made anew, and the run made again, on the same schedule.

The outcome is a verdict of a test of equivalence, REPRODUCED, DIFFERS or INCONCLUSIVE, never "the intervals overlap".
"""

import json
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from loadgen.original import Original, regenerated
from loadgen.session import Outcome, execute, prepare, utc_text
from loadgen.stopped import StoppedError
from results.comparison.conditions import Difference, differences, refuse, together
from results.equivalence import MARGIN_RATIO, Likeness
from results.gates import LEAST_REQUESTS
from results.likeness import Likened, conclusion, liken, runs_needed
from results.outputs import is_greedy, same_outputs
from results.stamp.facts import IDENTITY, INFO, PERFORMANCE
from results.store import load_run, write_json

SCHEMA_VERSION = 1
RUNS = 5
BIT_FOR_BIT = ("schedule.parquet", "requests.parquet", "tokens.parquet", "steps.parquet", "summary.json")
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


def plan_reproduction(
    original: Original, out: str, count: int = RUNS, margin_ratio: float = MARGIN_RATIO
) -> Reproduction:
    """ValueError in one line when the workload cannot be made anew."""
    regenerated(original)
    started = datetime.now(UTC)
    folder = Path(out) / f"{started:%Y%m%dT%H%M%SZ}-reproduce-{secrets.token_hex(3)}"
    return Reproduction(original, folder, count, margin_ratio, utc_text(started))


def run_reproduction(one: Reproduction, progress: Progress, allowed: tuple[str, ...] = ()) -> Json:
    """Run again and judge. StoppedError when somebody stopped it; ValueError where it is not the same thing."""
    config = replace(one.original.config, out=str(one.folder))
    found: list[Difference] = []
    for number in range(one.count):
        prepared = prepare(config)
        rows = len(prepared.schedule)

        def show(ended_requests: int, number: int = number, rows: int = rows) -> None:
            progress(f"run {number + 1} of {one.count}", ended_requests, rows)

        outcome = execute(prepared, show, one.folder / "runs" / f"{number:03d}", one.count)
        if outcome.stopped:
            raise StoppedError
        one.outcomes.append(outcome)
        found = together([found, differences(one.original.conditions, _conditions(outcome))])
        refuse(found, allowed, one.original.name, "this machine's run")
    document = judge(one, found)
    write_json(one.folder / "reproduce.json", document)
    return document


def judge(one: Reproduction, found: Sequence[Difference]) -> Json:
    """Everything that was found, and the verdict."""
    likened = liken(one.original.summary, [outcome.summary for outcome in one.outcomes], one.margin_ratio)
    outputs = _outputs(one)
    identical = all(_identical(one.original, outcome) for outcome in one.outcomes)
    verdict, why = _verdict(one, likened, outputs, identical)
    kinds = (IDENTITY, PERFORMANCE, INFO)
    return {
        "schema_version": SCHEMA_VERSION,
        "kind": "reproduction",
        "original": one.original.name,
        "started_utc": one.started_utc,
        "ended_utc": utc_text(datetime.now(UTC)),
        "verdict": verdict,
        "why": why,
        "checks": [*one.original.checks, "the workload made anew has the schedule's hash"],
        "faults": list(one.original.faults),
        "identical_files": identical,
        "outputs": outputs,
        "figures": {figure.name: figure.to_json() for figure in likened},
        "needed": runs_needed(likened),
        "differences": {kind: [item.to_json() for item in found if item.comparability == kind] for kind in kinds},
        "invalid": _invalid(one),
        "runs": [outcome.folder.name for outcome in one.outcomes],
    }


def _verdict(one: Reproduction, likened: list[Likened], outputs: Json | None, identical: bool) -> tuple[Likeness, str]:
    """Bytes settle it; wrong answers settle it; then the figures do."""
    if identical:
        return Likeness.REPRODUCED, "the rows of every new run are those of the first, bit for bit"
    if outputs is not None and outputs["same"] is False:
        return Likeness.DIFFERS, f"the outputs are not the same: {outputs['text']}"
    fewest = min(int(outcome.summary["requests"]["scheduled"]) for outcome in one.outcomes)
    if fewest < LEAST_REQUESTS:
        return Likeness.INCONCLUSIVE, f"TOO_FEW_REQUESTS: {fewest} requests a run, {LEAST_REQUESTS} decide something"
    likeness = conclusion(likened)
    decisive = [figure for figure in likened if figure.likeness is likeness]
    text = "; ".join(f"{figure.to_json()['title']} {figure.text}" for figure in decisive[:3])
    return likeness, text or "no figure could be compared"


def _outputs(one: Reproduction) -> Json | None:
    """Of the first new run against the original; None where only a report is known."""
    if one.original.recording is None or not one.outcomes:
        return None
    again = load_run(one.outcomes[0].folder).recording
    return same_outputs(one.original.recording, again, is_greedy(one.original.info))


def _identical(original: Original, outcome: Outcome) -> bool:
    told = original.info.get("files_sha256")
    again = json.loads((outcome.folder / "run.json").read_text())["files_sha256"]
    names = [name for name in BIT_FOR_BIT if isinstance(told, dict) and name in told]
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
