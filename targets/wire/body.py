"""How long a reply's body is: in chunks, by its length, or to the end of the connection (RFC 9112, 6.3)."""

from collections.abc import Sequence
from typing import Protocol

from targets.wire.chunked import ChunkedBody
from targets.wire.head import Head

WITHOUT_BODY = (204, 304)


class Body(Protocol):
    """The framing of one body, cut anywhere."""

    ended: bool
    """Complete, or faulty."""
    fault: str | None
    surplus: bool
    last_bytes: bytes
    """What it ends in: a read as long as that or longer that does not end so is not its last. Empty: any may be."""
    may_end_with_connection: bool
    """Whether the end of the connection is the body's end."""

    def feed_all(self, reads: Sequence[bytes]) -> list[bytes]:
        """Take the next reads, to the one that ends it; the bytes of the body in each of those."""
        ...


class CountedBody:
    """A body of a length told beforehand."""

    __slots__ = ("_left_bytes", "ended", "fault", "surplus")

    last_bytes = b""
    may_end_with_connection = False

    def __init__(self, length_bytes: int) -> None:
        """0: there is none."""
        self._left_bytes = length_bytes
        self.ended = not length_bytes
        self.fault: str | None = None
        self.surplus = False

    def feed_all(self, reads: Sequence[bytes]) -> list[bytes]:
        """Everything up to the length."""
        pieces: list[bytes] = []
        for read in reads:
            if self.ended:
                self.surplus = True
                break
            pieces.append(self._feed(read))
        return pieces

    def _feed(self, data: bytes) -> bytes:
        if len(data) > self._left_bytes:
            self.surplus = True
            data = data[: self._left_bytes]
        self._left_bytes -= len(data)
        self.ended = not self._left_bytes
        return data


class UnendedBody:
    """A body that lasts as long as its connection."""

    __slots__ = ("ended", "fault", "surplus")

    last_bytes = b""
    may_end_with_connection = True

    def __init__(self) -> None:
        """Its end is not known."""
        self.ended = False
        self.fault: str | None = None
        self.surplus = False

    def feed_all(self, reads: Sequence[bytes]) -> list[bytes]:
        """Everything."""
        return list(reads)


def body_of(head: Head) -> Body:
    """What follows this head in the reply to a POST or GET. ValueError when the head says it in an unknown way."""
    if head.http_status in WITHOUT_BODY:
        return CountedBody(0)
    coding = head.headers.get("transfer-encoding")
    if coding is not None:
        if coding.lower() != "chunked":
            raise ValueError(f"transfer-encoding {coding[:40]!r} is not understood, only chunked")
        return ChunkedBody()
    length = head.headers.get("content-length")
    if length is None:
        return UnendedBody()
    told = {word.strip() for word in length.split(",")}
    only = told.pop()
    if told or not (only.isascii() and only.isdigit()) or len(only) > len("1000000000000000000"):
        raise ValueError(f"content-length {length[:40]!r} is no length")
    return CountedBody(int(only))
