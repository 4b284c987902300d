"""The recorder of replies: keeps them until a part is due, and turns them into columns on the run's time axis.

Keeping one costs an append. The columns are made by `Kept.part`, which may run in another thread while the driver
goes on: a few thousand rows take milliseconds, and no request is to wait for that.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from results.columns import NULL, Int64
from results.recording import PART_TABLES, TEXT_COLUMNS, RecordingPart, empty_part
from results.remote import REMOTE_COLUMNS, REMOTE_TEXT_COLUMNS
from targets.target import Reply

COUNTS = (
    "connect_ns", "tls_ns", "connection_reused", "resends", "http_status", "told_output_tokens", "told_prompt_tokens",
    "cached_tokens", "told_reasoning_tokens", "content_reads", "reasoning_events", "reply_bytes",
)  # fmt: skip
"""Columns that a Reply has under the same name, and that are no moments."""
MOMENTS = ("connected_ns", "uploaded_ns", "header_ns", "first_byte_ns", "answer_ns")
"""Columns that a Reply has under the same name, on its own time axis."""
CountTokens = Callable[[str], int]


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

    def part(self) -> RecordingPart:
        """As columns."""
        tables = dict(empty_part().tables)
        rows = [self._row(*one) for one in self.replies]
        names = (*PART_TABLES["requests"], *REMOTE_COLUMNS, *REMOTE_TEXT_COLUMNS)
        tables["requests"] = {name: _column(name, [row[name] for row in rows]) for name in names}
        replies = [reply for reply, _, _ in self.replies]
        lengths = [len(reply.event_t_ns) for reply in replies]
        tables["tokens"] = {
            "request_id": _ints(np.repeat(_ints([reply.request_id for reply in replies]), lengths)),
            "t_ns": _joined([np.array(reply.event_t_ns, dtype=np.int64) for reply in replies]) - self.origin_ns,
            "tokens": _joined([_tokens(reply) for reply in replies]),
        }
        tables["host"] = {name: _ints([sample[name] for sample in self.host]) for name in PART_TABLES["host"]}
        tables["flight"] = {"until_ns": _ints([self.until_ns]), "request_ns": _ints([self.flight_request_ns])}
        return RecordingPart(tables)

    def _row(self, reply: Reply, due_ns: int, dispatched_ns: int) -> dict[str, Any]:
        return {
            "request_id": reply.request_id,
            "due_ns": due_ns,
            "handed_ns": self._moment(reply.sent_ns),
            "end_ns": self._moment(reply.end_ns),
            "status": int(reply.status),
            "finish_reason": reply.finish_reason,
            "error": reply.error,
            "dispatched_ns": dispatched_ns,
            "counted_tokens": self._counted(reply),
            "reply_id": reply.reply_id,
            "content_encoding": reply.content_encoding,
            "output_sha256": hashlib.sha256(reply.text.encode()).hexdigest() if reply.text else None,
            **{name: getattr(reply, name) for name in COUNTS},
            **{name: self._moment(getattr(reply, name)) for name in MOMENTS},
        }

    def _moment(self, t_ns: int) -> int:
        return NULL if t_ns == NULL else t_ns - self.origin_ns

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


def _tokens(reply: Reply) -> Int64:
    told = reply.event_tokens
    return np.ones(len(reply.event_t_ns), np.int64) if told is None else np.array(told, np.int64)


def _column(name: str, values: list[Any]) -> Any:
    if name in TEXT_COLUMNS or name in REMOTE_TEXT_COLUMNS:
        return np.array(values, dtype=object)
    return _ints(values)


def _ints(values: Sequence[int] | Int64) -> Int64:
    return np.asarray(values, dtype=np.int64)


def _joined(arrays: list[Int64]) -> Int64:
    return np.concatenate(arrays) if arrays else np.empty(0, dtype=np.int64)
