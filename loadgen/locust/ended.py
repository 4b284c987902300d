"""From the parts of a run that goes on to small recordings of what has ended: the figures of a finished run's metrics
are then the live ones too.

A delivery is held until its request ends. A part holds all rows of its stretch of a run: the steps of its tokens, and
of a streaming target all tokens of the requests that ended in it.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from results.columns import NULL, Int64, Table, int64, is_null
from results.recording import PART_TABLES, TEXT_COLUMNS, Recording, RecordingPart, empty_part, merge
from results.remote import REMOTE_COLUMNS, REMOTE_TEXT_COLUMNS
from results.schedule import Schedule
from results.slots import WORK_COLUMNS, SlotEvent
from results.steps import step_ends_ns
from results.unroll import IMPLIED, unrolled

HELD = ("request_id", "t_ns", "tokens")


@dataclass(frozen=True, slots=True)
class News:
    """What one part tells that no part before it did."""

    ended: Recording | None
    """The requests that have ended, as a run of their own, in the order of `request_id`; None: none has."""
    request_id: Int64
    delivered_ns: Int64
    """Moments of all deliveries of a stepping engine, also of requests that go on; empty for streaming targets."""
    delivered_tokens: Int64
    steps: Table
    """Its steps, one a row."""


class Assembler:
    """Keeps what belongs to requests that have not ended."""

    def __init__(self, schedule: Schedule) -> None:
        """Nothing has been told yet."""
        self._schedule = schedule
        self.known = np.zeros(len(schedule), dtype=np.bool_)
        """Requests whose end has been told: it counts as first told."""
        self._held: Table = {name: int64([]) for name in HELD}
        self._seats: Table = empty_part().tables["slot_events"]

    def take(self, part: RecordingPart) -> News:
        """The news of a part."""
        tables = self._single_steps(part.tables)
        streamed = "t_ns" in tables["tokens"]
        new = self._deliveries(tables, streamed)
        self._held = {name: np.concatenate([self._held[name], new[name]]) for name in HELD}
        told = self._told(tables["requests"])
        ids = int64(told["request_id"])
        ended = self._recording(told, ids, streamed) if len(ids) else None
        nothing = int64([])
        return News(
            ended,
            ids,
            nothing if streamed else int64(new["t_ns"]),
            nothing if streamed else int64(new["tokens"]),
            tables["steps"],
        )

    def _single_steps(self, tables: Mapping[str, Table]) -> Mapping[str, Table]:
        """Stretches taken apart: they need to know who sat down in the parts before."""
        if IMPLIED not in tables["steps"]:
            return tables
        seats = {name: np.concatenate([self._seats[name], tables["slot_events"][name]]) for name in self._seats}
        single = unrolled({**tables, "slot_events": seats})
        gone = seats["request_id"][np.isin(seats["event"], (SlotEvent.ENDED, SlotEvent.DROPPED))]
        stay = ~np.isin(seats["request_id"], gone)
        self._seats = {name: values[stay] for name, values in seats.items()}
        return single

    def _deliveries(self, tables: Mapping[str, Table], streamed: bool) -> Table:
        """Those that bear a token and belong to requests whose end is not known."""
        tokens = tables["tokens"]
        t_ns = int64(tokens["t_ns"]) if streamed else step_ends_ns(tables["steps"], int64(tokens["step"]))
        ids = int64(tokens["request_id"])
        kept = (tokens["tokens"] != 0) & ~self.known[ids]
        return {"request_id": ids[kept], "t_ns": t_ns[kept], "tokens": int64(tokens["tokens"])[kept]}

    def _told(self, requests: Table) -> Table:
        """The rows of requests that nobody told of before, sorted by id."""
        ids, first = np.unique(int64(requests["request_id"]), return_index=True)
        first = first[~self.known[ids]]
        self.known[int64(requests["request_id"])[first]] = True
        return {name: values[first] for name, values in requests.items()}

    def _recording(self, told: Table, ids: Int64, streamed: bool) -> Recording:
        """As a run of these requests, numbered from 0."""
        place = np.full(len(self._schedule), NULL, dtype=np.int64)
        place[ids] = np.arange(len(ids))
        at = place[int64(self._held["request_id"])]
        theirs = ~is_null(at)
        tokens = {name: values[theirs] for name, values in self._held.items()}
        tokens["request_id"] = at[theirs]
        self._held = {name: values[~theirs] for name, values in self._held.items()}
        schedule = _rows(self._schedule, ids)
        due_ns = np.where(is_null(told["due_ns"]), self._schedule.due_ns[ids], told["due_ns"])
        tables = {
            **empty_part().tables,
            "requests": {**_of_kind(told, streamed), "request_id": np.arange(len(ids)), "due_ns": due_ns},
            "tokens": tokens,
            **({} if streamed else _as_steps(tokens)),
        }
        return merge(schedule, [RecordingPart(tables)])


def _rows(schedule: Schedule, ids: Int64) -> Schedule:
    """These rows as a schedule of their own: who waited for whom is over, and every due time is told."""
    missing = np.full(len(ids), NULL, dtype=np.int64)
    return Schedule(
        due_ns=np.zeros(len(ids), dtype=np.int64),
        after_offsets=np.zeros(len(ids) + 1, dtype=np.int64),
        after_ids=int64([]),
        think_ns=missing,
        session=schedule.session[ids],
        turn=schedule.turn[ids],
        request_class=schedule.request_class[ids],
        phase=schedule.phase[ids],
        prompt_tokens=schedule.prompt_tokens[ids],
        output_tokens=schedule.output_tokens[ids],
        class_names=schedule.class_names,
        recipe=schedule.recipe,
    )


def _of_kind(told: Table, streamed: bool) -> Table:
    """The columns of the kind of target, all of them and no other."""
    remote = (*REMOTE_COLUMNS, *REMOTE_TEXT_COLUMNS) if streamed else ()
    rows = len(told["request_id"])
    return {name: told.get(name, _missing(name, rows)) for name in (*PART_TABLES["requests"], *remote)}


def _missing(name: str, rows: int) -> NDArray[np.generic]:
    if name in TEXT_COLUMNS:
        return np.full(rows, None, dtype=object)
    return np.full(rows, NULL, dtype=np.int64)


def _as_steps(tokens: Table) -> dict[str, Table]:
    """Deliveries of an engine as it tells them: a step for every moment, of which nothing else is known."""
    moments, step = np.unique(int64(tokens["t_ns"]), return_inverse=True)
    missing = np.full(len(moments), NULL, dtype=np.int64)
    steps: Table = {
        "step": np.arange(len(moments)),
        "n_steps": np.ones(len(moments), dtype=np.int64),
        "kind": missing,
        "told": np.zeros(len(moments), dtype=np.int64),
        **dict.fromkeys(WORK_COLUMNS, missing),
        "start_ns": moments,
        "end_ns": moments,
    }
    return {
        "steps": steps,
        "tokens": {"request_id": tokens["request_id"], "step": step.astype(np.int64), "tokens": tokens["tokens"]},
    }
