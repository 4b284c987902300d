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


def plain_run(data: Sequence[bytes], mark: bytes, read: Read, before: bytes, after: bytes) -> PlainRun | None:
    """The events about the middle one that differ from it in their texts alone; None: they are no run worth it.

    `mark` is what the generated text stands behind, its opening quote included. `read` is how one event is read.
    `before` and `after` are what stands around an event in its line or lines, if anything does.
    """
    if len(data) < SHORTEST_RUN:
        return None
    at = next((at for at in range(len(data) // 2, len(data)) if ESCAPE not in data[at]), 0)
    head, tail = _taken_apart(data[at], mark)
    if not head or not _is_plain(head, tail, read, before, after):
        return None
    first, last = _without_ends(data, head, tail)
    written = _between(data[first:last], head, tail)
    if written is None:
        first, last = _around(at, data, head, tail)
        written = _between(data[first:last], head, tail)
    texts = _strings(written) if written is not None and len(written) >= SHORTEST_RUN else None
    return None if texts is None else PlainRun(first, last, texts)


def _taken_apart(event: bytes, mark: bytes) -> tuple[bytes, bytes]:
    """What stands before and after the text; nothing where there is no such text."""
    head, found, rest = event.partition(mark)
    _, quote, tail = rest.partition(QUOTE)
    return (head + found, quote + tail) if quote else (b"", b"")


def _without_ends(data: Sequence[bytes], head: bytes, tail: bytes) -> tuple[int, int]:
    """Where those begin and end that have others only before and after them, which is how most are."""
    first, last = 0, len(data)
    while not (data[first].startswith(head) and data[first].endswith(tail)):
        first += 1
    while not (data[last - 1].startswith(head) and data[last - 1].endswith(tail)):
        last -= 1
    return first, last


def _around(at: int, data: Sequence[bytes], head: bytes, tail: bytes) -> tuple[int, int]:
    """Where the events that begin and end like this one begin and end."""
    begin_alike = map(bytes.startswith, data, repeat(head))
    fits = bytes(map(and_, begin_alike, map(bytes.endswith, data, repeat(tail))))
    last = fits.find(0, at)
    return fits.rfind(0, 0, at) + 1, len(data) if last < 0 else last


def _between(data: Sequence[bytes], head: bytes, tail: bytes) -> list[bytes] | None:
    """What stands in each between this beginning and this end; None: in one there is nothing, or it has others.

    All are checked at once: the events are written anew and compared. That is the same as one by one, for none is
    shorter than its beginning and its end.
    """
    begin, end = len(head), -len(tail)
    written = [one[begin:end] for one in data]
    anew = b"".join((head, (tail + head).join(written), tail))
    return written if b"" not in written and anew == b"".join(data) else None


def _is_plain(head: bytes, tail: bytes, read: Read, before: bytes, after: bytes) -> bool:
    """Whether such an event bears its text and nothing else."""
    event = b"".join((head, PROBE.encode(), tail))
    if not (event.startswith(before) and event.endswith(after)):
        return False
    event = event[len(before) : len(event) - len(after)]
    if before + after and (b"\n" in event or b"\r" in event):
        return False
    try:
        delta = read(event)
    except ValueError:
        return False
    return delta is not None and delta == Delta(PROBE, reply_id=delta.reply_id)


def _strings(written: Sequence[bytes]) -> list[str] | None:
    """Of bodies of JSON strings; None: one of them is none.

    A list of them all has as many strings only if none runs into the next: no body ends in a backslash that escapes
    the quote after it, and those with a quote of their own are strings by themselves.
    """
    listed = b'"'.join((b"[", b'","'.join(written), b"]"))
    try:
        if listed.count(QUOTE) != 2 * len(written):
            for one in written:
                if QUOTE in one and type(orjson.loads(QUOTE + one + QUOTE)) is not str:
                    return None
        texts: list[str] = orjson.loads(listed)
    except orjson.JSONDecodeError:
        return None
    return texts if len(texts) == len(written) else None
