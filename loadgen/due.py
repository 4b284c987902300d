"""Who is due next, and how many are in flight: the driver's two books."""

from heapq import heappop, heappush

import numpy as np

from results.columns import NULL, Int64
from results.schedule import Schedule

NEVER_NS = 2**62


class DueQueue:
    """Who is due next: a pointer over the sorted due column beside a heap that holds only followers."""

    def __init__(self, schedule: Schedule, mine: Int64 | None = None) -> None:
        """At the start of a run. `mine`: only these requests; who waits for one of them must be among them."""
        chosen = np.ones(len(schedule), dtype=np.bool_) if mine is None else np.isin(np.arange(len(schedule)), mine)
        waits = schedule.due_ns == NULL
        self._ids = (chosen & ~waits).nonzero()[0].tolist()
        self._due_ns: list[int] = schedule.due_ns[chosen & ~waits].tolist()
        self._pointer = 0
        self._heap: list[tuple[int, int]] = []
        self._left = int(chosen.sum())
        self._think_ns = schedule.think_ns
        self._waits_for: dict[int, int] = {}
        """Follower -> how many it still waits for."""
        self._latest_end_ns: dict[int, int] = {}
        self._followers: dict[int, list[int]] = {}
        for follower in (chosen & waits).nonzero()[0].tolist():
            before = schedule.after(follower).tolist()
            self._waits_for[follower] = len(before)
            for request_id in before:
                self._followers.setdefault(request_id, []).append(follower)
        self.stopped = False
        self.last_due_ns = 0
        self.next_due_ns = NEVER_NS
        self._set_next()

    @property
    def all_handed_over(self) -> bool:
        """Whether nobody can come any more."""
        return self.stopped or not self._left

    def pop(self) -> tuple[int, int]:
        """(due_ns, request_id) of the next one."""
        self._left -= 1
        if not self._heap:
            at = self._pointer
            self._pointer = at + 1
            self.last_due_ns = due_ns = self._due_ns[at]
            self.next_due_ns = self._due_ns[at + 1] if at + 1 < len(self._ids) else NEVER_NS
            return due_ns, self._ids[at]
        if self._pointer == len(self._ids) or self._heap[0] < self._head():
            due_ns, request_id = heappop(self._heap)
        else:
            due_ns, request_id = self._head()
            self._pointer += 1
        self.last_due_ns = due_ns
        self._set_next()
        return due_ns, request_id

    def ended(self, request_id: int, end_ns: int) -> None:
        """A request is terminal: followers that waited for it alone become due."""
        for follower in self._followers.get(request_id, ()):
            self._latest_end_ns[follower] = max(self._latest_end_ns.get(follower, 0), end_ns)
            self._waits_for[follower] -= 1
            if not self._waits_for[follower]:
                due_ns = self._latest_end_ns[follower] + int(self._think_ns[follower])
                heappush(self._heap, (due_ns, follower))
                self._set_next()

    def stop(self, now_ns: int | None = None) -> None:
        """Nobody is due any more; a drain counts from now."""
        self.stopped = True
        self.next_due_ns = NEVER_NS
        if now_ns is not None:
            self.last_due_ns = now_ns

    def _head(self) -> tuple[int, int]:
        return self._due_ns[self._pointer], self._ids[self._pointer]

    def _set_next(self) -> None:
        if self.stopped:
            return
        self.next_due_ns = self._due_ns[self._pointer] if self._pointer < len(self._ids) else NEVER_NS
        if self._heap and self._heap[0][0] < self.next_due_ns:
            self.next_due_ns = self._heap[0][0]


class InFlight:
    """Requests in flight, integrated over time from due to end, by a counter of its own."""

    def __init__(self) -> None:
        """Nobody, at time 0."""
        self._requests = 0
        self._since_ns = 0
        self._request_ns = 0

    def enter(self, due_ns: int, now_ns: int) -> None:
        """It has been in flight since it was due."""
        self._request_ns += self._requests * (now_ns - self._since_ns) + now_ns - due_ns
        self._since_ns = now_ns
        self._requests += 1

    def leave(self, now_ns: int) -> None:
        """It has ended."""
        self._request_ns += self._requests * (now_ns - self._since_ns)
        self._since_ns = now_ns
        self._requests -= 1

    def taken(self, now_ns: int) -> int:
        """The integral since it was last taken."""
        self._request_ns += self._requests * (now_ns - self._since_ns)
        self._since_ns = now_ns
        request_ns, self._request_ns = self._request_ns, 0
        return request_ns
