"""Bodies that a server compressed although it was asked not to."""

import zlib

MOST_INFLATED_BYTES = 64 << 20
ZLIB_OR_GZIP = 32 + zlib.MAX_WBITS


class Inflate:
    """gzip and deflate, cut anywhere."""

    __slots__ = ("_inflated_bytes", "_stream")

    def __init__(self) -> None:
        """At the first byte of a body."""
        self._stream = zlib.decompressobj(ZLIB_OR_GZIP)
        self._inflated_bytes = 0

    def feed(self, body: bytes) -> bytes:
        """What these bytes give. ValueError when they are not compressed, or give too much."""
        try:
            given = self._stream.decompress(body, MOST_INFLATED_BYTES - self._inflated_bytes + 1)
        except zlib.error as error:
            raise ValueError(f"the compressed body is faulty ({error})") from None
        self._inflated_bytes += len(given)
        if self._inflated_bytes > MOST_INFLATED_BYTES:
            raise ValueError(f"the compressed body holds more than {MOST_INFLATED_BYTES} bytes")
        return given


def inflater(content_encoding: str) -> Inflate | None:
    """For this coding; None: nothing to do. ValueError when it is one that is not known here."""
    coding = content_encoding.strip().lower()
    if coding in ("", "identity"):
        return None
    if coding in ("gzip", "x-gzip", "deflate"):
        return Inflate()
    raise ValueError(f"the server compressed with {coding[:40]!r} although asked not to, and that is not read here")
