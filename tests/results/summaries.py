"""Builders: summaries with only what a rule reads, trials around them, and real runs in modelled time."""

from pathlib import Path
from typing import Any

import numpy as np

from engines.cost import LinearCost
from engines.policies import one_by_one
from loadgen.arrivals import due_times_ns
from loadgen.lengths import draw_lengths
from results.comparison.trials import Side, Trial
from results.recording import Recording
from results.schedule import Schedule, make_schedule
from results.verdicts.run_facts import RunFacts
from tests.engines.playing import engine_of, play


def summary_of(
    ttft_p50: float | None = 10.0,
    ttft_p99: float | None = 100.0,
    tpot_p50: float | None = 2.0,
    e2e_p99: float | None = 200.0,
    goodput: float | None = 8.0,
    attainment: float | None = 0.95,
    scheduled: int = 1000,
    failed: int = 0,
    reason: str = "N_TOO_SMALL",
) -> dict[str, Any]:
    """What comparisons and gates read of a summary; None has the reason beside it."""

    def group(**figures: float | None) -> dict[str, Any]:
        return {**figures, "reasons": {name: reason for name, value in figures.items() if value is None}}

    return {
        "requests": {"scheduled": scheduled, "failed": failed},
        "ttft_ms": group(p50=ttft_p50, p99=ttft_p99),
        "tpot_ms": group(p50=tpot_p50),
        "e2e_ms": group(p99=e2e_p99),
        "slo": group(goodput_rps=goodput, attainment=attainment),
    }


def stamp_of(**fields: Any) -> dict[str, Any]:
    """Conditions with these fields, written group__field."""
    groups: dict[str, Any] = {"engine": {"fields": {}, "reasons": {}}}
    for name, value in fields.items():
        group, _, field = name.partition("__")
        groups.setdefault(group, {"fields": {}, "reasons": {}})["fields"][field] = value
    return {"groups": groups}


def trial_of(
    summary: dict[str, Any] | None = None,
    schedule: str = "s0",
    engine: str = "continuous",
    load: str = "8",
    invalid: tuple[str, ...] = (),
    conditions: dict[str, Any] | None = None,
    values_ms: Any = (),
) -> Trial:
    """A run that was read."""
    verdict = {"valid": not invalid, "label": "EXPLORATORY", "invalid": [{"code": code} for code in invalid]}
    told = conditions if conditions is not None else stamp_of(workload__schedule_sha256=schedule)
    values = {"ttft": np.array(values_ms, dtype=np.float64) * 1e6}
    folder = Path(f"{engine}-{schedule}")
    return Trial(folder, engine, load, 0, schedule, summary or summary_of(), verdict, told, values)


def side_of(label: str, *trials: Trial) -> Side:
    """A side of these runs."""
    return Side(label, trials)


def modelled_schedule(requests: int, seed: int = 7, rate_rps: float = 5.0) -> Schedule:
    """Poisson arrivals and the default lengths."""
    origin = {"process": "poisson", "rate_rps": rate_rps, "window": {"kind": "schedule"}, "stationary": True}
    return make_schedule(
        due_times_ns("poisson", requests, rate_rps, seed),
        draw_lengths(requests, seed, "prompt", (32, 96)),
        draw_lengths(requests, seed, "output", (16, 48)),
        origin=origin,
    )


def modelled_run(requests: int) -> Recording:
    """One request after another, at the default cost."""
    return play(modelled_schedule(requests), engine_of(one_by_one(), LinearCost()))


def facts_of_modelled(requests: int) -> RunFacts:
    """What a run of that schedule knows of itself."""
    return RunFacts(clock="modelled", schedule_sha256=modelled_schedule(requests).sha256)
