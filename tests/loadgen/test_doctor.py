"""The doctor: each check warns or fails on a machine made for it, and passes on a good one."""

import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from loadgen.doctor import CHECKS, Finding, examine, this_machine, verdict
from results.stamp.checking import GIB, INVALID, MIB, OK, WARN, Machine
from results.stamp.interpreter import Interpreter
from results.stamp.jitter import Probe, probe
from results.stamp.program_checks import in_range
from tests.results.test_stamp_machine import CPU, MACHINE, PRESSURE, place, tree

QUIET_PROBE = Probe(
    nap_late_p99_ns=80_000,
    spin_gap_ns=200_000,
    clock_call_ns=60.0,
    run_queue_wait_fraction=0.001,
    steal_fraction=0.0,
    throttled_us=0,
    wall_over_monotonic_ratio=1.000001,
)
METADATA = "Name: tokenload\nVersion: 0.1.0\nRequires-Dist: torch<2.14,>=2.6; extra == 'torch'\n\n"
GOOD = {
    **MACHINE,
    "proc/meminfo": "MemTotal: 8388608 kB\nMemAvailable: 4194304 kB\nSwapTotal: 0 kB\nSwapFree: 0 kB\n",
    "proc/loadavg": "0.20 0.1 0.1 1/90 3\n",
    "proc/stat": "cpu  100 10 50 800 20 5 5 0 0 0\n",
    "sys/fs/cgroup/pod/cpu.max": "max 100000\n",
    "sys/fs/cgroup/pod/memory.max": "max\n",
    f"{CPU}/cpufreq/policy0/scaling_governor": "performance\n",
    f"{CPU}/cpufreq/policy1/scaling_governor": "performance\n",
    f"{CPU}/cpufreq/policy0/scaling_cur_freq": "2900000\n",
    f"{CPU}/intel_pstate/no_turbo": "1\n",
    **{f"proc/pressure/{name}": PRESSURE.replace("12.50", "0.00") for name in ("cpu", "memory", "io")},
    "site/tokenload-0.1.0.dist-info/METADATA": METADATA,
    "site/torch-2.13.0.dist-info/METADATA": "Name: torch\nVersion: 2.13.0+cpu\n\n",
}
"""A quiet machine of two CPUs on which nothing is to be mended."""
Change = Callable[[Machine], Machine]


def good(root: Path, files: dict[str, str | None] | None = None, environ: dict[str, str] | None = None) -> Machine:
    """The quiet machine with some files and variables changed."""
    tree(root, {**GOOD, **(files or {})})
    program = root / "program"
    if not program.exists():
        program.mkdir()
        git(program, "init")
        git(program, "commit", "--allow-empty", "-m", "one")
    return Machine(
        place=place(root, search_path=(str(root / "site"), str(program)), environ=environ or {}),
        probe=QUIET_PROBE,
        python=Interpreter(optimised=False, debug_build=False, dev_mode=False, watchers=()),
        cpus=(0, 1),
        runs=root / "home/user/here/runs",
        free_bytes=50 * GIB,
        clock_resolution_s=1e-9,
    )


def git(folder: Path, *arguments: str) -> None:
    """With a name of its own."""
    who = ["-c", "user.name=n", "-c", "user.email=e@example.org", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *who, "-C", str(folder), *arguments], check=True, capture_output=True)


def found(machine: Machine, name: str) -> Finding:
    """What one check says."""
    return next(finding for finding in examine(machine) if finding.name == name)


def probed(**values: Any) -> Change:
    """Another outcome of the probe."""
    return lambda machine: replace(machine, probe=replace(machine.probe, **values))


def started(**values: Any) -> Change:
    """Another Python."""
    return lambda machine: replace(machine, python=replace(machine.python, **values))


def test_nothing_is_to_be_mended_on_a_good_machine(tmp_path: Path) -> None:
    """Every check passes and no remedy is given."""
    findings = examine(good(tmp_path))
    assert [finding for finding in findings if finding.level != OK or finding.remedy] == []
    assert [finding.name for finding in findings] == list(CHECKS)
    assert not [finding for finding in findings if finding.seen.startswith("not told") and finding.name != "CPU quota"]
    assert verdict(findings) == OK


FILES: list[tuple[str, str, dict[str, str | None], str]] = [
    ("governor", WARN, {f"{CPU}/cpufreq/policy1/scaling_governor": "powersave"}, "performance, powersave"),
    ("turbo", WARN, {f"{CPU}/intel_pstate/no_turbo": "0"}, "on"),
    ("turbo", WARN, {f"{CPU}/intel_pstate/no_turbo": None, f"{CPU}/cpufreq/boost": "1"}, "on"),
    ("frequency", WARN, {f"{CPU}/cpufreq/policy0/scaling_cur_freq": "2000000"}, "2000 MHz, at most 3000"),
    ("load", WARN, {"proc/loadavg": "1.30 1 1 2/90 3"}, "1.30 for 2 CPUs"),
    ("pressure", WARN, {"proc/pressure/cpu": PRESSURE}, "cpu 12.5%"),
    ("pressure", WARN, {"proc/pressure/io": PRESSURE}, "io 12.5%"),
    ("steal", WARN, {"proc/stat": "cpu 100 0 0 800 0 0 0 20 0 0"}, "since boot"),
    ("CPU quota", WARN, {"sys/fs/cgroup/pod/cpu.max": "150000 100000"}, "1.5 CPUs on 2"),
    ("memory", WARN, {"proc/meminfo": "MemAvailable: 1000 kB"}, "0.0 GiB"),
    ("memory", WARN, {"sys/fs/cgroup/pod/memory.max": "1000000"}, "0.0 GiB"),
    ("swap", WARN, {"proc/meminfo": "MemAvailable: 9 kB\nSwapTotal: 200000 kB\nSwapFree: 0 kB"}, "195 MiB"),
    ("clock source", WARN, {"sys/devices/system/clocksource/clocksource0/current_clocksource": "hpet"}, "hpet"),
    ("package names", WARN, {"home/user/here/results/__init__.py": ""}, "results of"),
    ("package names", INVALID, {"site/engines/__init__.py": ""}, "engines of"),
    ("torch", WARN, {"site/torch-2.13.0.dist-info/METADATA": None}, "unnamed"),
    ("torch", WARN, {"site/torch-2.13.0.dist-info/METADATA": "Name: torch\nVersion: 2.14.0\n\n"}, "2.14.0, wanted"),
    ("torch", WARN, {"site/torch-2.13.0.dist-info/METADATA": "Name: torch\nVersion: 2.5.1\n\n"}, "2.5.1, wanted"),
]


@pytest.mark.parametrize(("name", "level", "files", "seen"), FILES, ids=lambda one: one if isinstance(one, str) else "")
def test_a_check_fires_on_what_a_file_says(
    name: str, level: str, files: dict[str, str | None], seen: str, tmp_path: Path
) -> None:
    """Each changes one thing on the good machine, and the check says what it saw and how to mend it."""
    finding = found(good(tmp_path, files), name)
    assert finding.level == level
    assert finding.remedy
    assert seen in finding.seen or seen == "unnamed"


CHANGES: list[tuple[str, str, Change]] = [
    ("own wait for a CPU", WARN, probed(run_queue_wait_fraction=0.02)),
    ("own wait for a CPU", INVALID, probed(run_queue_wait_fraction=0.06)),
    ("steal", WARN, probed(steal_fraction=0.03)),
    ("steal", INVALID, probed(steal_fraction=0.06)),
    ("clock", WARN, lambda machine: replace(machine, clock_resolution_s=1e-5)),
    ("clock", INVALID, lambda machine: replace(machine, clock_resolution_s=0.015)),
    ("clock", WARN, probed(clock_call_ns=2500.0)),
    ("wall clock", WARN, probed(wall_over_monotonic_ratio=1.002)),
    ("wall clock", INVALID, probed(wall_over_monotonic_ratio=0.98)),
    ("waking up", WARN, probed(nap_late_p99_ns=2_000_000)),
    ("waking up", INVALID, probed(nap_late_p99_ns=6_000_000)),
    ("being held up", WARN, probed(spin_gap_ns=8_000_000)),
    ("being held up", INVALID, probed(spin_gap_ns=120_000_000)),
    ("disk", WARN, lambda machine: replace(machine, free_bytes=500 * MIB)),
    ("disk", INVALID, lambda machine: replace(machine, free_bytes=10 * MIB)),
    ("python", WARN, started(optimised=True)),
    ("python", WARN, started(debug_build=True)),
    ("python", WARN, started(dev_mode=True)),
    ("watchers", INVALID, started(watchers=("trace function",))),
]


@pytest.mark.parametrize(("name", "level", "change"), CHANGES)
def test_a_check_fires_on_what_was_measured(name: str, level: str, change: Change, tmp_path: Path) -> None:
    """Probe, Python and disk: above the first limit a warning, above the second invalid, each with a remedy."""
    finding = found(change(good(tmp_path)), name)
    assert finding.level == level
    assert finding.remedy


@pytest.mark.parametrize(
    ("environ", "level"),
    [
        ({}, OK),
        ({"OMP_NUM_THREADS": "1"}, OK),
        ({"OMP_NUM_THREADS": "2", "OMP_WAIT_POLICY": "passive"}, OK),
        ({"OMP_NUM_THREADS": "2"}, WARN),
        ({"MKL_NUM_THREADS": "8", "OMP_WAIT_POLICY": "PASSIVE"}, WARN),
        ({"OMP_WAIT_POLICY": "ACTIVE"}, WARN),
        ({"OMP_NUM_THREADS": "many"}, WARN),
    ],
)
def test_threads_that_spin_are_warned_of(environ: dict[str, str], level: str, tmp_path: Path) -> None:
    """More than one thread without a passive wait, more threads than CPUs, and what is no number."""
    assert found(good(tmp_path, environ=environ), "threads").level == level


def test_time_taken_by_a_quota_is_warned_of(tmp_path: Path) -> None:
    """Even where the quota is as large as the CPUs."""
    machine = good(tmp_path, {"sys/fs/cgroup/pod/cpu.max": "200000 100000"})
    assert found(machine, "CPU quota").level == OK
    assert found(probed(throttled_us=900)(machine), "CPU quota").level == WARN


def test_a_runs_folder_that_is_a_file_is_invalid(tmp_path: Path) -> None:
    """Nothing could be stored; and looking leaves nothing behind."""
    machine = good(tmp_path)
    assert found(machine, "runs folder").level == OK
    assert not machine.runs.exists()
    assert list(machine.runs.parent.iterdir()) == []
    machine.runs.write_text("")
    finding = found(machine, "runs folder")
    assert (finding.level, finding.seen) == (INVALID, "nothing can be written there (NotADirectoryError)")


def test_changes_in_the_code_are_warned_of(tmp_path: Path) -> None:
    """A tracked file that differs from the commit; without a checkout there is nothing to say."""
    machine = good(tmp_path)
    program = machine.place.program
    tree(program, {"a.py": "1"})
    assert found(machine, "code").level == OK
    git(program, "add", "a.py")
    assert found(machine, "code").level == WARN
    elsewhere = replace(machine, place=replace(machine.place, program=tmp_path / "site"))
    assert found(elsewhere, "code").seen.startswith("not told here (NOT_A_CHECKOUT")


def test_a_machine_that_tells_nothing_passes_and_says_so(tmp_path: Path) -> None:
    """What cannot be seen is no fault, and is not passed over in silence."""
    silent = replace(QUIET_PROBE, run_queue_wait_fraction=None, steal_fraction=None, throttled_us=None)
    machine = replace(good(tmp_path), probe=silent)
    machine = replace(machine, place=replace(machine.place, root=tmp_path / "nothing"), free_bytes=None)
    findings = examine(machine)
    assert verdict(findings) == OK
    untold = {finding.name for finding in findings if finding.seen.startswith("not told here")}
    assert untold >= {"governor", "turbo", "load", "pressure", "own wait for a CPU", "steal", "memory", "swap", "disk"}


def test_a_check_that_breaks_is_a_warning(tmp_path: Path) -> None:
    """The others are still made."""

    def broken(machine: Machine) -> tuple[str, str]:
        raise RuntimeError

    checks = {"broken": (broken, "mend it"), "fine": (lambda machine: (OK, "fine"), "")}
    first, second = examine(good(tmp_path), checks)
    assert (first.level, first.seen, first.remedy) == (WARN, "could not be checked (RuntimeError)", "mend it")
    assert second.level == OK


def test_the_verdict_is_the_worst_finding() -> None:
    """One invalid outweighs any number of warnings."""
    levels = [OK, WARN, INVALID, WARN]
    assert verdict(Finding("", level, "", "") for level in levels) == INVALID
    assert verdict(Finding("", level, "", "") for level in levels[:2]) == WARN
    assert verdict([]) == OK


@pytest.mark.parametrize("name", CHECKS)
def test_every_check_has_a_remedy_and_says_what_it_is(name: str) -> None:
    """A row is a function with a docstring and a way to mend what it finds."""
    check, remedy = CHECKS[name]
    assert check.__doc__
    assert remedy


@pytest.mark.parametrize(
    ("version", "wanted", "fits"),
    [
        ("2.13.0+cpu", "<2.14,>=2.6", True), ("2.6", "<2.14,>=2.6", True), ("2.6.0", "<=2.6", True),
        ("2.14.0", "<2.14,>=2.6", False), ("2.10.1", "<2.9", False), ("2.5.9", ">=2.6", False), ("3", ">3", False),
        ("2.7.0.dev1", ">=2.6", True), ("2.7", "", True),
    ],
)  # fmt: skip
def test_versions_are_compared_by_their_numbers(version: str, wanted: str, fits: bool) -> None:
    """2.10 comes after 2.9, and 2.6.0 is 2.6."""
    assert in_range(version, wanted) is fits


@pytest.mark.realtime
def test_the_probe_of_this_machine_has_plausible_numbers(tmp_path: Path) -> None:
    """It measures, here over a hundredth of its time; what the kernel does not tell is None."""
    short = probe(place(tmp_path), 3_000_000)
    assert short.nap_late_p99_ns > 0
    assert 0 < short.clock_call_ns <= short.spin_gap_ns
    assert short.run_queue_wait_fraction is short.steal_fraction is short.throttled_us is None
    assert 0.5 < short.wall_over_monotonic_ratio < 2


@pytest.mark.realtime
def test_this_machine_can_be_examined(tmp_path: Path) -> None:
    """Every check gives an answer here, whatever it is."""
    findings = examine(this_machine(tmp_path / "runs"))
    assert [finding.name for finding in findings] == list(CHECKS)
    assert not [finding for finding in findings if finding.seen.startswith("could not be checked")]
    assert list(tmp_path.iterdir()) == []
