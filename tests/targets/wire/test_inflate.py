"""Bodies that came compressed."""

import gzip
import zlib

import pytest

from targets.wire import inflate
from targets.wire.inflate import inflater


@pytest.mark.parametrize(
    ("coding", "compress"), [("gzip", gzip.compress), ("X-GZIP", gzip.compress), ("deflate", zlib.compress)]
)
def test_compressed_bodies_are_read_byte_by_byte(coding: str, compress: object) -> None:
    """gzip and deflate, cut anywhere."""
    body = inflater(coding)
    assert body is not None and callable(compress)
    packed = compress(b"data: a\n\n" * 50)
    assert b"".join(body.feed(bytes([byte])) for byte in packed) == b"data: a\n\n" * 50


def test_nothing_is_done_where_nothing_was_compressed() -> None:
    """identity is no coding."""
    assert inflater("") is None and inflater(" Identity ") is None


def test_what_cannot_be_read_is_refused() -> None:
    """Unknown codings by name, faulty bodies, and bodies that grow without end."""
    with pytest.raises(ValueError, match="'br' although"):
        inflater("br")
    body = inflater("gzip")
    assert body is not None
    with pytest.raises(ValueError, match="faulty"):
        body.feed(b"plain text")
    bomb = inflater("deflate")
    assert bomb is not None
    with pytest.raises(ValueError, match="more than"):
        bomb.feed(zlib.compress(bytes(inflate.MOST_INFLATED_BYTES + 1)))
