"""Rules that read the rows alone: is everything there, did it end as it should, does it agree with itself?"""

from collections import Counter

import numpy as np

from results.columns import NULL, int64
from results.metrics import failed, little_error_ns
from results.status import NAMES, Status
from results.verdicts.applicability import Outcome
from results.verdicts.case import NOT_APPLICABLE, PASSED, TOO_LITTLE, Case, Mask, Ruling
from results.verdicts.silence import silence

NS_PER_S = 1e9
LONGEST_REASON_CHARACTERS = 160


def sends_missing(case: Case) -> Ruling:
    """Every scheduled request was sent; of a stopped run, every one that was due by the stop."""
    missing = case.expected & (case.recording.requests["status"] == Status.NOT_DISPATCHED)
    count = int(missing.sum())
    if count <= case.thresholds.missing_requests:
        return PASSED
    upto = "" if case.stop_ns is None else f" due by the stop at {case.stop_ns / NS_PER_S:.3f} s"
    return Ruling(
        Outcome.FAILED,
        f"{_of(count, case.expected)}{upto} were never sent",
        "see how the run ended: an engine that fails, or a driver that ends early, leaves the rest unsent; run again",
    )


def unfinished(case: Case) -> Ruling:
    """Nothing is left open after the drain."""
    count = int((case.counted & (case.recording.requests["status"] == Status.UNFINISHED)).sum())
    if count <= case.thresholds.unfinished_requests:
        return PASSED
    return Ruling(
        Outcome.FAILED,
        f"{_of(count, case.counted)} did not finish",
        "give the run a longer drain limit, or offer less load: what is cut off is always the slowest",
    )


def wrong_lengths(case: Case) -> Ruling:
    """Where the workload pins output lengths, requests got as many tokens as they asked for.

    An answer without a token is of wrong length too: every request asks for at least one.
    """
    if not case.recording.schedule.recipe.get("sampling", {}).get("ignore_eos", True):
        return NOT_APPLICABLE
    requests = case.recording.requests
    wrong = case.counted & np.isin(requests["status"], (int(Status.WRONG_LENGTH), int(Status.EMPTY)))
    got, asked = (int(int64(requests[name])[wrong].sum()) for name in ("output_tokens", "output_tokens_asked"))
    return _share_ruling(
        case,
        wrong,
        case.thresholds.wrong_length_fraction,
        f"ended with another number of tokens than they asked for: {got} in place of {asked}",
        "make the engine ignore its end token and honour max_tokens, or use a workload that does not pin lengths",
    )


def failures(case: Case) -> Ruling:
    """Few requests failed; failed is every status but those a request comes to by itself or by plan.

    A time limit near the SLO's own makes the tail what the limit is: TRUNCATED.
    """
    ruling = _failed_share(case)
    ratio, least = case.facts.timeout_slo_ratio, case.thresholds.timeout_slo_ratio
    if ruling.outcome is not Outcome.PASSED or ratio is None or ratio >= least:
        return ruling
    return Ruling(
        Outcome.WARNED,
        f"TRUNCATED: requests are aborted at {ratio:.3g} x the SLO's limit: what is beyond cannot show in the tail",
        f"set --timeout and --first-timeout to {least:g} x the limits of --slo or more, or leave them out",
    )


def _failed_share(case: Case) -> Ruling:
    bad = case.counted & failed(case.recording)
    counts = np.bincount(int64(case.recording.requests["status"])[bad], minlength=len(NAMES))
    kinds = ", ".join(f"{count} {name}" for name, count in zip(NAMES, counts, strict=True) if count)
    return _share_ruling(
        case,
        bad,
        case.thresholds.failed_fraction,
        f"failed: {kinds}{_most_told(case, bad)}{_since(case)}",
        "read the column error of the requests table, mend the cause, and run again",
    )


def _most_told(case: Case, bad: Mask) -> str:
    """The reason that most of them have."""
    told = Counter(str(error) for error in case.recording.requests["error"][bad] if error is not None)
    if not told:
        return ""
    reason, count = min(told.items(), key=lambda one: (-one[1], one[0]))
    return f"; {count} of them: {reason[:LONGEST_REASON_CHARACTERS]}"


def _since(case: Case) -> str:
    """What is more to the point than the kinds of failure: the server stopped answering."""
    found = silence(case.recording, case.expected) if case.over_wire else None
    if found is None or found.requests < case.thresholds.silent_requests:
        return ""
    if found.since_ns is None:
        return "; nothing ever answered: is it the right address, and is the server up?"
    return (
        f"; since {found.since_ns / NS_PER_S:.3f} s nothing answered any more, all {found.requests} requests due after "
        "it failed: the server died or could not be reached"
    )


def incomplete_file(case: Case) -> Ruling:
    """The rows are all there: the run came to its end, and no step is missing between two others."""
    remedy = "run again; what is here may be looked at, not used"
    if case.incomplete:
        return Ruling(Outcome.FAILED, "the run's process died: these are the rows it had written by then", remedy)
    steps = case.recording.steps
    follows = int64(steps["step"])[:-1] + int64(steps["n_steps"])[:-1]
    gaps = int((int64(steps["step"])[1:] != follows).sum())
    if gaps:
        return Ruling(Outcome.FAILED, f"the step table has {gaps} gaps: part of the recording was lost", remedy)
    return PASSED


def schedule_hash_mismatch(case: Case) -> Ruling:
    """What was played is what was fixed: the schedule's hash, and the due times of the rows."""
    schedule, wanted = case.recording.schedule, case.facts.schedule_sha256
    remedy = "run again from the schedule that was meant; figures of two schedules must not be compared"
    if schedule.sha256 != wanted:
        return Ruling(
            Outcome.FAILED, f"the schedule hashes to {schedule.sha256[:12]}, fixed was {wanted[:12]}", remedy
        )
    known = schedule.due_ns != NULL
    moved = int((int64(case.recording.requests["due_ns"])[known] != schedule.due_ns[known]).sum())
    if moved:
        return Ruling(Outcome.FAILED, f"{_of(moved, known)} have another due time than the schedule gave", remedy)
    return PASSED


def little_mismatch(case: Case) -> Ruling:
    """Sum of (end - due) over the rows = the in-flight counter's integral, from empty to empty (Little 1961)."""
    if case.incomplete:
        return NOT_APPLICABLE
    error_ns = little_error_ns(case.recording)
    if abs(error_ns) <= case.thresholds.little_error_ns:
        return PASSED
    return Ruling(
        Outcome.FAILED,
        f"the rows hold {abs(error_ns) / NS_PER_S:.9f} request-seconds {'more' if error_ns > 0 else 'less'} in flight "
        "than the counter that saw no row",
        "a row was lost, doubled or changed after the run: run again",
    )


def _share_ruling(case: Case, which: Mask, most: float, what: str, remedy: str) -> Ruling:
    total = int(case.counted.sum())
    if not total:
        return TOO_LITTLE
    count = int(which.sum())
    if count <= most * total:
        return PASSED
    text = f"{_of(count, case.counted)} ({count / total:.1%}, at most {most:.1%} may) {what}"
    return Ruling(Outcome.FAILED, text, remedy)


def _of(count: int, population: Mask) -> str:
    return f"{count} of {int(population.sum())} requests"
