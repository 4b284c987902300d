"""Ships a spool to the master: in order, in pieces that locust's channel carries, until each part is acknowledged.

The channel may drop what it is given, on both ways. So a part that is not acknowledged is sent again, and its file
stays until the master says that it has stored it.
"""

import time
from collections.abc import Callable
from typing import Any

from loadgen.locust.messages import PART, PIECE_BYTES
from loadgen.locust.spool import Spooled
from loadgen.part_files import part_path

RESEND_S = 3.0
MOST_UNDER_WAY = 4
"""Parts sent and not acknowledged: so few that the channel's own queue never fills."""
Json = dict[str, Any]


class Shipper:
    """The parts of one spool."""

    def __init__(
        self, spooled: Spooled, send: Callable[[str, Json], None], now_s: Callable[[], float] = time.monotonic
    ) -> None:
        """`send`: a message to the master."""
        self._spooled = spooled
        self._send = send
        self._now_s = now_s
        self._waiting: list[int] = []
        self._sent_s: dict[int, float] = {}
        """Number -> when it was last sent, of those under way."""

    def add(self, number: int) -> None:
        """That part is there."""
        if number not in self._sent_s and number not in self._waiting:
            self._waiting.append(number)

    def acknowledged(self, number: int) -> None:
        """The master has stored it."""
        if self._sent_s.pop(number, None) is not None:
            part_path(self._spooled.parts, number).unlink(missing_ok=True)

    @property
    def is_done(self) -> bool:
        """Whether the master has all that is there."""
        return not self._waiting and not self._sent_s

    def push(self) -> None:
        """Send what may be sent, and again what has waited for too long."""
        now_s = self._now_s()
        for number, sent_s in list(self._sent_s.items()):
            if now_s - sent_s >= RESEND_S:
                self._ship(number, now_s)
        while self._waiting and len(self._sent_s) < MOST_UNDER_WAY:
            self._ship(self._waiting.pop(0), now_s)

    def _ship(self, number: int, now_s: float) -> None:
        data = part_path(self._spooled.parts, number).read_bytes()
        self._sent_s[number] = now_s
        pieces = -(-len(data) // PIECE_BYTES)
        for at in range(pieces):
            piece = data[at * PIECE_BYTES : (at + 1) * PIECE_BYTES]
            place = {"run": self._spooled.run, "rank": self._spooled.rank, "number": number}
            self._send(PART, {**place, "piece": at, "pieces": pieces, "data": piece})
