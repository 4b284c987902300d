"""How well a cost model fitted on half of a real sweep predicts the other half: a table, or one JSON line.

The transformer serves every load in charged time. Its steps at every other load are fitted; the engines are then
played in modelled time with the fitted costs, on the same schedules, at the loads in between. Errors are of the
predicted figure against the measured one, beside rho, the share of the time in which steps ran: next to saturation
(rho above 0.7) small errors of costs become large ones of waits, and no bound is claimed.

`--requests N`, `--rates LIST`, `--engine SPEC` (again for each) for other sweeps.
"""

import argparse
import json
from typing import Any

import numpy as np

from engines.cost import DurationPs, HashExecutor, LinearCost
from engines.engine import Engine
from engines.policies import continuous, one_by_one, static
from engines.slots import SlotEngine
from loadgen.clock import make_clock
from loadgen.config import from_texts
from loadgen.drive import play_engine
from loadgen.engine_spec import make_engine
from loadgen.fleet import GoOn
from loadgen.warmup import warm_up
from loadgen.workload import build_schedule
from results import metrics
from results.fitting import fit_steps
from results.recording import Recording
from results.schedule import Schedule
from results.stats import quantile
from results.steps import ends_ns, starts_ns

POLICIES = {"one-by-one": one_by_one, "static": static, "continuous": continuous}
QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
CLAIMED = {"tok/s": 0.03, "tpot mean": 0.05, "ttft p50": 0.10}
HIGHEST_RHO = 0.7


def measured(engine: str, schedule: Schedule) -> Recording:
    """In charged time, warm."""
    real = make_engine(engine, "charged", schedule)
    warm_up(real, schedule)
    clock = make_clock("charged", str(real.describe().get("cost_source", "wall")))
    return play_engine(schedule, real, clock, lambda part: None, GoOn())


def predicted(engine: str, schedule: Schedule, coefficients_ps: dict[str, int]) -> Recording:
    """In modelled time, on fitted costs."""
    names = ("decode_base", "decode_row", "prefill_base", "prefill_token", "decode_kv")
    cost = LinearCost(*(DurationPs(coefficients_ps[name]) for name in names))
    modelled: Engine = SlotEngine(POLICIES[engine](), HashExecutor(), cost)
    return play_engine(schedule, modelled, make_clock("modelled"), lambda part: None, GoOn())


def figures(recording: Recording) -> dict[str, float]:
    """Throughput, and mean, p50, p90 and p99 of TTFT, TPOT and E2E in ms, as far as there are enough requests."""
    events = metrics.events_of(recording)
    last_ns = int(ends_ns(recording.steps)[-1])
    told = {"tok/s": float(recording.requests["output_tokens"].sum()) * 1e9 / last_ns}
    for name, function in (("ttft", metrics.ttft_ns), ("tpot", metrics.tpot_ns), ("e2e", metrics.e2e_ns)):
        values = function(recording, events)
        values = values[~np.isnan(values)] / 1e6
        told[f"{name} mean"] = float(values.mean())
        quantiles = {f"{name} {word}": quantile(values, q)[0] for word, q in QUANTILES.items()}
        told |= {word: value for word, value in quantiles.items() if value}
    return told


def rho_fraction(recording: Recording) -> float:
    """Time in which a step ran / time of the run."""
    begin, end = starts_ns(recording.steps), ends_ns(recording.steps)
    return float((end - begin).sum() / end[-1])


def joined(recordings: list[Recording]) -> dict[str, Any]:
    """The steps of several runs, one run after the other."""
    tables, offset_ns = [], 0
    for recording in recordings:
        table = dict(recording.steps)
        table["start_ns"], table["end_ns"] = table["start_ns"] + offset_ns, table["end_ns"] + offset_ns
        offset_ns = int(table["end_ns"][-1])
        tables.append(table)
    return {name: np.concatenate([table[name] for table in tables]) for name in tables[0]}


def validate(engine: str, rates: list[str], requests: int) -> list[dict[str, Any]]:
    """One row a load that was not fitted."""
    schedules = {
        rate: build_schedule(from_texts({"rate": rate, "requests": str(requests), "clock": "charged"}))
        for rate in rates
    }
    runs = {rate: measured(engine, schedule) for rate, schedule in schedules.items()}
    coefficients_ps = fit_steps(joined([runs[rate] for rate in rates[::2]])).coefficients_ps
    rows = []
    for rate in rates[1::2]:
        truth, told = figures(runs[rate]), figures(predicted(engine, schedules[rate], coefficients_ps))
        errors = {name: told[name] / truth[name] - 1 for name in truth}
        rho = rho_fraction(runs[rate])
        within = {name: abs(errors[name]) <= bound for name, bound in CLAIMED.items()}
        rows.append({
            "engine": engine, "rate_rps": float(rate), "rho": rho, "errors": errors,
            "within": within if rho <= HIGHEST_RHO else None,
        })  # fmt: skip
    return rows


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--requests", type=int, default=200)
    parser.add_argument("--rates", default="2,4,6,8,12,16,20")
    parser.add_argument("--engine", action="append", choices=list(POLICIES))
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    rates = given.rates.split(",")
    rows = [row for engine in given.engine or POLICIES for row in validate(engine, rates, given.requests)]
    if given.json:
        print(json.dumps({"fit_validation": rows}))
        return
    names = list(dict.fromkeys(name for row in rows for name in row["errors"]))
    print("engine      req/s   rho  " + "  ".join(f"{name:>9}" for name in names))
    for row in rows:
        cells = (f"{row['errors'][name]:+.1%}" if name in row["errors"] else "-" for name in names)
        errors = "  ".join(f"{cell:>9}" for cell in cells)
        print(f"{row['engine']:<10} {row['rate_rps']:>6g} {row['rho']:>5.2f}  {errors}  {row['within'] or ''}")


if __name__ == "__main__":
    main()
