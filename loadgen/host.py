"""The machine during a run: one sample a second of what could have disturbed it."""

import os
import resource
import time

from results.columns import NULL


def sample_host(now_ns: int, worker_id: int = 0) -> dict[str, int]:
    """CPU time, involuntary switches, run-queue wait of this process, and the load average, at a run time.

    `worker_id`: which of several client processes this is.
    """
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "t_ns": now_ns,
        "worker_id": worker_id,
        "wall_ns": time.perf_counter_ns(),
        "process_cpu_ns": time.process_time_ns(),
        "involuntary_switches": usage.ru_nivcsw,
        "run_queue_wait_ns": _run_queue_wait_ns(),
        "load_average_milli": round(1000 * os.getloadavg()[0]),
        "max_rss_bytes": usage.ru_maxrss * 1024,
    }


def _run_queue_wait_ns() -> int:
    """Time this process was ready to run and did not; NULL where the kernel does not tell."""
    try:
        with open("/proc/self/schedstat", encoding="ascii") as file:  # noqa: PTH123 - a kernel file
            return int(file.read().split()[1])
    except (OSError, IndexError, ValueError):
        return NULL
