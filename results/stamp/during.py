"""Group 6: what went on while a run lasted: readings at its start and its end, and what follows from their difference.

All are of the machine or of this process, not of the engine. Where a rule needs a rate over the run, it is a row
of RATES.
"""

import os
import resource
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from results.stamp import cgroup, hardware, kernel
from results.stamp.canonical import Json
from results.stamp.facts import attempt
from results.stamp.surroundings import Surroundings

NOT_ENDED = "NOT_ENDED"
NO_TIME = "NO_TIME"
NS_PER_S = 1e9
US_PER_S = 1e6


@dataclass(frozen=True, slots=True)
class Readings:
    """All rows of READINGS at one moment; None where there was nothing to read, with its reason."""

    values: Mapping[str, int | float | None]
    reasons: Mapping[str, str]


def read(here: Surroundings) -> Readings:
    """Now. About a millisecond; the order is the same each time, so that each difference spans the same time."""
    values: dict[str, int | float | None] = {}
    reasons: dict[str, str] = {}
    for name, reader in READINGS.items():
        values[name], reason = attempt(reader, here)
        if reason is not None:
            reasons[name] = reason
    return Readings(values, reasons)


def fields_during(start: Readings, end: Readings | None) -> tuple[Json, Json]:
    """Fields and reasons: start, end and delta of each reading, then the rates. Without an end: NOT_ENDED."""
    fields: Json = {}
    reasons: Json = dict(start.reasons)
    deltas: dict[str, float | None] = {}
    for name, before in start.values.items():
        after = end.values[name] if end is not None else None
        delta = after - before if after is not None and before is not None else None
        fields[name] = {"start": before, "end": after, "delta": delta}
        deltas[name] = delta
        if delta is None and name not in reasons:
            reasons[name] = NOT_ENDED if end is None else end.reasons.get(name, NOT_ENDED)
    for name, rate in RATES.items():
        fields[name], reason = _rate(rate, deltas, reasons)
        if reason is not None:
            reasons[name] = reason
    return fields, reasons


@dataclass(frozen=True, slots=True)
class Rate:
    """A difference over another, both brought to one unit by the scale."""

    of: str
    over: str
    scale_ratio: float


def _rate(
    rate: Rate, deltas: Mapping[str, float | None], reasons: Mapping[str, str]
) -> tuple[float | None, str | None]:
    for name in (rate.of, rate.over):
        if deltas[name] is None:
            return None, reasons.get(name)
    over = deltas[rate.over]
    return ((deltas[rate.of] or 0) / over * rate.scale_ratio, None) if over else (None, NO_TIME)


def _frequency_khz(here: Surroundings) -> float:
    """Mean over the CPUs, as the kernel tells it."""
    found = hardware.frequencies_khz(here)
    return sum(found) / len(found)


def _hottest_celsius(here: Surroundings) -> float:
    zones = kernel.folders(here.root, "sys/class/thermal/thermal_zone*/temp")
    return max(kernel.whole(here.root, str(zone.relative_to(here.root))) for zone in zones) / 1000


def _swap_used_bytes(here: Surroundings) -> int:
    return kernel.memory_bytes(here.root, "SwapTotal") - kernel.memory_bytes(here.root, "SwapFree")


def _seconds(name: str) -> Callable[[Surroundings], float]:
    """Of all CPUs, since boot."""
    return lambda here: kernel.cpu_ticks(here.root)[name] / os.sysconf("SC_CLK_TCK")


def _usage(name: str) -> Callable[[Surroundings], int]:
    return lambda here: int(getattr(resource.getrusage(resource.RUSAGE_SELF), name))


def _pressure(of: str, kind: str) -> Callable[[Surroundings], int]:
    return lambda here: kernel.pressure_total_us(here.root, of, kind)


READINGS: dict[str, Callable[[Surroundings], int | float]] = {
    "monotonic_ns": lambda here: time.perf_counter_ns(),
    "wall_ns": lambda here: time.time_ns(),
    "load_average": lambda here: kernel.load_average(here.root),
    "runnable_threads": lambda here: kernel.runnable_threads(here.root),
    "psi_cpu_some_us": _pressure("cpu", "some"),
    "psi_memory_some_us": _pressure("memory", "some"),
    "psi_memory_full_us": _pressure("memory", "full"),
    "psi_io_some_us": _pressure("io", "some"),
    "psi_io_full_us": _pressure("io", "full"),
    "machine_cpu_s": _seconds("total"),
    "machine_busy_s": _seconds("busy"),
    "steal_s": _seconds("steal"),
    "throttled_us": lambda here: cgroup.throttled_us(here.root),
    "throttled_periods": lambda here: cgroup.throttled_periods(here.root),
    "process_cpu_ns": lambda here: time.process_time_ns(),
    "run_queue_wait_ns": lambda here: kernel.run_queue_wait_ns(here.root),
    "involuntary_switches": _usage("ru_nivcsw"),
    "major_faults": _usage("ru_majflt"),
    "frequency_khz": _frequency_khz,
    "temperature_celsius": _hottest_celsius,
    "memory_available_bytes": lambda here: kernel.memory_bytes(here.root, "MemAvailable"),
    "swap_used_bytes": _swap_used_bytes,
}

RATES: dict[str, Rate] = {
    "wall_over_monotonic_ratio": Rate("wall_ns", "monotonic_ns", 1.0),
    "run_queue_wait_fraction": Rate("run_queue_wait_ns", "monotonic_ns", 1.0),
    "process_cpu_fraction": Rate("process_cpu_ns", "monotonic_ns", 1.0),
    "psi_cpu_some_fraction": Rate("psi_cpu_some_us", "monotonic_ns", NS_PER_S / US_PER_S),
    "psi_memory_some_fraction": Rate("psi_memory_some_us", "monotonic_ns", NS_PER_S / US_PER_S),
    "psi_io_some_fraction": Rate("psi_io_some_us", "monotonic_ns", NS_PER_S / US_PER_S),
    "throttled_fraction": Rate("throttled_us", "monotonic_ns", NS_PER_S / US_PER_S),
    "steal_fraction": Rate("steal_s", "machine_cpu_s", 1.0),
    "machine_busy_fraction": Rate("machine_busy_s", "machine_cpu_s", 1.0),
}
"""Of the run's length, but for steal and busy, which are of all CPUs' time."""
