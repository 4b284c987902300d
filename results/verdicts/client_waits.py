"""How long the client itself kept requests or steps waiting: its lateness, its run-queue wait, its billing.

An engine's own waits are not in here: what is due while a step runs waits for the engine.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from results.columns import NULL, int64, is_null
from results.metrics import Float64
from results.recording import Recording
from results.remote import column
from results.steps import ends_ns, starts_ns

Columns = Mapping[str, NDArray[np.generic]]


@dataclass(frozen=True, slots=True)
class Billing:
    """What the steps were charged, beside the wall time they took."""

    billed_ns: int
    wall_ns: int
    steps: int

    @property
    def billed_wall_ratio(self) -> float:
        """Near 1 when the engine had its processor to itself; below it when it was kept waiting."""
        return self.billed_ns / self.wall_ns


def client_lag_ns(recording: Recording) -> Float64:
    """Hand-over - max(due, end of the step running at the due time), per request; NaN where never handed over.

    A request that falls due between the client's last look and the start of a step waits for that one step too:
    the first step that ends after the due time is the engine's, all other waiting is the client's.
    """
    handed, due = int64(recording.requests["handed_ns"]), int64(recording.requests["due_ns"])
    had = (handed != NULL) & (due != NULL)
    lag = np.full(len(due), np.nan)
    lag[had] = handed[had] - due[had]
    begins, ends = starts_ns(recording.steps), ends_ns(recording.steps)
    at = np.searchsorted(ends, due, side="right")
    waited = had & (at < len(ends))
    begin, end = begins[at[waited]], ends[at[waited]]
    lag[waited] -= np.maximum(np.minimum(handed[waited], end) - np.maximum(due[waited], begin), 0)
    return lag


def sending_lag_ns(recording: Recording, capped: bool) -> Float64:
    """The client's lag. Where the user set a cap on requests in flight, up to the moment they were released to it:
    what they then waited for the cap is wanted, and in every latency."""
    released, due = column(recording.requests, "dispatched_ns"), int64(recording.requests["due_ns"])
    if not capped or is_null(released).all():
        return client_lag_ns(recording)
    return np.where(is_null(released) | is_null(due), np.nan, (released - due).astype(np.float64))


def overdue_fraction(recording: Recording, capped: bool, allowed_ns: int) -> float | None:
    """Time in which some request was late by more than is allowed / the run's length; overlaps count once.

    For clients that send many requests at once. None: nothing was sent.
    """
    lag, due = sending_lag_ns(recording, capped), int64(recording.requests["due_ns"])
    had = ~np.isnan(lag)
    run_ns = int(int64(recording.requests["end_ns"]).max(initial=0))
    if not had.any() or run_ns <= 0:
        return None
    order = np.argsort(due[had], kind="stable")
    begins = (due[had] + allowed_ns)[order]
    ends = np.maximum((due[had] + int64(lag[had]))[order], begins)
    covered = np.maximum.accumulate(ends)
    fresh = np.maximum(begins, np.concatenate([begins[:1], covered[:-1]]))
    return float(np.maximum(ends - fresh, 0).sum()) / run_ns


def late_fraction(recording: Recording) -> float | None:
    """Time in which something was due, no step ran and nothing was handed over / the run's length.

    Everything due is handed over together, so of each hand-over the longest lag counts. None: nothing was sent.
    """
    lag = client_lag_ns(recording)
    had = ~np.isnan(lag)
    requests_end = int64(recording.requests["end_ns"])
    run_ns = max(int(ends_ns(recording.steps).max(initial=0)), int(requests_end.max(initial=0)))
    if not had.any() or run_ns <= 0:
        return None
    moments, which = np.unique(int64(recording.requests["handed_ns"])[had], return_inverse=True)
    longest = np.zeros(len(moments))
    np.maximum.at(longest, which, lag[had])
    return float(longest.sum()) / run_ns


def run_queue_fraction(host: Columns) -> float | None:
    """Time the client was ready to run and did not / wall time, between the first and the last host sample.

    Of several client processes, the one that waited longest. None with fewer than two samples, or where the
    kernel does not tell.
    """
    shares = [_run_queue_fraction(one) for one in _by_worker(host)]
    return max((share for share in shares if share is not None), default=None)


def busiest_cpu_fraction(host: Columns, window_ns: int) -> float | None:
    """Highest CPU time / wall time of the client over any stretch of samples just as long as the window or longer.

    Of a run that is shorter, over all of it; of several client processes, the busiest. None with one sample.
    """
    shares = [_busiest_cpu_fraction(one, window_ns) for one in _by_worker(host)]
    return max((share for share in shares if share is not None), default=None)


def _by_worker(host: Columns) -> list[Columns]:
    """The samples of each client process; all of them, where they do not say whose they are."""
    if "worker_id" not in host:
        return [host]
    workers = int64(host["worker_id"])
    return [{name: values[workers == one] for name, values in host.items()} for one in np.unique(workers)]


def _run_queue_fraction(host: Columns) -> float | None:
    told = ~is_null(host["run_queue_wait_ns"])
    waits, wall = int64(host["run_queue_wait_ns"])[told], int64(host["wall_ns"])[told]
    if not len(wall) or wall[-1] <= wall[0]:
        return None
    return float(waits[-1] - waits[0]) / float(wall[-1] - wall[0])


def _busiest_cpu_fraction(host: Columns, window_ns: int) -> float | None:
    wall, used = int64(host["wall_ns"]), int64(host["process_cpu_ns"])
    if not len(wall) or wall[-1] <= wall[0]:
        return None
    until = np.searchsorted(wall, wall + window_ns)
    begins = (until < len(wall)).nonzero()[0]
    if not len(begins):
        return float(used[-1] - used[0]) / float(wall[-1] - wall[0])
    ends = until[begins]
    return float(((used[ends] - used[begins]) / (wall[ends] - wall[begins])).max())


def billing(steps: Columns) -> Billing | None:
    """Over all steps; None where no wall time was measured."""
    if "wall_ns" not in steps or not int(int64(steps["wall_ns"]).sum()):
        return None
    billed_ns = int((ends_ns(steps) - starts_ns(steps)).sum())
    return Billing(billed_ns, int(int64(steps["wall_ns"]).sum()), int(int64(steps["n_steps"]).sum()))
