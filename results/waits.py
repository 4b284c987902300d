"""Why a request waited for its slot: for the running step, for a batch to be collected, or for a slot."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from results.columns import NULL, Int64, int64, is_null
from results.recording import Recording
from results.steps import ends_ns, starts_ns, step_starts_ns


@dataclass(frozen=True, slots=True)
class AdmissionWaits:
    """Waits in ns of the requests that got a slot, in the order of their ids; the three parts add up to all."""

    request_id: Int64
    all_ns: Int64
    """Slot start - due."""
    step_ns: Int64
    """Until the step ended that was running when it became due (one that started at that moment is not
    waited for)."""
    collect_ns: Int64
    """While no step was running: a batch waiting to be full."""
    slot_ns: Int64
    """The rest: slots were taken."""


def admission_waits(recording: Recording) -> AdmissionWaits | None:
    """None when the engine does not tell its admissions."""
    admitted = int64(recording.requests["admitted_step"])
    has = ~is_null(admitted)
    if not has.any():
        return None
    due = int64(recording.requests["due_ns"])[has]
    start = step_starts_ns(recording.steps, admitted[has])
    begins, ends = starts_ns(recording.steps), ends_ns(recording.steps)
    before = np.searchsorted(begins, due, side="left") - 1
    running_until = np.where(before >= 0, ends[np.maximum(before, 0)], due)
    step = np.maximum(np.minimum(running_until, start) - due, 0)
    collect = (start - due) - (_busy_before(begins, ends, start) - _busy_before(begins, ends, due))
    return AdmissionWaits(has.nonzero()[0], start - due, step, collect, start - due - step - collect)


def held_back_fraction(recording: Recording, span_ns: tuple[int, int | None] = (0, None)) -> float | None:
    """Time with requests waiting while no step runs / run time; None when nothing ran or nobody tells.

    Of a part of the run where told so; end None: to the run's end.
    """
    requests = recording.requests
    due = int64(requests["due_ns"])
    began = ~is_null(due) & (due != NULL)
    if not len(recording.steps["step"]) or is_null(requests["admitted_step"]).all():
        return None
    begins, ends = starts_ns(recording.steps), ends_ns(recording.steps)
    admitted = int64(requests["admitted_step"])
    has = ~is_null(admitted)
    left = np.where(is_null(requests["end_ns"]), ends[-1], int64(requests["end_ns"]))
    left[has] = step_starts_ns(recording.steps, admitted[has])
    run_ns = int(max(ends[-1], left[began].max()))
    held = _union(due[began], np.maximum(left[began], due[began]))
    low, high = span_ns[0], run_ns if span_ns[1] is None else span_ns[1]
    idle_from = np.clip(np.concatenate([[0], ends]), low, high)
    idle_to = np.clip(np.concatenate([begins, [run_ns]]), low, high)
    return _overlap(held, idle_from, idle_to) / (high - low) if high > low else None


def _busy_before(begins: Int64, ends: Int64, t_ns: Int64) -> Int64:
    """Time that steps were running before each t."""
    total = np.concatenate([[0], np.cumsum(ends - begins)])
    at = np.searchsorted(begins, t_ns, side="right")
    last = np.maximum(at - 1, 0)
    inside = np.where(at > 0, np.minimum(t_ns, ends[last]) - begins[last], 0)
    return int64(total[last] + inside)


def _union(begins: Int64, ends: Int64) -> tuple[Int64, Int64]:
    """Disjoint intervals that cover the same times."""
    order = np.argsort(begins, kind="stable")
    begins, reach = begins[order], np.maximum.accumulate(ends[order])
    new: NDArray[np.bool_] = np.concatenate([[True], begins[1:] > reach[:-1]])
    return begins[new], reach[np.concatenate([new[1:], [True]])]


def _overlap(intervals: tuple[Int64, Int64], begins: Int64, ends: Int64) -> int:
    """Total time in both families of disjoint, sorted intervals."""
    low, high = intervals
    covered = np.concatenate([[0], np.cumsum(high - low)])

    def before(t_ns: Int64) -> Int64:
        at = np.searchsorted(low, t_ns, side="right")
        last = np.maximum(at - 1, 0)
        return int64(covered[last] + np.where(at > 0, np.minimum(t_ns, high[last]) - low[last], 0))

    return int((before(ends) - before(begins)).sum())
