"""What steers a run: Ctrl-C, a disk that refuses, a server that is gone, too many failures."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

from loadgen.config import RunConfig
from loadgen.drive import Decision
from results.columns import Int64, int64, is_null
from results.recording import RecordingPart
from results.status import COMPLETED, NOT_FAILURES, Status
from targets.target import Reply

Progress = Callable[[int], None]
"""Called with how many requests have ended so far."""
GONE_AFTER_NS = 2_000_000_000
GONE_AFTER_REQUESTS = 5
"""A server is gone when so many requests in a row, over so long a time, found nobody."""
NOBODY = (Status.TRANSPORT_ERROR, Status.TIMEOUT_CONNECT)
NS_PER_S = 1e9
DRAIN_RATIO = 5


class Steering:
    """Ctrl-C once: hand over nothing more and drain; twice: abort what is left."""

    def __init__(self, config: RunConfig, progress: Progress, drain_ns: int | None) -> None:
        """`drain_ns`: how long after the last due time the rest may take; None: as long as it takes.

        Where the user did not say so, it becomes longer when requests take long.
        """
        self.timeout_ns = config.timeout_ns
        self.drain_ns = drain_ns
        self._usual_drain_ns = drain_ns if config.drain_ns is None else None
        self._took_ns: list[Int64] = []
        self._longest_ns = 0
        self.max_requests = config.max_concurrency
        self.decision = Decision.GO
        self.stops = 0
        self.reason: str | None = None
        """Why the run was ended early, where nobody asked for it."""
        self._progress = progress
        self._stop_after = config.stop_after_failures
        self._ended_requests = self._failed_requests = self._unanswered_requests = 0
        self._unanswered_since_ns = 0

    def __call__(self, now_ns: int, newest: RecordingPart | None) -> Decision:
        """Show how far it is, and say how to go on."""
        self._progress(self._ended_requests)
        return self.decision

    def count(self, part: RecordingPart) -> None:
        """A part has been emitted."""
        requests = part.tables["requests"]
        self._ended_requests += len(requests["request_id"])
        if self._usual_drain_ns is not None:
            due_ns, end_ns = int64(requests["due_ns"]), int64(requests["end_ns"])
            known = ~(is_null(due_ns) | is_null(end_ns))
            self._lengthen_drain(end_ns[known] - due_ns[known], self._usual_drain_ns)

    def _lengthen_drain(self, took_ns: Int64, usual_ns: int) -> None:
        """Five times what 99 % of the requests so far took: a server that takes minutes has not stopped answering."""
        self._took_ns.append(took_ns)
        self._longest_ns = max(self._longest_ns, int(took_ns.max(initial=0)))
        if DRAIN_RATIO * self._longest_ns > usual_ns:  # else it cannot matter, and need not be computed
            nearly_all_ns = np.quantile(np.concatenate(self._took_ns), 0.99, method="median_unbiased")
            self.drain_ns = max(usual_ns, round(DRAIN_RATIO * float(nearly_all_ns)))

    def count_ended(self, ended_requests: int) -> None:
        """So many have ended in all."""
        self._ended_requests = ended_requests

    def ended(self, reply: Reply, now_ns: int) -> None:
        """A request to a server has ended: look for a server that is gone, and at the limit of failures."""
        if reply.status not in NOT_FAILURES:
            self._failed_requests += 1
        if self._stop_after is not None and self._failed_requests >= self._stop_after:
            self.stop_early(f"{self._failed_requests} requests had failed at {now_ns / NS_PER_S:.3f} s")
        if reply.status in COMPLETED or reply.status not in NOBODY:
            self._unanswered_requests = 0
            return
        if not self._unanswered_requests:
            self._unanswered_since_ns = now_ns
        self._unanswered_requests += 1
        since_ns = self._unanswered_since_ns
        if self._unanswered_requests >= GONE_AFTER_REQUESTS and now_ns - since_ns >= GONE_AFTER_NS:
            self.stop_early(f"the server has not answered since {since_ns / NS_PER_S:.3f} s: {reply.error}")

    def stop_early(self, reason: str) -> None:
        """Hand over nothing more, and say why."""
        if self.decision is Decision.GO:
            self.decision, self.reason = Decision.STOP, reason

    def interrupt(self, signal_number: int, frame: object) -> None:
        """Ctrl-C, or a polite kill."""
        self.stops += 1
        self.decision = Decision.STOP if self.stops == 1 else Decision.CANCEL


class Emit:
    """Writes parts; when the disk refuses one, the run is stopped and the error kept."""

    def __init__(self, write: Callable[[RecordingPart], None], control: Steering) -> None:
        """`write`: puts a part where it survives."""
        self.error: OSError | None = None
        self._write = write
        self._control = control

    def __call__(self, part: RecordingPart) -> None:
        """Write one."""
        self._control.count(part)
        if self.error is not None:
            return
        try:
            self._write(part)
        except OSError as error:
            self.error = error
            self._control.decision = Decision.CANCEL


@contextmanager
def listening(control: Steering) -> Iterator[Steering]:
    """The control hears SIGINT and SIGTERM while the run lasts."""
    if threading.current_thread() is not threading.main_thread():
        yield control
        return
    before = {number: signal.signal(number, control.interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield control
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
