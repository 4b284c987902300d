"""Phases of a schedule that is drawn: fill, then what is measured, then cool-down; all of it one stream of arrivals.

Fill brings the load up before anything counts, cool-down keeps it up while the last measured requests finish. Both
come on top of the requests that were asked for.
"""

import numpy as np

from loadgen.arrivals import due_times_ns, due_times_until_ns
from loadgen.config import RunConfig
from loadgen.units import NS_PER_S
from results.columns import Int64
from results.schedule import COOLDOWN, FILL, MEASURE

DEFAULT_REQUESTS = 200
MORE_RATIO = 1.2
LEAST_DRAWN = 16


def phase_codes(rows: int, fill_requests: int, cooldown_requests: int) -> Int64:
    """The phase of each request, in the order in which they are due."""
    codes = np.full(rows, MEASURE, dtype=np.int64)
    codes[:fill_requests] = FILL
    codes[rows - cooldown_requests :] = COOLDOWN
    return codes


def has_phases(config: RunConfig) -> bool:
    """Whether anything but measured requests was asked for."""
    return bool(config.fill_requests or config.cooldown_requests)


def open_due_ns(config: RunConfig, cv: float) -> tuple[Int64, int | None]:
    """Due times of all phases, and when the measured window ends where a duration was asked for.

    With --requests so many are measured. With --duration those due within it, counted from the last of the fill.
    """
    rate_rps, seed, more = config.rate_rps or 1.0, config.seed, config.fill_requests + config.cooldown_requests
    if config.duration_ns is None:
        return due_times_ns(config.arrival, (config.requests or DEFAULT_REQUESTS) + more, rate_rps, seed, cv), None
    if not more:
        return due_times_until_ns(config.arrival, config.duration_ns, rate_rps, seed, cv), config.duration_ns
    count = more + max(LEAST_DRAWN, round(MORE_RATIO * rate_rps * config.duration_ns / NS_PER_S))
    while True:
        due_ns = due_times_ns(config.arrival, count, rate_rps, seed, cv)
        begin_ns = int(due_ns[config.fill_requests - 1]) if config.fill_requests else 0
        end_ns = begin_ns + config.duration_ns
        rows = int(np.searchsorted(due_ns, end_ns)) + config.cooldown_requests
        if rows < count:
            return due_ns[:rows], end_ns
        count *= 2
