"""The pacer: wakes an event loop at an absolute moment, to the microsecond.

A timerfd that the loop watches: event loops' own timers are kept in milliseconds and come up to one late, or early.
"""

import asyncio
import ctypes
import os
import time
from collections.abc import Callable
from typing import Protocol

CLOCK_MONOTONIC = 1
TFD_NONBLOCK, TFD_CLOEXEC, TFD_TIMER_ABSTIME = os.O_NONBLOCK, os.O_CLOEXEC, 1
NS_PER_S = 1_000_000_000
EXPIRATIONS_BYTES = 8


class Pacer(Protocol):
    """Calls back at a moment of `time.perf_counter_ns()`."""

    name: str

    def arm(self, deadline_ns: int) -> None:
        """Call back then, and not at the moment armed before. One in the past: at once."""

    def close(self) -> None:
        """Never call back again."""


class _Itimerspec(ctypes.Structure):
    _fields_ = (
        ("interval_s", ctypes.c_long), ("interval_ns", ctypes.c_long),
        ("value_s", ctypes.c_long), ("value_ns", ctypes.c_long),
    )  # fmt: skip


class TimerfdPacer:
    """Linux: the kernel's timer on CLOCK_MONOTONIC, which is what perf_counter_ns reads."""

    name = "timerfd"

    def __init__(self, loop: asyncio.AbstractEventLoop, wake: Callable[[], None]) -> None:
        """OSError where there is no timerfd."""
        try:
            self._libc = ctypes.CDLL(None, use_errno=True)
            self._fd = self._libc.timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC)
        except AttributeError as error:
            raise OSError(str(error)) from None
        if self._fd < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        self._loop, self._wake = loop, wake
        loop.add_reader(self._fd, self._expired)

    def arm(self, deadline_ns: int) -> None:
        """One system call."""
        spec = _Itimerspec(0, 0, *divmod(max(deadline_ns, 1), NS_PER_S))
        self._libc.timerfd_settime(self._fd, TFD_TIMER_ABSTIME, ctypes.byref(spec), None)

    def close(self) -> None:
        """Give the descriptor back."""
        self._loop.remove_reader(self._fd)
        os.close(self._fd)

    def _expired(self) -> None:
        try:
            os.read(self._fd, EXPIRATIONS_BYTES)
        except BlockingIOError:
            return
        self._wake()


class LoopPacer:
    """Elsewhere: the loop's own timer."""

    name = "call_at"

    def __init__(self, loop: asyncio.AbstractEventLoop, wake: Callable[[], None]) -> None:
        """Nothing is armed."""
        self._loop, self._wake = loop, wake
        self._handle: asyncio.TimerHandle | None = None

    def arm(self, deadline_ns: int) -> None:
        """By how long it is until then."""
        self.close()
        delay_s = max(0.0, (deadline_ns - time.perf_counter_ns()) / NS_PER_S)
        self._handle = self._loop.call_later(delay_s, self._wake)

    def close(self) -> None:
        """Forget what is armed."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None


def make_pacer(loop: asyncio.AbstractEventLoop, wake: Callable[[], None]) -> Pacer:
    """The best there is here."""
    try:
        return TimerfdPacer(loop, wake)
    except OSError:
        return LoopPacer(loop, wake)
