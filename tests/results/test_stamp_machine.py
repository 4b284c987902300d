"""Readers of a machine, on machines made up of files; `tree`, `MACHINE` and `place` serve other tests too."""

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from results.stamp import cgroup, during, hardware, kernel
from results.stamp.facts import find
from results.stamp.kernel import MissingError
from results.stamp.surroundings import Surroundings

CPUINFO = """processor	: 0
vendor_id	: GenuineIntel
cpu family	: 6
model name	: A Processor
stepping	: 4
microcode	: 0x2b
cpu MHz		: 2600.5
flags		: fpu sse4_2 avx avx2 hypervisor avx512f amx_tile

processor	: 1
model name	: Another Processor
"""
MEMINFO = "MemTotal: 1024 kB\nMemAvailable: 512 kB\nSwapTotal: 100 kB\nSwapFree: 60 kB\n"
PRESSURE = "some avg10=12.50 avg60=1.00 avg300=0.10 total=4000\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=30\n"
CPU = "sys/devices/system/cpu"
MACHINE = {
    "proc/cpuinfo": CPUINFO,
    "proc/meminfo": MEMINFO,
    "proc/loadavg": "1.50 0.84 0.61 3/93 10352\n",
    "proc/pressure/cpu": PRESSURE,
    "proc/pressure/memory": PRESSURE,
    "proc/pressure/io": PRESSURE,
    "proc/stat": "cpu  100 10 50 800 20 5 5 10 0 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n",
    "proc/self/schedstat": "153103 2483861 2\n",
    "proc/self/status": "Name:\tpython\nVmSwap:\t12 kB\nMems_allowed_list:\t0-1\n",
    "proc/self/cgroup": "0::/pod/box\n",
    "proc/self/maps": "7f00-7f01 r-xp 0 0 1 /lib/libgomp.so.1\n7f02-7f03 r-xp 0 0 1 /lib/libc.so.6\n",
    "proc/sys/kernel/randomize_va_space": "2\n",
    "proc/sys/vm/swappiness": "60\n",
    "proc/driver/nvidia/version": "NVRM version: 1.2\nGCC\n",
    "sys/class/net/lo/operstate": "unknown\n",
    "sys/class/net/eth0/operstate": "up\n",
    "sys/class/net/eth0/mtu": "1500\n",
    "proc/driver/nvidia/gpus/0/information": "Model: \t\t A Card\nIRQ: 3\n",
    "sys/fs/cgroup/cgroup.procs": "",
    "sys/fs/cgroup/pod/cgroup.procs": "",
    "sys/fs/cgroup/pod/cpu.max": "150000 100000\n",
    "sys/fs/cgroup/pod/memory.max": "1073741824\n",
    "sys/fs/cgroup/pod/cpu.stat": "usage_usec 5\nnr_periods 9\nnr_throttled 2\nthrottled_usec 700\n",
    "sys/fs/cgroup/pod/box/cgroup.procs": "",
    "sys/fs/cgroup/pod/box/cpu.max": "max 100000\n",
    "sys/fs/cgroup/pod/box/cpu.stat": "usage_usec 5\nnr_periods 9\nnr_throttled 1\nthrottled_usec 50\n",
    "sys/fs/cgroup/pod/box/memory.max": "max\n",
    "sys/fs/cgroup/pod/box/memory.current": "4096\n",
    "sys/fs/cgroup/pod/box/cpuset.cpus.effective": "0-1\n",
    f"{CPU}/cpu0/topology/thread_siblings_list": "0-1\n",
    f"{CPU}/cpu1/topology/thread_siblings_list": "0-1\n",
    f"{CPU}/cpu0/topology/physical_package_id": "0\n",
    f"{CPU}/cpu1/topology/physical_package_id": "0\n",
    f"{CPU}/cpu0/cache/index0/level": "1\n",
    f"{CPU}/cpu0/cache/index0/type": "Data\n",
    f"{CPU}/cpu0/cache/index0/size": "48K\n",
    f"{CPU}/cpu0/cache/index0/shared_cpu_list": "0-1\n",
    f"{CPU}/cpufreq/policy0/scaling_governor": "powersave\n",
    f"{CPU}/cpufreq/policy1/scaling_governor": "powersave\n",
    f"{CPU}/cpufreq/policy0/scaling_driver": "intel_pstate\n",
    f"{CPU}/cpufreq/policy0/scaling_min_freq": "800000\n",
    f"{CPU}/cpufreq/policy0/scaling_max_freq": "3000000\n",
    f"{CPU}/cpufreq/policy0/scaling_cur_freq": "1500000\n",
    f"{CPU}/intel_pstate/no_turbo": "0\n",
    f"{CPU}/smt/active": "1\n",
    f"{CPU}/cpuidle/current_driver": "intel_idle\n",
    f"{CPU}/isolated": "\n",
    f"{CPU}/nohz_full": "3\n",
    "sys/devices/system/node/node0/cpulist": "0-1\n",
    "sys/devices/system/clocksource/clocksource0/current_clocksource": "tsc\n",
    "sys/devices/system/clocksource/clocksource0/available_clocksource": "tsc hpet acpi_pm\n",
    "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
    "sys/class/dmi/id/sys_vendor": "A Vendor\n",
    "sys/class/dmi/id/product_name": "A Product\n",
    "sys/class/thermal/thermal_zone0/temp": "41000\n",
    "sys/class/thermal/thermal_zone1/temp": "55500\n",
}
"""A machine that tells everything: two threads on one core, limited by the control group above its own."""


def tree(root: Path, files: Mapping[str, str | None]) -> Path:
    """Write files under a root; None removes one."""
    for name, content in files.items():
        path = root / name
        if content is None:
            path.unlink(missing_ok=True)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
    return root


def place(root: Path, **changes: object) -> Surroundings:
    """A process on the machine under `root`, with nothing installed and an empty environment."""
    for name in ("home/user/here", "program"):
        (root / name).mkdir(parents=True, exist_ok=True)
    facts: dict[str, object] = {
        "root": root,
        "environ": {},
        "argv": ("tokenload", "run"),
        "cwd": root / "home/user/here",
        "home": root / "home/user",
        "search_path": (),
        "modules": {},
        "program": root / "program",
    }
    return Surroundings(**{**facts, **changes})  # type: ignore[arg-type]


def test_a_machine_that_tells_everything_has_no_null(tmp_path: Path) -> None:
    """Where every file is there, hardware and readings are complete, but for what a program must tell."""
    here = place(tree(tmp_path, MACHINE))
    fields, reasons = find(hardware.FACTS, here)
    assert set(reasons) == {"gpu_state"}
    assert fields["cpu_model"] == "A Processor"
    assert fields["instruction_sets"] == ["amx_tile", "avx", "avx2", "avx512f", "sse4_2"]
    assert (fields["cpus"], fields["cores"], fields["sockets"], fields["smt_active"]) == (2, 1, 1, True)
    assert (fields["governor"], fields["turbo"], fields["guest"]) == (["powersave"], True, True)
    assert (fields["cgroup_cpus"], fields["cgroup_memory_bytes"], fields["cgroup_cpuset"]) == (1.5, 2**30, "0-1")
    assert fields["caches"] == [{"level": "1", "type": "Data", "size": "48K", "shared_cpu_list": "0-1"}]
    assert (fields["numa_nodes"], fields["numa_binding"]) == ({"node0": "0-1"}, "0-1")
    assert (fields["gpus"], fields["gpu_driver"]) == (["A Card"], "NVRM version: 1.2")
    assert fields["network_interface"] == [{"name": "eth0", "operstate": "up", "mtu": "1500"}]
    assert fields["transparent_huge_pages"] == "madvise"
    assert not during.read(here).reasons


def test_a_gpus_settings_are_read_and_never_set(tmp_path: Path) -> None:
    """As its own program tells them; one that fails leaves null with the reason."""
    program = tmp_path / "bin/nvidia-smi"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\necho "$1"; echo "A Card, 1980 MHz"\n')
    program.chmod(0o755)
    here = place(tree(tmp_path / "root", MACHINE), environ={"PATH": str(program.parent)})
    fields, reasons = find(hardware.FACTS, here)
    asked, state = fields["gpu_state"]
    assert asked.startswith("--query-gpu=name,clocks") and state == "A Card, 1980 MHz"
    assert "gpu_state" not in reasons
    program.write_text("#!/bin/sh\nexit 9\n")
    assert "does not answer" in find(hardware.FACTS, here)[1]["gpu_state"]


def test_readings_are_what_the_files_say(tmp_path: Path) -> None:
    """Each reading of the made-up machine has the value that stands in its file, in the unit of its name."""
    values = during.read(place(tree(tmp_path, MACHINE))).values
    ticks = os.sysconf("SC_CLK_TCK")
    assert (values["load_average"], values["runnable_threads"]) == (1.5, 3)
    assert (values["psi_cpu_some_us"], values["psi_io_full_us"]) == (4000, 30)
    assert (values["machine_cpu_s"], values["machine_busy_s"], values["steal_s"]) == (
        1000 / ticks, 170 / ticks, 10 / ticks,
    )  # fmt: skip
    assert (values["throttled_us"], values["throttled_periods"]) == (750, 3)
    assert values["run_queue_wait_ns"] == 2483861
    assert values["swap_used_bytes"] == 40 * 1024
    assert (values["frequency_khz"], values["temperature_celsius"]) == (1_500_000, 55.5)


def test_a_machine_that_tells_nothing_gives_nulls_with_reasons(tmp_path: Path) -> None:
    """Without /proc and /sys every fact of the machine is null, and each says which file was missing."""
    here = place(tmp_path)
    fields, reasons = find(hardware.FACTS, here)
    assert {name for name, value in fields.items() if value is None} == set(reasons)
    assert {name for name, value in fields.items() if value is not None} <= {"affinity"}
    assert reasons["cpu_model"] == "NO_FILE: /proc/cpuinfo"
    readings = during.read(here)
    assert readings.reasons["psi_cpu_some_us"] == "NO_FILE: /proc/pressure/cpu"
    assert {name for name, value in readings.values.items() if value is None} == set(readings.reasons)
    assert readings.values["monotonic_ns"] is not None


def test_one_missing_file_spoils_only_its_own_facts(tmp_path: Path) -> None:
    """Whatever file is taken away, nothing raises, and most of the rest is still read."""
    here = place(tree(tmp_path, MACHINE))
    for name, content in MACHINE.items():
        tree(tmp_path, {name: None})
        _, reasons = find(hardware.FACTS, here)
        assert len({**reasons, **during.read(here).reasons}) <= 12, name
        tree(tmp_path, {name: content})


@pytest.mark.parametrize("content", ["", "nonsense", "-1 -1 -1", "\x00\xff", "max"])
def test_no_content_of_a_file_makes_a_reader_raise(content: str, tmp_path: Path) -> None:
    """A damaged file is a null with a reason, or a value; it stops no stamp."""
    here = place(tree(tmp_path, MACHINE))
    for name, right in MACHINE.items():
        tree(tmp_path, {name: content})
        for fields, reasons in (find(hardware.FACTS, here), _both(during.read(here))):
            assert {field for field, value in fields.items() if value is None} == set(reasons), name
        tree(tmp_path, {name: right})


def _both(readings: during.Readings) -> tuple[Mapping[str, object], Mapping[str, str]]:
    return readings.values, readings.reasons


def test_no_limit_is_null_and_says_so(tmp_path: Path) -> None:
    """A group without limits is told from a kernel that does not tell."""
    root = tree(
        tmp_path, {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cgroup.procs": "", "sys/fs/cgroup/cpu.stat": ""}
    )
    for read in (cgroup.cpu_quota, cgroup.memory_limit_bytes):
        with pytest.raises(MissingError, match="NO_LIMIT"):
            read(root)
    with pytest.raises(MissingError, match="NO_FILE"):
        cgroup.throttled_us(root)


def test_limits_of_version_1_are_read(tmp_path: Path) -> None:
    """Version 1 has a folder a controller, quota and period in files of their own, and no-limit as a huge number."""
    root = tree(
        tmp_path,
        {
            "proc/self/cgroup": "5:memory:/box\n3:cpuset:/\n1:cpu,cpuacct:/box\n0::/\n",
            "sys/fs/cgroup/cpu,cpuacct/cgroup.procs": "",
            "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "-1",
            "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000",
            "sys/fs/cgroup/cpu,cpuacct/box/cgroup.procs": "",
            "sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_quota_us": "50000",
            "sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_period_us": "100000",
            "sys/fs/cgroup/cpu,cpuacct/box/cpu.stat": "nr_periods 4\nnr_throttled 2\nthrottled_time 3000000\n",
            "sys/fs/cgroup/memory/cgroup.procs": "",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712",
            "sys/fs/cgroup/memory/box/cgroup.procs": "",
            "sys/fs/cgroup/memory/box/memory.limit_in_bytes": "4096",
            "sys/fs/cgroup/memory/box/memory.usage_in_bytes": "1024",
            "sys/fs/cgroup/cpuset/cgroup.procs": "",
            "sys/fs/cgroup/cpuset/cpuset.effective_cpus": "0-3",
        },
    )
    assert cgroup.cpu_quota(root) == 0.5
    assert (cgroup.memory_limit_bytes(root), cgroup.memory_used_bytes(root)) == (4096, 1024)
    assert (cgroup.throttled_us(root), cgroup.throttled_periods(root)) == (3000, 2)
    assert cgroup.cpuset(root) == "0-3"


def test_a_group_out_of_sight_counts_as_the_topmost_in_sight(tmp_path: Path) -> None:
    """In a container the kernel may name a path that is mounted elsewhere: the mounted top is then its own group."""
    root = tree(
        tmp_path,
        {
            "proc/self/cgroup": "0::/somewhere/else\n",
            "sys/fs/cgroup/cgroup.procs": "",
            "sys/fs/cgroup/cpu.max": "200000 100000\n",
        },
    )
    assert cgroup.cpu_quota(root) == 2.0


def test_folders_come_in_numeric_order(tmp_path: Path) -> None:
    """cpu2 comes before cpu10."""
    root = tree(tmp_path, {f"{CPU}/cpu{number}/online": "1" for number in (10, 2, 1)})
    assert [path.name for path in kernel.folders(root, f"{CPU}/cpu*")] == ["cpu1", "cpu2", "cpu10"]


def test_what_happened_in_a_run_is_the_difference_of_its_ends() -> None:
    """Deltas are end minus start, rates are over the run's own length, and a part without an end says so."""
    values = dict.fromkeys(during.READINGS, 0)
    start = during.Readings({**values, "temperature_celsius": None}, {"temperature_celsius": "NO_FILE: x"})
    later = {
        "monotonic_ns": 2_000_000_000, "wall_ns": 2_000_200_000, "run_queue_wait_ns": 100_000_000,
        "psi_cpu_some_us": 500_000, "throttled_us": 20_000, "steal_s": 0.1, "machine_cpu_s": 4.0, "machine_busy_s": 3.0,
        "load_average": 2.5, "process_cpu_ns": 1_000_000_000,
    }  # fmt: skip
    end = during.Readings({**start.values, **later}, start.reasons)
    fields, reasons = during.fields_during(start, end)
    assert fields["load_average"] == {"start": 0, "end": 2.5, "delta": 2.5}
    assert fields["run_queue_wait_fraction"] == 0.05
    assert fields["psi_cpu_some_fraction"] == 0.25
    assert fields["throttled_fraction"] == pytest.approx(0.01)
    assert fields["steal_fraction"] == 0.025
    assert fields["machine_busy_fraction"] == 0.75
    assert fields["process_cpu_fraction"] == 0.5
    assert fields["wall_over_monotonic_ratio"] == pytest.approx(1.0001)
    assert reasons == {"temperature_celsius": "NO_FILE: x"}
    fields, reasons = during.fields_during(start, None)
    assert fields["load_average"] == {"start": 0, "end": None, "delta": None}
    assert reasons["load_average"] == reasons["steal_fraction"] == "NOT_ENDED"
    assert set(reasons) == set(fields)


def test_a_reading_that_is_lost_on_the_way_has_the_reason_of_its_end() -> None:
    """A file that goes away during the run leaves null and why, and a run without length has no rates."""
    start = during.Readings(dict.fromkeys(during.READINGS, 0), {})
    end = during.Readings({**start.values, "steal_s": None}, {"steal_s": "NO_FILE: /proc/stat"})
    fields, reasons = during.fields_during(start, end)
    assert fields["steal_s"]["end"] is None
    assert reasons["steal_s"] == reasons["steal_fraction"] == "NO_FILE: /proc/stat"
    assert reasons["run_queue_wait_fraction"] == "NO_TIME"
