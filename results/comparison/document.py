"""One comparison as one JSON document: everything that is printed, gated or published comes from it."""

from collections.abc import Sequence
from typing import Any

from results.comparison.conditions import Difference, check_allowed
from results.comparison.decision import Compared, decide, overall
from results.comparison.pairing import Cell, pair_up
from results.comparison.requests import request_differences
from results.comparison.trials import Side, Trial
from results.figure_json import with_reasons
from results.figures import HEADLINE
from results.gates import Gate, GateResult, judge_absolute, judge_relative
from results.intervals import FINITE_HORIZON
from results.paired import alpha_at, next_stage
from results.stamp.facts import IDENTITY, INFO, PERFORMANCE
from results.stats import NO_VALUES

Json = dict[str, Any]
SCHEMA_VERSION = 1


def compare(sides: Sequence[Side], gates: Sequence[Gate] = (), allowed: Sequence[str] = ()) -> Json:
    """The first side against each other one. ValueError in one line when they are not comparable."""
    check_allowed(allowed, *(trial.conditions for side in sides for trial in side.trials))
    first, *others = sides
    return {
        "schema_version": SCHEMA_VERSION,
        "kind": "comparison",
        "a": _side(first),
        "estimand": FINITE_HORIZON,
        "headline": list(HEADLINE),
        "allowed": list(allowed),
        "comparisons": [compare_two(first, other, gates, allowed) for other in others],
    }


def compare_two(a: Side, b: Side, gates: Sequence[Gate] = (), allowed: Sequence[str] = ()) -> Json:
    """B against A."""
    cells, found = pair_up(a, b, allowed)
    names = tuple(dict.fromkeys((*HEADLINE, *(gate.figure for gate in gates))))
    headline = decide([_summaries(cell) for cell in cells])
    gated = [[_one(cell, name) for name in names] for cell in cells]
    decided = [one for figures in headline for one in figures]
    results = [result for cell, row in zip(cells, gated, strict=True) for result in _gates(cell, row, gates, names)]
    return {
        "b": _side(b),
        "conclusion": overall(decided),
        "same_schedules": all(cell.same_schedules for cell in cells),
        "cells": [_cell(cell, figures) for cell, figures in zip(cells, headline, strict=True)],
        "differences": _by_class(found),
        "different_conditions": any(one.comparability == PERFORMANCE and one.group != "engine" for one in found),
        "invalid": _invalid(cells, a, b),
        "gates": results,
    }


def _summaries(cell: Cell) -> list[tuple[Json, Json]]:
    return [(a.summary, b.summary) for a, b in cell.pairs]


def _one(cell: Cell, name: str) -> Compared:
    """A figure alone: gates are declared before, each is a test of its own."""
    return decide([_summaries(cell)], [name])[0][0]


def _gates(cell: Cell, row: Sequence[Compared], gates: Sequence[Gate], names: Sequence[str]) -> list[Json]:
    found = dict(zip(names, row, strict=True))
    return [{**_judged(gate, cell, found[gate.figure]).to_json(), "at": _place(cell)} for gate in gates]


def _judged(gate: Gate, cell: Cell, compared: Compared) -> GateResult:
    """A gate on runs that may not be believed, or on other schedules, is not passed."""
    bad = [trial for pair in cell.pairs for trial in pair if not trial.verdict["valid"]]
    if bad:
        return GateResult(gate, False, f"{bad[0].folder.name} is INVALID: {_codes(bad[0])}")
    absolute = judge_absolute(gate, [b.summary for _, b in cell.pairs])
    if not gate.relative or absolute.text.startswith("TOO_FEW"):
        return absolute
    return judge_relative(gate, compared.log_ratios, compared.reason or "a value is 0")


def _cell(cell: Cell, figures: Sequence[Compared]) -> Json:
    pairs = len(cell.pairs)
    return {
        "engine": cell.engine,
        "load": cell.load,
        "pairs": pairs,
        "unpaired": list(cell.unpaired),
        "same_schedules": cell.same_schedules,
        "schedules": len({trial.schedule_sha256 for trial, _ in cell.pairs}),
        "output_lengths": with_reasons({"ratio": (_length_ratio(cell), NO_VALUES)}),
        "alpha_fraction": alpha_at(pairs),
        "next_stage_pairs": next_stage(pairs),
        "figures": {one.name: one.to_json() for one in figures},
        "requests": request_differences([(a.values_ns, b.values_ns) for a, b in cell.pairs]),
    }


def _length_ratio(cell: Cell) -> float | None:
    """Mean length of an answer of B / of A, over the pairs in which both gave any."""
    known = [(a.mean_output_tokens, b.mean_output_tokens) for a, b in cell.pairs]
    both = [(a, b) for a, b in known if a and b]
    return sum(b for _, b in both) / sum(a for a, _ in both) if both else None


def _place(cell: Cell) -> str:
    return " ".join(part for part in (cell.engine, f"at {cell.load}" if cell.load else "") if part) or "all runs"


def _side(side: Side) -> Json:
    labels = sorted({str(trial.verdict["label"]) for trial in side.trials})
    return {"label": side.label, "runs": len(side.trials), "engines": list(side.engines), "labels": labels}


def _by_class(found: Sequence[Difference]) -> Json:
    kinds = (IDENTITY, PERFORMANCE, INFO)
    return {kind: [one.to_json() for one in found if one.comparability == kind] for kind in kinds}


def _invalid(cells: Sequence[Cell], a: Side, b: Side) -> list[Json]:
    """Runs whose figures may not be believed, with their codes."""
    found = {}
    for cell in cells:
        for pair in cell.pairs:
            for side, trial in zip((a, b), pair, strict=True):
                if not trial.verdict["valid"]:
                    told = {"side": side.label, "run": trial.folder.name, "codes": _codes(trial)}
                    found[str(trial.folder)] = told
    return list(found.values())


def _codes(trial: Trial) -> str:
    return ", ".join(one["code"] for one in trial.verdict["invalid"])
