"""What a worker's clock shows when the master's shows 0: a few questions and the quickest answer."""

import time
from dataclasses import dataclass
from pathlib import Path

PINGS = 12


@dataclass(slots=True)
class WorkerClock:
    """A worker's clock against the master's, as far as it is known."""

    offset_ns: int = 0
    """To add to the master's time."""
    round_trip_ns: int | None = None
    """Of the quickest answer; half of it bounds the error. None: never asked."""
    count: int = 0
    """Of answers."""

    def answered(self, sent_ns: int, received_ns: int, worker_ns: int, same_boot: bool) -> None:
        """One answer; times of the master, and the worker's in between.

        Processes of one boot share the clock; a measured offset within the round trip is then none at all.
        """
        self.count += 1
        round_trip_ns = received_ns - sent_ns
        if self.round_trip_ns is not None and round_trip_ns >= self.round_trip_ns:
            return
        self.round_trip_ns = round_trip_ns
        measured_ns = worker_ns - (sent_ns + received_ns) // 2
        self.offset_ns = 0 if same_boot and abs(measured_ns) <= round_trip_ns else measured_ns


def boot_id() -> str:
    """Of the running kernel; '' where it does not tell."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def now_ns() -> int:
    """The clock that schedules are played on."""
    return time.perf_counter_ns()
