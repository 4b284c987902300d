"""Rules about what surrounds one run: its warm-up, and the other runs of the same point."""

from results.applicability import Outcome
from results.case import PASSED, TOO_LITTLE, Case, Ruling


def warmup_leak(case: Case) -> Ruling:
    """The target was empty at time 0: nothing of the warm-up was still in it."""
    left, most = case.facts.left_in_flight_requests, case.thresholds.left_in_flight_requests
    if left is None:
        return TOO_LITTLE
    if left <= most:
        return PASSED
    return Ruling(
        Outcome.FAILED,
        f"{left} requests of the warm-up were still in the target when the run began",
        "let the warm-up drain, and let nobody else use the target",
    )


def warmup_not_converged(case: Case) -> Ruling:
    """The warm-up went on until service times no longer changed."""
    converged = case.facts.warmup_converged
    if converged is None:
        return TOO_LITTLE
    if converged:
        return PASSED
    return Ruling(
        Outcome.WARNED,
        "service times were still changing when the warm-up reached its limit",
        "warm up for longer, or take what is early in the run with care",
    )


def no_ci(case: Case) -> Ruling:
    """An honest interval comes from several independent runs."""
    repeats, least = case.facts.repeats, case.thresholds.interval_repeats
    if repeats >= least:
        return PASSED
    text = f"{repeats} independent run{'s' if repeats > 1 else ''}, an interval needs {least}"
    return Ruling(Outcome.FAILED, text, f"--repeats {case.thresholds.repeats}", {"interval": text})


def unstable(case: Case) -> Ruling:
    """The runs of a point agree with one another."""
    cv, most = case.facts.run_cv_ratio, case.thresholds.unstable_cv_ratio
    if cv is None:
        return TOO_LITTLE
    if cv <= most:
        return PASSED
    return Ruling(
        Outcome.WARNED,
        f"from run to run a headline figure varies by {cv:.1%} (standard deviation / mean), above {most:.0%}",
        "look for what changes between the runs, and repeat more often before you compare",
    )
