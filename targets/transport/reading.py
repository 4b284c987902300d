"""What becomes of a body's bytes: a stream's are kept with their times and read in slices, others at their end."""

from collections.abc import Callable, Sequence
from itertools import repeat
from typing import Protocol

from targets.api import NDJSON, SSE, Api
from targets.transport.messages import told_in
from targets.transport.outcome import FIRST_REDIRECT
from targets.transport.transcript import Transcript
from targets.wire.events import DEFAULT_TYPE, EventDecoder, TimedEvents, timed_events
from targets.wire.head import Head
from targets.wire.inflate import Inflate, inflater
from targets.wire.ndjson import Lines
from targets.wire.sse import EventStream

MOST_WHOLE_BYTES = 16 << 20
MOST_STREAM_BYTES = 256 << 20
"""Of a streamed reply: ten times what the longest ones come to."""
MOST_ERROR_BYTES = 65_536
DECODERS: dict[str, Callable[[], EventDecoder]] = {SSE: EventStream, NDJSON: Lines}


class Reading(Protocol):
    """Takes a body's bytes as they arrive and looks at them later."""

    streams: bool
    """Whether its events come one by one."""
    pending_bytes: int
    """Kept, and could be looked at."""

    def add(self, times_ns: Sequence[int], pieces: Sequence[bytes]) -> None:
        """Keep what these reads held of the body, be it nothing."""
        ...

    def read_some(self, most: int) -> bool:
        """Look at the oldest reads; True: there are more. ValueError when they are not what the API sends."""
        ...

    def finish(self, clean: bool) -> None:
        """The body has ended, cleanly or not, and every read was looked at. ValueError as above."""


class StreamReading:
    """Events, each with the time of the read that completed it."""

    __slots__ = (
        "_decoder", "_inflate", "_last_ns", "_left_bytes", "_pieces", "_read_id", "_times_ns", "_transcript",
        "pending_bytes",
    )  # fmt: skip

    streams = True

    def __init__(
        self, transcript: Transcript, framing: str, inflate: Inflate | None, most_bytes: int = MOST_STREAM_BYTES
    ) -> None:
        """At the body's first byte."""
        self._left_bytes = most_bytes
        self._transcript = transcript
        self._decoder = DECODERS[framing]()
        self._inflate = inflate
        self._times_ns: list[int] = []
        self._pieces: list[bytes] = []
        self.pending_bytes = 0
        self._read_id = 0
        """Of the oldest read that is kept."""
        self._last_ns = 0

    def add(self, times_ns: Sequence[int], pieces: Sequence[bytes]) -> None:
        """Those with nothing of the body in them are none."""
        if b"" in pieces:
            times_ns = [t_ns for t_ns, piece in zip(times_ns, pieces, strict=True) if piece]
            pieces = [piece for piece in pieces if piece]
        self._times_ns += times_ns
        self._pieces += pieces
        self.pending_bytes += sum(map(len, pieces))

    def read_some(self, most: int) -> bool:
        """From the oldest on."""
        times_ns, pieces = self._times_ns[:most], self._pieces[:most]
        del self._times_ns[:most], self._pieces[:most]
        read_bytes = sum(map(len, pieces))
        self.pending_bytes -= read_bytes
        self._left_bytes -= read_bytes
        if self._left_bytes < 0:
            raise ValueError("the stream does not end: it was given up")
        if times_ns:
            self._last_ns = times_ns[-1]
        first_read_id = self._read_id
        self._read_id += len(pieces)
        if self._inflate is not None:
            pieces = [self._inflate.feed(piece) for piece in pieces]
        read_ids = range(first_read_id, self._read_id)
        self._transcript.read_alike(times_ns, read_ids, pieces, self._decoder.around, self._read_each)
        return bool(self._pieces)

    def _read_each(self, times_ns: Sequence[int], read_ids: Sequence[int], pieces: Sequence[bytes]) -> bool:
        if pieces:
            self._transcript.read(timed_events(self._decoder, times_ns, pieces, read_ids[0]))
        return self._decoder.between_events

    def finish(self, clean: bool) -> None:
        """Where the framing lets the body's end complete an event, it was complete with the last read."""
        if clean:
            data = [data for data, _ in self._decoder.finish()]
            last = repeat(self._last_ns), repeat(self._read_id - 1)
            self._transcript.read(TimedEvents(*last, data, repeat(DEFAULT_TYPE)))


class WholeReading:
    """One document, complete with the body's last read."""

    __slots__ = ("_inflate", "_kept_bytes", "_last_ns", "_pieces", "_transcript", "pending_bytes")

    streams = False

    def __init__(self, transcript: Transcript, inflate: Inflate | None) -> None:
        """At the body's first byte."""
        self._transcript = transcript
        self._inflate = inflate
        self.pending_bytes = 0
        self._pieces: list[bytes] = []
        self._kept_bytes = 0
        self._last_ns = 0

    def add(self, times_ns: Sequence[int], pieces: Sequence[bytes]) -> None:
        """Nothing can be looked at before the end."""
        for t_ns, piece in zip(times_ns, pieces, strict=True):
            self._kept_bytes += len(piece)
            if self._kept_bytes <= MOST_WHOLE_BYTES:
                self._pieces.append(piece)
            self._last_ns = t_ns if piece else self._last_ns

    def read_some(self, most: int) -> bool:
        """There is nothing yet."""
        return False

    def finish(self, clean: bool) -> None:
        """Half a document is none."""
        if self._kept_bytes > MOST_WHOLE_BYTES:
            raise ValueError(f"a reply that was not streamed is longer than {MOST_WHOLE_BYTES} bytes")
        if clean:
            body = b"".join(self._pieces)
            self._transcript.read_whole(self._last_ns, self._inflate.feed(body) if self._inflate else body)


class ErrorReading:
    """The body of an HTTP error: its beginning is enough."""

    __slots__ = ("_inflate", "_kept", "_transcript", "pending_bytes")

    streams = False

    def __init__(self, transcript: Transcript, inflate: Inflate | None) -> None:
        """At the body's first byte."""
        self._transcript = transcript
        self._inflate = inflate
        self._kept = b""
        self.pending_bytes = 0

    def add(self, times_ns: Sequence[int], pieces: Sequence[bytes]) -> None:
        """Up to the limit."""
        if len(self._kept) < MOST_ERROR_BYTES:
            self._kept = b"".join((self._kept, *pieces))[:MOST_ERROR_BYTES]

    def read_some(self, most: int) -> bool:
        """There is nothing yet."""
        return False

    def finish(self, clean: bool) -> None:
        """What there is of it says what is wrong."""
        try:
            body = self._inflate.feed(self._kept) if self._inflate else self._kept
        except ValueError:
            return
        self._transcript.error = told_in(body) or None


def reading_of(head: Head, api: Api, streams: bool, transcript: Transcript) -> Reading:
    """For the body after this head. ValueError when it is compressed in a way that is not known here."""
    encoding = head.headers.get("content-encoding", "")
    if head.http_status >= FIRST_REDIRECT:
        try:
            return ErrorReading(transcript, inflater(encoding))
        except ValueError:
            return ErrorReading(transcript, None)
    kind = head.headers.get("content-type", "").partition(";")[0].strip().lower()
    if not streams or (kind == "application/json" and api.framing == SSE):
        return WholeReading(transcript, inflater(encoding))
    return StreamReading(transcript, api.framing, inflater(encoding))
