"""Most events of a stream are the same bytes around another text: those are read without parsing them again.

An event is taken apart at the first `"content":"` (or whatever the mark is) and at the next quote. What stands around
the text, once it was seen twice, is parsed with a probe in the text's place. Where the probe comes out as the event's
text, so would any text without an escape: JSON has no other way to read it.
"""

from collections.abc import Callable, Sequence

import orjson

from targets.api import Delta, PlainRun

PROBE = "probe of the place"
MOST_FRAMES = 4_096
LONGEST_FRAME_BYTES = 2_048
SHORTEST_RUN = 8
LINE = b"\n"
QUOTE = b'"'
ESCAPE = b"\\"


class Repeated:
    """Reads events like `read`, and faster what repeats. Bounded in memory; keeps nothing that was generated."""

    def __init__(self, mark: bytes, read: Callable[[bytes], Delta | None]):
        """`mark` is what the generated text stands behind, its opening quote included."""
        self._mark, self._mark_bytes, self._read = mark, len(mark), read
        self._frames: dict[bytes, Delta] = {}
        """What stands around a text -> what the event bears beside it."""
        self._seen: set[bytes] = set()

    def read(self, data: bytes) -> Delta | None:
        """What the event bears. ValueError where `read` raises it."""
        start = data.find(self._mark) + self._mark_bytes
        end = data.find(QUOTE, start)
        frame = data[:start] + data[end:]
        known = self._frames.get(frame)
        if known is None:
            self._meet(frame, start)
        elif ESCAPE not in (written := data[start:end]):
            try:
                text = written.decode()
            except UnicodeDecodeError:
                return self._read(data)
            if text.isprintable():
                return Delta(text, False, None, None, None, None, known.reply_id)
        return self._read(data)

    def plain_run(self, data: Sequence[bytes]) -> PlainRun | None:
        """Events next to each other that differ in their texts alone, read together; None: these have no such run.

        What stands around the text is taken from an event in their middle and probed once. With no quote in any
        text, their list is JSON of as many strings only if each of them is one string.
        """
        if len(data) < SHORTEST_RUN:
            return None
        model = data[len(data) // 2]
        start = model.find(self._mark) + self._mark_bytes
        end = model.find(QUOTE, start)
        head, tail = model[:start], model[end:]
        if end < start or not head.endswith(self._mark) or not self._is_plain(head, tail):
            return None
        first, last = 0, len(data)
        while not (data[first].startswith(head) and data[first].endswith(tail)):
            first += 1
        while not (data[last - 1].startswith(head) and data[last - 1].endswith(tail)):
            last -= 1
        joined = LINE.join(data[first:last])
        written = joined[len(head) : -len(tail)].split(tail + LINE + head)
        texts = _strings(written) if len(written) == last - first == joined.count(LINE) + 1 else None
        return None if texts is None else PlainRun(first, last, texts)

    def _is_plain(self, head: bytes, tail: bytes) -> bool:
        try:
            delta = self._read(head + PROBE.encode() + tail)
        except ValueError:
            return False
        return delta is not None and delta == Delta(PROBE, reply_id=delta.reply_id)

    def _meet(self, frame: bytes, at: int) -> None:
        """Remember what stands around a text when it is seen for the second time; the text goes in at `at`."""
        if len(frame) > LONGEST_FRAME_BYTES or not frame.startswith(self._mark, at - self._mark_bytes):
            return
        if frame not in self._seen:
            _make_room(self._seen)
            self._seen.add(frame)
            return
        self._seen.discard(frame)
        try:
            delta = self._read(frame[:at] + PROBE.encode() + frame[at:])
        except ValueError:
            return
        if delta is not None and delta == Delta(PROBE, reply_id=delta.reply_id):
            _make_room(self._frames)
            self._frames[frame] = delta


def _strings(written: Sequence[bytes]) -> list[str] | None:
    """Of bodies of JSON strings; None: one of them is none, or empty."""
    if any(QUOTE in one for one in written):
        return None
    try:
        texts = orjson.loads(b'["' + b'","'.join(written) + b'"]')
    except orjson.JSONDecodeError:
        return None
    return texts if len(texts) == len(written) and all(texts) else None


def _make_room(kept: dict[bytes, Delta] | set[bytes]) -> None:
    if len(kept) >= MOST_FRAMES:
        kept.clear()
