"""Server-sent events by the grammar of the WHATWG HTML standard (9.2.6), cut at any byte.

Data stays bytes: lines end in ASCII, so a character of UTF-8 is never cut by them.
"""

from targets.wire.events import DEFAULT_TYPE, MOST_EVENT_BYTES, Event

_BOM = b"\xef\xbb\xbf"
_COLON = ord(":")
_FIELD, _END = b"data: ", b"\n\n"
"""What stands around the data of most events."""


class EventStream:
    """Lines in, events out. `id` and `retry` mean nothing here, and an event without its empty line is none."""

    around = (_FIELD, _END)

    __slots__ = ("_at_start", "_data", "_kept", "_kept_bytes", "_skips_newline", "_type", "between_events")

    def __init__(self) -> None:
        """At the first byte of a body."""
        self._at_start = True
        self.between_events = False
        """Nothing is kept: the next byte begins a line of a new event."""
        self._skips_newline = False
        """The last byte was CR: a LF that follows belongs to it."""
        self._kept: list[bytes] = []
        """Pieces of a line that has no end yet."""
        self._kept_bytes = 0
        """Of those and of the data of the event so far."""
        self._data: list[bytes] = []
        self._type = ""

    def feed(self, body: bytes) -> list[Event]:
        """The events that these bytes complete. ValueError when one is longer than can be kept."""
        if self.between_events and body.startswith(_FIELD) and body.endswith(_END) and b"\r" not in body:
            data = body[len(_FIELD) : -len(_END)]
            if b"\n" not in data:
                return [(data, DEFAULT_TYPE)]
        body = self._after_start(body)
        if self._skips_newline and body:
            self._skips_newline = False
            body = body.removeprefix(b"\n")
        return self._walk(body) if body else []

    def whole_events(self, body: bytes) -> list[bytes] | None:
        """Where it is nothing but `data: `, one line of data and an empty line, again and again."""
        if not self.between_events and not (self._at_start and not self._kept):
            return None
        if not body.startswith(_FIELD) or not body.endswith(_END) or b"\r" in body:
            return None
        data = body[len(_FIELD) : -len(_END)].split(_END + _FIELD)
        if body.count(b"\n") != 2 * len(data) or b"" in data:
            return None
        self._at_start, self.between_events = False, True
        return data

    def finish(self) -> list[Event]:
        """None: what has no empty line after it is dropped."""
        return []

    def _walk(self, body: bytes) -> list[Event]:
        lines = body.splitlines()
        ended = body.endswith((b"\n", b"\r"))
        self._skips_newline = body.endswith(b"\r")
        if self._kept and (ended or len(lines) > 1):
            self._kept_bytes -= sum(map(len, self._kept))
            lines[0] = b"".join((*self._kept, lines[0]))
            self._kept.clear()
        if not ended:
            self._keep(lines.pop())
        events = self._take(lines)
        self.between_events = ended and not (self._data or self._type or self._skips_newline)
        return events

    def _after_start(self, body: bytes) -> bytes:
        """Without the byte order mark; nothing while it may still be one."""
        if not self._at_start:
            return body
        body = b"".join((*self._kept, body))
        self._kept.clear()
        if len(body) < len(_BOM) and _BOM.startswith(body):
            self._kept.append(body)
            return b""
        self._at_start = False
        return body.removeprefix(_BOM)

    def _keep(self, piece: bytes) -> None:
        self._kept.append(piece)
        self._kept_bytes += len(piece)
        if self._kept_bytes > MOST_EVENT_BYTES:
            raise ValueError(f"an event is longer than {MOST_EVENT_BYTES} bytes")

    def _take(self, lines: list[bytes]) -> list[Event]:
        events: list[Event] = []
        for line in lines:
            if not line:
                if self._data:
                    events.append((b"\n".join(self._data), self._type or DEFAULT_TYPE))
                    self._kept_bytes -= sum(map(len, self._data))
                    self._data.clear()
                self._type = ""
            elif line[0] != _COLON:
                self._take_field(line)
        return events

    def _take_field(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data.append(value)
            self._kept_bytes += len(value)
            if self._kept_bytes > MOST_EVENT_BYTES:
                raise ValueError(f"an event is longer than {MOST_EVENT_BYTES} bytes")
        elif name == b"event":
            self._type = value.decode(errors="replace")
