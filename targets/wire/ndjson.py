"""One JSON document a line. The documents themselves are the API's business."""

from collections.abc import Sequence

from targets.wire.events import DEFAULT_TYPE, MOST_EVENT_BYTES, Event


class Lines:
    """Lines in, events out; empty lines are none, and the last one needs no line end."""

    __slots__ = ("_kept", "_kept_bytes")

    def __init__(self) -> None:
        """At the first byte of a body."""
        self._kept: list[bytes] = []
        self._kept_bytes = 0

    def feed(self, body: bytes) -> list[Event]:
        """The lines that these bytes complete. ValueError when one is longer than can be kept."""
        *lines, rest = body.split(b"\n")
        if lines and self._kept:
            lines[0] = b"".join((*self._kept, lines[0]))
            self._kept.clear()
            self._kept_bytes = 0
        if rest:
            self._kept.append(rest)
            self._kept_bytes += len(rest)
            if self._kept_bytes > MOST_EVENT_BYTES:
                raise ValueError(f"a line is longer than {MOST_EVENT_BYTES} bytes")
        return [(line, DEFAULT_TYPE) for line in map(bytes.strip, lines) if line]

    def one_each(self, bodies: Sequence[bytes]) -> list[bytes] | None:
        """Where each is one line with its end."""
        if self._kept:
            return None
        joined = b"".join(bodies)
        if not joined.endswith(b"\n") or joined.count(b"\n") != len(bodies):
            return None
        lines = joined[:-1].split(b"\n")
        if [len(line) + 1 for line in lines] != list(map(len, bodies)):
            return None
        lines = list(map(bytes.strip, lines))
        return None if b"" in lines else lines

    def finish(self) -> list[Event]:
        """The last line, where it has no end."""
        return self.feed(b"\n")
