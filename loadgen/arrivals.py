"""Arrival processes: unit times (mean gap 1) that a rate stretches and rounds to nanoseconds, once.

The same seed at another rate therefore has the same pattern. To add a process: write a function
`(count, seed, **options) -> unit times, rising` and add a row to `PROCESSES`.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from loadgen.streams import Float64, exponentials, uniforms
from loadgen.units import NS_PER_S
from results.columns import Int64

STREAM = "arrivals"
LATEST_NS = 1_000 * 3600 * NS_PER_S
"""Of a due time; the time axis in int64 picoseconds ends at 2,562 hours."""


def poisson(count: int, seed: int, cv: float) -> Float64:
    """Independent exponential gaps; nothing is rescaled, clipped or shared."""
    return np.cumsum(exponentials(uniforms(seed, STREAM, count)))


def conditioned_poisson(count: int, seed: int, cv: float) -> Float64:
    """A Poisson process given that `count` arrivals fall into `count` mean gaps: sorted uniforms."""
    return np.sort(uniforms(seed, STREAM, count)) * count


def constant(count: int, seed: int, cv: float) -> Float64:
    """Gaps all 1."""
    return np.arange(1, count + 1, dtype=np.float64)


def gamma(count: int, seed: int, cv: float) -> Float64:
    """Independent gamma gaps with coefficient of variation `cv`: shape 1/cv^2, by inverse CDF."""
    from scipy.special import gammaincinv

    shape = 1.0 / cv**2
    return np.cumsum(np.asarray(gammaincinv(shape, uniforms(seed, STREAM, count))) / shape)


def burst(count: int, seed: int, cv: float) -> Float64:
    """All at once."""
    return np.zeros(count)


@dataclass(frozen=True, slots=True)
class Process:
    """One row of the table of arrival processes."""

    unit_times: Callable[[int, int, float], Float64]
    """(count, seed, cv) -> times with mean gap 1."""
    help: str
    stationary: bool = True
    label: str | None = None
    """Shown with every result made under it."""
    by_duration: bool = True
    """Whether a duration can be filled by drawing on until it is passed."""


PROCESSES = {
    "poisson": Process(poisson, "independent exponential gaps"),
    "conditioned": Process(
        conditioned_poisson,
        "Poisson given its count: less varied from seed to seed",
        label="Poisson conditioned on the number of requests",
        by_duration=False,
    ),
    "constant": Process(constant, "even gaps"),
    "gamma": Process(gamma, "independent gamma gaps with --cv"),
    "burst": Process(burst, "all due at 0", stationary=False, label="burst", by_duration=False),
}


def due_times_ns(name: str, count: int, rate_rps: float, seed: int, cv: float = 1.0) -> Int64:
    """`count` due times at a mean rate, rounded once to nanoseconds."""
    return _to_ns(PROCESSES[name].unit_times(count, seed, cv), rate_rps)


def due_times_until_ns(name: str, duration_ns: int, rate_rps: float, seed: int, cv: float = 1.0) -> Int64:
    """All due times before the duration's end: their number is the process's own.

    A process that fixes its count takes the mean number, rounded, over the whole duration.
    """
    expected = rate_rps * duration_ns / NS_PER_S
    if not PROCESSES[name].by_duration:
        count = max(1, round(expected))
        due_ns = due_times_ns(name, count, count * NS_PER_S / duration_ns, seed, cv)
        return np.minimum(due_ns, duration_ns - 1)
    count = max(16, round(1.2 * expected))
    while True:
        due_ns = due_times_ns(name, count, rate_rps, seed, cv)
        if due_ns[-1] >= duration_ns:
            return due_ns[due_ns < duration_ns]
        count *= 2


def _to_ns(unit_times: Float64, rate_rps: float) -> Int64:
    due_ns = np.rint(unit_times * (NS_PER_S / rate_rps))
    if len(due_ns) and not due_ns[-1] <= LATEST_NS:
        raise ValueError(f"at a rate of {rate_rps:g}/s the last request would be due after {LATEST_NS // NS_PER_S} s: "
                         "ask for fewer or a higher rate")  # fmt: skip
    return due_ns.astype(np.int64)
