"""Capacity: the largest rate at which an engine or a server meets its SLO, is stable, and can be believed.

Every rate that was tried is a run folder of its own under `probes/`; `capacity.json` says what came of each, and a
search that was stopped goes on from it.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from loadgen.capacity_options import BRACKET_REQUESTS, REQUESTS, SEEDS, CapacityOptions
from loadgen.config import RunConfig, check, from_texts, to_json
from loadgen.probe import probe
from loadgen.rate_search import Capacity, Effort, find_capacity
from loadgen.run_folders import new_folder
from loadgen.session import execute, prepare, utc_text
from loadgen.stopped import StoppedError
from results.gates import LEAST_REQUESTS
from results.intervals import UNSTABLE_CV_RATIO, run_cv
from results.meets import meets, worthless
from results.store import COMPLETE, RUNNING, STOPPED, write_json

SCHEMA_VERSION = 1
QUICK_SEEDS, QUICK_REQUESTS = 2, 300
QUICK_LABEL = "EXPLORATORY: quick mode, +7 % optimistic bias expected, no interval"
STANDARD, EXPLORATORY = "STANDARD", "EXPLORATORY"
START_RATIO, START_RPS = 0.25, 1.0
ATTEMPTS = 2
"""At a rate, where the first run says nothing of what was measured."""
ALONE_REQUESTS = 0.05
"""In flight on average, by Little's law: below it nobody waits for anybody, and a lower rate changes nothing."""
MS_PER_S = 1e3
Json = dict[str, Any]
Progress = Callable[[str, int, int], None]
"""What is being asked, requests ended, all of them."""


class HopelessError(Exception):
    """No lower rate can pass, says one line."""


@dataclass(slots=True)
class Search:
    """A search that could start, or go on, now."""

    folder: Path
    config: RunConfig
    chosen: CapacityOptions
    quick: bool
    start_rps: float
    started_utc: str
    probes: list[Json] = field(default_factory=list)
    """One a run, in the order in which they were asked."""

    @property
    def effort(self) -> Effort:
        """Seeds and requests; a trace has its own requests, and is one workload."""
        seeds = self.chosen.repeats or (QUICK_SEEDS if self.quick else SEEDS)
        requests = self.chosen.requests or (QUICK_REQUESTS if self.quick else REQUESTS)
        first = self.config.seed
        count = 1 if self.config.trace is not None else seeds
        return Effort(tuple(range(first, first + count)), requests, min(BRACKET_REQUESTS, requests))


def plan_capacity(config: RunConfig, chosen: CapacityOptions, quick: bool) -> Search:
    """ValueError in one line for a load that has no rate, or an SLO that is missing."""
    if config.arrival in ("burst", "closed"):
        raise ValueError(
            f"--arrival {config.arrival} has no rate to search: use poisson, conditioned, constant or gamma"
        )
    if not config.slo:
        raise ValueError("capacity needs --slo: the limits within which a rate counts as carried")
    if chosen.requests is not None and chosen.requests < LEAST_REQUESTS:
        raise ValueError(f"--requests {chosen.requests}: a probe of fewer than {LEAST_REQUESTS} requests shows nothing")
    started = datetime.now(UTC)
    folder = new_folder(config.out, started, "capacity")
    return Search(folder, config, chosen, quick, _start_rps(config, chosen), utc_text(started))


def load_capacity(folder: Path) -> Search:
    """A search that was begun. ValueError when the folder holds none."""
    try:
        told = json.loads((folder / "capacity.json").read_text())
        chosen = CapacityOptions(**told["options"])
        config = from_texts(told["config"], complete=False)
        return Search(
            folder, config, chosen, bool(told["quick"]), told["start_rps"], told["started_utc"], told["probes"]
        )
    except (OSError, ValueError, KeyError, TypeError):
        raise ValueError(f"{folder} holds no search for a capacity: it has no readable capacity.json") from None


def run_capacity(search: Search, progress: Progress) -> Json:
    """Search, confirm, and the document that capacity.json then holds. StoppedError when somebody stopped it."""
    search.folder.mkdir(parents=True, exist_ok=True)
    write(search, RUNNING, {})

    def ask(rate_rps: float, seed: int, requests: int) -> bool:
        return _ask(search, rate_rps, seed, requests, progress)

    try:
        found = find_capacity(ask, search.start_rps, search.effort)
        told = _no_bracket(search) if found is None else _described(search, found, progress)
    except HopelessError as error:
        told = _none(str(error))
    except (StoppedError, KeyboardInterrupt):
        write(search, STOPPED, {})
        raise StoppedError from None
    return write(search, COMPLETE, told)


def write(search: Search, status: str, found: Mapping[str, Any]) -> Json:
    """capacity.json, and the same as a document."""
    options_ = {name: getattr(search.chosen, name) for name in CapacityOptions.__slots__}
    document = {
        "schema_version": SCHEMA_VERSION,
        "kind": "capacity",
        "status": status,
        "started_utc": search.started_utc,
        "ended_utc": None if status == RUNNING else utc_text(datetime.now(UTC)),
        "config": to_json(search.config),
        "options": options_,
        "quick": search.quick,
        "start_rps": search.start_rps,
        "slo": search.config.slo,
        "attainment": search.chosen.attainment_fraction,
        "seeds": list(search.effort.seeds),
        "requests": search.effort.requests,
        "probes": search.probes,
        **found,
    }
    write_json(search.folder / "capacity.json", document)
    return document


def _start_rps(config: RunConfig, chosen: CapacityOptions) -> float:
    """As told; for an engine a quarter of what a burst gets through; for a server 1/s, doubled or halved from there."""
    if chosen.start_rps is not None:
        return chosen.start_rps
    return START_RPS if config.target else START_RATIO * probe(config, config.engine).burst_rps


def _ask(search: Search, rate_rps: float, seed: int, requests: int, progress: Progress) -> bool:
    """Run it, and once more where the client and not the load made it INVALID; what is known is not run again."""
    asked = (rate_rps, seed, requests)
    known = [one for one in search.probes if (one["rate_rps"], one["seed"], one["requests"]) == asked]
    while len(known) < ATTEMPTS and (not known or known[-1]["worthless"]):
        known.append(_probe(search, *asked, progress))
    last = known[-1]
    if last["hopeless"] and not last["worthless"]:
        raise HopelessError(f"at {rate_rps:g}/s {last['hopeless']}: {last['text']}")
    return bool(last["passed"])


def _probe(search: Search, rate_rps: float, seed: int, requests: int, progress: Progress) -> Json:
    """One run, kept in a folder of its own and in capacity.json."""
    number = len(search.probes)
    while (search.folder / "probes" / f"{number:03d}").exists():  # left by a search that was killed
        number += 1
    prepared = prepare(probe_config(search, rate_rps, seed, requests))
    rows, folder, text = len(prepared.schedule), f"probes/{number:03d}", f"{rate_rps:g}/s, seed {seed}"

    def show(ended_requests: int) -> None:
        progress(text, ended_requests, rows)

    outcome = execute(prepared, show, search.folder / folder, len(search.effort.seeds))
    if outcome.stopped:
        raise StoppedError
    passed, why = meets(outcome.summary, outcome.verdict, search.chosen.attainment_fraction)
    probe_: Json = {
        "folder": folder,
        "rate_rps": rate_rps,
        "seed": seed,
        "requests": requests,
        "scheduled": int(outcome.summary["requests"]["scheduled"]),
        "passed": passed,
        "text": why,
        "worthless": list(worthless(outcome.verdict)),
        "hopeless": None if passed else _hopeless(outcome.summary, rate_rps),
    }
    search.probes.append(probe_)
    write(search, RUNNING, {})
    return probe_


def _hopeless(summary: Mapping[str, Any], rate_rps: float) -> str | None:
    """Why no lower rate would do better: nothing was served, or everybody was served alone already."""
    if not summary["requests"]["completed"]:
        return "no request was served"
    mean_ms = summary["e2e_ms"]["mean"]
    alone = mean_ms is not None and mean_ms / MS_PER_S * rate_rps < ALONE_REQUESTS
    return "requests are served alone, and miss the SLO all the same" if alone else None


def _worthless(search: Search) -> list[str]:
    """Codes of what even the last attempt could not measure."""
    last = {(one["rate_rps"], one["seed"], one["requests"]): one for one in search.probes}
    return sorted({code for one in last.values() for code in one["worthless"]})


def _no_bracket(search: Search) -> Json:
    """Nothing passed, or everything: where to look next. What no probe could measure is told, as of any search."""
    rates = [one["rate_rps"] for one in search.probes]
    passed = [bool(one["passed"]) for one in search.probes]
    reason = "no rate separates passing from failing"
    if all(passed):
        reason = f"every rate passed, up to {max(rates):g}/s: give a higher --start"
    elif not any(passed):
        reason = f"no rate passed, down to {min(rates):g}/s: give a lower --start, or look at what the probes say"
    return {**_none(reason), "worthless": _worthless(search)}


def _none(reason: str) -> Json:
    return {"capacity": None, "reason": reason, "worthless": []}


def probe_config(search: Search, rate_rps: float, seed: int, requests: int) -> RunConfig:
    """The same workload at another rate: only the gaps are stretched."""
    own = search.config.trace is not None
    changes: Json = {"rate_rps": rate_rps, "seed": seed, "speed": None, "duration_ns": None}
    config = replace(search.config, **changes, requests=None if own else requests)
    check(config)
    return config


def _described(search: Search, found: Capacity, progress: Progress) -> Json:
    interval, effort = found.interval, search.effort
    cv = run_cv(found.per_seed_rps)
    return {
        "capacity": {**interval.to_json(), "unit": "requests/s", "per_seed_rps": list(found.per_seed_rps)},
        "label": _label(search),
        "run_cv": cv,
        "unstable": cv is not None and cv > UNSTABLE_CV_RATIO,
        "not_monotone": [
            {"seed": seed, "failed_rps": failed, "passed_rps": passed} for seed, failed, passed in found.not_monotone
        ],
        "worthless": _worthless(search),
        "confirmation": _confirm(search, interval.low or min(found.per_seed_rps), effort, progress),
    }


def _confirm(search: Search, rate_rps: float, effort: Effort, progress: Progress) -> Json | None:
    """One run at the low end, with a seed that had no part in the search, twice as long. A trace has no other."""
    if search.config.trace is not None:
        return None
    rate_rps = float(f"{rate_rps:.6g}") if rate_rps > 0 else min(one["rate_rps"] for one in search.probes)
    seed, requests = effort.seeds[-1] + 1, 2 * effort.requests
    passed = _ask(search, rate_rps, seed, requests, progress)
    asked = (rate_rps, seed, requests)
    last = [one for one in search.probes if (one["rate_rps"], one["seed"], one["requests"]) == asked][-1]
    told = {"rate_rps": rate_rps, "seed": seed, "requests": requests, "passed": passed}
    return {**told, "worthless": last["worthless"], "text": last["text"]}


def _label(search: Search) -> str:
    effort = search.effort
    if search.config.trace is not None:
        return f"{EXPLORATORY}: of this trace alone, no interval"
    if search.quick:
        return QUICK_LABEL
    enough = len(effort.seeds) >= SEEDS and effort.requests >= REQUESTS
    return STANDARD if enough else f"{EXPLORATORY}: fewer than {SEEDS} seeds or {REQUESTS} requests"
