"""What a worker's clock shows when the master's shows 0: a few questions and the quickest answer."""

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PINGS = 12
MOST_PINGS = 60
"""Where the quickest answer took long: on a busy machine another one may not."""
QUICK_NS = 500_000
LOOK_AGAIN_NS = 10_000_000_000
"""So often a clock of its own is looked at again while a run lasts: two crystals drift apart."""
Json = dict[str, Any]


@dataclass(slots=True)
class WorkerClock:
    """A worker's clock against the master's, as far as it is known."""

    offset_ns: int = 0
    """To add to the master's time."""
    round_trip_ns: int | None = None
    """Of the quickest answer; half of it bounds the error. None: never asked."""
    count: int = 0
    """Of answers."""
    is_shared: bool = False
    """Whether it is the very same clock, so that there is no error."""

    def answered(self, sent_ns: int, received_ns: int, worker_ns: int, same_clock: bool) -> None:
        """One answer; times of the master, and the worker's in between.

        `same_clock`: what both say of their clocks is the same. A measured offset within the round trip is then
        none at all; a larger one is another clock all the same, as in a copy of a virtual machine.
        """
        self.count += 1
        round_trip_ns = received_ns - sent_ns
        if self.round_trip_ns is not None and round_trip_ns >= self.round_trip_ns:
            return
        self.round_trip_ns = round_trip_ns
        measured_ns = worker_ns - (sent_ns + received_ns) // 2
        self.is_shared = same_clock and abs(measured_ns) <= round_trip_ns
        self.offset_ns = 0 if self.is_shared else measured_ns

    @property
    def is_known(self) -> bool:
        """Whether it has been asked often enough."""
        enough = PINGS if self.is_shared or (self.round_trip_ns or 0) <= QUICK_NS else MOST_PINGS
        return self.count >= enough

    @property
    def is_slow(self) -> bool:
        """Whether the first answers have come, none of them quickly: the next question may wait a little."""
        return self.count >= PINGS

    @property
    def uncertainty_ns(self) -> int | None:
        """How far the offset may be off; None: never asked."""
        return 0 if self.is_shared else None if self.round_trip_ns is None else self.round_trip_ns // 2 + 1


@dataclass(slots=True)
class WatchedClock:
    """A worker's clock as the run is played by it, and as it was looked at last."""

    at_start: WorkerClock = field(default_factory=WorkerClock)
    _newest: WorkerClock | None = None
    _start_ns: int = 0
    _look_at_ns: int = 0
    _drift: Json = field(default_factory=dict)

    @property
    def wants_an_answer(self) -> bool:
        """Whether to ask, once more where an answer did not come."""
        return not (self._newest or self.at_start).is_known

    @property
    def is_slow(self) -> bool:
        """Whether there is no haste with the next question."""
        return (self._newest or self.at_start).is_slow

    def look_again(self, at_ns: int) -> None:
        """From time to time, at a clock that can drift."""
        if at_ns >= self._look_at_ns and not self.at_start.is_shared and not self.wants_an_answer:
            self._newest = WorkerClock()

    def answered(self, sent_ns: int, received_ns: int, worker_ns: int, same_clock: bool) -> bool:
        """One answer; whether there is something new to tell."""
        if not self.wants_an_answer:
            return False
        clock = self._newest or self.at_start
        clock.answered(sent_ns, received_ns, worker_ns, same_clock)
        if not clock.is_known:
            return False
        self._look_at_ns = received_ns + LOOK_AGAIN_NS
        if clock is self.at_start:
            self._start_ns = received_ns
        else:
            self._drift = {
                "drift_ns": clock.offset_ns - self.at_start.offset_ns,
                "drift_uncertainty_ns": (clock.uncertainty_ns or 0) + (self.at_start.uncertainty_ns or 0),
                "drift_over_ns": received_ns - self._start_ns,
            }
        return True

    def told(self) -> Json:
        """For the run's stamp."""
        start = self.at_start
        return {
            "offset_ns": start.offset_ns,
            "uncertainty_ns": start.uncertainty_ns,
            "round_trip_ns": start.round_trip_ns,
            "shared": start.is_shared,
            **self._drift,
        }


def clock_id() -> str:
    """Equal for processes that read the same CLOCK_MONOTONIC: of one boot, and in one time namespace.

    '' where the kernel does not tell.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
    try:
        return f"{boot} {Path('/proc/self/ns/time').readlink()}"
    except OSError:  # before Linux 5.6
        return boot


def now_ns() -> int:
    """The clock that schedules are played on."""
    return time.perf_counter_ns()
