"""One JSON document a line. The documents themselves are the API's business."""

from targets.wire.events import DEFAULT_TYPE, MOST_EVENT_BYTES, Event


class Lines:
    """Lines in, events out; empty lines are none, and the last one needs no line end."""

    around = (b"", b"\n")

    __slots__ = ("_kept", "_kept_bytes")

    def __init__(self) -> None:
        """At the first byte of a body."""
        self._kept: list[bytes] = []
        self._kept_bytes = 0

    @property
    def between_events(self) -> bool:
        """Whether no line is begun."""
        return not self._kept

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

    def whole_events(self, body: bytes) -> list[bytes] | None:
        """Where it is nothing but lines with their ends, and no blanks around them."""
        if self._kept or not body.endswith(b"\n"):
            return None
        lines = body[:-1].split(b"\n")
        return None if b"" in lines or list(map(bytes.strip, lines)) != lines else lines

    def finish(self) -> list[Event]:
        """The last line, where it has no end."""
        return self.feed(b"\n")
