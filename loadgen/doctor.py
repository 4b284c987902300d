"""Whether a measurement on this machine could be believed: a table of checks, each with what was seen and a remedy.

A check is one function and one row of CHECKS. `invalid` is kept for what would make a run INVALID, or could not be
stored; everything else that is worth mending is a warning. What a machine does not tell is said, and passes.
"""

import os
import shutil
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from results.stamp import machine_checks, program_checks
from results.stamp.checking import OK, WARN, Check, Machine, standing, worse
from results.stamp.interpreter import interpreter
from results.stamp.jitter import probe
from results.stamp.kernel import MissingError
from results.stamp.surroundings import here

QUIET = "stop other programs, or use --clock charged (bills CPU time) or modelled"
ROOT = "as root"


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check has to say."""

    name: str
    level: str
    """ok, warn or invalid."""
    seen: str
    remedy: str
    """Empty when there is nothing to mend."""


def this_machine(runs: Path) -> Machine:
    """Probed now, in about 0.6 s. `runs`: where run folders would be written; nothing is left there."""
    place = here()
    affinity = getattr(os, "sched_getaffinity", None)
    runs = place.cwd / runs
    return Machine(
        place=place,
        probe=probe(place),
        python=interpreter(place.modules),
        cpus=tuple(sorted(affinity(0))) if affinity else tuple(range(os.cpu_count() or 1)),
        runs=runs,
        free_bytes=shutil.disk_usage(standing(runs)).free,
        clock_resolution_s=time.get_clock_info("perf_counter").resolution,
    )


def examine(machine: Machine, checks: Mapping[str, tuple[Check, str]] | None = None) -> list[Finding]:
    """All checks, in the order of the table."""
    rows = CHECKS if checks is None else checks
    return [_finding(name, check, remedy, machine) for name, (check, remedy) in rows.items()]


def verdict(findings: Iterable[Finding]) -> str:
    """The highest level among them."""
    return worse(*(finding.level for finding in findings))


def _finding(name: str, check: Check, remedy: str, machine: Machine) -> Finding:
    try:
        level, seen = check(machine)
    except MissingError as error:
        return Finding(name, OK, f"not told here ({error})", "")
    except Exception as error:
        return Finding(name, WARN, f"could not be checked ({type(error).__name__})", remedy)
    return Finding(name, level, seen, "" if level == OK else remedy)


CHECKS: dict[str, tuple[Check, str]] = {
    "governor": (machine_checks.governor, f"{ROOT}: cpupower frequency-set -g performance"),
    "turbo": (
        machine_checks.turbo,
        f"{ROOT}: write 1 to /sys/devices/system/cpu/intel_pstate/no_turbo, or 0 to .../cpufreq/boost",
    ),
    "frequency": (machine_checks.frequency, "see governor; let the machine cool down, and look at its power limit"),
    "load": (machine_checks.load, QUIET),
    "pressure": (machine_checks.pressure, QUIET),
    "own wait for a CPU": (machine_checks.run_queue, QUIET),
    "steal": (machine_checks.steal, "use a machine, or a guest with CPUs, of your own; --clock modelled does not mind"),
    "CPU quota": (
        machine_checks.quota,
        "raise the container's CPU limit to whole CPUs, or pin it to some (docker: --cpuset-cpus)",
    ),
    "memory": (machine_checks.memory, "stop other programs, or raise the container's memory limit"),
    "swap": (machine_checks.swap, f"{ROOT}: swapoff -a, once enough memory is free"),
    "clock source": (machine_checks.clock_source, f"{ROOT}: write tsc to the clocksource0/current_clocksource of /sys"),
    "clock": (machine_checks.clock, "choose another clock source; --clock modelled reads no clock"),
    "wall clock": (machine_checks.skew, "wait until time synchronisation has settled"),
    "waking up": (machine_checks.naps, QUIET),
    "being held up": (machine_checks.gaps, QUIET),
    "threads": (
        program_checks.threads,
        "set OMP_NUM_THREADS=1, or OMP_WAIT_POLICY=PASSIVE and no more threads than CPUs",
    ),
    "runs folder": (program_checks.writable, "give another folder with --out, or make this one writable"),
    "disk": (program_checks.free_space, "free some space, or give a folder on another disk with --out"),
    "package names": (
        program_checks.package_names,
        "use a virtual environment of its own, and start in a folder without packages of these names",
    ),
    "python": (program_checks.python, "start a release build of Python without -O and -X dev"),
    "watchers": (program_checks.watchers, "run without debugger, profiler, tracemalloc and coverage"),
    "torch": (program_checks.torch, "pip install 'tokenload[torch]'"),
    "code": (program_checks.code, "commit or undo the changes, so that others can run the same code"),
}
"""Name -> the check, and how to mend what it finds. To check one thing more: one row."""
