"""Engines against loads: who is who, which load says most, and whether an engine carries a load."""

from dataclasses import dataclass

from results.report.figures import figure_of, is_overloaded
from results.report.folder import COMPLETE, Folder, Point, number_of
from results.report.verdicts import STABLE

ATTAINMENT_SHARE = 0.99
"""An engine carries a rate when this share of the scheduled requests meets the SLO."""
ROLES = {"one": ("one-by-one",), "static": ("static",), "continuous": ("continuous",)}
YES, NO, OPEN, INVALID, MISSING = "yes", "no", "open", "invalid", "missing"


@dataclass(frozen=True, slots=True)
class Carried:
    """Whether one engine carries one load: yes, no, open (it attains, but nobody says it is stable), invalid (its
    run says nothing), or missing (not recorded, or not to its end)."""

    answer: str
    attainment_share: float | None
    why: str


def role(folder: Folder, name: str) -> str | None:
    """The first engine of that policy, by the name its spec begins with."""
    return next((engine for engine in folder.engines if engine.partition(",")[0] in ROLES[name]), None)


def rates(folder: Folder) -> tuple[str, ...]:
    """The loads that are rates, as they grow."""
    return tuple(load for load in folder.loads if number_of(load) is not None)


def carried(points: tuple[Point, ...]) -> Carried:
    """Over all repeats: the attainment of the worst, and what they have been judged to be."""
    found = [point for point in points if point.summary is not None]
    if not found:
        return Carried(MISSING, None, "missing")
    attained = figure_of(found, "slo", "attainment").low
    if attained is None:
        return Carried(OPEN, None, "no SLO")
    if len(found) < len(points) or any(point.state != COMPLETE for point in found):
        return Carried(MISSING, attained, "not all recorded")
    if any(point.verdict.valid is False for point in found):
        return Carried(INVALID, attained, "INVALID")
    if any(is_overloaded(point) for point in found):
        return Carried(NO, attained, "overloaded")
    if attained < ATTAINMENT_SHARE:
        return Carried(NO, attained, "misses the SLO")
    if all(point.verdict.load_state == STABLE and point.verdict.valid for point in found):
        return Carried(YES, attained, "stable")
    return Carried(OPEN, attained, "not judged")


def carried_up_to(folder: Folder, engine: str, answers: tuple[str, ...]) -> str | None:
    """The highest rate with one of these answers."""
    passed = [load for load in rates(folder) if carried(folder.of(engine, load)).answer in answers]
    return passed[-1] if passed else None


def telling_rate(folder: Folder) -> str | None:
    """The lowest rate that some engines carry (or may) and others do not; else the highest one anybody carries, else
    the lowest of all."""
    known = rates(folder)
    last = known[0] if known else None
    for load in known:
        answers = {carried(folder.of(engine, load)).answer for engine in folder.engines}
        if NO in answers and answers & {YES, OPEN}:
            return load
        last = load if answers & {YES, OPEN} else last
    return last


def busiest_load(folder: Folder) -> str | None:
    """The burst, or else the highest load there is: where throughput is the engine's own."""
    return folder.loads[-1] if folder.loads else None


def saturating_rate(folder: Folder, engine: str) -> str | None:
    """The rate nearest to what the engine completes in the burst; without a burst, the highest rate."""
    known = [load for load in rates(folder) if folder.at(engine, load)]
    burst = folder.at(engine, "burst")
    if not known or not burst or burst[0].workload is None:
        return known[-1] if known else None
    tokens_per_s = figure_of(burst, "rates", "output_tokens_per_s").value or 0.0
    capacity_rps = tokens_per_s / burst[0].workload.mean_output_tokens
    return min(known, key=lambda load: abs(float(load) / capacity_rps - 1) if capacity_rps else 0.0)
