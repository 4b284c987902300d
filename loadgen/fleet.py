"""A fleet: replicas of one engine behind a router, in modelled time.

Once it is settled who serves whom, the replicas have nothing to do with each other: each plays its part of the
schedule by itself, and the latencies are put back into the order of the whole.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engines.engine import Engine
from loadgen.clock import ModelledClock
from loadgen.drive import Decision, can_compact, no_garbage_collection, play_compact, play_engine
from loadgen.fused import can_fuse, play_fused
from loadgen.routing import ROUTERS, MakeEngine
from results import compact, metrics
from results.columns import Int64, Table, int64
from results.recording import RecordingPart
from results.schedule import Schedule, make_schedule
from results.steps import PS_PER_NS

Float64 = NDArray[np.float64]
Values = dict[str, Float64]
LATENCIES = {
    "ttft": metrics.ttft_ns, "tpot": metrics.tpot_ns, "e2e": metrics.e2e_ns, "stall": metrics.stall_ns,
    "norm": metrics.norm_ns,
}  # fmt: skip
COMPACT_LATENCIES = {
    "ttft": compact.ttft_ns, "tpot": compact.tpot_ns, "e2e": compact.e2e_ns, "stall": compact.stall_ns,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Served:
    """What a fleet did with a schedule."""

    values_ns: Values
    """Of each request: ttft, tpot, e2e, stall and norm. +inf: failed; NaN: undefined for one token."""
    replica: Int64
    """Who served each request."""
    output_tokens: int
    replicas: int
    busy_ns: float
    """Time in which a step ran, over all replicas."""
    end_ns: int
    """When the last request ended."""

    @property
    def busy_fraction(self) -> float:
        """Time in which a step ran / time from 0 to the last end, over all replicas."""
        return self.busy_ns / (self.replicas * self.end_ns) if self.end_ns else 0.0


@dataclass(frozen=True, slots=True)
class _Part:
    """What one replica did."""

    values_ns: Values
    output_tokens: int
    busy_ns: float
    end_ns: int


class GoOn:
    """A control that never interferes."""

    timeout_ns: int | None = None
    drain_ns: int | None = None

    def __call__(self, now_ns: int, newest: RecordingPart | None) -> Decision:
        """Go on."""
        return Decision.GO


def play_fleet(schedule: Schedule, make_engine: MakeEngine, replicas: int, router: str = "round-robin") -> Served:
    """ValueError in one line for an unknown router, or one that this schedule cannot have."""
    if router not in ROUTERS:
        raise ValueError(f"unknown router {router!r}: known are {', '.join(ROUTERS)}")
    with no_garbage_collection():
        return _play(schedule, make_engine, replicas, ROUTERS[router](schedule, replicas, make_engine))


def _play(schedule: Schedule, make_engine: MakeEngine, replicas: int, chosen: Int64) -> Served:
    values: Values = {}
    played: list[_Part] = []
    for replica in range(replicas):
        rows = int64((chosen == replica).nonzero()[0])
        if not len(rows):
            continue
        part = _played(part_of(schedule, rows), make_engine())
        played.append(part)
        for name, one in part.values_ns.items():
            values.setdefault(name, np.full(len(schedule), np.nan))[rows] = one
    end_ns = max(part.end_ns for part in played)
    busy_ns, tokens = sum(part.busy_ns for part in played), sum(part.output_tokens for part in played)
    return Served(values, chosen, tokens, replicas, busy_ns, end_ns)


def part_of(schedule: Schedule, rows: Int64) -> Schedule:
    """The schedule of these requests alone, numbered anew in their order."""
    at = {request_id: number for number, request_id in enumerate(rows.tolist())}
    after = None
    if len(schedule.after_ids):
        after = [[at[before] for before in schedule.after(request_id).tolist()] for request_id in rows.tolist()]
    return make_schedule(
        schedule.due_ns[rows], schedule.prompt_tokens[rows], schedule.output_tokens[rows], after=after,
        think_ns=schedule.think_ns[rows], session=schedule.session[rows], turn=schedule.turn[rows],
        request_class=schedule.request_class[rows], class_names=schedule.class_names, phase=schedule.phase[rows],
        recipe=schedule.recipe,
    )  # fmt: skip


def _played(schedule: Schedule, engine: Engine) -> _Part:
    """Without a row a token where the engine can be advanced."""
    if can_compact(engine):
        if can_fuse(schedule, engine):
            run = play_fused(schedule, engine)
        else:
            run = play_compact(schedule, engine, ModelledClock(), _drop, GoOn())
        values = {name: function(run) for name, function in COMPACT_LATENCIES.items()}
        tokens = compact.output_tokens(run)
        values["norm"] = values["e2e"] / np.maximum(tokens, 1)
        return _Part(values, int(tokens.sum()), _busy_ns(run.steps), int(run.requests["end_ns"].max()))
    recording = play_engine(schedule, engine, ModelledClock(), _drop, GoOn())
    events = metrics.events_of(recording)
    values = {name: function(recording, events) for name, function in LATENCIES.items()}
    requests = recording.requests
    return _Part(
        values, int(requests["output_tokens"].sum()), _busy_ns(recording.steps), int(requests["end_ns"].max())
    )


def _busy_ns(steps: Table) -> float:
    """Of rows that may be stretches: n costs that grow by a slope."""
    n_steps = steps["n_steps"].astype(np.float64)
    slopes = steps["cost_slope_ps"].astype(np.float64) * (n_steps * (n_steps - 1) / 2)
    return float((steps["cost_ps"].astype(np.float64) * n_steps + slopes).sum()) / PS_PER_NS


def _drop(part: RecordingPart) -> None:
    """Nothing is written."""
