"""From token ids to text: bytes joined to characters, stop strings found, everything whole at every moment.

Token ids 0 to 255 are bytes of UTF-8; the others have no text. Bytes of an unfinished character are held back, and
characters that may turn out to begin a stop string. What is no UTF-8 comes out as U+FFFD.
"""

import codecs
from collections.abc import Sequence
from dataclasses import dataclass

BYTES = 256


@dataclass(frozen=True, slots=True)
class Piece:
    """What one delivery adds to a reply."""

    text: str
    token_ids: Sequence[int]
    finish_reason: str | None = None
    stop_reason: str | int | None = None
    """The stop string or token id that ended it."""


class GeneratedText:
    """The text of one reply as it grows."""

    def __init__(
        self, stops: Sequence[str] = (), ending_token_ids: frozenset[int] = frozenset(), min_tokens: int = 0
    ) -> None:
        """The text of tokens before number `min_tokens` is not searched for stops."""
        self.tokens = 0
        """Tokens so far, up to the one that ended the reply."""
        self._stops = stops
        self._ending_token_ids = ending_token_ids
        self._min_tokens = min_tokens
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held = ""

    def add(self, token_ids: Sequence[int], finish_reason: str | None = None) -> Piece:
        """The engine's next tokens, and its reason where these are the last. A piece with a reason is the last."""
        if not self._stops and not self._ending_token_ids:
            self.tokens += len(token_ids)
            return Piece(self._decoded(token_ids, finish_reason is not None), token_ids, finish_reason)
        text = ""
        for at, token_id in enumerate(token_ids):
            found, stop_reason = self._add_one(token_id)
            text += found
            if stop_reason is not None:
                return Piece(text, token_ids[: at + 1], "stop", stop_reason)
        if finish_reason is not None:
            text += self._held + self._decoder.decode(b"", final=True)
        return Piece(text, token_ids, finish_reason)

    def _add_one(self, token_id: int) -> tuple[str, str | int | None]:
        """Text that is settled now, and what ended the reply, if anything did."""
        self.tokens += 1
        self._held += self._decoded((token_id,), False)
        if self.tokens < self._min_tokens:
            return self._release(len(self._held)), None
        stop, at = self._first_stop()
        if stop is not None:
            return self._release(at), stop
        if token_id in self._ending_token_ids:
            return self._release(len(self._held)) + self._decoder.decode(b"", final=True), token_id
        return self._release(len(self._held) - self._undecided()), None

    def _decoded(self, token_ids: Sequence[int], final: bool) -> str:
        return self._decoder.decode(bytes([token_id for token_id in token_ids if 0 <= token_id < BYTES]), final)

    def _first_stop(self) -> tuple[str | None, int]:
        """The stop string that begins first in what is held back, and where."""
        found = [(at, stop) for stop in self._stops if (at := self._held.find(stop)) >= 0]
        at, stop = min(found) if found else (0, None)
        return stop, at

    def _undecided(self) -> int:
        """Characters at the end of what is held back that may begin a stop string."""
        longest = max((len(stop) for stop in self._stops), default=1) - 1
        return next(
            (
                length
                for length in range(min(longest, len(self._held)), 0, -1)
                if any(stop.startswith(self._held[-length:]) for stop in self._stops)
            ),
            0,
        )

    def _release(self, count: int) -> str:
        text, self._held = self._held[:count], self._held[count:]
        return text
