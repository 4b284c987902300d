"""Whether a run shows that its load can be carried: within the SLO, stable, and believable."""

from collections.abc import Mapping, Sequence
from typing import Any

from results.figures import read, shown
from results.verdicts.overload import LoadState

OF_THE_LOAD = ("FAILURES", "UNFINISHED", "WRONG_LENGTHS", "RATE_LIMITED", "TOO_FEW_REQUESTS")
"""Codes that a load beyond capacity brings about; any other one makes the probe worthless, not the engine slow."""


def meets(summary: Mapping[str, Any], verdict: Mapping[str, Any], least_fraction: float) -> tuple[bool, str]:
    """Whether it does, and why not in one line.

    Not judged (too few requests) counts as stable, so that a short probe can bracket; a suspicion does not.
    """
    if not verdict["valid"]:
        return False, f"INVALID: {', '.join(codes(verdict))}"
    state = str(verdict["load"]["state"])
    attainment, reason = read(summary, "attainment")
    if attainment is None:
        return False, f"attainment is not known: {reason}"
    told = f"attainment {shown('attainment', attainment)}, {state}"
    stable = state in (LoadState.STABLE, LoadState.NOT_JUDGED)
    return attainment >= least_fraction and stable, told


def codes(verdict: Mapping[str, Any]) -> list[str]:
    """Why it is INVALID."""
    return [str(one["code"]) for one in verdict["invalid"]]


def worthless(verdict: Mapping[str, Any]) -> Sequence[str]:
    """Codes that say nothing of what was measured: the client was late, the machine was busy."""
    return [code for code in codes(verdict) if code not in OF_THE_LOAD]
