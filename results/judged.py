"""A recording's summary and verdict together: what the verdict withholds is not given as a figure of the system."""

from collections.abc import Mapping
from typing import Any

from results.case import RunFacts
from results.recording import Recording
from results.slo import Slo
from results.summary import QUANTILES, summarise
from results.verdict import Verdict, judge

Json = dict[str, Any]
FIGURES = (*QUANTILES, "mean", "max")


def judged(recording: Recording, slo: Slo | None, facts: RunFacts) -> tuple[Json, Verdict]:
    """Every figure of the run, those withheld as null with their code and the run's own figures beside them."""
    verdict = judge(recording, facts)
    summary = summarise(recording, slo)
    for metric, finding in verdict.withheld.items():
        if metric in summary:
            summary[metric] = _withheld(summary[metric], finding.code)
    return summary, verdict


def facts_of(info: Mapping[str, Any], label: str | None, repeats: int | None = None) -> RunFacts:
    """What a run's run.json says beyond its rows. `repeats`: where it is known better than there."""
    return RunFacts(
        clock=str(info["clock"]),
        schedule_sha256=str(info["schedule_sha256"]),
        label=label,
        repeats=repeats if repeats is not None else int(info.get("repeats", 1)),
        clean_tree=bool(info.get("clean_tree", False)),
    )


def _withheld(figures: Json, code: str) -> Json:
    """Null in place of the figures; they stand under `of_this_run`, because they grow with its length."""
    of_this_run = {name: figures[name] for name in FIGURES if name in figures}
    reasons = {**figures.get("reasons", {}), **dict.fromkeys(of_this_run, code)}
    return {**figures, **dict.fromkeys(of_this_run), "withheld": code, "of_this_run": of_this_run, "reasons": reasons}
