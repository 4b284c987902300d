"""Routers: which replica of a fleet serves a request.

A router is a function of a schedule and of fresh engines to the replica of each request. It decides at the moment a
request is due, from what can be known then. To add one: a function here and a row in `ROUTERS`.
"""

from collections import deque
from collections.abc import Callable

import numpy as np

from engines.engine import Engine, Request
from loadgen.clock import ModelledClock
from loadgen.drive import sampling_source
from loadgen.prompts import prompt_source
from results.columns import NULL, Int64, int64
from results.schedule import Schedule

MakeEngine = Callable[[], Engine]
Router = Callable[[Schedule, int, MakeEngine], Int64]


def round_robin(schedule: Schedule, replicas: int, make_engine: MakeEngine) -> Int64:
    """Each to the next, in the order of due times. ValueError where requests wait for answers of others."""
    _refuse_followers(schedule)
    return int64(np.arange(len(schedule)) % replicas)


def by_session(schedule: Schedule, replicas: int, make_engine: MakeEngine) -> Int64:
    """A new session goes to the next replica, and stays there. A request without one follows what it waits for.

    ValueError where a request waits for answers of different sessions.
    """
    own = int(schedule.session.max(initial=0)) + 1 + np.arange(len(schedule))
    keys = int64(np.where(schedule.session == NULL, own, schedule.session))
    for request_id in np.diff(schedule.after_offsets).nonzero()[0].tolist():
        before = keys[schedule.after(request_id)]
        if schedule.session[request_id] == NULL:
            keys[request_id] = before[0]
        if (before != keys[request_id]).any():
            raise ValueError(f"request {request_id} waits for answers of other sessions: no router can keep it by them")
    return _in_turn(keys, replicas)


def least_loaded(schedule: Schedule, replicas: int, make_engine: MakeEngine) -> Int64:
    """To whoever has the fewest unanswered requests when this one is due; the first of several.

    The engines are played beside each other, each only as far as the next arrival, to see how many they hold.
    """
    _refuse_followers(schedule)
    fleet = [_Replica(make_engine()) for _ in range(replicas)]
    prompt_of, params_of = prompt_source(schedule, lazy=True), sampling_source(schedule)
    chosen = np.zeros(len(schedule), dtype=np.int64)
    classes = schedule.request_class.tolist()
    for request_id, due_ns in enumerate(schedule.due_ns.tolist()):
        held = [replica.requests_at(due_ns) for replica in fleet]
        chosen[request_id] = at = held.index(min(held))
        prompt, params = prompt_of(request_id), params_of(request_id)
        fleet[at].take(Request(request_id, prompt, params, due_ns, classes[request_id]))
    return chosen


ROUTERS: dict[str, Router] = {"round-robin": round_robin, "least-loaded": least_loaded, "session": by_session}


def _refuse_followers(schedule: Schedule) -> None:
    if len(schedule.after_ids):
        raise ValueError("requests wait for answers of others, which one replica must give: use --router session")


def _in_turn(keys: Int64, replicas: int) -> Int64:
    """The first key goes to replica 0, the next that is another to 1, and so on. Rows are sorted by due time."""
    _, first, of_row = np.unique(keys, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return int64(rank[of_row] % replicas)


class _Replica:
    """An engine as a router sees it: how many requests it holds. The steps are those that the driver makes."""

    def __init__(self, engine: Engine) -> None:
        self._engine, self._clock = engine, ModelledClock()
        self._advance = getattr(engine, "advance", None)
        self._requests = 0
        self._ends_ns: deque[int] = deque()
        """When those were answered that are still counted."""

    def requests_at(self, due_ns: int) -> int:
        """Requests without their last token then; whoever gets it exactly then has it."""
        self._play_until(due_ns)
        while self._ends_ns and self._ends_ns[0] <= due_ns:
            self._ends_ns.popleft()
            self._requests -= 1
        return self._requests

    def take(self, request: Request) -> None:
        """It is served here. One that can never fit is refused, and held by nobody."""
        try:
            self._engine.add_request(request)
        except ValueError:
            return
        self._requests += 1

    def _play_until(self, due_ns: int) -> None:
        """Every step that starts before then."""
        clock = self._clock
        while (now_ns := clock.now_ns()) < due_ns:
            ready_ns = self._engine.ready_ns(now_ns)
            if ready_ns is None and self._engine.has_work():
                raise ValueError("an engine that waits for a full batch without max-wait cannot stand behind a router")
            if ready_ns is None or ready_ns > now_ns:
                clock.wait_until(due_ns if ready_ns is None else min(ready_ns, due_ns))
                continue
            step = clock.bill_stretch(self._advance, due_ns) if self._advance else None
            ended = (step or clock.bill(self._engine)).ended
            self._ends_ns.extend([clock.now_ns()] * len(ended))
