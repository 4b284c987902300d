"""Runs in modelled time of so many tokens that no row is made for each: they follow from the stretches of steps.

The figures are those of a run with all its rows. What differs: `tokens.parquet` has two steps a request in place of
lists, `steps.parquet` a row for many steps. Where no policy need be asked, driver and engine are one loop; such a run
writes nothing before its end, since it can be had again to the bit.
"""

from collections.abc import Callable

from engines.engine import Engine
from loadgen.clock import ModelledClock
from loadgen.drive import Control, Decision, can_compact, play_compact
from loadgen.fused import can_fuse, play_fused
from loadgen.host import sample_host
from results.columns import Table, int64
from results.compact import as_recording
from results.recording import Recording, RecordingPart
from results.schedule import Schedule

LISTED_TOKENS = 5_000_000
"""So many output tokens have a row each: about 0.4 GiB while they are looked at."""


def is_long(schedule: Schedule, engine: Engine, listed_tokens: int = LISTED_TOKENS) -> bool:
    """Whether a run in modelled time has more tokens than are given rows, and can do without."""
    computes = engine.describe().get("computes_tokens", True)
    return not computes and can_compact(engine) and int(schedule.output_tokens.sum()) > listed_tokens


def play_long(
    schedule: Schedule, engine: Engine, emit: Callable[[RecordingPart], None], control: Control
) -> Recording:
    """As `play_engine` in modelled time, for an engine that `is_long` takes."""
    if can_fuse(schedule, engine) and control.timeout_ns is None and control.drain_ns is None:
        return _play_fused(schedule, engine, control)
    host: list[Table] = []

    def kept(part: RecordingPart) -> None:
        host.append(dict(part.tables["host"]))
        emit(part)

    return as_recording(play_compact(schedule, engine, ModelledClock(), kept, control), host)


def _play_fused(schedule: Schedule, engine: Engine, control: Control) -> Recording:
    samples = [sample_host(0)]
    count_ended = getattr(control, "count_ended", None)

    def poll(now_ns: int, ended_requests: int) -> Decision:
        samples.append(sample_host(now_ns))
        if count_ended is not None:
            count_ended(ended_requests)
        return control(now_ns, None)

    run = play_fused(schedule, engine, poll)
    return as_recording(run, [{name: int64([one[name] for one in samples]) for name in samples[0]}])
