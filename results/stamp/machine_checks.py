"""Checks of the machine: how fast it computes, who else is on it, how it tells the time."""

from contextlib import suppress

from results.stamp import cgroup, hardware, kernel
from results.stamp.checking import GIB, MIB, OK, WARN, Machine, Seen, above, told, worse
from results.stamp.kernel import MissingError

FAST_CLOCKS = ("tsc", "arch_sys_counter", "kvm-clock", "hyperv_clocksource_tsc_page")
"""They are read without asking the kernel."""
NS_PER_MS, NS_PER_S, US_PER_MS, KHZ_PER_MHZ = 1e6, 1e9, 1e3, 1e3
BUSY_SHARE = 0.5
"""Of the CPUs: with a load average above it, the run has to share a core now and then."""
WAITING = (0.05,)
RUN_QUEUE = (0.01, 0.05)
"""Its own wait decides: above 5 % a run in real time is INVALID, HOST_CONTENTION."""
STEAL_NOW = (0.02, 0.05)
STEAL_SINCE_BOOT = (0.01,)
SKEW = (0.001, 0.01)
"""Above 1 % a run in real time is INVALID, CLOCK_SKEW."""
RESOLUTION_NS, CLOCK_CALL_NS = (1e3, 1e6), (1e3,)
NAP_LATE_NS = (1e6, 5e6)
"""Above 5 ms at the 99th percentile requests cannot be sent on time, CLIENT_LATE."""
GAP_NS = (5e6, 100e6)
"""Above 100 ms even a single send is too late, CLIENT_LATE."""
BELOW_HIGHEST = (0.2,)
SWAPPED_BYTES = (64 * MIB,)


def governor(machine: Machine) -> Seen:
    """How the kernel chooses the clock frequency."""
    found = hardware.governors(machine.place)
    return OK if found == ["performance"] else WARN, ", ".join(found)


def turbo(machine: Machine) -> Seen:
    """Whether the clock rises while few cores work and falls when they get warm."""
    return (WARN, "on") if hardware.turbo(machine.place) else (OK, "off")


def frequency(machine: Machine) -> Seen:
    """Whether after a busy moment any CPU runs near its highest frequency: none does when heat or power is short."""
    now_khz, highest_khz = hardware.frequencies_khz(machine.place), hardware.highest_khz(machine.place)
    seen = f"{min(now_khz) / KHZ_PER_MHZ:.0f} to {max(now_khz) / KHZ_PER_MHZ:.0f} MHz"
    level = above(1 - max(now_khz) / highest_khz, BELOW_HIGHEST)
    return level, f"{seen}, at most {highest_khz / KHZ_PER_MHZ:.0f}"


def load(machine: Machine) -> Seen:
    """How many threads wanted to run in the last minute."""
    average, cpus = kernel.load_average(machine.place.root), len(machine.cpus)
    return above(average, (BUSY_SHARE * cpus,)), f"load average {average:.2f} for {cpus} CPUs"


def pressure(machine: Machine) -> Seen:
    """How long some task of the machine had to wait for a resource."""
    shares = {name: kernel.pressure_fraction(machine.place.root, name) for name in ("cpu", "memory", "io")}
    seen = ", ".join(f"{name} {share:.1%}" for name, share in shares.items())
    return above(max(shares.values()), WAITING), f"some task waited, of the last 10 s: {seen}"


def run_queue(machine: Machine) -> Seen:
    """How long this process itself had to wait for a CPU."""
    share = told(machine.probe.run_queue_wait_fraction, "run-queue wait")
    return above(share, RUN_QUEUE), f"ready and not running for {share:.1%} of a busy loop"


def steal(machine: Machine) -> Seen:
    """How much of the CPUs' time the hypervisor gave to others."""
    ticks = kernel.cpu_ticks(machine.place.root)
    now, since_boot = machine.probe.steal_fraction or 0.0, ticks["steal"] / max(ticks["total"], 1)
    level = worse(above(now, STEAL_NOW), above(since_boot, STEAL_SINCE_BOOT))
    return level, f"{now:.1%} of CPU time now, {since_boot:.2%} since boot"


def quota(machine: Machine) -> Seen:
    """Whether a control group allows less time than the CPUs in sight have."""
    cpus, throttled_us = cgroup.cpu_quota(machine.place.root), machine.probe.throttled_us or 0
    level = WARN if cpus < len(machine.cpus) or throttled_us > 0 else OK
    held_back = f"held back for {throttled_us / US_PER_MS:g} ms just now"
    return level, f"the time of {cpus:g} CPUs on {len(machine.cpus)}, {held_back}"


def memory(machine: Machine) -> Seen:
    """What is left, of the machine or of the control group's limit."""
    root = machine.place.root
    left_bytes = kernel.memory_bytes(root, "MemAvailable")
    with suppress(MissingError):
        left_bytes = min(left_bytes, cgroup.memory_limit_bytes(root) - cgroup.memory_used_bytes(root))
    return WARN if left_bytes < GIB else OK, f"{left_bytes / GIB:.1f} GiB free"


def swap(machine: Machine) -> Seen:
    """Whether memory has been moved to a disk."""
    root = machine.place.root
    used_bytes = kernel.memory_bytes(root, "SwapTotal") - kernel.memory_bytes(root, "SwapFree")
    return above(used_bytes, SWAPPED_BYTES), f"{used_bytes / MIB:.0f} MiB in use"


def clock_source(machine: Machine) -> Seen:
    """What the kernel reads the time from."""
    found = kernel.text(machine.place.root, f"{hardware.CLOCK}/current_clocksource")
    return OK if found in FAST_CLOCKS else WARN, found


def clock(machine: Machine) -> Seen:
    """How fine the clock is, and what reading it costs."""
    resolution_ns, call_ns = machine.clock_resolution_s * NS_PER_S, machine.probe.clock_call_ns
    level = worse(above(resolution_ns, RESOLUTION_NS), above(call_ns, CLOCK_CALL_NS))
    return level, f"resolution {resolution_ns:g} ns, {call_ns:.0f} ns from one reading to the next"


def skew(machine: Machine) -> Seen:
    """Whether the wall clock is being set or slewed."""
    off = abs(machine.probe.wall_over_monotonic_ratio - 1)
    return above(off, SKEW), f"wall and monotonic clock differ by {off:.4%}"


def naps(machine: Machine) -> Seen:
    """How late a process wakes."""
    late_ns = machine.probe.nap_late_p99_ns
    return above(late_ns, NAP_LATE_NS), f"sleeps of 1 ms end {late_ns / NS_PER_MS:.2f} ms late (p99)"


def gaps(machine: Machine) -> Seen:
    """For how long a process that never sleeps was held up."""
    gap_ns = machine.probe.spin_gap_ns
    return above(gap_ns, GAP_NS), f"a busy loop was held up for {gap_ns / NS_PER_MS:.2f} ms at most"
