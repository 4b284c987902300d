"""A recording's summary and verdict together: what the verdict withholds is not given as a figure of the system."""

from results.figure_json import QUANTILES, Json
from results.figures import read
from results.in_run import no_bounds
from results.recording import Recording
from results.slo import FLUIDITY, Slo
from results.stats import N_TOO_SMALL
from results.summary import summarise
from results.verdicts.applicability import CODES
from results.verdicts.run_facts import RunFacts, facts_of
from results.verdicts.verdict import Verdict, judge

__all__ = ["facts_of", "judged"]
FIGURES = (*QUANTILES, "mean", "max", "share", "of_deadlines")
OVERLOADED = "OVERLOADED"
"""What it withholds is true of this run of so many requests, and shown as that; other codes' figures are wrong."""
SPLITS = ("by_class", "by_phase", "by_turn")


def judged(recording: Recording, slo: Slo | None, facts: RunFacts) -> tuple[Json, Verdict]:
    """Every figure of the run, those withheld as null with their code; of an overload, with the run's own beside."""
    verdict = judge(recording, facts)
    summary = summarise(recording, slo, facts.thresholds)
    places = [summary, *(one for name in SPLITS for one in summary[name].values())]
    for metric, finding in verdict.withheld.items():
        group, _, leaf = metric.partition(".")
        for place in places:
            if group in place:
                place[group] = (
                    _without(place[group], leaf, finding.code) if leaf else _withheld(place[group], finding.code)
                )
    _withhold_objectives(summary, slo, verdict)
    _withhold_bounds(summary)
    return summary, verdict


def _withheld(figures: Json, code: str) -> Json:
    """Null in place of the figures; those of an overload stand under `of_this_run`: they grow with its length."""
    of_this_run = {name: figures[name] for name in FIGURES if name in figures}
    reasons = {**figures.get("reasons", {}), **dict.fromkeys(of_this_run, code)}
    beside = {"of_this_run": of_this_run} if code == OVERLOADED else {}
    return {**figures, **dict.fromkeys(of_this_run), "withheld": code, **beside, "reasons": reasons}


def _without(figures: Json, leaf: str, code: str) -> Json:
    """One figure of a group as null; what was null already keeps its reason."""
    if figures.get(leaf) is None:
        return figures
    return {**figures, leaf: None, "reasons": {**figures.get("reasons", {}), leaf: code}}


def _withhold_objectives(summary: Json, slo: Slo | None, verdict: Verdict) -> None:
    """No attainment of a limit on what cannot be believed, whatever was measured for it."""
    metrics = slo.metrics if slo is not None else ()
    found = [verdict.withheld.get(name if name == FLUIDITY else f"{name}_ms") for name in metrics]
    codes = [finding.code for finding in found if finding is not None and finding.code != OVERLOADED]
    for leaf in ("attainment", "goodput_rps") if codes else ():
        summary["slo"] = _without(summary["slo"], leaf, codes[0])


def _withhold_bounds(summary: Json) -> None:
    """No bounds around a figure that is not given, and no such figure window by window."""
    for name in summary["in_run"]:
        _, reason = read(summary, name)
        if reason is not None and reason in CODES and reason != N_TOO_SMALL:
            summary["in_run"][name] = no_bounds(reason)
    code = summary["ttft_ms"].get("withheld")
    for row in (summary["windows"]["rows"] or ()) if code else ():
        row.update(_without(_without(row, "ttft_p50_ms", code), "ttft_p99_ms", code))
