"""The master's store: parts come in pieces, again, and after the end of their run; each is written once."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from loadgen.part_files import unpack
from results.recording import RecordingPart
from results.store import PartWriter

Json = dict[str, Any]
MOST_PIECES = 10_000


@dataclass(slots=True)
class _Rank:
    writer: PartWriter
    place: int | None
    """None: the first that comes is the first there is."""
    pieces: dict[int, bytes] = field(default_factory=dict)
    """Of the part at `place`, by place."""


class PartStore:
    """Parts of one run, each rank's in order, written before they are acknowledged."""

    def __init__(
        self,
        folder: Path,
        stored: Callable[[RecordingPart, int], None],
        acknowledge: Callable[[int, int], None],
        number: int = 0,
        in_order: bool = True,
        only_new: Callable[[RecordingPart], RecordingPart] = lambda part: part,
    ) -> None:
        """`stored`: told each part and its rank once. `acknowledge`: told rank and number, again where asked again.

        `number`: of the files, where there are some of other writers. `in_order`: parts are numbered from 0,
        and each must come; of late ones some have come before. `only_new`: what of a part is to be written.
        """
        self._folder = folder
        self._stored = stored
        self._acknowledge = acknowledge
        self._number = number
        self._only_new = only_new
        self._begins = 0 if in_order else None
        self._ranks: dict[int, _Rank] = {}
        self._open = ExitStack()

    def piece(self, message: Json) -> None:
        """One piece. OSError when it cannot be written: then it is not acknowledged."""
        rank, number = int(message["rank"]), int(message["number"])
        known = self._rank(rank)
        if known.place is None:
            known.place = number
        if number < known.place:
            self._acknowledge(rank, number)
            return
        pieces = int(message["pieces"])
        if number > known.place or not 0 < pieces <= MOST_PIECES:
            return  # it is sent again when those before it are here
        known.pieces[int(message["piece"])] = message["data"]
        if len(known.pieces) < pieces:
            return
        part = unpack(b"".join(known.pieces[at] for at in range(pieces)))
        known.writer.write(self._only_new(part))
        known.pieces.clear()
        known.place += 1
        self._acknowledge(rank, number)
        self._stored(part, rank)

    def close(self) -> None:
        """Nothing more is written."""
        self._open.close()

    def _rank(self, rank: int) -> _Rank:
        if rank not in self._ranks:
            writer = self._open.enter_context(PartWriter(self._folder / "parts", self._number + rank))
            self._ranks[rank] = _Rank(writer, self._begins)
        return self._ranks[rank]
