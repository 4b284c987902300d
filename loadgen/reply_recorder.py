"""The recorder of replies: keeps them until a part is due, then turns them into columns on the run's time axis."""

import hashlib
from collections.abc import Callable, Sequence
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


class ReplyRecorder:
    """Append-only rows of one streaming driver."""

    def __init__(self, origin_ns: int, count_tokens: Callable[[str], int] | None) -> None:
        """`origin_ns`: time 0 of the run. `count_tokens`: a tokenizer, for replies whose usage is not told."""
        self._origin_ns = origin_ns
        self._count_tokens = count_tokens
        self._rows: list[dict[str, Any]] = []
        self._events: list[tuple[int, Int64, Int64]] = []
        self._host: list[dict[str, int]] = []
        self._event_rows = 0

    @property
    def pending_rows(self) -> int:
        """About how many rows wait to be emitted."""
        return len(self._rows) + self._event_rows

    def reply(self, reply: Reply, due_ns: int, dispatched_ns: int) -> None:
        """A request has ended. `due_ns`, `dispatched_ns`: on the run's axis."""
        times = np.array(reply.event_t_ns, dtype=np.int64) - self._origin_ns
        tokens = np.ones(len(times), np.int64) if reply.event_tokens is None else np.array(reply.event_tokens, np.int64)
        if len(times):
            self._events.append((reply.request_id, times, tokens))
            self._event_rows += len(times)
        self._rows.append(
            {
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
        )

    def host(self, sample: dict[str, int]) -> None:
        """A sample of the machine's state."""
        self._host.append(sample)

    def part(self, until_ns: int, flight_request_ns: int) -> RecordingPart:
        """Everything since the last part, as columns."""
        tables = dict(empty_part().tables)
        names = (*PART_TABLES["requests"], *REMOTE_COLUMNS, *REMOTE_TEXT_COLUMNS)
        tables["requests"] = {name: _column(name, [row[name] for row in self._rows]) for name in names}
        tables["tokens"] = {
            "request_id": _ints(np.repeat([one[0] for one in self._events], [len(one[1]) for one in self._events])),
            "t_ns": _joined([one[1] for one in self._events]),
            "tokens": _joined([one[2] for one in self._events]),
        }
        tables["host"] = {name: _ints([sample[name] for sample in self._host]) for name in PART_TABLES["host"]}
        tables["flight"] = {"until_ns": _ints([until_ns]), "request_ns": _ints([flight_request_ns])}
        self._rows.clear()
        self._events.clear()
        self._host.clear()
        self._event_rows = 0
        return RecordingPart(tables)

    def _moment(self, t_ns: int) -> int:
        return NULL if t_ns == NULL else t_ns - self._origin_ns

    def _counted(self, reply: Reply) -> int:
        if self._count_tokens is None or reply.told_output_tokens != NULL or not reply.text:
            return NULL
        return self._count_tokens(reply.text)


def _column(name: str, values: list[Any]) -> Any:
    if name in TEXT_COLUMNS or name in REMOTE_TEXT_COLUMNS:
        return np.array(values, dtype=object)
    return _ints(values)


def _ints(values: Sequence[int] | Int64) -> Int64:
    return np.asarray(values, dtype=np.int64)


def _joined(arrays: list[Int64]) -> Int64:
    return np.concatenate(arrays) if arrays else np.empty(0, dtype=np.int64)
