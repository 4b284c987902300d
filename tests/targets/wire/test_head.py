"""The head of a reply, cut anywhere."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from targets.wire.head import MOST_HEAD_BYTES, HeadReader

HEAD = (
    b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nX-Long: one\r\n  two\r\n\tthree\r\nX-LONG: four\r\n\r\n"
)


@given(st.integers(0, len(HEAD)), st.integers(0, len(HEAD)))
def test_interim_heads_are_passed_over_and_what_follows_is_given_back(one: int, other: int) -> None:
    """100 and 103 are no replies; a value may go on in the next line; names are equal in any case."""
    first, second = sorted((one, other))
    reader = HeadReader()
    rest = [reader.feed(part) for part in (HEAD[:first], HEAD[first:second], HEAD[second:] + b"5\r\nhe")]
    assert b"".join(rest) == b"5\r\nhe"
    assert reader.head is not None and reader.head.http_status == 200
    assert reader.head.headers == {"content-type": "text/event-stream", "x-long": "one two three, four"}


def test_lines_may_end_in_a_bare_newline() -> None:
    """As some servers write them."""
    reader = HeadReader()
    assert reader.feed(b"HTTP/1.1 503 Busy\nA: b\n\nbody") == b"body"
    assert reader.head is not None and (reader.head.http_status, dict(reader.head.headers)) == (503, {"a": "b"})


@pytest.mark.parametrize(
    ("version", "connection", "keeps"),
    [("1.1", "", True), ("1.1", "keep-alive", True), ("1.1", "Close", False), ("1.1", "x, close", False),
     ("1.0", "", False), ("1.0", "Keep-Alive", True)],
)  # fmt: skip
def test_a_connection_is_kept_as_the_version_and_the_header_say(version: str, connection: str, keeps: bool) -> None:
    """HTTP/1.1 unless told otherwise, HTTP/1.0 only when told."""
    reader = HeadReader()
    reader.feed(f"HTTP/{version} 200 OK\r\nConnection: {connection}\r\n\r\n".encode())
    assert reader.head is not None and reader.head.keeps_alive is keeps


@pytest.mark.parametrize(
    "data",
    [b"SSH-2.0-OpenSSH", b"HTTP/2 200\r\n\r\n", b"HTTP/1.1 2x0 OK\r\n\r\n", b"HTTP/1.1 999 OK\r\n\r\n", b"\x15\x03\x01",
     b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n", b"HTTP/1.1 200 OK\r\n a: b\r\n\r\n", b"HTTP/1.1 200 OK\r\na : b\r\n\r\n",
     b"HTTP/1.1 200 OK\r\nA: " + b"x" * MOST_HEAD_BYTES, b"HTTP/1.1 100 C\r\n\r\n" * 4_000],
)  # fmt: skip
def test_what_is_no_head_is_refused(data: bytes) -> None:
    """At once, not when the connection ends; a head without an end is one of them."""
    with pytest.raises(ValueError):
        HeadReader().feed(data)


def test_a_reply_has_begun_with_its_first_byte() -> None:
    """An interim head is a beginning too."""
    reader = HeadReader()
    assert not reader.begun
    reader.feed(b"H")
    assert reader.begun
    other = HeadReader()
    other.feed(b"HTTP/1.1 100 Continue\r\n\r\n")
    assert other.begun and other.head is None
