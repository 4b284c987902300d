"""The master's side: a run's conductor beside it, the workers' players behind locust's channel, and what lies between.

It decides nothing about the load. It passes on what the conductor says to the players and what they say back, gives
each worker its clock, writes the parts that come, and tells the conductor whom it has lost.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gevent
from gevent.event import Event

from loadgen.cli.exit_codes import Exit
from loadgen.config import from_texts
from loadgen.locust.child import Child
from loadgen.locust.clocks import WatchedClock, clock_id, now_ns
from loadgen.locust.late import LateParts
from loadgen.locust.messages import ACK, KILL, LINE, PART, PIECE_BYTES, PING, PONG, SAY, SCHEDULE, SETUP
from loadgen.locust.stages import staged
from loadgen.locust.storing import PartStore
from results.schedule import load_schedule

LOOK_EVERY_S = 0.5
PING_AGAIN_S = 0.02
Json = dict[str, Any]
logger = logging.getLogger(__name__)


class RunError(Exception):
    """A run that did not come about, in one line; `exit_code` as `tokenload run` has it."""

    def __init__(self, reason: str, code: Exit = Exit.USAGE) -> None:
        """What was wrong, and the remedy."""
        super().__init__(reason)
        self.exit_code = int(code)


@dataclass(frozen=True, slots=True)
class Links:
    """What the controller needs of locust."""

    send: Callable[[str, Json, str], None]
    """A message to a worker."""
    alive: Callable[[], Sequence[str]]
    """Workers that give signs of life."""


@dataclass(slots=True)
class _Worker:
    id: str
    clock: WatchedClock = field(default_factory=WatchedClock)
    has_ended: bool = False


class Controller:
    """One run after the other."""

    def __init__(self, links: Links, live: Any, out: str) -> None:
        """`live`: shows a run while it lasts. `out`: where the folders of earlier runs are looked for."""
        self._links = links
        self._live = live
        self._run: _Run | None = None
        self._late = LateParts(Path(out), lambda message: links.send(ACK, message, message["worker"]))
        self.exit_code: int | None = None
        """Of the last run that has ended or failed."""

    @property
    def is_running(self) -> bool:
        """Whether a run is on, to the last file of its folder."""
        return self._run is not None and not self._run.over.is_set()

    def start(self, texts: Mapping[str, Any], workers: Sequence[str]) -> None:
        """Until time 0 is set. RunError when it cannot be."""
        show(self._live, "prepare")
        try:
            texts = staged(texts)
            from_texts(texts)
        except (ValueError, OSError) as error:
            self._fail(" ".join(str(error).split()), Exit.USAGE)
        run = self._run = _Run(self._links, self._live, workers)
        run.begin(texts)
        gevent.wait([run.has_begun, run.over], count=1)
        if not run.has_begun.is_set():
            self._fail(run.failure or "the run ended before it began", Exit(run.exit_code))
        show(self._live, "prepared")

    def stop(self) -> None:
        """Once: nothing more is sent, the rest is waited for; again: it is aborted."""
        if self._run is not None:
            self._run.interrupt()

    def wait(self, timeout_s: float | None = None) -> None:
        """Until the run's folder is whole."""
        if self._run is not None:
            self._run.over.wait(timeout_s)
            self.exit_code = self._run.exit_code

    def hear(self, kind: str, data: Json, worker: str = "") -> None:
        """A message of a worker."""
        run = self._run
        if run is not None and data["run"] == run.name and not run.over.is_set():
            run.hear(kind, data)
        elif kind == PART:
            self._late.piece({**data, "worker": worker})

    def close(self) -> None:
        """Leave no process behind."""
        if self._run is not None:
            self._run.abandon()

    def _fail(self, reason: str, code: Exit) -> None:
        self._run, self.exit_code = None, int(code)
        show(self._live, "failed", reason)
        raise RunError(reason, code)


class _Run:
    def __init__(self, links: Links, live: Any, workers: Sequence[str]) -> None:
        self.name = ""
        self.has_begun, self.over = Event(), Event()
        self.failure: str | None = None
        self.exit_code = int(Exit.OK)
        self._links = links
        self._live = live
        self._workers = [_Worker(one) for one in workers]
        self._store: PartStore | None = None
        self._conductor: Child | None = None
        self._clock_id = clock_id()
        self._config: Any = None
        self._watching: Any = None

    def begin(self, texts: Mapping[str, Any]) -> None:
        """Start the conductor; the rest follows from what it says."""
        self._config = from_texts(texts)
        self._conductor = Child("loadgen.locust.conductor", self._conductor_said, self._conductor_ended)
        self._conductor.say({"config": dict(texts), "shards": len(self._workers)})
        self._watching = gevent.spawn(self._watch)

    def interrupt(self) -> None:
        if self._conductor is not None and not self.over.is_set():
            self._conductor.interrupt()
            self._shown("stopped")

    def abandon(self) -> None:
        if self._conductor is not None:
            self._conductor.kill()
        self._end()

    def hear(self, kind: str, data: Json) -> None:
        rank = int(data["rank"])
        if not 0 <= rank < len(self._workers):
            return
        if kind == LINE:
            self._player_said(rank, data["line"])
        elif kind == PONG:
            self._ponged(rank, data)
        elif kind == PART and self._store is not None:
            self._store_piece(data)

    def _store_piece(self, data: Json) -> None:
        try:
            if self._store is not None:
                self._store.piece(data)
        except (OSError, ValueError) as error:
            logger.error("a part of worker %d cannot be stored: %s", int(data["rank"]) + 1, error)
            self.interrupt()
            self._lose(int(data["rank"]))

    def _player_said(self, rank: int, line: Json) -> None:
        worker = self._workers[rank]
        if "lost" in line:
            self._lose(rank)
            return
        worker.has_ended = "done" in line or "failed" in line
        if self._conductor is not None:
            self._conductor.say({"rank": rank, "line": line})

    def _lose(self, rank: int) -> None:
        worker = self._workers[rank]
        if worker.has_ended or self._conductor is None:
            return
        worker.has_ended = True
        logger.error("worker %d of %d is lost", rank + 1, len(self._workers))
        self._shown("lost", rank)
        self._conductor.say({"rank": rank, "line": {"lost": True}})

    def _watch(self) -> None:
        while not self.over.is_set():
            gevent.sleep(LOOK_EVERY_S)
            alive = set(self._links.alive())
            for rank, worker in enumerate(self._workers):
                if worker.id not in alive:
                    self._lose(rank)
                elif self._store is not None and not worker.has_ended:
                    self._look_at_clock(rank)

    def _conductor_said(self, told: Json) -> None:
        if "start" in told:
            self._set_up(int(told["rank"]), told["start"])
        elif "kill" in told:
            self._send(int(told["rank"]), KILL, {})
        elif "line" in told:
            self._pass_on(int(told["rank"]), told["line"])
        elif "server" in told:
            self._shown("server", told["server"])
        elif "outcome" in told:
            self._ended_well(told["outcome"])
        elif "failed" in told:
            self._break_off(str(told["failed"]), Exit(int(told["exit_code"])))

    def _conductor_ended(self) -> None:
        if not self.over.is_set():
            if self.failure is None and self.exit_code == Exit.OK:
                self._break_off("the run's own process has died: see its messages", Exit.USAGE)
            if self._store is not None:
                self._shown("end", None, {}, {})
            self._end()

    def _break_off(self, reason: str, code: Exit) -> None:
        self.failure, self.exit_code = reason, int(code)
        logger.error("%s", reason)
        if self.has_begun.is_set():  # else `start` tells, when another start can be tried
            self._shown("failed", reason)

    def _ended_well(self, outcome: Json) -> None:
        self.exit_code = int(outcome["exit_code"])
        logger.info("the run is in %s", outcome["folder"])
        self._shown("end", Path(outcome["folder"]), outcome["summary"], outcome["verdict"])
        self._end()

    def _end(self) -> None:
        if self._store is not None:
            self._store.close()
        self.over.set()

    def _set_up(self, rank: int, start: Json) -> None:
        folder = Path(start["folder"])
        if self._store is None:
            self.name = folder.name
            self._store = PartStore(folder, lambda part, of: self._shown("add", part, of), self._acknowledge)
            self._shown("begin", load_schedule(folder / "schedule.parquet"), self._config)
        schedule = (folder / "schedule.parquet").read_bytes()
        pieces = [schedule[at : at + PIECE_BYTES] for at in range(0, len(schedule), PIECE_BYTES)]
        self._send(rank, SETUP, {"start": start, "pieces": len(pieces)})
        for at, piece in enumerate(pieces):
            self._send(rank, SCHEDULE, {"at": at, "data": piece})
        self._ping(rank)

    def _pass_on(self, rank: int, line: Json) -> None:
        if "origin_ns" in line:
            line = {"origin_ns": line["origin_ns"] + self._workers[rank].clock.at_start.offset_ns}
            self.has_begun.set()
        self._send(rank, SAY, {"line": line})

    def _acknowledge(self, rank: int, number: int) -> None:
        self._send(rank, ACK, {"rank": rank, "number": number})

    def _look_at_clock(self, rank: int) -> None:
        """Ask where an answer is missing, and from time to time again."""
        self._workers[rank].clock.look_again(now_ns())
        if self._workers[rank].clock.wants_an_answer:
            self._ping(rank)

    def _ping(self, rank: int) -> None:
        self._send(rank, PING, {"rank": rank, "sent_ns": now_ns()})

    def _ponged(self, rank: int, data: Json) -> None:
        clock = self._workers[rank].clock
        same = data["clock_id"] == self._clock_id != ""
        if clock.answered(data["sent_ns"], now_ns(), data["worker_ns"], same) and self._conductor is not None:
            self._conductor.say({"rank": rank, "line": {"clock": clock.told()}})
        if clock.wants_an_answer:
            gevent.spawn_later(PING_AGAIN_S if clock.is_slow else 0.0, self._ping, rank)

    def _send(self, rank: int, kind: str, data: Json) -> None:
        with suppress(Exception):  # a channel that is down: the watch sees it
            self._links.send(kind, {"run": self.name, **data}, self._workers[rank].id)

    def _shown(self, what: str, *told: Any) -> None:
        show(self._live, what, *told)


def show(live: Any, what: str, *told: Any) -> None:
    """A fault of what shows a run is no fault of the run."""
    try:
        if live is not None:
            getattr(live, what)(*told)
    except Exception:
        logger.exception("the live view failed")
