"""What all decoders of events have in common, and when each event was complete."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, repeat
from typing import Protocol

Event = tuple[bytes, str]
"""Its data and its type."""
Around = tuple[bytes, bytes]
DEFAULT_TYPE = "message"
MOST_EVENT_BYTES = 16 << 20


class EventDecoder(Protocol):
    """Turns a body, cut anywhere, into events."""

    around: Around
    """What stands before and after the data of most events, and all that `whole_events` leaves out of each."""

    @property
    def between_events(self) -> bool:
        """Whether what comes next begins an event."""
        ...

    def feed(self, body: bytes) -> Sequence[Event]:
        """The events that these bytes complete. ValueError when one is too long to be kept."""
        ...

    def whole_events(self, body: bytes) -> Sequence[bytes] | None:
        """As `feed` of this, where it is plainly whole events of the usual type, each with data: the data.

        None: it is not known to be, and nothing was taken. This is how nearly all streams come, and all of it is
        checked in a few passes over many reads.
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
    plain: bool = False
    """Every event is of the usual type, and the other columns are sequences."""


ALL_USUAL = repeat(DEFAULT_TYPE)
NO_EVENTS = TimedEvents((), (), (), ())


def timed_events(
    decoder: EventDecoder, times_ns: Sequence[int], bodies: Sequence[bytes], first_read_id: int
) -> TimedEvents:
    """The events of these reads, each with the arrival of the read that completed it; reads are numbered on.

    Events without data bear nothing and are left out.
    """
    plain = decoder.whole_events(b"".join(bodies))
    if plain is not None:
        around_bytes = sum(map(len, decoder.around))
        reads = _ended_in([len(one) + around_bytes for one in plain], list(map(len, bodies)))
        if reads is None:
            return TimedEvents(times_ns, range(first_read_id, first_read_id + len(plain)), plain, ALL_USUAL, True)
        arrived = [times_ns[read] for read in reads]
        return TimedEvents(arrived, [first_read_id + read for read in reads], plain, ALL_USUAL, True)
    feed = decoder.feed
    rows = [
        (t_ns, read_id, data, event_type)
        for read_id, (t_ns, body) in enumerate(zip(times_ns, bodies, strict=True), first_read_id)
        for data, event_type in feed(body)
        if data
    ]
    if not rows:
        return NO_EVENTS
    arrived_ns, ids, data, types = zip(*rows, strict=True)
    return TimedEvents(arrived_ns, ids, data, types)


def _ended_in(sizes: Sequence[int], read_sizes: Sequence[int]) -> list[int] | None:
    """Of events that follow on each other in reads that do: the read that completed each; None: each in its own."""
    if sizes == read_sizes:
        return None
    reads: list[int] = []
    read, read_end = 0, read_sizes[0]
    for event_end in accumulate(sizes):
        while read_end < event_end:
            read += 1
            read_end += read_sizes[read]
        reads.append(read)
    return reads
