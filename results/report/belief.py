"""Can it be believed: the verdicts of all points in words, what to do, and whatever is not as it should be."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from results.report.folder import COMPLETE, MISSING, UNREADABLE, Folder, Point
from results.report.load_words import CLOSED, load_text
from results.report.plain import joined
from results.report.verdicts import Reason
from results.store import INCOMPLETE

LABELS = ("EXPLORATORY", "STANDARD", "PUBLISHABLE")
SHOWN_PLACES = 4
FOUND = ("failed", "warned")


@dataclass(frozen=True, slots=True)
class Line:
    """One reason, and the points it holds for."""

    code: str
    text: str
    remedy: str
    places: str
    count: int
    """How many points."""


@dataclass(frozen=True, slots=True)
class Belief:
    """The first box of the page."""

    headline: str
    kind: str
    """good, bad or open."""
    label: str
    label_text: str
    alarms: tuple[str, ...]
    """Said before everything else."""
    failures: tuple[str, ...]
    """One line a point with failed requests."""
    invalid: tuple[Line, ...]
    withheld: tuple[Line, ...]
    warnings: tuple[Line, ...]
    checks: tuple[tuple[str, str], ...]
    """(outcome, the codes that had it)."""


def belief_of(folder: Folder) -> Belief:
    """From the verdicts that were stored; what nobody has judged is said to be so."""
    judged = [point for point in folder.points if point.verdict.valid is not None]
    headline, kind = _headline(folder, judged)
    label = min((point.verdict.label for point in judged if point.verdict.label), key=_rank, default="")
    worst = sorted(judged, key=lambda point: point.verdict.valid is not False)
    suffices_for = next((one.verdict.suffices_for for one in worst if one.verdict.label == label), "")
    return Belief(
        headline=headline,
        kind=kind,
        label=label or LABELS[0],
        label_text=suffices_for if label else "enough for a look",
        alarms=_alarms(folder),
        failures=tuple(_failures(point) for point in folder.points if point.failures and point.failures.count),
        invalid=_lines(judged, lambda point: point.verdict.invalid),
        withheld=_lines(judged, lambda point: (why for _, why in point.verdict.withheld)),
        warnings=_lines(judged, lambda point: point.verdict.warnings),
        checks=_checks(judged),
    )


def place_of(point: Point) -> str:
    """How a point is named in a sentence."""
    load = load_text(point.load) if point.load.startswith(CLOSED) else point.load
    return f"{point.engine} at {load}" + (f" (repeat {point.repeat_id + 1})" if point.repeat_id else "")


def _headline(folder: Folder, judged: list[Point]) -> tuple[str, str]:
    points = f"{len(folder.points)} point{'s' if len(folder.points) != 1 else ''}" if folder.kind == "sweep" else ""
    bad = [point for point in judged if point.verdict.valid is False]
    if bad:
        return (f"INVALID at {len(bad)} of {points}" if points else "INVALID"), "bad"
    if len(judged) < len(folder.points):
        where = f" at {len(folder.points) - len(judged)} of {points}" if points and judged else ""
        return f"NOT JUDGED{where}: no verdict is stored", "open"
    if any(point.faults or point.state != COMPLETE for point in folder.points) or folder.status != COMPLETE:
        return "VALID as far as it was recorded", "open"
    return (f"VALID: all {points}" if points else "VALID"), "good"


def _alarms(folder: Folder) -> tuple[str, ...]:
    """Unfinished, missing, unreadable, changed, or different schedules under one load."""
    alarms = []
    what = "sweep" if folder.kind == "sweep" else "run"
    if folder.status == "stopped":
        alarms.append(f"STOPPED: this {what} was stopped; figures are of what was recorded.")
    elif folder.status != COMPLETE:
        alarms.append(f"{INCOMPLETE}: this {what} did not come to its end; figures are of what was recorded.")
    alarms += [
        ("Ended early" if folder.kind == "run" else f"{place_of(point)} ended early") + f": {reason}."
        for point in folder.points
        if (reason := str(point.info.get("ended_early") or "").rstrip("."))
    ]
    missing = [place_of(point) for point in folder.points if point.state == MISSING]
    if missing:
        verb = "are" if len(missing) > 1 else "is"
        alarms.append(f"{len(missing)} of {len(folder.points)} points {verb} missing: {_some(missing)}.")
    if folder.kind == "sweep":
        alarms += [
            f"{place_of(point)} is {point.state}: figures are of what was recorded."
            for point in folder.points
            if point.state not in (COMPLETE, MISSING, UNREADABLE)
        ]
    alarms += [f"{place_of(point)} ({point.name}): {fault}." for point in folder.points for fault in point.faults]
    return (*alarms, *_unlike_schedules(folder))


def _failures(point: Point) -> str:
    found = point.failures
    if found is None:
        return ""
    kinds = [f"{count} {status}" + (f": “{error}”" if error else "") for status, error, count in found.kinds]
    return f"{place_of(point)}: {found.count:,} of {found.requests:,} requests failed ({'; '.join(kinds)})"


def _unlike_schedules(folder: Folder) -> Iterable[str]:
    hashes: dict[tuple[str, int], set[str]] = {}
    for point in folder.points:
        if point.workload is not None:
            hashes.setdefault((point.load, point.repeat_id), set()).add(point.workload.sha256)
    for (load, _), found in hashes.items():
        if len(found) > 1:
            yield f"At load {load} the engines did not get the same schedule: their figures cannot be set side by side."


def _lines(points: list[Point], reasons: Callable[[Point], Iterable[Reason]]) -> tuple[Line, ...]:
    """One line a code, with the text of its first point."""
    first: dict[str, Reason] = {}
    places: dict[str, list[str]] = {}
    for point in points:
        for reason in reasons(point):
            first.setdefault(reason.code, reason)
            known = places.setdefault(reason.code, [])
            if place_of(point) not in known:
                known.append(place_of(point))
    everywhere = len(points)
    return tuple(
        Line(
            code=code,
            text=one.text,
            remedy=one.remedy,
            places="every point" if 1 < len(places[code]) == everywhere else _some(places[code]),
            count=len(places[code]),
        )
        for code, one in first.items()
    )


def _checks(points: list[Point]) -> tuple[tuple[str, str], ...]:
    """Codes with one outcome stand together, those that found something first."""
    counts: dict[str, dict[str, int]] = {}
    for point in points:
        for code, outcome in point.verdict.checks.items():
            of_code = counts.setdefault(code, {})
            of_code[outcome] = of_code.get(outcome, 0) + 1
    together: dict[str, list[str]] = {}
    for code, found in sorted(counts.items()):
        parts = [f"{outcome} ({count})" if len(found) > 1 else outcome for outcome, count in sorted(found.items())]
        together.setdefault(", ".join(parts), []).append(code)
    ordered = sorted(together.items(), key=lambda item: (not any(word in item[0] for word in FOUND), item[0]))
    return tuple((outcome, ", ".join(codes)) for outcome, codes in ordered)


def _some(places: list[str]) -> str:
    more = len(places) - SHOWN_PLACES
    return joined(places) if more <= 0 else f"{', '.join(places[:SHOWN_PLACES])} and {more} more"


def _rank(label: str) -> int:
    return LABELS.index(label) if label in LABELS else -1
