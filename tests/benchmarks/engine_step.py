"""How fast the driver and the engines go through modelled time, and how soon help answers: one JSON line.

modelled_tokens_per_s: output tokens per second of wall time from the first hand-over to the merged columns, files
not included: cost-only executor with its default costs, Poisson arrivals at 10.4 requests/s for one-by-one and at
33 for continuous batching on 8 slots, 20,000 requests of U(32..96) prompt and U(16..48) output tokens. The best of
the rounds, because a busy machine only ever adds time; all rounds are printed too.
help_s: seconds of a whole `tokenload --help` process, median.
step_over_matmul and its kin: see `step_over_matmul.py` beside this file; null without torch.
"""

import json
import statistics
import subprocess
import sys
import time
from typing import Any

from loadgen.arrivals import due_times_ns
from loadgen.clock import ModelledClock
from loadgen.drive import Decision, play_engine
from loadgen.engine_spec import make_engine
from loadgen.lengths import draw_lengths
from results.recording import RecordingPart
from results.schedule import Schedule, make_schedule

CASES = {"1": ("one-by-one", 10.4), "8": ("continuous,batch=8", 33.0)}
REQUESTS = 20_000
ROUNDS = 9
HELP_RUNS = 11
SEED = 7


class GoOn:
    """A control that never interferes."""

    timeout_ns: int | None = None
    drain_ns: int | None = None

    def __call__(self, now_ns: int, newest: RecordingPart | None) -> Decision:
        """Go on."""
        return Decision.GO


def schedule_at(rate_rps: float) -> Schedule:
    """The workload at a rate."""
    return make_schedule(
        due_times_ns("poisson", REQUESTS, rate_rps, SEED),
        draw_lengths(REQUESTS, SEED, "prompt", (32, 96)),
        draw_lengths(REQUESTS, SEED, "output", (16, 48)),
    )


def tokens_per_s(spec: str, rate_rps: float) -> float:
    """Output tokens per second of wall time."""
    schedule = schedule_at(rate_rps)
    engine = make_engine(spec, "modelled", schedule)
    begin_s = time.perf_counter()
    recording = play_engine(schedule, engine, ModelledClock(), lambda part: None, GoOn())
    return int(recording.token_count.sum()) / (time.perf_counter() - begin_s)


def help_s() -> float:
    """Seconds of one process that prints the help."""
    begin_s = time.perf_counter()
    command = [sys.executable, "-c", "from loadgen.cli import main; main()", "--help"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begin_s


def transformer() -> dict[str, Any]:
    """A decode step of the transformer over the bare products of its matrices."""
    try:
        from step_over_matmul import measure
    except ImportError:
        return {"step_over_matmul": None}
    return measure()


def main() -> None:
    """Measure and print."""
    rounds = [{slots: tokens_per_s(*case) for slots, case in CASES.items()} for _ in range(ROUNDS)]
    print(
        json.dumps(
            {
                "modelled_tokens_per_s": {slots: round(max(one[slots] for one in rounds)) for slots in CASES},
                "modelled_tokens_per_s_rounds": {slots: [round(one[slots]) for one in rounds] for slots in CASES},
                "help_s": round(statistics.median(help_s() for _ in range(HELP_RUNS)), 3),
                **transformer(),
            }
        )
    )


if __name__ == "__main__":
    main()
