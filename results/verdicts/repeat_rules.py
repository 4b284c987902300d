"""Rules about what surrounds one run: its warm-up, and the other runs of the same point."""

import numpy as np

from results.figure_json import NS_PER_MS
from results.metrics import events_of, tpot_ns
from results.schedule import FILL
from results.stationarity import settles_late
from results.verdicts.applicability import Outcome
from results.verdicts.case import ONE_RATE, PASSED, TOO_LITTLE, Case, Ruling
from results.verdicts.overload import LoadState


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
    """The warm-up went on until service times no longer changed, and the run does not begin slower than it goes on."""
    converged, early = case.facts.warmup_converged, _slow_beginning(case)
    seen = ["service times were still changing when the warm-up reached its limit"] if converged is False else []
    seen += [f"early requests were served more slowly than later ones: {early}"] if early else []
    if seen:
        remedy = "warm up for longer, or leave the beginning out of what is measured (--fill)"
        return Ruling(Outcome.WARNED, "; ".join(seen), remedy)
    return TOO_LITTLE if converged is None else PASSED


def _slow_beginning(case: Case) -> str | None:
    """By MSER-5 on TPOT, which holds no queue: latencies that do wander enough to deceive it. Behind the fill alone."""
    recording = case.recording
    if case.mode != ONE_RATE or case.load.state is LoadState.OVERLOADED:
        return None
    order = np.argsort(recording.requests["due_ns"][case.expected], kind="stable")
    tpot = tpot_ns(recording, events_of(recording))[case.expected][order]
    filling = (recording.requests["phase"][case.expected][order] == FILL)[np.isfinite(tpot)]
    known = tpot[np.isfinite(tpot)] / NS_PER_MS
    half = len(known) // 2
    if len(known) < case.thresholds.beginning_requests or np.median(known[:half]) <= np.median(known[half:]):
        return None
    found = settles_late(known, int(filling.sum()))
    return f"{found} ms of TPOT" if found else None


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
