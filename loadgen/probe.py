"""A short probe of an engine: how fast it is alone and in a burst, to choose rates and to say what a sweep costs."""

import time
from dataclasses import dataclass, replace

import numpy as np

from loadgen.clock import make_clock
from loadgen.config import RunConfig
from loadgen.drive import Decision, play_engine
from loadgen.engine_spec import machine_of, make_engine
from loadgen.units import NS_PER_S
from loadgen.warmup import warm_up
from loadgen.workload import build_schedule
from results.recording import Recording, RecordingPart
from results.schedule import Schedule, make_schedule
from results.steps import ends_ns

BATCHES = 3
"""The burst of a probe fills the engine's slots so many times."""


@dataclass(frozen=True, slots=True)
class Speed:
    """What a probe saw."""

    single_tokens_per_s: float
    burst_tokens_per_s: float
    burst_rps: float
    wall_ratio: float
    """Wall time / time on the run's clock."""


class _GoOn:
    timeout_ns: int | None = None
    drain_ns: int | None = None

    def __call__(self, now_ns: int, newest: RecordingPart | None) -> Decision:
        return Decision.GO


def probe(config: RunConfig, engine_spec: str) -> Speed:
    """Serve one request, then a burst, of the sweep's own lengths. ValueError when the engine cannot be made."""
    whole = build_schedule(replace(config, engine=engine_spec, rate_rps=None if config.speed else 1.0))
    slots = make_engine(engine_spec, config.clock, whole, machine_of(config)).describe().get("slots")
    width = slots if isinstance(slots, int) else 1
    single, single_wall_s = _play(config, engine_spec, whole, 1)
    burst, burst_wall_s = _play(config, engine_spec, whole, BATCHES * width)
    clock_s = (_last_ns(single) + _last_ns(burst)) / NS_PER_S
    return Speed(
        single_tokens_per_s=int(single.token_count.sum()) * NS_PER_S / _last_ns(single),
        burst_tokens_per_s=int(burst.token_count.sum()) * NS_PER_S / _last_ns(burst),
        burst_rps=len(burst.schedule) * NS_PER_S / _last_ns(burst),
        wall_ratio=(single_wall_s + burst_wall_s) / clock_s,
    )


def _play(config: RunConfig, engine_spec: str, whole: Schedule, requests: int) -> tuple[Recording, float]:
    rows = slice(0, min(requests, len(whole)))
    count = len(whole.due_ns[rows])
    schedule = make_schedule(np.zeros(count, dtype=np.int64), whole.prompt_tokens[rows], whole.output_tokens[rows],
                             recipe=whole.recipe)  # fmt: skip
    engine = make_engine(engine_spec, config.clock, whole, machine_of(config))
    if config.clock != "modelled":
        warm_up(engine, schedule)
    clock = make_clock(config.clock, str(engine.describe().get("cost_source", "wall")))
    begin_s = time.perf_counter()
    recording = play_engine(schedule, engine, clock, lambda part: None, _GoOn())
    return recording, time.perf_counter() - begin_s


def _last_ns(recording: Recording) -> int:
    return max(int(ends_ns(recording.steps)[-1]), 1) if len(recording.steps["step"]) else 1
