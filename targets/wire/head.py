"""The head of an HTTP/1 reply: status line and headers. Knows nothing of bodies."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

MOST_HEAD_BYTES = 65_536
SWITCHING_PROTOCOLS = 101
FIRST_FINAL_STATUS = 200
KEPT_LINES = 64

_END = re.compile(rb"\n\r?\n")
_STATUS_LINE = re.compile(rb"HTTP/1\.([01]) ([1-5][0-9]{2})(?: .*)?")
_NAME = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


@dataclass(frozen=True, slots=True)
class Head:
    """A final reply's head."""

    http_status: int
    headers: Mapping[str, str]
    """Names in lower case; values of one name are joined with commas."""
    keeps_alive: bool
    """Whether the server lets the connection serve another request."""


class HeadReader:
    """Collects bytes until a final head is complete; interim ones (100 Continue, 103 Early Hints) are passed over."""

    __slots__ = ("_kept", "_passed_bytes", "head")

    def __init__(self) -> None:
        """At the first byte of a reply."""
        self.head: Head | None = None
        self._kept = b""
        self._passed_bytes = 0

    @property
    def begun(self) -> bool:
        """Whether any byte came."""
        return bool(self._kept or self._passed_bytes or self.head)

    def feed(self, data: bytes) -> bytes:
        """Take the next bytes and give back those after the head: none while it is not complete.

        ValueError when this is no HTTP/1 reply.
        """
        data = self._kept + data
        while self.head is None:
            end = _END.search(data)
            if self._passed_bytes + (end.end() if end else len(data)) > MOST_HEAD_BYTES:
                raise ValueError(f"the reply's head is longer than {MOST_HEAD_BYTES} bytes")
            if end is None:
                if not _could_begin(data):
                    raise ValueError(f"not an HTTP reply: {data[:40]!r}")
                self._kept = data
                return b""
            head = parse_head(data[: end.start()])
            self._passed_bytes += end.end()
            data = data[end.end() :]
            if head.http_status >= FIRST_FINAL_STATUS or head.http_status == SWITCHING_PROTOCOLS:
                self.head = head
        self._kept = b""
        return data


def parse_head(text: bytes) -> Head:
    """Of the bytes before the empty line. ValueError when they are not a head."""
    first, *lines = text.replace(b"\r\n", b"\n").rstrip(b"\r").split(b"\n")
    found = _STATUS_LINE.fullmatch(first)
    if found is None:
        raise ValueError(f"not an HTTP/1 status line: {first[:40]!r}")
    headers: dict[str, str] = {}
    for name, value in _fields(lines):
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    words = [word.strip().lower() for word in headers.get("connection", "").split(",")]
    keeps_alive = "close" not in words and (found[1] == b"1" or "keep-alive" in words)
    return Head(int(found[2]), headers, keeps_alive)


def _fields(lines: list[bytes]) -> list[tuple[str, str]]:
    """Name and value of each; a line that begins with a blank goes on with the value before it."""
    fields: list[tuple[str, str]] = []
    for line in lines:
        if line[:1] in (b" ", b"\t"):
            if not fields:
                raise ValueError("the first header line begins with a blank")
            name, before = fields[-1]
            fields[-1] = (name, f"{before} {line.decode('latin-1').strip()}".strip())
            continue
        fields.append(_field(line))
    return fields


@lru_cache(KEPT_LINES)
def _field(line: bytes) -> tuple[str, str]:
    """A server's replies have most of their lines in common."""
    raw_name, colon, value = line.partition(b":")
    if not colon or not _NAME.fullmatch(raw_name):
        raise ValueError(f"not a header line: {line[:40]!r}")
    return raw_name.decode("ascii").lower(), value.decode("latin-1").strip()


def _could_begin(data: bytes) -> bool:
    return data.startswith(b"HTTP/1.") or b"HTTP/1.".startswith(data)
