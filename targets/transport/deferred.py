"""Reading of replies in small slices, so that what arrives meanwhile is stamped first."""

import asyncio
from collections import deque
from collections.abc import Callable
from time import perf_counter_ns
from typing import Protocol

SLICE_NS = 100_000
"""After so long the loop gets its turn."""
READS_AT_ONCE = 128
"""Fewer make a slice shorter, and each read dearer."""


class Readable(Protocol):
    """Something with arrivals that have not been looked at."""

    queued: bool

    def read_some(self, most: int) -> bool:
        """Look at the oldest of them; True: there are more."""
        ...


class ReadingQueue:
    """First come, first read."""

    def __init__(self, now_ns: Callable[[], int] = perf_counter_ns) -> None:
        """Within a running loop."""
        self._loop = asyncio.get_running_loop()
        self._now_ns = now_ns
        self._waiting: deque[Readable] = deque()

    def add(self, readable: Readable) -> None:
        """Read it soon, wholly."""
        if readable.queued:
            return
        readable.queued = True
        if not self._waiting:
            self._loop.call_soon(self._read_slice)
        self._waiting.append(readable)

    def _read_slice(self) -> None:
        waiting = self._waiting
        until_ns = self._now_ns() + SLICE_NS
        try:
            while waiting:
                if not self._read_first():
                    waiting.popleft().queued = False
                if self._now_ns() >= until_ns:
                    break
        finally:
            if waiting:
                self._loop.call_soon(self._read_slice)

    def _read_first(self) -> bool:
        """True: there is more of it. Whatever a fault of one costs, it does not stop the others."""
        try:
            return self._waiting[0].read_some(READS_AT_ONCE)
        except BaseException:
            self._waiting.popleft().queued = False
            raise
