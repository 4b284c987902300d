"""Checks of the program: its threads, its Python and packages, its code, and the disk that runs are written to."""

import re
import tempfile

from results.stamp.checking import GIB, INVALID, MIB, OK, WARN, Machine, Seen, standing, told
from results.stamp.checkout import checkout
from results.stamp.kernel import MissingError
from results.stamp.packages import PROJECT, collisions, entries, installed, requirement

THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
LEAST_BYTES, ENOUGH_BYTES = 64 * MIB, GIB


def threads(machine: Machine) -> Seen:
    """Whether several threads would wait for each other in a busy loop.

    Two threads of torch's spin barrier and any third busy process make a step of a few ms take hundreds.
    """
    environ = machine.place.environ
    asked = {name: environ[name] for name in THREAD_VARIABLES if environ.get(name)}
    policy = environ.get("OMP_WAIT_POLICY", "").upper()
    most = max((int(text.partition(",")[0]) for text in asked.values()), default=1)
    spins = policy == "ACTIVE" or (most > 1 and policy != "PASSIVE")
    shown = ", ".join(f"{name}={text}" for name, text in asked.items()) or "no thread count is set"
    seen = f"{shown}, OMP_WAIT_POLICY={policy.lower() or 'unset'}, {len(machine.cpus)} CPUs"
    return WARN if spins or most > len(machine.cpus) else OK, seen


def free_space(machine: Machine) -> Seen:
    """Where run folders go."""
    free_bytes = told(machine.free_bytes, "free space")
    level = INVALID if free_bytes < LEAST_BYTES else WARN if free_bytes < ENOUGH_BYTES else OK
    return level, f"{free_bytes / GIB:.1f} GiB free"


def writable(machine: Machine) -> Seen:
    """Whether a run folder could be made."""
    try:
        with tempfile.TemporaryFile(dir=standing(machine.runs)) as file:
            file.write(b"tokenload")
    except OSError as error:
        return INVALID, f"nothing can be written there ({type(error).__name__})"
    return OK, "can be written"


def package_names(machine: Machine) -> Seen:
    """Whether somebody else's package answers to one of our names, and comes first."""
    place = machine.place
    found = collisions(entries(place.search_path, place.cwd), place.program, place.cwd)
    if not found:
        return OK, "only ours"
    seen = ", ".join(f"{one['package']} of {one['provided_by'] or one['where']}" for one in found)
    return INVALID if any(one["shadows"] for one in found) else WARN, seen


def python(machine: Machine) -> Seen:
    """Whether Python was built or started in a way that changes its speed."""
    marks = {
        "-O (assertions are off)": machine.python.optimised,
        "a debug build": machine.python.debug_build,
        "-X dev": machine.python.dev_mode,
    }
    found = [mark for mark, is_set in marks.items() if is_set]
    return (WARN, ", ".join(found)) if found else (OK, "plain")


def watchers(machine: Machine) -> Seen:
    """Whether something is called at every line: its time would be measured too."""
    found = machine.python.watchers
    return (INVALID, ", ".join(found)) if found else (OK, "none")


def torch(machine: Machine) -> Seen:
    """Whether the transformer can run; torch is not imported to find out."""
    search = entries(machine.place.search_path, machine.place.cwd)
    version, wanted = installed(search).get("torch"), requirement(search, "torch")
    if version is None:
        return WARN, "not installed: only the cost model and engines of your own can run"
    if wanted is None:
        raise MissingError(f"NOT_TOLD: the range for torch, in the metadata of {PROJECT}")
    return OK if in_range(version, wanted) else WARN, f"{version}, wanted {wanted}"


def in_range(version: str, wanted: str) -> bool:
    """Whether a version meets clauses of >=, <=, < and > such as `<2.14,>=2.6`; other clauses do not count."""
    rules = {
        ">=": lambda one, other: one >= other,
        "<=": lambda one, other: one <= other,
        ">": lambda one, other: one > other,
        "<": lambda one, other: one < other,
    }
    clauses = re.findall(r"([<>]=?)\s*([\d.]+)", wanted)
    return all(rules[sign](_numbers(version), _numbers(bound)) for sign, bound in clauses)


def _numbers(version: str) -> tuple[int, ...]:
    """2.10.0 and 2.10 are the same."""
    found = [int(part) for part in re.findall(r"\d+", re.split(r"[^\d.]", version, maxsplit=1)[0])]
    while found and found[-1] == 0:
        found.pop()
    return tuple(found)


def code(machine: Machine) -> Seen:
    """Whether the code that would run is a commit that others can get."""
    found = checkout(machine.place.program)
    seen = f"commit {found['commit'][:12]}"
    return (WARN, f"{seen} with changes") if found["dirty"] else (OK, seen)
