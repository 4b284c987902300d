"""How punctually this machine lets a process run: short sleeps, then a busy loop, and what both met."""

import time
from dataclasses import dataclass

from results.stamp import cgroup, kernel
from results.stamp.facts import attempt
from results.stamp.surroundings import Surroundings

PROBE_NS = 300_000_000
NAP_NS = 1_000_000
SANDWICHES = 5
TAIL_FRACTION = 0.99
Count = int | None


@dataclass(frozen=True, slots=True)
class Probe:
    """What 0.3 s of sleeps and 0.3 s of a busy loop met; None where the kernel does not tell."""

    nap_late_p99_ns: int
    """How much later than asked a sleep of 1 ms ended."""
    spin_gap_ns: int
    """The longest time between two readings of the clock in the busy loop."""
    clock_call_ns: float
    """Mean time from one reading of the clock to the next."""
    run_queue_wait_fraction: float | None
    """Of the busy loop's time: ready to run, and not running."""
    steal_fraction: float | None
    """Of all CPUs' time over both; one clock tick is about half a percent of two CPUs' 0.6 s, so it is coarse."""
    throttled_us: float | None
    wall_over_monotonic_ratio: float


def probe(place: Surroundings, probe_ns: int = PROBE_NS) -> Probe:
    """Takes twice `probe_ns`."""
    ticks, throttled_us = attempt(_ticks, place)[0], attempt(_throttled_us, place)[0]
    wall_ns, monotonic_ns = _both_clocks()
    nap_late_ns = _naps(probe_ns)
    waited_ns = attempt(_waited_ns, place)[0]
    gap_ns, call_ns, spun_ns = _spin(probe_ns)
    waits_ns = _difference(waited_ns, attempt(_waited_ns, place)[0])
    wall_end_ns, monotonic_end_ns = _both_clocks()
    ticks_after, throttled_after_us = attempt(_ticks, place)[0], attempt(_throttled_us, place)[0]
    return Probe(
        nap_late_p99_ns=nap_late_ns,
        spin_gap_ns=gap_ns,
        clock_call_ns=call_ns,
        run_queue_wait_fraction=None if waits_ns is None else waits_ns / spun_ns,
        steal_fraction=_steal(ticks, ticks_after),
        throttled_us=_difference(throttled_us, throttled_after_us),
        wall_over_monotonic_ratio=(wall_end_ns - wall_ns) / (monotonic_end_ns - monotonic_ns),
    )


def _ticks(place: Surroundings) -> dict[str, int]:
    return kernel.cpu_ticks(place.root)


def _throttled_us(place: Surroundings) -> int:
    return cgroup.throttled_us(place.root)


def _waited_ns(place: Surroundings) -> int:
    return kernel.run_queue_wait_ns(place.root)


def _difference(before: Count, after: Count) -> Count:
    return None if before is None or after is None else after - before


def _steal(before: dict[str, int] | None, after: dict[str, int] | None) -> float | None:
    if before is None or after is None or after["total"] <= before["total"]:
        return None
    return (after["steal"] - before["steal"]) / (after["total"] - before["total"])


def _both_clocks() -> tuple[int, int]:
    """Wall and monotonic time at one moment: of several tries the one that was disturbed least."""
    tries = []
    for _ in range(SANDWICHES):
        before_ns = time.perf_counter_ns()
        wall_ns = time.time_ns()
        after_ns = time.perf_counter_ns()
        tries.append((after_ns - before_ns, wall_ns, (before_ns + after_ns) // 2))
    return min(tries)[1:]


def _naps(probe_ns: int) -> int:
    """The 99th percentile of how late sleeps of 1 ms ended, in ns."""
    late_ns = []
    end_ns = time.perf_counter_ns() + probe_ns
    now_ns = time.perf_counter_ns()
    while now_ns < end_ns:
        time.sleep(NAP_NS / 1e9)
        woke_ns = time.perf_counter_ns()
        late_ns.append(woke_ns - now_ns - NAP_NS)
        now_ns = woke_ns
    return sorted(late_ns)[int(TAIL_FRACTION * len(late_ns))]


def _spin(probe_ns: int) -> tuple[int, float, int]:
    """Longest and mean time between two readings of the clock, and how long it went on, in ns."""
    read_ns = time.perf_counter_ns
    start_ns = last_ns = read_ns()
    end_ns, longest_ns, readings = start_ns + probe_ns, 0, 0
    while last_ns < end_ns:
        now_ns = read_ns()
        if now_ns - last_ns > longest_ns:
            longest_ns = now_ns - last_ns
        last_ns = now_ns
        readings += 1
    spun_ns = last_ns - start_ns
    return longest_ns, spun_ns / readings, spun_ns
