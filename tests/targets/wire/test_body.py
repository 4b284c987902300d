"""How long a body is."""

import pytest

from targets.wire.body import CountedBody, UnendedBody, body_of
from targets.wire.chunked import ChunkedBody
from targets.wire.head import Head


def head(http_status: int = 200, **headers: str) -> Head:
    """Underscores for hyphens."""
    return Head(http_status, {name.replace("_", "-"): value for name, value in headers.items()}, True)


def test_the_head_decides() -> None:
    """Chunks win over a length, a length over the connection's end, and some replies have no body."""
    assert isinstance(body_of(head(transfer_encoding="Chunked", content_length="5")), ChunkedBody)
    assert isinstance(body_of(head(content_length="5, 5")), CountedBody)
    assert isinstance(body_of(head()), UnendedBody)
    assert body_of(head(204, transfer_encoding="chunked")).ended
    assert body_of(head(content_length="0")).ended


@pytest.mark.parametrize(
    "headers",
    [{"content_length": "-1"}, {"content_length": "5, 6"}, {"content_length": "five"}, {"content_length": "\u0665"},
     {"content_length": "9" * 20}, {"transfer_encoding": "gzip, chunked"}],
)  # fmt: skip
def test_lengths_that_are_none_are_refused(headers: dict[str, str]) -> None:
    """And codings that are not known."""
    with pytest.raises(ValueError):
        body_of(head(**headers))


def test_a_counted_body_ends_at_its_length() -> None:
    """What comes after it is surplus."""
    body = CountedBody(5)
    assert body.feed_all([b"a", b"bc"]) == [b"a", b"bc"] and not body.ended
    assert body.feed_all([b"defg", b"h"]) == [b"de"] and body.ended and body.surplus


def test_bytes_after_a_body_of_no_bytes_are_surplus() -> None:
    """Whoever sends them cannot be asked again over the same connection."""
    body = CountedBody(0)
    assert body.feed_all([b"junk"]) == [] and body.surplus


def test_only_a_body_without_a_length_ends_with_its_connection() -> None:
    """For all others that is too early."""
    assert UnendedBody().may_end_with_connection
    assert not CountedBody(5).may_end_with_connection and not ChunkedBody().may_end_with_connection
