"""Rules about the sends of a client on the wall clock: did they keep to their plan, and could it have carried more?"""

import re

import numpy as np

from results import metrics
from results.columns import NULL, Int64, int64
from results.metrics import Float64
from results.remote import column
from results.status import Status
from results.verdicts.applicability import Outcome
from results.verdicts.case import CLOSED, NOT_APPLICABLE, PASSED, TOO_LITTLE, Case, Ruling
from results.verdicts.client_waits import busiest_cpu_fraction, sending_lag_ns

NS_PER_MS, NS_PER_S = 1e6, 1e9
TENTHS = 10
MORE_CLIENT = "spread the client over more processes (--processes), give it a faster core, or offer less load"
_OURS = re.compile(
    r"EADDRNOTAVAIL|EMFILE|ENFILE|\[Errno (?:99|49|24|23)\]|cannot assign requested address"
    r"|can't assign requested address|too many open files",
    re.IGNORECASE,
)
"""Marks of what the kernel refuses to us, in an error of ours: no port is left, or no descriptor."""


def schedule_drift(case: Case) -> Ruling:
    """Lateness does not grow (or shrink) over the run: a clock that is off, or a loop that never catches up."""
    lines, due, _, lag = case.thresholds, *_in_order(case)
    if len(lag) < max(lines.drift_requests, TENTHS):
        return TOO_LITTLE
    tenth = len(lag) // TENTHS
    drift_ns = float(np.median(lag[-tenth:]) - np.median(lag[:tenth]))
    allowed_ns = lines.drift_ns + lines.drift_gap_ratio * float(due[-1] - due[0]) / (len(due) - 1)
    if abs(drift_ns) <= allowed_ns:
        return PASSED
    return Ruling(
        Outcome.FAILED,
        f"the median lateness of the last tenth of the hand-overs is {drift_ns / NS_PER_MS:+.2f} ms off that of the "
        f"first tenth, allowed are {allowed_ns / NS_PER_MS:.2f} ms",
        MORE_CLIENT,
    )


def bursted(case: Case) -> Ruling:
    """Requests go out in the order of their plan, and what was held up does not come in a heap."""
    if case.mode == CLOSED:
        return NOT_APPLICABLE
    lines, due, sent, lag = case.thresholds, *_in_order(case)
    if not len(lag):
        return TOO_LITTLE
    overtaken = int((sent < np.maximum.accumulate(sent) - lines.late_ns).sum())
    planned = _most_in_a_bin(due, lines.burst_bin_ns)
    late = _most_in_a_bin(sent[lag > lines.late_ns], lines.burst_bin_ns)
    seen = [f"{overtaken} of {len(lag)} requests were overtaken by later ones"] if overtaken else []
    if late > lines.burst_ratio * planned:
        seen.append(
            f"{late} late requests went out within {lines.burst_bin_ns / NS_PER_MS:g} ms, where at most {planned} were "
            "planned"
        )
    return Ruling(Outcome.WARNED, "; ".join(seen), MORE_CLIENT) if seen else PASSED


def client_saturated(case: Case) -> Ruling:
    """The client had room: within half of what it carried when calibrated, and off its core often enough."""
    lines, facts = case.thresholds, case.facts
    events_eps = _busiest_second_eps(metrics.events_of(case.recording).t_ns)
    cpu = busiest_cpu_fraction(case.recording.host, lines.client_cpu_window_ns) if case.over_wire else None
    seen = []
    if facts.ceiling_eps and events_eps > lines.ceiling_fraction * facts.ceiling_eps:
        seen.append(
            f"{events_eps:,.0f} events came in one second, more than {lines.ceiling_fraction:.0%} of the "
            f"{facts.ceiling_eps:,.0f} that this client was calibrated to"
        )
    if cpu is not None and cpu > lines.client_cpu_fraction:
        seen.append(f"the client used {cpu:.0%} of a core, allowed are {lines.client_cpu_fraction:.0%}")
    if seen:
        return Ruling(Outcome.FAILED, "; ".join(seen), MORE_CLIENT)
    return PASSED if facts.ceiling_eps else TOO_LITTLE


def ports_exhausted(case: Case) -> Ruling:
    """No connection failed because this machine had no port or descriptor left. Read from our own errors alone."""
    requests = case.recording.requests
    own = np.isin(requests["status"], (int(Status.TRANSPORT_ERROR), int(Status.TIMEOUT_CONNECT)))
    unanswered = case.expected & own & (column(requests, "http_status") == NULL)
    count = sum(bool(_OURS.search(str(text))) for text in requests["error"][unanswered])
    if count <= case.thresholds.ports_exhausted_requests:
        return PASSED
    return Ruling(
        Outcome.FAILED,
        f"{count} connections failed for want of a local port or descriptor: the client's limit, not the server's",
        "reuse connections, raise ulimit -n and net.ipv4.ip_local_port_range, or use several client addresses",
    )


def _in_order(case: Case) -> tuple[Int64, Int64, Float64]:
    """Due times, moments of sending and lags of what was handed over, in the order of the plan.

    Under a cap the moment is that of the release to it.
    """
    capped = case.facts.cap_requests is not None
    lag = sending_lag_ns(case.recording, capped)
    had = case.counted & ~np.isnan(lag)
    due = int64(case.recording.requests["due_ns"])[had]
    sent = due + int64(lag[had]) if capped else int64(case.recording.requests["handed_ns"])[had]
    order = np.argsort(due, kind="stable")
    return due[order], sent[order], lag[had][order]


def _most_in_a_bin(t_ns: Int64, bin_ns: int) -> int:
    return int(np.unique(t_ns // max(bin_ns, 1), return_counts=True)[1].max(initial=0))


def _busiest_second_eps(t_ns: Int64) -> float:
    return float(_most_in_a_bin(t_ns, int(NS_PER_S)))
