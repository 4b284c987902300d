"""Rules about the client and its host: did it hand over on time, and did it have its processor to itself?"""

import numpy as np

from results import metrics
from results.stats import quantile
from results.verdicts.applicability import CHARGED, Outcome
from results.verdicts.case import PASSED, TOO_LITTLE, Case, Ruling
from results.verdicts.client_waits import billing, late_fraction, overdue_fraction, run_queue_fraction, sending_lag_ns

NS_PER_MS = 1e6
QUIET = "leave the machine to the run: end what else computes, give it cores of its own, or use fewer threads"


def client_late(case: Case) -> Ruling:
    """Lateness stays within its budget; it counts into every latency, so it can only hurt the score."""
    lag = sending_lag_ns(case.recording, capped=case.facts.cap_requests is not None)[case.counted]
    ttft = metrics.ttft_ns(case.recording, metrics.events_of(case.recording))[case.counted]
    handed = ~np.isnan(lag)
    if not handed.any():
        return TOO_LITTLE
    over = _over_budget(case, np.sort(lag[handed]), ttft)
    answered = handed & np.isfinite(ttft)
    total_ns = float(ttft[answered].sum())
    share = float(lag[answered].sum()) / total_ns if total_ns > 0 else 0.0
    if share > case.thresholds.lag_sum_fraction:
        over.append(f"lateness is {share:.1%} of all TTFT together, allowed are {case.thresholds.lag_sum_fraction:.1%}")
    if over:
        return Ruling(Outcome.FAILED, "; ".join(over), QUIET)
    if share > case.thresholds.lag_sum_warn_fraction:
        return Ruling(Outcome.WARNED, f"lateness is {share:.1%} of all TTFT together", QUIET)
    return PASSED


def _over_budget(case: Case, lag: metrics.Float64, ttft: metrics.Float64) -> list[str]:
    """The limits that the sorted lags exceed: of the lag that 99 % keep within, and of the longest."""
    lines = case.thresholds
    median = quantile(ttft[~np.isnan(ttft)], 0.5)[0] or 0.0
    nearly_all = float(lag[int(np.ceil(0.99 * len(lag))) - 1])
    found = (
        ("p99", nearly_all, max(lines.lag_p99_ns, lines.lag_p99_ttft_ratio * median)),
        ("max", float(lag[-1]), max(lines.lag_max_ns, lines.lag_max_ttft_ratio * median)),
    )
    return [
        f"the {name} lateness of {len(lag)} hand-overs is {value / NS_PER_MS:.1f} ms, "
        f"allowed are {limit / NS_PER_MS:.1f} ms"
        for name, value, limit in found
        if value > limit
    ]


def host_contention(case: Case) -> Ruling:
    """The client is judged by its own waits; what else the machine did is no fault while it did not wait."""
    return _charged_host(case) if case.facts.kind_of_run == CHARGED else _real_host(case)


def _real_host(case: Case) -> Ruling:
    most = case.thresholds.own_wait_fraction
    queued, late = run_queue_fraction(case.recording.host), _late_fraction(case)
    seen = [
        f"the client {what} for {share:.1%} of the run, allowed are {most:.1%}"
        for what, share in (("waited for a processor", queued), ("was late", late))
        if share is not None and share > most
    ]
    if seen:
        return Ruling(Outcome.FAILED, "; ".join(seen), QUIET)
    return TOO_LITTLE if queued is None or late is None else PASSED


def _late_fraction(case: Case) -> float | None:
    """A client of a server sends while other requests run: only what exceeds the usual lateness is held against it."""
    if not case.over_wire:
        return late_fraction(case.recording)
    return overdue_fraction(case.recording, case.facts.cap_requests is not None, case.thresholds.late_ns)


def _charged_host(case: Case) -> Ruling:
    """Waiting costs nothing in charged time, unless it has spoiled what was charged."""
    lines, billed = case.thresholds, billing(case.recording.steps)
    queued = run_queue_fraction(case.recording.host)
    judged = billed is not None and billed.wall_ns >= lines.billed_step_ns * billed.steps
    if billed is not None and judged:
        ratio = billed.billed_wall_ratio
        if not lines.billed_least_ratio <= ratio <= lines.billed_most_ratio:
            text = (
                f"the steps were charged {ratio:.2f} of the wall time they took, believable is "
                f"{lines.billed_least_ratio:g} to {lines.billed_most_ratio:g}"
            )
            return Ruling(Outcome.FAILED, text, QUIET)
    if queued is not None and queued > lines.own_wait_fraction:
        text = f"the client waited for a processor for {queued:.1%} of the run: what was charged may be too high"
        return Ruling(Outcome.WARNED, text, QUIET)
    return PASSED if judged else TOO_LITTLE
