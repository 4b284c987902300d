"""Phases of a schedule: fill, then what is measured, then cool-down; all of it one stream of arrivals.

Fill brings the load up before anything counts, cool-down keeps it up while the last measured requests finish. Both
come on top of the requests that were asked for; a trace has its own requests, and gives its first and its last.
"""

from dataclasses import replace

import numpy as np

from loadgen.arrivals import due_times_ns, due_times_until_ns
from loadgen.config import RunConfig
from loadgen.traces.pace import rate_rps
from loadgen.units import NS_PER_S
from results.columns import Int64, is_null
from results.schedule import COOLDOWN, FILL, MEASURE, Schedule
from results.window import planned_window_ns

DEFAULT_REQUESTS = 200
MORE_RATIO = 1.2
LEAST_DRAWN = 16


def phase_codes(rows: int, fill_requests: int, cooldown_requests: int) -> Int64:
    """The phase of each request, in the order in which they are due."""
    codes = np.full(rows, MEASURE, dtype=np.int64)
    codes[:fill_requests] = FILL
    codes[rows - cooldown_requests :] = COOLDOWN
    return codes


def fill_and_cooldown(config: RunConfig) -> tuple[int, int]:
    """How many requests of each: as asked for. A closed loop fills with one a user unless told otherwise.

    Users who all begin at once are a burst; they are in the figures only where --fill 0 says so.
    """
    closed = config.arrival == "closed"
    usual = (config.users or 1) if closed else 0
    return usual if config.fill_requests is None else config.fill_requests, config.cooldown_requests


def staggered(output_tokens: Int64, config: RunConfig) -> Int64:
    """Lengths of a closed loop: what user u fills with is cut to (u + 1/2) / users of its length.

    All users begin at 0, and come out of the fill one after another: as if each were found somewhere in the middle
    of an answer, which is how a loop that has gone on for long looks.
    """
    users = config.users or 1
    cut = min(users, fill_and_cooldown(config)[0])
    lengths = output_tokens.copy()
    part = (np.arange(cut) + 0.5) / users
    lengths[:cut] = np.maximum(1, np.rint(lengths[:cut] * part)).astype(np.int64)
    return lengths


def phases_of_trace(schedule: Schedule, config: RunConfig) -> Schedule:
    """A replay whose first requests are fill and whose last are cool-down; offered is the rate of those between.

    ValueError when it says itself which requests are measured, or when none would be left.
    """
    fill, cooldown = fill_and_cooldown(config)
    if not fill and not cooldown:
        return schedule
    if (schedule.phase != MEASURE).any():
        raise ValueError("the trace says itself which of its requests are fill: leave --fill and --cooldown out")
    if len(schedule) <= fill + cooldown:
        raise ValueError(
            f"--fill {fill} and --cooldown {cooldown} leave none of the trace's {len(schedule)} to be measured: "
            "ask for fewer, or a longer part of the trace"
        )
    phased = replace(schedule, phase=phase_codes(len(schedule), fill, cooldown))
    begin_ns, end_ns = planned_window_ns(phased)
    due_ns = phased.due_ns[(phased.phase == MEASURE) & ~is_null(phased.due_ns)]
    parameters = {**schedule.origin.get("parameters", {}), "fill_requests": fill, "cooldown_requests": cooldown}
    rate = rate_rps(due_ns, (end_ns or begin_ns) - begin_ns)
    return replace(phased, origin={**schedule.origin, "parameters": parameters, "rate_rps": rate})


def open_due_ns(config: RunConfig, cv: float) -> tuple[Int64, int | None]:
    """Due times of all phases, and when the measured window ends where a duration was asked for.

    With --requests so many are measured. With --duration those due within it, counted from the last of the fill.
    """
    asked_rps, seed = config.rate_rps or 1.0, config.seed
    fill, cooldown = fill_and_cooldown(config)
    more = fill + cooldown
    if config.duration_ns is None:
        return due_times_ns(config.arrival, (config.requests or DEFAULT_REQUESTS) + more, asked_rps, seed, cv), None
    if not more:
        return due_times_until_ns(config.arrival, config.duration_ns, asked_rps, seed, cv), config.duration_ns
    count = more + max(LEAST_DRAWN, round(MORE_RATIO * asked_rps * config.duration_ns / NS_PER_S))
    while True:
        due_ns = due_times_ns(config.arrival, count, asked_rps, seed, cv)
        begin_ns = int(due_ns[fill - 1]) if fill else 0
        end_ns = begin_ns + config.duration_ns
        rows = int(np.searchsorted(due_ns, end_ns)) + cooldown
        if rows < count:
            return due_ns[:rows], end_ns
        count *= 2
