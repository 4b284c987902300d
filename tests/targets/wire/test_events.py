"""When events were complete."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from targets.wire.events import EventDecoder, timed_events
from targets.wire.ndjson import Lines
from targets.wire.sse import EventStream

STREAM = b": hi\n\n" + b"".join(b"data: %d\n\n" % at for at in range(6)) + b"event: done\ndata: x\ndata: y\n\n"
ENDS = {STREAM.index(b"data: %d\n\n" % at) + 8: (b"%d" % at, "message") for at in range(6)} | {
    len(STREAM) - 1: (b"x\ny", "done")
}
"""Place of the byte that completes an event -> the event."""


def rows_of(decoder: EventDecoder, reads: list[tuple[int, bytes]], at_once: int) -> list[tuple[int, int, bytes, str]]:
    """Of timed reads, taken so many at a time."""
    rows = []
    for first in range(0, len(reads), at_once):
        some = reads[first : first + at_once]
        events = timed_events(decoder, [t_ns for t_ns, _ in some], [body for _, body in some], first)
        rows += list(zip(events.t_ns, events.read_ids, events.data, events.types, strict=False))
    return rows


@given(st.lists(st.integers(1, len(STREAM)), max_size=20), st.integers(1, 5))
def test_an_event_has_the_time_and_number_of_the_read_that_completed_it(at: list[int], at_once: int) -> None:
    """Wherever the reads end, and however many are looked at together."""
    places = sorted({0, len(STREAM), *at})
    reads = [(1_000 + end, STREAM[begin:end]) for begin, end in itertools.pairwise(places)]
    expected = []
    for place, (data, kind) in ENDS.items():
        read_id = next(number for number, end in enumerate(places[1:]) if end > place)
        expected.append((1_000 + places[1 + read_id], read_id, data, kind))
    assert rows_of(EventStream(), reads, at_once) == expected


def test_events_of_one_read_share_its_time() -> None:
    """And its number; those without data are left out."""
    reads = [(5, b"data: a\n\ndata:\n\ndata: b\n\n"), (6, b"data: c\n\n")]
    assert rows_of(EventStream(), reads, 2) == [
        (5, 0, b"a", "message"), (5, 0, b"b", "message"), (6, 1, b"c", "message"),
    ]  # fmt: skip


def test_lines_are_timed_the_same_way() -> None:
    """NDJSON, a line in two reads."""
    assert rows_of(Lines(), [(5, b'{"a"'), (6, b":1}\n"), (7, b"2\n")], 2) == [
        (6, 1, b'{"a":1}', "message"), (7, 2, b"2", "message"),
    ]  # fmt: skip


PLAIN = b"".join(b"data: %d\n\n" % at for at in range(98, 104))


@given(st.lists(st.integers(1, len(PLAIN)), max_size=12))
def test_whole_events_have_the_time_of_the_read_that_completed_each(at: list[int]) -> None:
    """Taken in one step, however their reads were cut, they are those taken one by one."""
    places = sorted({0, len(PLAIN), *at})
    reads = [(1_000 + end, PLAIN[begin:end]) for begin, end in itertools.pairwise(places)]
    assert rows_of(EventStream(), reads, len(reads)) == rows_of(EventStream(), reads, 1)
    assert len(rows_of(EventStream(), reads, len(reads))) == 6
