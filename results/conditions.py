"""The conditions of a run: what of machine and software may have shaped its numbers.

One canonical JSON document; what cannot be known is null with its reason beside it.
"""

import os
import platform
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

Json = dict[str, Any]
PACKAGES = ("tokenload", "numpy", "pyarrow", "torch", "click", "rich")
ENVIRONMENT = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "OMP_WAIT_POLICY", "PYTHONHASHSEED")
"""The only variables that are read: none of them can hold a secret."""


def conditions() -> Json:
    """Of this process, now."""
    found: Json = {}
    reasons: Json = {}
    for name, read in FACTS.items():
        try:
            found[name] = read()
        except Exception as error:
            found[name] = None
            reasons[name] = type(error).__name__
    return {**found, "reasons": reasons}


def _packages() -> Json:
    installed: Json = {}
    for name in PACKAGES:
        try:
            installed[name] = version(name)
        except PackageNotFoundError:
            installed[name] = None
    return installed


def _cpu_model() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))


def _git_commit() -> Json:
    """Of the checkout the program runs from."""
    here = Path(__file__).resolve().parent
    if Path(_git(here, "rev-parse", "--show-toplevel").strip()) != here.parent:
        raise LookupError("not a checkout of its own")
    lines = _git(here, "status", "--porcelain=v2", "--branch", "--untracked-files=no").splitlines()
    commit = next(line.split()[-1] for line in lines if line.startswith("# branch.oid"))
    return {"commit": commit, "dirty": any(not line.startswith("#") for line in lines)}


def _git(folder: Path, *arguments: str) -> str:
    command = ["git", "-C", str(folder), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=5).stdout


FACTS: dict[str, Callable[[], Any]] = {
    "python": lambda: platform.python_version(),
    "implementation": lambda: platform.python_implementation(),
    "platform": lambda: platform.platform(),
    "cpu_model": _cpu_model,
    "cpu_count": lambda: os.cpu_count(),
    "cpu_affinity": lambda: sorted(os.sched_getaffinity(0)),
    "load_average": lambda: list(os.getloadavg()),
    "clock_source": lambda: (
        Path("/sys/devices/system/clocksource/clocksource0/current_clocksource").read_text().strip()
    ),
    "packages": _packages,
    "environment": lambda: {name: os.environ.get(name) for name in ENVIRONMENT},
    "git": _git_commit,
    "thread_switch_interval_s": lambda: sys.getswitchinterval(),
}
"""Name -> how to find out. To stamp one fact more: one row."""
