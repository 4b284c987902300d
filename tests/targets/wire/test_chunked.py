"""The chunked transfer coding, cut anywhere."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from targets.wire.chunked import FEW_READS, MOST_LINE_BYTES, MOST_TRAILER_BYTES, ChunkedBody

END = b"0\r\n\r\n"
PIECES = st.lists(st.binary(min_size=1, max_size=60), max_size=6)
EXTENSIONS = st.sampled_from([b"", b";a=b", b" ; q", b';n="x"'])
TRAILERS = st.lists(st.sampled_from([b"Server-Timing: a", b"X: ", b"Digest: 0"]), max_size=2)


def chunked(pieces: list[bytes], extension: bytes = b"", trailers: list[bytes] | None = None) -> bytes:
    """A whole body on the wire."""
    chunks = b"".join(b"%x%s\r\n%s\r\n" % (len(piece), extension, piece) for piece in pieces)
    return chunks + b"0" + extension + b"\r\n" + b"".join(line + b"\r\n" for line in trailers or ()) + b"\r\n"


def cut(data: bytes, at: list[int]) -> list[bytes]:
    """The data in pieces."""
    places = sorted({0, len(data), *(place % (len(data) + 1) for place in at)})
    return [data[begin:end] for begin, end in itertools.pairwise(places)]


def fed(body: ChunkedBody, *reads: bytes) -> bytes:
    """What these reads hold of the body."""
    return b"".join(body.feed_all(reads))


@given(PIECES, EXTENSIONS, TRAILERS, st.lists(st.integers(0, 10_000), max_size=40))
def test_any_cut_gives_the_same_body_and_ends_with_the_last_byte(
    pieces: list[bytes], extension: bytes, trailers: list[bytes], at: list[int]
) -> None:
    """Extensions and trailers are passed over, and the end is seen with its last byte, never before."""
    body = ChunkedBody()
    got = b""
    for part in cut(chunked(pieces, extension, trailers), at):
        assert not body.ended
        got += fed(body, part)
        assert not body.ended or part.endswith(body.last_bytes) or len(part) < len(body.last_bytes)
    assert got == b"".join(pieces)
    assert body.ended and body.fault is None and not body.surplus


@given(PIECES, EXTENSIONS, TRAILERS, st.lists(st.integers(0, 10_000), max_size=40))
def test_reads_fed_together_are_reads_fed_one_by_one(
    pieces: list[bytes], extension: bytes, trailers: list[bytes], at: list[int]
) -> None:
    """One piece for each, empty where a read has nothing of the body."""
    reads = cut(chunked(pieces, extension, trailers), at)
    together, each = ChunkedBody(), ChunkedBody()
    assert together.feed_all(reads) == [fed(each, one) for one in reads]
    assert together.ended and each.ended


def test_reads_after_the_one_that_ends_it_are_not_taken() -> None:
    """There is a piece for each that was."""
    for wire in (b"1\r\na\r\n0\r\n\r\n", b"1\r\naX"):
        assert ChunkedBody().feed_all([wire, b"1\r\nb\r\n"]) == [b"a"]


ODD = st.sampled_from(
    [b"", b"0", b"\r\n", b"1\r\na", b"1\r\na\r\n2\r\nbc\r\n", b"2\r\na\r\n", b"5;x\r\nabcde\r\n", END]
)


@given(st.lists(st.binary(min_size=1, max_size=40), min_size=FEW_READS, max_size=30), ODD, st.booleans(), st.data())
def test_many_reads_of_one_chunk_each_are_taken_together(
    pieces: list[bytes], odd: bytes, capital: bool, data: st.DataObject
) -> None:
    """To the same result as one by one, also where one among them is cut, is several, ends the body or is at fault."""
    reads = [(b"%X\r\n%s\r\n" if capital else b"%x\r\n%s\r\n") % (len(piece), piece) for piece in pieces]
    reads.insert(data.draw(st.integers(0, len(reads))), odd)
    together, each = ChunkedBody(), ChunkedBody()
    expected: list[bytes] = []
    for read in reads:
        if not each.ended:
            expected += each.feed_all([read])
    assert together.feed_all(reads) == expected
    assert (together.ended, together.fault) == (each.ended, each.fault)
    together.feed_all([END])
    each.feed_all([END])
    assert (together.ended, together.fault) == (each.ended, each.fault)


def test_data_that_looks_like_chunks_is_data() -> None:
    """Also where each read of it is what a chunk would be."""
    reads = [b"1\r\na\r\n"] * (2 * FEW_READS)
    body = ChunkedBody()
    assert fed(body, b"%x\r\n" % len(b"".join(reads))) == b""
    assert body.feed_all(reads) == reads


@given(PIECES)
def test_byte_by_byte_is_a_cut_too(pieces: list[bytes]) -> None:
    """No byte needs its neighbour."""
    body = ChunkedBody()
    wire = chunked(pieces)
    assert fed(body, *(wire[at : at + 1] for at in range(len(wire)))) == b"".join(pieces)
    assert body.ended and body.fault is None


@given(st.binary(min_size=1, max_size=3_000), st.booleans())
def test_one_chunk_a_read_takes_a_short_cut_to_the_same_result(piece: bytes, capital: bool) -> None:
    """However the size is written, and whatever the data looks like."""
    body = ChunkedBody()
    wire = (b"%X\r\n" if capital else b"%x\r\n") % len(piece) + piece + b"\r\n"
    assert fed(body, wire) == piece
    assert fed(body, wire) == piece
    assert not body.ended
    assert fed(body, b"0\r\n\r\n") == b"" and body.ended


@pytest.mark.parametrize(
    "wire",
    [b"zz\r\n", b"-5\r\nabcde\r\n", b"+5\r\nabcde\r\n", b"0x5\r\nabcde\r\n", b"1_0\r\n", b" 5\r\nabcde\r\n", b"\r\n",
     b"5\nabcde\n", b"5\r\nabcdeX\r\n", b"5\r\nabcdeXY", b"3\r\nabcde\r\n", b"5\r\nabcde\n0\r\n\r\n",
     b"hello, this is no chunk",
     b"1" * 16 + b"\r\n", b"5;a\nb\r\nabcde\r\n"],
)  # fmt: skip
def test_what_is_no_chunk_is_a_fault_however_it_is_cut(wire: bytes) -> None:
    """Sizes are bare hexadecimal digits and lines end in CRLF; the good chunks before are kept."""
    for parts in ([b"2\r\nok\r\n" + wire], [b"2\r\nok\r\n", wire], [b"2\r\nok\r\n", *(bytes([one]) for one in wire)]):
        body = ChunkedBody()
        got = fed(body, *parts)
        assert got.startswith(b"ok")
        assert body.ended and body.fault is not None


def test_what_follows_the_end_is_surplus() -> None:
    """Not part of the body."""
    body = ChunkedBody()
    assert fed(body, b"2\r\nok\r\n0\r\n\r\nHTTP/1.1 200") == b"ok"
    assert body.ended and body.surplus and body.fault is None


@pytest.mark.parametrize(
    "wire",
    [b"5;" + b"x" * (MOST_LINE_BYTES + 2), b"0\r\n" + b"X: " + b"y" * (MOST_LINE_BYTES + 2),
     b"0\r\n" + (b"X: " + b"y" * 8_000 + b"\r\n") * (MOST_TRAILER_BYTES // 8_000 + 1)],
)  # fmt: skip
def test_lines_between_chunks_are_bounded(wire: bytes) -> None:
    """A server cannot fill memory with extensions or trailers."""
    body = ChunkedBody()
    fed(body, wire)
    assert body.fault is not None
