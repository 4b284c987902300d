"""A builder of recordings of streaming targets: each request told by its events, everything else optional."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from results.columns import NULL, Table, int64
from results.recording import PART_TABLES, TEXT_COLUMNS, Recording, RecordingPart, empty_part, merge
from results.remote import REMOTE_COLUMNS, REMOTE_TEXT_COLUMNS
from results.schedule import Schedule, make_schedule
from results.status import Status


@dataclass(frozen=True)
class Stream:
    """One request to a server and what came back."""

    events: Sequence[int | tuple[int, int]] = ()
    """Arrival of each token-bearing event, or (arrival, tokens in it)."""
    due_ns: int = 0
    asked: int | None = None
    """Output tokens asked for; None: as many as came."""
    status: Status | None = Status.OK
    """None: no part tells of this request."""
    finish_reason: str | None = "length"
    error: str | None = None
    handed_ns: int | None = None
    end_ns: int | None = None
    """None: with its last event."""
    told: Mapping[str, Any] = field(default_factory=dict)
    """Remote columns by name."""

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """Events with their tokens."""
        return [event if isinstance(event, tuple) else (event, 1) for event in self.events]

    @property
    def output_tokens(self) -> int:
        """As the server tells it, else as the events do."""
        return int(self.told.get("told_output_tokens", sum(tokens for _, tokens in self.pairs)))

    @property
    def ended_ns(self) -> int:
        """The reply's end."""
        return self.end_ns if self.end_ns is not None else max([self.due_ns, *(t_ns for t_ns, _ in self.pairs)])


def schedule_of(streams: Sequence[Stream], sampling: Mapping[str, Any] | None = None, **columns: Any) -> Schedule:
    """What was asked."""
    asked = [max(one.output_tokens if one.asked is None else one.asked, 1) for one in streams]
    recipe = {"sampling": dict(sampling or {})}
    return make_schedule([one.due_ns for one in streams], [10] * len(streams), asked, recipe=recipe, **columns)


def part_of(streams: Mapping[int, Stream], host: Table | None = None) -> RecordingPart:
    """One part that tells of these requests, by id."""
    told = {row: one for row, one in streams.items() if one.status is not None}
    requests = {name: _cells(name, [_cell(row, one, name) for row, one in told.items()]) for name in _names()}
    tokens = [(row, t_ns, count) for row, one in streams.items() for t_ns, count in one.pairs]
    flight = sum(one.ended_ns - one.due_ns for one in told.values())
    until = max((one.ended_ns for one in told.values()), default=0)
    names = ("request_id", "t_ns", "tokens")
    tables = {
        **empty_part().tables,
        "requests": requests,
        "tokens": {name: int64([row[at] for row in tokens]) for at, name in enumerate(names)},
        "flight": {"until_ns": int64([until]), "request_ns": int64([flight])},
    }
    return RecordingPart(tables if host is None else {**tables, "host": host})


def streamed(
    *streams: Stream, sampling: Mapping[str, Any] | None = None, host: Table | None = None, **columns: Any
) -> Recording:
    """A run of these requests, in the order of their ids."""
    return merge(schedule_of(streams, sampling, **columns), [part_of(dict(enumerate(streams)), host)])


def _names() -> tuple[str, ...]:
    return (*PART_TABLES["requests"], *REMOTE_COLUMNS, *REMOTE_TEXT_COLUMNS)


def _cell(row: int, one: Stream, name: str) -> Any:
    handed_ns = one.due_ns if one.handed_ns is None else one.handed_ns
    own = {
        "request_id": row, "due_ns": one.due_ns, "handed_ns": handed_ns, "end_ns": one.ended_ns, "status": one.status,
        "finish_reason": one.finish_reason, "error": one.error,
        "content_reads": len(one.events), "reasoning_events": 0, "resends": 0,
    }  # fmt: skip
    return {**own, **one.told}.get(name, None if name in TEXT_COLUMNS else NULL)


def _cells(name: str, values: list[Any]) -> Any:
    return np.array(values, dtype=object) if name in TEXT_COLUMNS else int64(values)
