"""Server-sent events, cut at any byte."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from targets.wire import sse
from targets.wire.sse import EventStream

LINE = st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]), max_size=12)
FIELD = st.one_of(
    LINE.map(lambda text: f"data: {text}"),
    LINE.map(lambda text: f"data:{text}"),
    LINE.map(lambda text: f": {text}"),
    st.sampled_from(["event: delta", "event:", "id: 7", "retry: 10", "data", "unknown: x", "dat", "event: é"]),
    LINE,
)
STREAM = st.lists(
    st.tuples(st.lists(FIELD, max_size=4), st.sampled_from(["\n", "\r", "\r\n"])), max_size=5
).map(lambda events: "".join("".join(line + end for line in lines) + end for lines, end in events).encode())
CUTS = st.lists(st.integers(0, 10_000), max_size=30)


def events_of(parts: list[bytes]) -> list[tuple[bytes, str]]:
    """Of a stream in these pieces."""
    stream = EventStream()
    return [event for part in parts for event in stream.feed(part)]


def oracle(text: bytes) -> list[tuple[bytes, str]]:
    """The grammar, line by line, of a stream that is there as a whole."""
    lines = text.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
    events, data, kind = [], [], ""
    for line in lines[:-1]:
        if not line:
            if data:
                events.append((b"\n".join(data), kind or "message"))
            data, kind = [], ""
        elif not line.startswith(b":"):
            name, _, value = line.partition(b":")
            value = value[1:] if value.startswith(b" ") else value
            if name == b"data":
                data.append(value)
            elif name == b"event":
                kind = value.decode(errors="replace")
    return events


@given(STREAM, st.booleans(), CUTS)
def test_any_cut_gives_the_events_of_the_whole(stream: bytes, marked: bool, at: list[int]) -> None:
    """Inside a character, between CR and LF, inside the byte order mark."""
    stream = b"\xef\xbb\xbf" * marked + stream
    places = sorted({0, len(stream), *(place % (len(stream) + 1) for place in at)})
    parts = [stream[begin:end] for begin, end in itertools.pairwise(places)]
    assert events_of(parts) == oracle(stream)
    assert events_of([bytes([byte]) for byte in stream]) == oracle(stream)


@pytest.mark.parametrize(
    ("stream", "events"),
    [
        (b"data: a\n\n", [(b"a", "message")]),
        (b"data:a\n\n", [(b"a", "message")]),
        (b"data:  a\n\n", [(b" a", "message")]),
        (b"data\n\n", [(b"", "message")]),
        (b"data: a\ndata: b\n\n", [(b"a\nb", "message")]),
        (b"event: error\ndata: x\n\ndata: y\n\n", [(b"x", "error"), (b"y", "message")]),
        (b"event: lost\n\ndata: y\n\n", [(b"y", "message")]),
        (b": ping\n\ndata: a\r\n\r\ndata: b\r\rid: 1\nretry: 5\ndata: c\n\n",
         [(b"a", "message"), (b"b", "message"), (b"c", "message")]),
        (b"\xef\xbb\xbfdata: a\n\n", [(b"a", "message")]),
        (b"data: a\n\n\xef\xbb\xbfdata: b\n\n", [(b"a", "message")]),
        (b"data: \xf0\x9f\x98\x80\n\n", [("😀".encode(), "message")]),
        (b"data: [DONE]\n", []),
        (b"data: half", []),
    ],
)  # fmt: skip
def test_the_grammar(stream: bytes, events: list[tuple[bytes, str]]) -> None:
    """Known answers; an event is only one when its empty line has come."""
    assert events_of([stream]) == events
    assert EventStream().finish() == []


BODIES = st.one_of(
    st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]), min_size=1, max_size=8).map(
        lambda text: f"data: {text}\n\n".encode()
    ),
    st.sampled_from([b"data: a\n\ndata: b\n\n", b"data: a\n", b"\n", b": c\n\n", b"data: \n\n", b"data: a\r\n\r\n",
                     b"data: \ndata: \n\n", b"data: a\n\nda", b"ta: b\n\n", b"data: x\r\n\n", b"event: e\n"]),
)  # fmt: skip


@given(st.lists(st.lists(BODIES, min_size=1, max_size=4), max_size=5))
def test_the_short_cut_for_whole_events_gives_the_same(batches: list[list[bytes]]) -> None:
    """It takes all or nothing, and afterwards the stream is where it would be."""
    fast, slow = EventStream(), EventStream()
    for bodies in batches:
        expected = [event for body in bodies for event in slow.feed(body)]
        plain = fast.whole_events(b"".join(bodies))
        if plain is None:
            assert [event for body in bodies for event in fast.feed(body)] == expected
        else:
            assert [(data, "message") for data in plain] == expected
            assert sum(map(len, bodies)) == sum(len(data) + sum(map(len, fast.around)) for data in plain)


def test_the_short_cut_is_taken() -> None:
    """From the first read of a stream on, unless a byte order mark may be coming."""
    assert EventStream().whole_events(b"data: a\n\ndata: b\n\n") == [b"a", b"b"]
    begun = EventStream()
    begun.feed(b"\xef")
    assert begun.whole_events(b"data: a\n\n") is None


def test_a_line_without_an_end_is_bounded() -> None:
    """A server cannot fill memory; long lines below the limit cost no more than their length."""
    stream = EventStream()
    piece = b"x" * 1_000_000
    stream.feed(b"data: ")
    with pytest.raises(ValueError, match="longer than"):
        for _ in range(sse.MOST_EVENT_BYTES // len(piece) + 2):
            stream.feed(piece)


def test_many_events_are_no_long_event() -> None:
    """What has been given out is not counted."""
    stream = EventStream()
    data = b"x" * 1_000_000
    for _ in range(sse.MOST_EVENT_BYTES // len(data) + 3):
        assert stream.feed(b"data: " + data[:500_000]) == []
        assert stream.feed(data[:500_000] + b"\ndata: y\n\n") == [(data + b"\ny", "message")]
