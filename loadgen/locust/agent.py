"""The worker's side: one player beside it, what it is told and what it says, and its parts on their way.

Everything here only relays. A worker must never wait for the master inside a handler, since it could not hear the
answer: handlers do what they can at once, and a greenlet ships.
"""

import logging
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import gevent

from loadgen.locust.child import Child
from loadgen.locust.clocks import clock_id, now_ns
from loadgen.locust.messages import ACK, KILL, LINE, PING, PONG, SAY, SCHEDULE, SETUP
from loadgen.locust.shipping import Shipper
from loadgen.locust.spool import Spooled, begin_spool, drop, left_behind, set_owner, spool_root
from loadgen.part_files import part_numbers

LOOK_EVERY_S = 0.1
ORPHANED_S = 6.0
"""Without a sign of the master for so long, the player is told to give up; its rows stay in the spool."""
Json = dict[str, Any]
Send = Callable[[str, Json], None]
logger = logging.getLogger(__name__)


class Agent:
    """What a worker does for one run after the other."""

    def __init__(self, send: Send, heard_s: Callable[[], float | None] = lambda: None) -> None:
        """`send`: to the master. `heard_s`: when the master last gave a sign (`time.time()`), None: nobody asks."""
        self._send = send
        self._heard_s = heard_s
        self._playing: _Playing | None = None
        self._late: dict[tuple[str, int], Shipper] = {}
        self._late_spools: dict[tuple[str, int], Spooled] = {}
        self._looking = gevent.spawn(self._look)
        self._handlers: dict[str, Callable[[Json], None]] = {
            SETUP: self._setup, SCHEDULE: self._schedule, SAY: self._say, ACK: self._ack, KILL: self._kill,
            PING: self._ping,
        }  # fmt: skip

    def hear(self, kind: str, data: Json) -> None:
        """A message of the master."""
        self._handlers[kind](data)

    @property
    def is_playing(self) -> bool:
        """Whether a player is at work."""
        return self._playing is not None and not self._playing.is_over

    def offer_left_behind(self) -> None:
        """Ship what workers that died on this machine had not shipped."""
        current = None if self._playing is None else self._playing.spooled.folder
        for spooled in left_behind(spool_root(), current):
            key = spooled.run, spooled.rank
            if key not in self._late:
                logger.info("rows of run %s that were never shipped are in %s", spooled.run, spooled.folder)
                self._late[key], self._late_spools[key] = Shipper(spooled, self._send), spooled
                for number in part_numbers(spooled.parts):
                    self._late[key].add(number)

    def close(self) -> None:
        """The worker ends: its player gives up, and leaves its rows in the spool."""
        self._looking.kill(block=False)
        if self._playing is not None:
            self._playing.give_up()

    def _setup(self, data: Json) -> None:
        if self._playing is not None:
            self._playing.give_up()
        try:
            self._playing = _Playing(data, self._send)
        except (OSError, ValueError) as error:
            self._playing = None
            place = {"run": data["run"], "rank": data["start"]["rank"]}
            self._send(LINE, {**place, "line": {"failed": " ".join(str(error).split())}})
        self.offer_left_behind()

    def _of(self, data: Json) -> "_Playing | None":
        playing = self._playing
        return playing if playing is not None and playing.spooled.run == data["run"] else None

    def _schedule(self, data: Json) -> None:
        if (playing := self._of(data)) is not None:
            playing.schedule_piece(data["at"], data["data"])

    def _say(self, data: Json) -> None:
        if (playing := self._of(data)) is not None:
            playing.say(data["line"])

    def _ack(self, data: Json) -> None:
        playing = self._of(data)
        if playing is not None and playing.spooled.rank == data["rank"]:
            playing.shipper.acknowledged(data["number"])
        late = self._late.get((data["run"], data["rank"]))
        if late is not None:
            late.acknowledged(data["number"])

    def _kill(self, data: Json) -> None:
        if (playing := self._of(data)) is not None:
            playing.end()

    def _ping(self, data: Json) -> None:
        self._send(PONG, {**data, "worker_ns": now_ns(), "clock_id": clock_id()})

    def _look(self) -> None:
        while True:
            gevent.sleep(LOOK_EVERY_S)
            try:
                self._look_once()
            except Exception:
                logger.exception("shipping failed; what is not acknowledged stays in the spool")

    def _look_once(self) -> None:
        if self._playing is not None:
            self._playing.push()
            self._watch_the_master(self._playing)
        for key, shipper in list(self._late.items()):
            shipper.push()
            if shipper.is_done:
                drop(self._late_spools.pop(key))
                del self._late[key]

    def _watch_the_master(self, playing: "_Playing") -> None:
        heard_s = self._heard_s()
        if heard_s is not None and not playing.is_over and time.time() - heard_s > ORPHANED_S:
            logger.error("no sign of the master for %g s: the run is given up here", ORPHANED_S)
            playing.give_up()


class _Playing:
    """One run's player."""

    def __init__(self, data: Json, send: Send) -> None:
        self._run, self._rank = str(data["run"]), int(data["start"]["rank"])
        self._send = send
        self.spooled = begin_spool(spool_root(), self._run, self._rank)
        self.shipper = Shipper(self.spooled, send)
        self.is_over = False
        """Whether the player has ended and the master has, or will not have, what it wrote."""
        self._setup = {**data["start"], "folder": str(self.spooled.folder), "ships": True}
        self._pieces: list[bytes | None] = [None] * int(data["pieces"])
        self._child: Child | None = None
        self._last_line: Json | None = None
        """How it ended; told when all its parts are acknowledged."""

    def schedule_piece(self, at: int, piece: bytes) -> None:
        """The last one starts the player."""
        self._pieces[at] = piece
        if self._child is None and all(one is not None for one in self._pieces):
            schedule = b"".join(one for one in self._pieces if one is not None)
            (self.spooled.folder / "schedule.parquet").write_bytes(schedule)
            self._pieces = []
            self._child = Child("loadgen.client_process", self._heard, self._ended)
            set_owner(self.spooled, self._child.pid)
            self._child.say(self._setup)

    def say(self, line: Json) -> None:
        """To the player."""
        if self._child is not None:
            self._child.say(line)

    def push(self) -> None:
        """Ship; and when all is shipped, tell how it ended."""
        self.shipper.push()
        if self._last_line is not None and self.shipper.is_done and not self.is_over:
            self.is_over = True
            self._tell(self._last_line)
            self._remove()

    def give_up(self) -> None:
        """Nobody is there to ship to, or another run begins: the player aborts, and its rows stay."""
        self.is_over = True
        if self._child is not None:
            self._child.let_go()

    def end(self) -> None:
        """The master has ended the run."""
        self.is_over = True
        if self._child is not None:
            self._child.let_go()
            gevent.spawn_later(LOOK_EVERY_S, self._child.kill)
        self._remove()

    def _remove(self) -> None:
        if not part_numbers(self.spooled.parts):
            drop(self.spooled)

    def _heard(self, line: Json) -> None:
        if "part" in line:
            self.shipper.add(int(line["part"]))
        elif "done" in line or "failed" in line:
            self._last_line = line
        elif "ended" not in line:  # ten times a second, and the master counts by the rows that it has
            self._tell(line)

    def _ended(self) -> None:
        for number in part_numbers(self.spooled.parts):
            self.shipper.add(number)
        if self._last_line is None:
            self._last_line = {"lost": True}

    def _tell(self, line: Json) -> None:
        with suppress(Exception):  # a channel that is down: the master sees that by itself
            self._send(LINE, {"run": self._run, "rank": self._rank, "line": line})
