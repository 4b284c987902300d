"""Group 1: which program ran, from which code, with which arguments and environment."""

from collections.abc import Mapping

from results.stamp.checkout import checkout
from results.stamp.facts import INFO, Fact
from results.stamp.kernel import MissingError
from results.stamp.packages import PROJECT, entries, installed
from results.stamp.surroundings import Surroundings

READ_VARIABLES = ("PYTHONHASHSEED", "LD_PRELOAD")
READ_PREFIXES = (
    "OMP_", "GOMP_", "KMP_", "MKL_", "OPENBLAS_", "TORCH", "PYTORCH_", "CUDA", "MALLOC", "HF_",
)  # fmt: skip
NEVER_READ = ("TOKEN", "KEY", "SECRET", "PASS", "CREDENTIAL", "AUTH", "COOKIE")
"""Wherever one of these stands in its name, a variable is left alone."""

EXPECTED = {"config_requested": INFO, "config_effective": INFO}
"""What the caller is to tell: the options as typed, and all of them as used."""
OCCASION = {
    "run_id": INFO, "started_utc": INFO, "ended_utc": INFO, "order_index": INFO, "since_previous_run_s": INFO,
}  # fmt: skip
"""What is different each time and so stands in a group of its own, `run`."""


def environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables on the list that are set; no other value is ever looked at."""
    return {name: environ[name] for name in sorted(environ) if _may_be_read(name)}


def _may_be_read(name: str) -> bool:
    listed = name in READ_VARIABLES or name.startswith(READ_PREFIXES)
    return listed and not any(word in name.upper() for word in NEVER_READ)


def _version(here: Surroundings) -> str:
    found = installed(entries(here.search_path, here.cwd)).get(PROJECT)
    if found is None:
        raise MissingError("NOT_INSTALLED: no metadata on the search path")
    return found


FACTS: dict[str, Fact] = {
    "tool_version": Fact(_version),
    "argv": Fact(lambda here: list(here.argv), INFO),
    "cwd": Fact(lambda here: here.cwd, INFO),
    "environment": Fact(lambda here: environment(here.environ)),
    "git": Fact(lambda here: checkout(here.program)),
}
