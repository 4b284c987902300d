"""The Python that runs: how it was built and started, and what looks over its shoulder."""

import gc
import os
import platform
import re
import sys
import sysconfig
import tracemalloc
from collections.abc import Mapping
from dataclasses import dataclass
from types import ModuleType

from results.stamp.canonical import Json


@dataclass(frozen=True, slots=True)
class Interpreter:
    """What changes how fast Python runs, or whether it checks itself."""

    optimised: bool
    """Started with -O: assertions are off."""
    debug_build: bool
    dev_mode: bool
    watchers: tuple[str, ...]
    """Tracers, profilers and coverage that are switched on."""


def interpreter(modules: Mapping[str, ModuleType]) -> Interpreter:
    """Of this process."""
    return Interpreter(
        optimised=sys.flags.optimize > 0,
        debug_build=bool(sysconfig.get_config_var("Py_DEBUG")),
        dev_mode=sys.flags.dev_mode,
        watchers=tuple(_watchers(modules)),
    )


def _watchers(modules: Mapping[str, ModuleType]) -> list[str]:
    found = []
    if sys.gettrace() is not None:
        found.append("trace function")
    if sys.getprofile() is not None:
        found.append("profile function")
    if tracemalloc.is_tracing():
        found.append("tracemalloc")
    monitoring = getattr(sys, "monitoring", None)
    if monitoring is not None:
        found.extend(f"monitoring: {name}" for number in range(6) if (name := monitoring.get_tool(number)))
    coverage = getattr(modules.get("coverage"), "Coverage", None)
    if coverage is not None and coverage.current() is not None and not found:
        found.append("coverage")
    return found


def garbage_collection() -> Json:
    """Before the run; the driver freezes and stops it while one lasts."""
    return {"enabled": gc.isenabled(), "thresholds": list(gc.get_threshold())}


def libc() -> str:
    """Name and version of the C library."""
    return os.confstr("CS_GNU_LIBC_VERSION") or " ".join(platform.libc_ver())


def numeric_libraries(maps: str) -> list[str]:
    """File names of the BLAS, OpenMP and oneDNN libraries in the text of /proc/self/maps."""
    names = {line.rpartition("/")[2] for line in maps.splitlines() if ".so" in line}
    return sorted(name for name in names if re.search(r"blas|mkl|lapack|omp|dnnl|onednn", name, re.IGNORECASE))
