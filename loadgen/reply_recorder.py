"""The recorder of replies: keeps them until a part is due, and turns them into columns on the run's time axis.

Keeping one costs an append. The columns are made by `Kept.part`, which may run in another thread while the driver
goes on: a few thousand rows take milliseconds, and no request is to wait for that.
"""

import hashlib
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import numpy as np

from results.columns import NULL, Int64
from results.recording import PART_TABLES, RecordingPart, empty_part
from targets.target import Reply

COUNTS = (
    "request_id", "status", "connect_ns", "tls_ns", "connection_reused", "resends", "http_status",
    "told_output_tokens", "told_prompt_tokens", "cached_tokens", "told_reasoning_tokens", "content_reads",
    "reasoning_events", "reply_bytes",
)  # fmt: skip
"""Columns that a Reply has under the same name, and that are no moments."""
MOMENTS = {"handed_ns": "sent_ns"} | {
    name: name for name in ("end_ns", "connected_ns", "uploaded_ns", "header_ns", "first_byte_ns", "answer_ns")
}
"""Column -> its name in a Reply, where it is on the target's time axis."""
ONE = array("q", [1])
TEXTS = ("finish_reason", "error", "reply_id", "content_encoding")
PAUSE_EVERY_REPLIES = 64
"""Where something is computed for each."""
CountTokens = Callable[[str], int]
Pause = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Kept:
    """Everything since the last part."""

    replies: Sequence[tuple[Reply, int, int]]
    """With its due and dispatch times, on the run's axis."""
    host: Sequence[dict[str, int]]
    origin_ns: int
    count_tokens: CountTokens | None
    until_ns: int
    flight_request_ns: int

    def part(self, pause: Pause = lambda: None) -> RecordingPart:
        """As columns. One after another, each in a few short calls, and a pause after each for the driver's thread."""
        tables = dict(empty_part().tables)
        tables["requests"] = self._requests(pause)
        replies = [reply for reply, _, _ in self.replies]
        lengths = [len(reply.event_t_ns) for reply in replies]
        tables["tokens"] = {
            "request_id": np.repeat(_ints([reply.request_id for reply in replies]), lengths),
            "t_ns": _joined(reply.event_t_ns for reply in replies) - self.origin_ns,
            "tokens": _tokens(replies, lengths),
        }
        tables["host"] = {name: _ints([sample[name] for sample in self.host]) for name in PART_TABLES["host"]}
        tables["flight"] = {"until_ns": _ints([self.until_ns]), "request_ns": _ints([self.flight_request_ns])}
        return RecordingPart(tables)

    def _requests(self, pause: Pause) -> dict[str, Any]:
        replies = [reply for reply, _, _ in self.replies]
        columns: dict[str, Any] = {}
        for name in COUNTS:
            columns[name] = _ints([*map(attrgetter(name), replies)])
            pause()
        for column, name in MOMENTS.items():
            t_ns = _ints([*map(attrgetter(name), replies)])
            columns[column] = np.where(t_ns == NULL, NULL, t_ns - self.origin_ns)
            pause()
        columns["due_ns"] = _ints([due_ns for _, due_ns, _ in self.replies])
        columns["dispatched_ns"] = _ints([dispatched_ns for _, _, dispatched_ns in self.replies])
        columns |= {name: _texts(map(attrgetter(name), replies)) for name in TEXTS}
        pause()
        columns["counted_tokens"] = _ints([self._counted(reply) for reply in _paused(replies, pause)])
        columns["output_sha256"] = _texts(_sha256(reply.text) for reply in _paused(replies, pause))
        return columns

    def _counted(self, reply: Reply) -> int:
        """Also where usage is told: the two counts are compared."""
        return NULL if self.count_tokens is None or not reply.text else self.count_tokens(reply.text)


class ReplyRecorder:
    """Append-only rows of one streaming driver."""

    def __init__(self, origin_ns: int, count_tokens: CountTokens | None) -> None:
        """`origin_ns`: time 0 of the run. `count_tokens`: a tokenizer."""
        self._origin_ns = origin_ns
        self._count_tokens = count_tokens
        self._replies: list[tuple[Reply, int, int]] = []
        self._host: list[dict[str, int]] = []
        self.pending_rows = 0
        """About how many rows wait to be emitted."""

    def reply(self, reply: Reply, due_ns: int, dispatched_ns: int) -> None:
        """A request has ended. `due_ns`, `dispatched_ns`: on the run's axis."""
        self._replies.append((reply, due_ns, dispatched_ns))
        self.pending_rows += 1 + len(reply.event_t_ns)

    def host(self, sample: dict[str, int]) -> None:
        """A sample of the machine's state."""
        self._host.append(sample)

    def take(self, until_ns: int, flight_request_ns: int) -> Kept:
        """Everything since it was last taken."""
        kept = Kept(self._replies, self._host, self._origin_ns, self._count_tokens, until_ns, flight_request_ns)
        self._replies, self._host, self.pending_rows = [], [], 0
        return kept


def _tokens(replies: Sequence[Reply], lengths: Sequence[int]) -> Int64:
    if all(reply.event_tokens is None for reply in replies):
        return np.ones(sum(lengths), dtype=np.int64)
    told = [reply.event_tokens for reply in replies]
    return _joined(ONE * n if one is None else one for one, n in zip(told, lengths, strict=True))


def _paused(replies: Sequence[Reply], pause: Pause) -> Iterator[Reply]:
    """The same, with pauses where something is computed for each."""
    for at in range(0, len(replies), PAUSE_EVERY_REPLIES):
        yield from replies[at : at + PAUSE_EVERY_REPLIES]
        pause()


def _sha256(text: str) -> str | None:
    return hashlib.sha256(text.encode()).hexdigest() if text else None


def _texts(texts: Iterable[str | None]) -> Any:
    return np.array([*texts], dtype=object)


def _ints(values: Sequence[int] | Int64) -> Int64:
    return np.asarray(values, dtype=np.int64)


def _joined(arrays: "Iterable[array[int]]") -> Int64:
    return np.frombuffer(b"".join(arrays), dtype=np.int64)
