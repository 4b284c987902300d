"""What all decoders of events have in common, and when each event was complete."""

from collections.abc import Iterator, Sequence
from typing import Protocol

Event = tuple[bytes, str]
"""Its data and its type."""
TimedEvent = tuple[int, int, bytes, str]
"""When the read that completed it arrived, the number of that read, and the event."""
DEFAULT_TYPE = "message"
MOST_EVENT_BYTES = 16 << 20


class EventDecoder(Protocol):
    """Turns a body, cut anywhere, into events."""

    def feed(self, body: bytes) -> Sequence[Event]:
        """The events that these bytes complete. ValueError when one is too long to be kept."""
        ...

    def finish(self) -> Sequence[Event]:
        """The events that the body's clean end completes."""
        ...


def timed_events(
    decoder: EventDecoder, times_ns: Sequence[int], bodies: Sequence[bytes], first_read_id: int
) -> Iterator[TimedEvent]:
    """The events of these reads, each with the arrival of the read that completed it; reads are numbered on."""
    feed = decoder.feed
    read_id = first_read_id
    for t_ns, body in zip(times_ns, bodies, strict=True):
        for data, event_type in feed(body):
            yield t_ns, read_id, data, event_type
        read_id += 1
