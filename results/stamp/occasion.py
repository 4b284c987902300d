"""When this process last ended a run: what a run finds warm, hot or cached, the one before it left."""

import time

NS_PER_S = 1e9
_ended_ns: list[int] = []


def ended_run() -> None:
    """A run of this process has just ended."""
    _ended_ns[:] = [time.perf_counter_ns()]


def since_previous_run_s() -> float | None:
    """Seconds since then; None: this is the first."""
    return (time.perf_counter_ns() - _ended_ns[0]) / NS_PER_S if _ended_ns else None
