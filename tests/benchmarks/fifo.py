"""One request after another without an engine: the queue of `one-by-one` in modelled time by Lindley's recursion.

The same integers as the engine's (a test compares them), some hundred times as fast, so that decisions can be tried
on thousands of runs. Service times may be given a noise that modelled engines do not have.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from loadgen.arrivals import due_times_ns
from loadgen.lengths import draw_lengths
from loadgen.streams import exponentials, uniforms
from results.columns import Int64
from results.recording import Recording, RecordingPart, empty_part, merge
from results.schedule import Schedule, make_schedule
from results.status import Status


@dataclass(frozen=True, slots=True)
class Cost:
    """Of the linear cost model, for one row, in ns."""

    prefill_base_ns: int = 2_000_000
    prefill_token_ns: int = 128_000
    decode_ns: int = 2_155_000

    def service_ns(self, schedule: Schedule) -> tuple[Int64, Int64]:
        """(to the first token, to the last one) of each request, from its start."""
        first = self.prefill_base_ns + self.prefill_token_ns * schedule.prompt_tokens
        return first, first + self.decode_ns * (schedule.output_tokens - 1)


def poisson_schedule(
    requests: int, rate_rps: float, seed: int, outputs: Int64 | None = None, prompts: tuple[int, int] = (32, 96)
) -> Schedule:
    """Poisson arrivals; outputs U(16..48) unless given."""
    origin = {"process": "poisson", "rate_rps": rate_rps, "window": {"kind": "schedule"}, "stationary": True}
    return make_schedule(
        due_times_ns("poisson", requests, rate_rps, seed),
        draw_lengths(requests, seed, "prompt", prompts),
        draw_lengths(requests, seed, "output", (16, 48)) if outputs is None else outputs,
        origin=origin,
    )


def exponential_outputs(requests: int, seed: int, mean: float) -> Int64:
    """Exponential lengths, rounded up to whole tokens."""
    drawn = exponentials(uniforms(seed, "lengths.output", requests)) * mean
    return np.maximum(np.ceil(drawn), 1).astype(np.int64)


def ends_ns(due_ns: Int64, service_ns: Int64) -> Int64:
    """When each request ends: its own service after the later of its arrival and the end before it."""
    cumulated = np.cumsum(service_ns)
    return np.asarray(cumulated + np.maximum.accumulate(due_ns - (cumulated - service_ns)), dtype=np.int64)


def play_fifo(schedule: Schedule, cost: Cost, stretch: NDArray[np.float64] | float = 1.0) -> Recording:
    """The run; `stretch` multiplies each request's service."""
    first, whole = (np.rint(part * stretch).astype(np.int64) for part in cost.service_ns(schedule))
    end = ends_ns(schedule.due_ns, whole)
    start = end - whole
    rows = len(schedule)
    ids = np.arange(rows, dtype=np.int64)
    more = schedule.output_tokens - 1
    tables = {name: dict(table) for name, table in empty_part().tables.items()}
    tables["requests"] |= {
        "request_id": ids,
        "due_ns": schedule.due_ns.copy(),
        "handed_ns": schedule.due_ns.copy(),
        "end_ns": end,
        "status": np.full(rows, int(Status.OK), dtype=np.int64),
        "finish_reason": np.full(rows, "length", dtype=object),
        "error": np.full(rows, None, dtype=object),
    }
    tables["tokens"] = {
        "request_id": np.concatenate([ids, ids]),
        "t_ns": np.concatenate([start + first, end]),
        "tokens": np.concatenate([np.ones(rows, dtype=np.int64), more]),
    }
    flight = int((end - schedule.due_ns).sum())
    tables["flight"] = {"until_ns": end[-1:], "request_ns": np.array([flight], dtype=np.int64)}
    return merge(schedule, [RecordingPart(tables)])
