"""Rules about the load and what may be concluded from it: overload, trends, closed loops, quantiles of too few."""

import numpy as np

from results.intervals import independence
from results.metrics import e2e_ns, events_of
from results.stats import sample_floor
from results.verdicts.applicability import Outcome
from results.verdicts.case import BURST, CHANGING, CLOSED, NOT_APPLICABLE, ONE_RATE, PASSED, TOO_LITTLE, Case, Ruling
from results.verdicts.overload import Load, LoadState, has_one_rate
from results.verdicts.samples import QUANTILES, sample_counts

QUEUE_BOUND = ("ttft_ms", "ttft_ok_ms", "e2e_ms", "norm_ms", "queue_wait_ms", "admission_wait_ms")
"""Figures of the summary that grow with the run's length when the load outruns the engine. TPOT, gaps, throughput
and slots do not: they are those of a saturated engine."""
QUEUE_BOUND_OVER_WIRE = ("ttft_ms", "ttft_ok_ms", "ttft_net_ms", "ttat_ms", "e2e_ms", "norm_ms")
"""The same of a server: what a request waits for before it is sent is the client's doing, and stays."""


def overloaded(case: Case) -> Ruling:
    """Withholds, as steady state, every latency that holds a wait in the queue."""
    load = case.load
    if not has_one_rate(case.recording.schedule):
        return NOT_APPLICABLE
    if load.state is LoadState.NOT_JUDGED:
        return TOO_LITTLE
    if load.state is not LoadState.OVERLOADED:
        return PASSED
    rho = f", utilisation about {load.rho_ratio:.2f}" if load.rho_ratio else ""
    text = f"of this run of {load.arrivals_requests} requests, grows with its length: {_signs(load)}{rho}"
    return Ruling(
        Outcome.FAILED,
        text,
        "offer less load; its throughput stands, as the throughput at saturation",
        dict.fromkeys(QUEUE_BOUND_OVER_WIRE if case.over_wire else QUEUE_BOUND, text),
    )


def suspect_trend(case: Case) -> Ruling:
    """One sign of overload without the other."""
    state = case.load.state
    if not has_one_rate(case.recording.schedule) or state is LoadState.OVERLOADED:
        return NOT_APPLICABLE
    if state is LoadState.NOT_JUDGED:
        return TOO_LITTLE
    if state is LoadState.STABLE:
        return PASSED
    return Ruling(
        Outcome.WARNED,
        f"one of the two signs of overload is there: {_signs(case.load)}",
        "the load is near what the engine carries: run longer (more --requests) or at a lower rate to tell",
    )


def non_stationary(case: Case) -> Ruling:
    """A load that changes by design has no steady state to be estimated."""
    if case.mode == CLOSED:
        return NOT_APPLICABLE
    if case.mode not in (BURST, CHANGING):
        return PASSED
    requests = int(case.counted.sum())
    what = f"a burst of {requests}" if case.mode == BURST else f"{requests} requests whose rate is not constant"
    return Ruling(
        Outcome.WARNED,
        f"the load is {what}: its figures are of this window of this schedule, not of a steady state",
        "quote them with the schedule; for a steady state use an arrival process of one rate",
    )


def capped(case: Case) -> Ruling:
    """A closed loop sends no faster than it is answered: its latencies are not those of an open system.

    So does an open schedule under a cap, whose latencies count from the schedule all the same.
    """
    if case.mode != CLOSED:
        return _under_a_cap(case)
    began = case.counted & (case.recording.schedule.due_ns == 0)
    burst = f"; {int(began.sum())} of them began at once, and are in every figure (--fill leaves them out)"
    return Ruling(
        Outcome.WARNED,
        f"{case.recording.schedule.origin.get('label') or 'closed loop'}: each request waits for an earlier one, so "
        f"the load falls when the engine slows down{burst if began.any() else ''}",
        "use an open arrival process (--arrival poisson --rate R) to see what users at that rate would see",
    )


def _under_a_cap(case: Case) -> Ruling:
    cap = case.facts.cap_requests
    if cap is None:
        return PASSED
    return Ruling(
        Outcome.WARNED,
        f"at most {cap} requests were let into the target at a time: no open loop, and the wait for a place is in "
        "every latency",
        "leave out --max-concurrency to see what users at that rate would see",
    )


def autocorrelated(case: Case) -> Ruling:
    """Requests tell about as much as independent ones: else an interval from this one run is too narrow."""
    lines = case.thresholds
    if case.mode != ONE_RATE or case.load.state is LoadState.OVERLOADED:
        return NOT_APPLICABLE
    latency = e2e_ns(case.recording, events_of(case.recording))[case.counted]
    in_order = latency[np.argsort(case.recording.requests["due_ns"][case.counted], kind="stable")]
    known = in_order[~np.isnan(in_order)]
    if len(known) < lines.effective_requests:
        return TOO_LITTLE
    lags, independent = independence(known)
    if independent >= lines.effective_fraction * len(known):
        return PASSED
    return Ruling(
        Outcome.WARNED,
        f"E2E of {len(known)} requests in a queue tell as much as {independent:.0f} independent ones (correlation with "
        f"the next {lags[0]:.2f})",
        "take intervals from independent runs (--repeats), not from the requests of one",
    )


def n_too_small(case: Case) -> Ruling:
    """A quantile needs ceil(1 / (1 - q)) values; those that have fewer are listed one by one."""
    withheld = {
        f"{metric}.{name}": f"{count} values, {name} needs {sample_floor(q)}"
        for metric, count in sample_counts(case.recording).items()
        for name, q in QUANTILES.items()
        if 0 < count < sample_floor(q)
    }
    if not withheld:
        return PASSED
    return Ruling(Outcome.FAILED, f"{len(withheld)} quantiles have too few values", "ask for more --requests", withheld)


def _signs(load: Load) -> str:
    p_latency = load.latency_p_fraction
    rising = "" if p_latency is None else f", latencies with one of p = {p_latency:.2g}"
    return (
        f"requests in flight grew by {load.growth_ratio or 0:.3g} of the {load.arrivals_requests} arrivals, "
        f"with a trend of p = {load.trend_p_fraction or 0:.2g}{rising}"
    )
