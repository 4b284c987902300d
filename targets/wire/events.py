"""What all decoders of events have in common, and when each event was complete."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Protocol

Event = tuple[bytes, str]
"""Its data and its type."""
DEFAULT_TYPE = "message"
MOST_EVENT_BYTES = 16 << 20


class EventDecoder(Protocol):
    """Turns a body, cut anywhere, into events."""

    def feed(self, body: bytes) -> Sequence[Event]:
        """The events that these bytes complete. ValueError when one is too long to be kept."""
        ...

    def one_each(self, bodies: Sequence[bytes]) -> Sequence[bytes] | None:
        """As `feed` of one after another, where each is exactly one event of the usual type with data: the data.

        None: they are not known to be, and nothing was taken. This is how nearly all streams come, and all of them
        are checked in a few passes over the joined bytes.
        """
        ...

    def finish(self) -> Sequence[Event]:
        """The events that the body's clean end completes."""
        ...


@dataclass(frozen=True, slots=True)
class TimedEvents:
    """Columns of events, one entry each."""

    t_ns: Iterable[int]
    """When the read that completed it arrived."""
    read_ids: Iterable[int]
    """The number of that read."""
    data: Iterable[bytes]
    types: Iterable[str]
    one_each: bool = False
    """Each read held one event of the usual type: the columns are sequences."""


NO_EVENTS = TimedEvents((), (), (), ())


def timed_events(
    decoder: EventDecoder, times_ns: Sequence[int], bodies: Sequence[bytes], first_read_id: int
) -> TimedEvents:
    """The events of these reads, each with the arrival of the read that completed it; reads are numbered on.

    Events without data bear nothing and are left out.
    """
    plain = decoder.one_each(bodies)
    if plain is not None:
        read_ids = range(first_read_id, first_read_id + len(plain))
        return TimedEvents(times_ns, read_ids, plain, repeat(DEFAULT_TYPE), True)
    feed = decoder.feed
    rows = [
        (t_ns, read_id, data, event_type)
        for read_id, (t_ns, body) in enumerate(zip(times_ns, bodies, strict=True), first_read_id)
        for data, event_type in feed(body)
        if data
    ]
    if not rows:
        return NO_EVENTS
    arrived_ns, reads, data, types = zip(*rows, strict=True)
    return TimedEvents(arrived_ns, reads, data, types)
