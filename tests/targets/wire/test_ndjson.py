"""One document a line, cut anywhere."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from targets.wire import ndjson
from targets.wire.ndjson import Lines

BODY = st.lists(st.sampled_from([b'{"a":1}', b"", b" ", b'{"b":"\xc3\xa9"}', b"x\r"]), max_size=6).map(b"\n".join)


@given(BODY, st.lists(st.integers(0, 200), max_size=10))
def test_any_cut_gives_the_lines_of_the_whole(body: bytes, at: list[int]) -> None:
    """Without empty ones; the last needs no line end."""
    places = sorted({0, len(body), *(place % (len(body) + 1) for place in at)})
    lines = Lines()
    events = [event for begin, end in itertools.pairwise(places) for event in lines.feed(body[begin:end])]
    assert [*events, *lines.finish()] == [(line.strip(), "message") for line in body.split(b"\n") if line.strip()]


@given(st.lists(st.lists(st.sampled_from([b"a\n", b"b\r\n", b"c", b"\n", b" \n", b"d\ne\n"]), min_size=1), max_size=4))
def test_the_short_cut_for_whole_lines_gives_the_same(batches: list[list[bytes]]) -> None:
    """It takes all or nothing."""
    fast, slow = Lines(), Lines()
    for bodies in batches:
        expected = [event for body in bodies for event in slow.feed(body)]
        plain = fast.whole_events(b"".join(bodies))
        if plain is None:
            assert [event for body in bodies for event in fast.feed(body)] == expected
        else:
            assert [(data, "message") for data in plain] == expected
            assert sum(map(len, bodies)) == sum(len(data) + sum(map(len, fast.around)) for data in plain)


def test_the_short_cut_is_taken() -> None:
    """Where lines have no blanks around them."""
    assert Lines().whole_events(b"a\nb\n") == [b"a", b"b"]


def test_a_line_without_an_end_is_bounded() -> None:
    """A server cannot fill memory."""
    lines = Lines()
    with pytest.raises(ValueError, match="longer than"):
        for _ in range(ndjson.MOST_EVENT_BYTES // 1_000_000 + 2):
            lines.feed(b"x" * 1_000_000)
