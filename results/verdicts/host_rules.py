"""Rules about the machine and the program, from the stamp: clocks, frequencies, quotas, neighbours, changes."""

import numpy as np

from results import metrics
from results.stats import quantile
from results.verdicts.applicability import Outcome
from results.verdicts.case import PASSED, TOO_LITTLE, Case, Ruling

NS_PER_MS = 1e6
PERFORMANCE = "performance"


def clock_skew(case: Case) -> Ruling:
    """The wall clock and the monotonic clock agree on how long the run took."""
    ratio, lines = case.facts.wall_over_monotonic_ratio, case.thresholds
    if ratio is None:
        return TOO_LITTLE
    off = abs(ratio - 1)
    text = f"wall and monotonic clock differ by {off:.3%} over the run"
    remedy = "let the clocks settle (a time daemon that steps or slews them, a suspended machine), and run again"
    if off > lines.skew_fraction:
        return Ruling(Outcome.FAILED, f"{text}, allowed are {lines.skew_fraction:g}", remedy)
    return Ruling(Outcome.WARNED, text, remedy) if off > lines.skew_warn_fraction else PASSED


def clock_uncertain(case: Case) -> Ruling:
    """The clocks of all workers are known well: by as much as one is off, its requests go out beside the schedule.

    Each latency is of one clock, and right all the same; what happened at the same time on two hosts is not.
    """
    off_ns, lines = case.facts.clock_uncertainty_ns, case.thresholds
    if off_ns is None:
        return TOO_LITTLE
    ttft = metrics.ttft_ns(case.recording, metrics.events_of(case.recording))[case.counted]
    median_ns = quantile(ttft[~np.isnan(ttft)], 0.5)[0] or 0.0
    most_ns = max(lines.clock_uncertain_ns, lines.clock_uncertain_ttft_ratio * median_ns)
    if off_ns <= most_ns:
        return PASSED
    return Ruling(
        Outcome.WARNED,
        f"a worker's clock may be off the master's by {off_ns / NS_PER_MS:.2f} ms, allowed are "
        f"{most_ns / NS_PER_MS:.2f} ms: its requests were sent by as much before or after their time",
        "put workers and master on one quick network and leave their hosts to them, or measure from one host",
    )


def dirty_tree(case: Case) -> Ruling:
    """The program that measured can be had again."""
    if case.facts.dirty_tree is None:
        return TOO_LITTLE
    if not case.facts.dirty_tree:
        return PASSED
    return Ruling(
        Outcome.WARNED,
        "tokenload itself ran from a checkout with changes that no commit has",
        "commit them, so that the figures can be reproduced",
    )


def governor(case: Case) -> Ruling:
    """The clock frequency does not follow the load."""
    found = case.facts.governors
    if not found:
        return TOO_LITTLE
    if set(found) == {PERFORMANCE}:
        return PASSED
    return Ruling(
        Outcome.WARNED,
        f"the CPU frequency governor is {', '.join(found)}: frequencies follow the load",
        "cpupower frequency-set -g performance",
    )


def throttled(case: Case) -> Ruling:
    """No control group held the run back."""
    share, most = case.facts.throttled_fraction, case.thresholds.throttled_fraction
    if share is None:
        return TOO_LITTLE
    if share <= most:
        return PASSED
    return Ruling(
        Outcome.WARNED,
        f"a control group held this process back for {share:.1%} of the run",
        "raise the CPU quota of the container, or use fewer threads",
    )


def contended_host(case: Case) -> Ruling:
    """The machine was left to the run. Said, not judged: what the client itself lost is HOST_CONTENTION."""
    facts, lines = case.facts, case.thresholds
    if facts.pressure_fraction is None and facts.steal_fraction is None:
        return TOO_LITTLE
    seen = []
    if (facts.pressure_fraction or 0.0) > lines.pressure_fraction:
        seen.append(f"some task of the machine waited for a CPU for {facts.pressure_fraction:.0%} of the run")
    if (facts.steal_fraction or 0.0) > lines.steal_fraction:
        seen.append(f"the hypervisor gave {facts.steal_fraction:.1%} of the CPUs' time to others")
    if not seen:
        return PASSED
    return Ruling(Outcome.WARNED, "; ".join(seen), "end what else computes here, or measure on a machine of its own")
