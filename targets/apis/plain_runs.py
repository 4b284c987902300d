"""Most events of a stream are the same bytes around another text: such runs are read together, parsed once.

An event is taken apart at the first `"content":"` (or whatever the mark is) and at the next quote. What stands around
the text is parsed with a probe in the text's place. Where the probe comes out as the event's text, so would the body of
any other JSON string: JSON has no other way to read it.
"""

from collections.abc import Callable, Sequence
from itertools import repeat
from operator import and_

import orjson

from targets.api import Delta, PlainRun

PROBE = "probe of the place"
SHORTEST_RUN = 8
"""A run costs about as much as reading so many events one by one."""
QUOTE = b'"'
ESCAPE = b"\\"
Read = Callable[[bytes], Delta | None]


def plain_run(data: Sequence[bytes], mark: bytes, read: Read) -> PlainRun | None:
    """The events about the middle one that differ from it in their texts alone; None: they are no run worth it.

    `mark` is what the generated text stands behind, its opening quote included. `read` is how one event is read.
    """
    if len(data) < SHORTEST_RUN:
        return None
    at = next((at for at in range(len(data) // 2, len(data)) if ESCAPE not in data[at]), 0)
    head, tail = _taken_apart(data[at], mark)
    if not head or not _is_plain(head, tail, read):
        return None
    first, last = _around(at, data, head, tail)
    written = [one[len(head) : -len(tail)] for one in data[first:last]]
    texts = _strings(written) if len(written) >= SHORTEST_RUN and b"" not in written else None
    return None if texts is None else PlainRun(first, last, texts)


def _taken_apart(event: bytes, mark: bytes) -> tuple[bytes, bytes]:
    """What stands before and after the text; nothing where there is no such text."""
    head, found, rest = event.partition(mark)
    _, quote, tail = rest.partition(QUOTE)
    return (head + found, quote + tail) if quote else (b"", b"")


def _around(at: int, data: Sequence[bytes], head: bytes, tail: bytes) -> tuple[int, int]:
    """Where the events that begin and end like this one begin and end."""
    begin_alike = map(bytes.startswith, data, repeat(head))
    fits = bytes(map(and_, begin_alike, map(bytes.endswith, data, repeat(tail))))
    last = fits.find(0, at)
    return fits.rfind(0, 0, at) + 1, len(data) if last < 0 else last


def _is_plain(head: bytes, tail: bytes, read: Read) -> bool:
    try:
        delta = read(head + PROBE.encode() + tail)
    except ValueError:
        return False
    return delta is not None and delta == Delta(PROBE, reply_id=delta.reply_id)


def _strings(written: Sequence[bytes]) -> list[str] | None:
    """Of bodies of JSON strings; None: one of them is none.

    A list of them all has as many strings only if none runs into the next: no body ends in a backslash that escapes
    the quote after it, and those with a quote of their own are strings by themselves.
    """
    try:
        for one in written:
            if QUOTE in one and type(orjson.loads(QUOTE + one + QUOTE)) is not str:
                return None
        texts: list[str] = orjson.loads(b'["' + b'","'.join(written) + b'"]')
    except orjson.JSONDecodeError:
        return None
    return texts if len(texts) == len(written) else None
