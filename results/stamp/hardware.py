"""Group 5: the machine as far as it stays the same: processor, memory, limits, clock, what a kernel was told."""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from results.stamp import cgroup
from results.stamp.canonical import Json
from results.stamp.facts import INFO, Fact
from results.stamp.kernel import MissingError, chosen, cpu_value, distinct, folders, memory_bytes, text, whole
from results.stamp.surroundings import Surroundings

CPU = "sys/devices/system/cpu"
CLOCK = "sys/devices/system/clocksource/clocksource0"
KHZ_PER_MHZ = 1000
LONGEST_S = 5
GPU_FIELDS = (
    "name", "clocks.max.sm", "clocks.applications.graphics", "power.limit", "ecc.mode.current", "mig.mode.current",
)  # fmt: skip
NUMERIC_FLAGS = ("sse4_2", "avx", "f16c", "fma", "neon", "asimd", "sve")
NUMERIC_FAMILIES = ("avx2", "avx512", "avx_vnni", "amx", "sve2", "i8mm", "bf16")


def instruction_sets(here: Surroundings) -> list[str]:
    """Those that decide how fast arithmetic on vectors and matrices goes."""
    flags = cpu_value(here.root, "flags", "Features").split()
    return sorted(flag for flag in flags if flag in NUMERIC_FLAGS or flag.startswith(NUMERIC_FAMILIES))


def _caches(here: Surroundings) -> list[Json]:
    names = ("level", "type", "size", "shared_cpu_list")
    return [
        {name: text(here.root, str((index / name).relative_to(here.root))) for name in names}
        for index in folders(here.root, f"{CPU}/cpu0/cache/index*")
    ]


def _numa(here: Surroundings) -> Json:
    nodes = folders(here.root, "sys/devices/system/node/node[0-9]*")
    return {node.name: text(here.root, str((node / "cpulist").relative_to(here.root))) for node in nodes}


def turbo(here: Surroundings) -> bool:
    """Whether the clock may rise above its nominal frequency."""
    if (here.root / CPU / "intel_pstate/no_turbo").exists():
        return whole(here.root, f"{CPU}/intel_pstate/no_turbo") == 0
    return whole(here.root, f"{CPU}/cpufreq/boost") == 1


def governors(here: Surroundings) -> list[str]:
    """Of all frequency policies."""
    return distinct(here.root, f"{CPU}/cpufreq/policy*/scaling_governor")


def frequencies_khz(here: Surroundings) -> list[float]:
    """Of each frequency policy, at this moment; else what the first CPU is said to run at."""
    try:
        paths = folders(here.root, f"{CPU}/cpufreq/policy*/scaling_cur_freq")
        return [float(text(here.root, str(path.relative_to(here.root)))) for path in paths]
    except MissingError:
        return [float(cpu_value(here.root, "cpu MHz")) * KHZ_PER_MHZ]


def highest_khz(here: Surroundings) -> int:
    """That any CPU may run at."""
    return max(int(one) for one in _policy("scaling_max_freq")(here))


def _policy(name: str) -> Callable[[Surroundings], list[str]]:
    return lambda here: distinct(here.root, f"{CPU}/cpufreq/policy*/{name}")


def _file(path: str) -> Callable[[Surroundings], str]:
    return lambda here: text(here.root, path)


def _guest(here: Surroundings) -> bool:
    """Whether the processor says that a hypervisor runs it."""
    return "hypervisor" in cpu_value(here.root, "flags").split()


def _gpus(here: Surroundings) -> list[str]:
    found = folders(here.root, "proc/driver/nvidia/gpus/*/information")
    lines = [line for path in found for line in text(here.root, str(path.relative_to(here.root))).splitlines()]
    return [line.partition(":")[2].strip() for line in lines if line.startswith("Model")]


def _bound_memory(here: Surroundings) -> str:
    for line in text(here.root, "proc/self/status").splitlines():
        if line.startswith("Mems_allowed_list:"):
            return line.partition(":")[2].strip()
    raise MissingError("NOT_TOLD: Mems_allowed_list in /proc/self/status")


def _networks(here: Surroundings) -> list[Json]:
    """Interfaces but the loopback, each with what it tells: many have no speed."""
    found = [path for path in folders(here.root, "sys/class/net/*") if path.name != "lo"]
    return [{"name": path.name, **_told(here, path, ("operstate", "mtu", "speed", "duplex"))} for path in found]


def _told(here: Surroundings, folder: Path, names: Iterable[str]) -> Json:
    found = {}
    for name in names:
        with suppress(MissingError):
            found[name] = text(here.root, str((folder / name).relative_to(here.root)))
    return found


def _gpu_state(here: Surroundings) -> list[str]:
    """Clocks, power limit, ECC and MIG of each, as its driver tells them; nothing is set."""
    program = shutil.which("nvidia-smi", path=here.environ.get("PATH", ""))
    if program is None:
        raise MissingError("NOT_TOLD: no nvidia-smi on the path")
    words = [program, f"--query-gpu={','.join(GPU_FIELDS)}", "--format=csv,noheader"]
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=LONGEST_S)
    except (OSError, subprocess.SubprocessError) as error:
        raise MissingError(f"NOT_TOLD: nvidia-smi does not answer ({type(error).__name__})") from None
    return done.stdout.splitlines()


FACTS: dict[str, Fact] = {
    "cpu_model": Fact(lambda here: cpu_value(here.root, "model name", "CPU part", "cpu model")),
    "cpu_vendor": Fact(lambda here: cpu_value(here.root, "vendor_id", "CPU implementer")),
    "cpu_family": Fact(lambda here: cpu_value(here.root, "cpu family", "CPU architecture")),
    "cpu_stepping": Fact(lambda here: cpu_value(here.root, "stepping", "CPU revision")),
    "microcode": Fact(lambda here: cpu_value(here.root, "microcode")),
    "instruction_sets": Fact(instruction_sets),
    "cpus": Fact(lambda here: len(folders(here.root, f"{CPU}/cpu[0-9]*"))),
    "cores": Fact(lambda here: len(distinct(here.root, f"{CPU}/cpu[0-9]*/topology/thread_siblings_list"))),
    "sockets": Fact(lambda here: len(distinct(here.root, f"{CPU}/cpu[0-9]*/topology/physical_package_id"))),
    "smt_active": Fact(lambda here: whole(here.root, f"{CPU}/smt/active") == 1),
    "caches": Fact(_caches),
    "numa_nodes": Fact(_numa),
    "numa_binding": Fact(_bound_memory),
    "affinity": Fact(lambda here: sorted(os.sched_getaffinity(0))),
    "governor": Fact(governors),
    "frequency_driver": Fact(_policy("scaling_driver")),
    "frequency_min_khz": Fact(_policy("scaling_min_freq")),
    "frequency_max_khz": Fact(_policy("scaling_max_freq")),
    "turbo": Fact(turbo),
    "idle_driver": Fact(_file(f"{CPU}/cpuidle/current_driver"), INFO),
    "isolated_cpus": Fact(_file(f"{CPU}/isolated")),
    "nohz_full_cpus": Fact(_file(f"{CPU}/nohz_full")),
    "transparent_huge_pages": Fact(lambda here: chosen(text(here.root, "sys/kernel/mm/transparent_hugepage/enabled"))),
    "address_randomisation": Fact(lambda here: whole(here.root, "proc/sys/kernel/randomize_va_space"), INFO),
    "memory_bytes": Fact(lambda here: memory_bytes(here.root, "MemTotal")),
    "swap_bytes": Fact(lambda here: memory_bytes(here.root, "SwapTotal")),
    "swappiness": Fact(lambda here: whole(here.root, "proc/sys/vm/swappiness"), INFO),
    "cgroup_cpus": Fact(lambda here: cgroup.cpu_quota(here.root)),
    "cgroup_cpuset": Fact(lambda here: cgroup.cpuset(here.root)),
    "cgroup_memory_bytes": Fact(lambda here: cgroup.memory_limit_bytes(here.root)),
    "guest": Fact(_guest),
    "machine_vendor": Fact(_file("sys/class/dmi/id/sys_vendor")),
    "machine_product": Fact(_file("sys/class/dmi/id/product_name")),
    "clock_source": Fact(_file(f"{CLOCK}/current_clocksource")),
    "clock_sources": Fact(lambda here: text(here.root, f"{CLOCK}/available_clocksource").split(), INFO),
    "gpus": Fact(_gpus),
    "gpu_driver": Fact(lambda here: text(here.root, "proc/driver/nvidia/version").splitlines()[0]),
    "gpu_state": Fact(_gpu_state),
    "network_interface": Fact(_networks, INFO),
}
