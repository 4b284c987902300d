"""The chunked transfer coding of HTTP/1.1 (RFC 9112, 7.1), cut anywhere."""

import re
from collections.abc import Sequence

MOST_LINE_BYTES = 8_192
MOST_TRAILER_BYTES = 65_536

_SIZE_LINE = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;[^\r\n]*)?")
_SIZE_LINE_BEGUN = re.compile(rb"[0-9A-Fa-f]{0,15}(?:[ \t]+|[ \t]*;[^\r\n]*)?\r?")
_PLAIN_SIZES = {form % size: size for size in range(1, 2_049) for form in (b"%x", b"%X")}
"""Size lines as nearly all of them are, so that one look-up both checks and reads them."""
_LINE_END = b"\r\n"
_BEFORE = tuple(
    {len(b"%x" % size) + size + 4: _LINE_END + form % size + _LINE_END for size in range(1, 2_049)}
    for form in (b"%x", b"%X")
)
"""By the length of a read that is one chunk: what ends the chunk before and begins its own, in either case."""
FEW_READS = 8
"""Looking at each is as cheap."""
_SIZE, _DATA, _DATA_END, _TRAILERS, _OVER = range(5)


class ChunkedBody:
    """A body in chunks: bytes of the wire in, bytes of the body out. What stood before a fault is never lost."""

    __slots__ = ("_kept", "_left_bytes", "_state", "_trailer_bytes", "ended", "fault", "surplus")

    last_bytes = 2 * _LINE_END
    may_end_with_connection = False

    def __init__(self) -> None:
        """At the first byte after the head."""
        self.ended = False
        """The last chunk and the trailers are complete, or there is a fault."""
        self.fault: str | None = None
        """Why the rest is no chunked body."""
        self.surplus = False
        """Bytes came after the end."""
        self._state = _SIZE
        self._kept = b""
        self._left_bytes = 0
        self._trailer_bytes = 0

    def feed_all(self, reads: Sequence[bytes]) -> list[bytes]:
        """Take the next reads, to the one that ends it; the bytes of the body in each of those."""
        pieces = []
        between_chunks = self._is_between_chunks
        if len(reads) > FEW_READS and between_chunks:
            pieces = _one_chunk_each(reads[:-1])
        for read in reads[len(pieces) :]:
            end = read.find(_LINE_END)
            if between_chunks and _PLAIN_SIZES.get(read[:end]) == len(read) - end - 4 and read.endswith(_LINE_END):
                pieces.append(read[end + 2 : -2])
                continue
            pieces.append(self._walk(read))
            if self.ended:
                break
            between_chunks = self._is_between_chunks
        return pieces

    @property
    def _is_between_chunks(self) -> bool:
        return self._state == _SIZE and not self._kept

    def _walk(self, data: bytes) -> bytes:
        data = self._kept + data
        self._kept = b""
        pieces: list[bytes] = []
        at = 0
        while at < len(data) and not self.fault:
            if self._state == _SIZE:
                at = self._pass_whole_chunks(data, at, pieces)
            if self._state == _DATA:
                piece = data[at : at + self._left_bytes]
                pieces.append(piece)
                at += len(piece)
                self._left_bytes -= len(piece)
                if not self._left_bytes:
                    self._state = _DATA_END
            elif self._state == _DATA_END:
                at = self._pass_data_end(data, at)
            elif self._state == _OVER:
                self.surplus = True
                break
            elif at < len(data):
                at = self._pass_line(data, at)
        return b"".join(pieces)

    def _pass_whole_chunks(self, data: bytes, at: int, pieces: list[bytes]) -> int:
        """Chunks of which all is here, written as nearly all are."""
        while (begin := data.find(_LINE_END, at) + 2) > 1:
            end = begin + _PLAIN_SIZES.get(data[at : begin - 2], len(data))
            if not data.startswith(_LINE_END, end):
                break
            pieces.append(data[begin:end])
            at = end + 2
        return at

    def _pass_data_end(self, data: bytes, at: int) -> int:
        if data.startswith(_LINE_END, at):
            self._state = _SIZE
        elif data[at:] == b"\r":
            self._kept = b"\r"
        else:
            self._fail(f"a chunk is longer than its size says: {data[at : at + 20]!r} in place of a line's end")
        return at + 2

    def _pass_line(self, data: bytes, at: int) -> int:
        end = data.find(_LINE_END, at)
        if end < 0:
            self._kept = data[at:]
            if self._state == _SIZE and not _SIZE_LINE_BEGUN.fullmatch(self._kept):
                self._fail(f"not the size of a chunk: {self._kept[:20]!r}")
            elif len(self._kept) > MOST_LINE_BYTES:
                self._fail(f"a line between chunks is longer than {MOST_LINE_BYTES} bytes")
            return len(data)
        line = data[at:end]
        if self._state == _SIZE:
            self._begin_chunk(line)
        elif line:
            self._trailer_bytes += len(line)
            if self._trailer_bytes > MOST_TRAILER_BYTES:
                self._fail(f"the trailers are longer than {MOST_TRAILER_BYTES} bytes")
        else:
            self._state = _OVER
            self.ended = True
        return end + 2

    def _begin_chunk(self, line: bytes) -> None:
        found = _SIZE_LINE.fullmatch(line)
        if found is None or len(line) > MOST_LINE_BYTES:
            self._fail(f"not the size of a chunk: {line[:20]!r}")
            return
        self._left_bytes = int(found[1], 16)
        self._state = _DATA if self._left_bytes else _TRAILERS

    def _fail(self, fault: str) -> None:
        self.fault = fault
        self.ended = True


def _one_chunk_each(reads: Sequence[bytes]) -> list[bytes]:
    """The data of reads that are a whole chunk each, as nearly all are; nothing where one of them is not.

    All are checked at once: the chunks are written anew from their data and compared with what came.
    """
    lengths = list(map(len, reads))
    for before_of in _BEFORE:
        before = [before_of.get(length, b"") for length in lengths]
        if b"" in before:
            return []
        data = [read[len(line) - 2 : -2] for line, read in zip(before, reads, strict=True)]
        anew = [_LINE_END] * (2 * len(reads) + 1)
        anew[:-1:2], anew[1::2] = before, data
        if b"".join(anew) == b"".join((_LINE_END, *reads)):
            return data
    return []
