"""How far modelled time scales: one JSON line.

The workload: Poisson arrivals at 90 % of what the engine carries, prompts of 1,155 tokens on average and answers of 211
(as many as in the conversations of the Azure traces of 2023, log-normally spread here), continuous batching on 256
slots, a linear cost.

wall_s_1m, peak_gib_1m: a process that makes the schedule of 10^6 requests, plays it, computes the latencies and
writes requests, stretches and figures into files: its wall time and the most memory it held.
event_cost_ratio: CPU time of the engine's loop per event (arrival, prefill, stretch, finish) at 10^6 requests over
that at 10^4, the best of five each, in turn. speedup_over_stepwise: CPU time of the same 10^4 requests through the
plain step() seam, with the rows it makes, over that with stretches; best of the rounds; `_apart`: with the driver and
the engine apart, as any policy has it; `_chunked` and `_paged`: with prompts in chunks, and with a cache in blocks, at
2,000 requests at a tenth of the load, a row a token made in both. CPU time, because a busy machine adds to the wall's.
`--requests N` in place of 10^6 for a quick look.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from engines.cost import DurationPs, HashExecutor, LinearCost
from engines.engine import JSON, Engine, Step
from engines.paged import PagedEngine
from engines.policies import Policy, chunked, continuous, paged
from engines.slots import SlotEngine
from loadgen.arrivals import due_times_ns
from loadgen.clock import ModelledClock
from loadgen.drive import Decision, play_compact, play_engine
from loadgen.fused import play_fused
from results import compact
from results.compact import Compact
from results.figure_json import counted_latency
from results.recording import RecordingPart
from results.schedule import Schedule, make_schedule
from results.slots import wasted_slot_fraction
from results.status import Status

MILLION = 1_000_000
FEW = 10_000
FEWER = 2_000
LIGHT_LOAD = 0.09
ROUNDS = 5
SHORTER = 3
"""The short run is repeated until it is a third of the long one."""
SLOTS = 256
LOAD = 0.9
SEED = 7
COST = LinearCost(*map(DurationPs, (8_000_000_000, 40_000_000, 1_000_000_000, 2_000_000)))
PROMPT_TOKENS, OUTPUT_TOKENS = 1155, 211
SPREAD = 1.0
LONGEST_TOKENS = 4096
CHUNK_TOKENS = 2_048
CACHE_ROW_TOKENS = 1_000
"""Cache for each slot: less than a request takes on average."""


class GoOn:
    """A control that never interferes."""

    timeout_ns: int | None = None
    drain_ns: int | None = None

    def __call__(self, now_ns: int, newest: RecordingPart | None) -> Decision:
        """Go on."""
        return Decision.GO


class Stepwise:
    """An engine of ours without `advance`."""

    def __init__(self, engine: SlotEngine | PagedEngine) -> None:
        self.add_request, self.has_work, self.ready_ns = engine.add_request, engine.has_work, engine.ready_ns
        self.flush, self.abort = engine.flush, engine.abort
        self.step: Callable[[int], Step] = engine.step
        self.describe: Callable[[], Mapping[str, JSON]] = engine.describe


def lengths(requests: int, mean_tokens: int, seed: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Log-normal around the mean, at least 1."""
    drawn = np.random.default_rng(seed).lognormal(np.log(mean_tokens) - SPREAD**2 / 2, SPREAD, requests)
    return np.clip(np.rint(drawn), 1, LONGEST_TOKENS).astype(np.int64)


def capacity_rps() -> float:
    """What the engine carries of a burst of this workload, while all its slots are taken."""
    burst = play(make_schedule([0] * FEW, lengths(FEW, PROMPT_TOKENS, SEED), lengths(FEW, OUTPUT_TOKENS, SEED + 1)))
    ends = np.sort(burst.requests["end_ns"])
    first, last = FEW // 10, FEW - FEW // 10
    return float((last - first) * 1e9 / (ends[last] - ends[first]))


def schedule_of(requests: int, load: float = LOAD) -> Schedule:
    """The workload."""
    due = due_times_ns("poisson", requests, load * capacity_rps(), SEED)
    return make_schedule(due, lengths(requests, PROMPT_TOKENS, SEED), lengths(requests, OUTPUT_TOKENS, SEED + 1))


def engine() -> SlotEngine:
    """A fresh one."""
    return SlotEngine(continuous(SLOTS), HashExecutor(), COST)


def play(schedule: Schedule) -> Compact:
    """With stretches, driver and engine in one loop."""
    return play_fused(schedule, engine())


def play_apart(schedule: Schedule) -> Compact:
    """With stretches, driver and engine apart."""
    return play_compact(schedule, engine(), ModelledClock(), lambda part: None, GoOn())


def events(run: Compact) -> int:
    """Arrivals, prefills, stretches and finishes."""
    return 2 * len(run.schedule) + len(run.steps["step"])


def figures(run: Compact) -> dict[str, Any]:
    """Latencies, slots and rates."""
    told: dict[str, Any] = {}
    for name, function in (
        ("ttft_ms", compact.ttft_ns), ("tpot_ms", compact.tpot_ns), ("e2e_ms", compact.e2e_ns),
        ("stall_ms", compact.stall_ns),
    ):  # fmt: skip
        values = function(run)
        values = values[~np.isnan(values)]
        told[name] = {str(q): float(np.quantile(values, q, method="median_unbiased")) / 1e6 for q in (0.5, 0.9, 0.99)}
    itl_ms = counted_latency(*run.tokens.gaps_ns(np.asarray(run.requests["status"] == Status.OK)))
    told["itl_ms"] = {str(q): itl_ms[name] or 0 for name, q in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99))}
    told["output_tokens"] = int(compact.output_tokens(run).sum())
    told["steps"] = int(run.steps["n_steps"].sum())
    told["wasted_slot_fraction"] = wasted_slot_fraction(run.steps)
    busy = run.steps["decoding_slots"].astype(float) * run.steps["n_steps"].astype(float)
    told["decoding_slots_mean"] = float(busy.sum() / run.steps["n_steps"].astype(float).sum())
    return told


def write(run: Compact, told: dict[str, Any], folder: Path) -> None:
    """Requests, stretches and figures."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    for name, table in (("requests", run.requests), ("stretches", run.steps)):
        columns = {column: pa.array(values) for column, values in table.items()}
        pq.write_table(pa.table(columns), folder / f"{name}.parquet", compression="zstd")
    (folder / "figures.json").write_text(json.dumps(told))


def one_run(requests: int) -> dict[str, Any]:
    """A whole run in this process."""
    begin_s = time.perf_counter()
    run = play(schedule_of(requests))
    played_s = time.perf_counter()
    told = figures(run)
    with tempfile.TemporaryDirectory() as folder:
        write(run, told, Path(folder))
        written_bytes = sum(path.stat().st_size for path in Path(folder).iterdir())
    return {
        "wall_s": time.perf_counter() - begin_s,
        "cpu_s": time.process_time(),
        "after_play_s": time.perf_counter() - played_s,
        "peak_gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
        "rows": len(run.steps["step"]),
        "bytes_per_token": written_bytes / told["output_tokens"],
        **told,
    }


def best_s(function: Callable[[], object]) -> float:
    """Seconds of CPU time, the best of the rounds."""
    return min(taken_s(function) for _ in range(ROUNDS))


def event_costs_us(few: Schedule, many: Schedule) -> tuple[float, float]:
    """CPU time an event of either, the best of the rounds, in turn: the machine's speed changes from second to second.

    The shorter one is played again and again for about as long as the other: a moment is no match for seconds.
    """
    again = max(1, len(many) // len(few) // SHORTER)
    few_events, many_events = events(play(few)) * again, events(play(many))
    few_us, many_us = [], []
    for _ in range(ROUNDS):
        few_us.append(1e6 * taken_s(lambda: [play(few) for _ in range(again)]) / few_events)
        many_us.append(1e6 * taken_s(lambda: play(many)) / many_events)
    return min(few_us), min(many_us)


def taken_s(function: Callable[[], object]) -> float:
    """Seconds of CPU time."""
    begin_s = time.process_time()
    function()
    return time.process_time() - begin_s


def step_by_step(schedule: Schedule, driven: Engine) -> None:
    """The plain seam."""
    play_engine(schedule, driven, ModelledClock(), lambda part: None, GoOn())


def speedup(policy: Policy) -> float:
    """Step by step over many steps at once, with prompts in chunks."""
    schedule = schedule_of(FEWER, LIGHT_LOAD)
    one_s, other_s = (
        best_s(lambda wrap=wrap: step_by_step(schedule, wrap(PagedEngine(policy, HashExecutor(), COST))))  # type: ignore[misc]
        for wrap in (Stepwise, lambda whole: whole)
    )
    return round(one_s / other_s, 2)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--requests", type=int, default=MILLION)
    parser.add_argument("--one", action="store_true", help="one whole run in this process, nothing else")
    given = parser.parse_args()
    if given.one:
        print(json.dumps(one_run(given.requests)))
        return
    begin_s = time.perf_counter()
    command = [sys.executable, __file__, "--one", "--requests", str(given.requests)]
    whole = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    whole_s = time.perf_counter() - begin_s
    few = schedule_of(FEW)
    few_us, many_us = event_costs_us(few, schedule_of(given.requests))
    few_s = best_s(lambda: play(few))
    apart_s = best_s(lambda: play_apart(few))
    stepwise_s = best_s(lambda: step_by_step(few, Stepwise(engine())))
    result = {
        "requests": given.requests,
        "wall_s_1m": round(whole_s * MILLION / given.requests, 2),
        "peak_gib_1m": round(whole["peak_gib"], 3),
        "event_cost_ratio": round(many_us / few_us, 3),
        "speedup_over_stepwise": round(stepwise_s / few_s, 2),
        "speedup_over_stepwise_apart": round(stepwise_s / apart_s, 2),
        "speedup_over_stepwise_chunked": speedup(chunked(SLOTS, CHUNK_TOKENS)),
        "speedup_over_stepwise_paged": speedup(paged(SLOTS, CHUNK_TOKENS, cache_tokens=SLOTS * CACHE_ROW_TOKENS)),
        "event_us": round(many_us, 3),
        **whole,
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
