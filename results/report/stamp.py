"""The conditions: one line for all rows in the first text's form, and every stamped fact in folded details."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from results.report.asked import config_of
from results.report.folder import MISSING, Folder, Point, number_of
from results.report.plain import joined, value_text
from results.verdicts.run_facts import clock_uncertainty_ns

Json = dict[str, Any]
LONG_TEXT, SHORT_TEXT = 120, 80
REASONS, FIELDS = "reasons", "fields"
LISTING_ROWS = 20
RUN_FACTS = ("tokenload_version", "clock", "status", "started_utc", "ended_utc", "config", "schema_version")
NS_PER_MS, PS_PER_MS = 1e6, 1e9


@dataclass(frozen=True, slots=True)
class Fact:
    """A line of the stamp."""

    name: str
    text: str
    short: str
    """For the line to which a long one is folded; empty when it is not."""
    null: bool
    """Its text is then the reason."""


@dataclass(frozen=True, slots=True)
class Group:
    """Facts that belong together."""

    title: str
    facts: tuple[Fact, ...]


def conditions_line(folder: Folder) -> str:
    """Conditions: model, machine, software, load, lengths, seed, N, K, clock, when: of all rows."""
    points = [point for point in folder.points if point.workload is not None]
    told = [point.conditions for point in points]
    loads = [point.workload for point in points if point.workload is not None]
    parts = [
        *_distinct(_model(point) for point in points),
        *_distinct(_machine(one) for one in told),
        *_distinct(f"torch {_find(one, 'torch')}" for one in told if _find(one, "torch")),
        _load_words(folder),
        "prompt " + _span([load.prompt_tokens for load in loads]),
        "output " + _span([load.output_tokens for load in loads]),
        _seeds(points),
        f"{' or '.join(_distinct(f'{load.requests:,}' for load in loads)) or 'no'} requests a point",
        *_distinct(load.phases for load in loads),
        f"{len(folder.repeats)} repeat{'s' if len(folder.repeats) > 1 else ''}",
        *_distinct(f"{point.info.get('clock', 'unknown')} clock" for point in points),
        *_distinct(_clocks(point) for point in points),
        f"measured {folder.started_utc}" + (f" to {folder.ended_utc}" if folder.ended_utc else ""),
    ]
    return "Conditions: " + ", ".join(part for part in parts if part) + "."


def stamp(folder: Folder) -> tuple[Group, ...]:
    """Of all points; a fact that differs between them says so, point by point."""
    points = [point for point in folder.points if point.state != MISSING]
    groups = [_groups(point) for point in points]
    titles = dict.fromkeys(title for found in groups for title in found)
    documents = {title: [dict(_flat(found.get(title))) for found in groups] for title in titles}
    return tuple(Group(title, tuple(_facts(points, found))) for title, found in documents.items() if any(found))


def _groups(point: Point) -> dict[str, Any]:
    """The stamp's own groups where it has them, then what run.json says."""
    told = point.conditions
    groups = told.get("groups")
    conditions = groups if isinstance(groups, dict) else {"conditions": told} if told else {}
    run = {name: point.info.get(name) for name in RUN_FACTS}
    engine = {"run.json: engine": point.info.get("engine") or {}}
    return {**conditions, **engine, "run.json: workers": _workers(point.info.get("workers")), "run.json": run}


def _workers(told: Any) -> Json:
    """Each worker's clock against the master's, by its rank."""
    workers = [one for one in told if isinstance(one, dict)] if isinstance(told, list) else []
    return {f"worker {one.get('rank')}": {"clock": one.get("clock") or "not known"} for one in workers}


def _facts(points: list[Point], found: list[dict[str, Any]]) -> Iterator[Fact]:
    names = dict.fromkeys(name for facts in found for name in facts if REASONS not in name.split("."))
    for name in names:
        facts_of_name = [facts.get(name) for facts in found]
        texts = [value_text(facts[name]) if name in facts else "absent" for facts in found]
        null = all(facts.get(name) is None for facts in found)
        if null:
            text = "null: " + (_reason(found[0], name) or "not set")
        elif len(set(texts)) == 1:
            text = texts[0]
        else:
            text = "\n".join(f"{point.name}: {one}" for point, one in zip(points, texts, strict=True))
        yield Fact(name, text, _short(facts_of_name, text), null)


def _short(values: list[Any], text: str) -> str:
    """The span of numbers that differ between points, or the beginning of a long text."""
    if len(text) <= LONG_TEXT and "\n" not in text:
        return ""
    numbers = [value for value in values if isinstance(value, int | float) and not isinstance(value, bool)]
    if len(numbers) == len(values):
        return f"{min(numbers):,} to {max(numbers):,}"
    return " ".join(text[:SHORT_TEXT].split()) + "…"


def _reason(facts: dict[str, Any], name: str) -> str:
    """The reason stands in a group `reasons` beside the fact, or beside a group that holds it."""
    parts = name.split(".")
    for depth in range(len(parts), -1, -1):
        for rest in (parts[depth:], parts[-1:]):
            told = facts.get(".".join([*parts[:depth], REASONS, *rest]))
            if told:
                return str(told)
    return ""


def _flat(document: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted names; lists and long listings stay whole; an empty group is a fact too."""
    if isinstance(document, dict) and document and not _is_listing(document):
        for name in sorted(document):
            inner = path if name == FIELDS else f"{path}.{name}" if path else str(name)
            yield from _flat(document[name], inner)
    elif path:
        yield path, document


def _is_listing(document: Json) -> bool:
    """Many texts by name, such as the packages that are installed."""
    return len(document) >= LISTING_ROWS and all(isinstance(value, str) for value in document.values())


def _find(document: Any, name: str) -> Any:
    """The first value of that name anywhere in a nested document."""
    if not isinstance(document, dict):
        return None
    if document.get(name) is not None and not isinstance(document[name], dict):
        return document[name]
    return next((found for key in sorted(document) if (found := _find(document[key], name)) is not None), None)


def _machine(conditions: Json) -> str:
    cpus = _find(conditions, "cpus") or _find(conditions, "cpu_count") or "?"
    return f"{cpus}x {_find(conditions, 'cpu_model') or 'unknown CPU'}"


def _model(point: Point) -> str:
    """TinyGPT with its size, or what stands in its place."""
    engine = point.info.get("engine")
    executor = engine.get("executor") if isinstance(engine, dict) else None
    told = executor if isinstance(executor, dict) else {}
    if told.get("name") == "tinygpt":
        parameters = told.get("parameters")
        size = f" ({parameters:,} params)" if isinstance(parameters, int) else ""
        return f"TinyGPT (random weights){size} in {told.get('dtype', '?')} on {told.get('threads', '?')} thread"
    cost = engine.get("cost_model") if isinstance(engine, dict) else None
    if told.get("name") == "cost" and isinstance(cost, dict):
        names = ("decode_base_ps", "decode_row_ps", "prefill_base_ps", "prefill_token_ps")
        ms = [cost[name] / PS_PER_MS if isinstance(cost.get(name), int) else float("nan") for name in names]
        decode, prefill = f"{ms[0]:g} + {ms[1]:g} ms a row", f"{ms[2]:g} + {ms[3]:g} ms a token"
        return f"no model (a decode step is billed {decode}, a prefill {prefill})"
    return str(told.get("model") or told.get("name") or _find(engine, "model") or "model not told")


def _clocks(point: Point) -> str:
    """Of workers, where they are not the master's own."""
    workers = point.info.get("workers")
    if not isinstance(workers, list) or not workers:
        return ""
    off_ns = clock_uncertainty_ns(workers)
    count = f"{len(workers)} worker{'s' if len(workers) > 1 else ''}"
    if off_ns is None:
        return f"{count} whose clocks are not all known"
    return f"{count} on one clock" if off_ns == 0 else f"{count} with clocks within {off_ns / NS_PER_MS:.3f} ms"


def _load_words(folder: Folder) -> str:
    """`poisson 4-32/s and burst`."""
    known = [load for load in folder.loads if number_of(load) is not None]
    named = [load.replace("closed:", "closed loop of ") for load in folder.loads if number_of(load) is None]
    of_rates = (point.workload.process for point in folder.points if point.load in known and point.workload)
    process = " or ".join(_distinct(of_rates)) or "load"
    span = f"{known[0]}-{known[-1]}/s" if len(known) > 1 else f"{known[0]}/s" if known else ""
    return joined([*([f"{process} {span}"] if span else []), *named])


def _seeds(points: list[Point]) -> str:
    seeds = sorted({str(config_of(point.info).get("seed", DEFAULT_SEED)) for point in points})
    return f"seed{'s' if len(seeds) > 1 else ''} {', '.join(seeds)}" if seeds else ""


DEFAULT_SEED = "7"
"""What a config that names none has."""


def _span(pairs: list[tuple[int, int]]) -> str:
    if not pairs:
        return "?"
    low, high = min(pair[0] for pair in pairs), max(pair[1] for pair in pairs)
    return f"{low}" if low == high else f"{low}-{high}"


def _distinct(texts: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(texts))
