"""Runs of modelled engines as the parts that a driver would have emitted while they went on."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from loadgen.clock import make_clock
from loadgen.config import from_texts
from loadgen.drive import play_engine
from loadgen.engine_spec import make_engine
from loadgen.steering import Steering
from loadgen.workload import build_schedule
from results.columns import Table, concatenate, int64
from results.recording import Recording, RecordingPart
from results.schedule import Schedule

FAR = np.iinfo(np.int64).max


def played(engine: str, **texts: str) -> tuple[Schedule, RecordingPart, Recording]:
    """A run in modelled time, told in one part."""
    config = from_texts({"engine": engine, "clock": "modelled", "rate": "12", "requests": "150", **texts})
    schedule = build_schedule(config)
    made = make_engine(config.engine, config.clock, schedule)
    parts: list[RecordingPart] = []
    control = Steering(config, lambda ended: None, None)
    recording = play_engine(schedule, made, make_clock(config.clock, "wall"), parts.append, control)
    return schedule, _one(parts), recording


def _one(parts: Sequence[RecordingPart]) -> RecordingPart:
    """A slow machine emits more than one."""
    return RecordingPart({name: concatenate([part.tables[name] for part in parts]) for name in parts[0].tables})


def cut_at_steps(part: RecordingPart, pieces: int) -> list[RecordingPart]:
    """The same rows as several parts: an end comes with the step it ended in, what was in flight with its time."""
    steps = part.tables["steps"]
    edges = np.linspace(0, len(steps["step"]), pieces + 1).astype(int)[1:-1]
    first_step = [-FAR, *int64(steps["step"])[edges].tolist(), FAR]
    begin_ns = [-FAR, *(int64(steps["start_ps"])[edges] // 1000).tolist(), FAR]
    return [_piece(part, *first_step[at : at + 2], *begin_ns[at : at + 2]) for at in range(pieces)]


def _piece(part: RecordingPart, low_step: int, high_step: int, after_ns: int, until_ns: int) -> RecordingPart:
    tables = part.tables
    by_step = {
        name: _where(tables[name], (tables[name]["step"] >= low_step) & (tables[name]["step"] < high_step))
        for name in ("steps", "tokens", "slot_events")
    }
    requests = tables["requests"]
    ended = _where(requests, (requests["end_ns"] > after_ns) & (requests["end_ns"] <= until_ns))
    from_ns = max(after_ns, 0)
    now_ns = min(until_ns, int(int64(requests["end_ns"]).max()))
    due_ns, end_ns = int64(requests["due_ns"]), int64(requests["end_ns"])
    in_flight = np.maximum(np.minimum(end_ns, now_ns) - np.maximum(due_ns, from_ns), 0).sum()
    flight: Table = {"until_ns": int64([now_ns]), "request_ns": int64([int(in_flight)])}
    return RecordingPart({**tables, **by_step, "requests": ended, "flight": flight})


def _where(table: Table, chosen: Any) -> Table:
    return {name: column[chosen] for name, column in table.items()}
