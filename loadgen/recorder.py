"""The recorder: keeps what a run produces until a part is due, then turns it into columns.

During a step it only appends references; the columns are made when a part is emitted.
"""

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from engines.engine import OneTokenEach, Step, Stretch
from loadgen.clock import Clock
from results.columns import NULL, Int64, Table, concatenate
from results.recording import KINDS, PART_TABLES, TEXT_COLUMNS, RecordingPart, SlotEvent
from results.slots import WORK_COLUMNS, StepWork
from results.status import Status
from results.unroll import IMPLIED

KIND_CODES = {kind: code for code, kind in enumerate(KINDS)}
ADMITTED, ENDED, RELEASED, DROPPED = (int(event) for event in SlotEvent)
_NOT_TOLD = (NULL,) * len(WORK_COLUMNS)


class Recorder:
    """Append-only rows of one driver."""

    def __init__(self, clock: Clock, keeps_token_ids: bool, takes_stretches: bool = False) -> None:
        """`keeps_token_ids`: whether the engine's token ids mean anything.

        `takes_stretches`: whether there may be any; then aborts are slot events, because tokens are implied.
        """
        self._clock = clock
        self._keeps_token_ids = keeps_token_ids
        self._takes_stretches = takes_stretches
        self._stretches: list[tuple[int, Stretch]] = []
        """(place in the log, stretch)."""
        self._more_steps = 0
        """How many more steps than rows the log has."""
        self.log: list[tuple[Step | Stretch, int, int, int]] = []
        """(step, its begin and end in the clock's unit, its wall time in ns), in the order of steps."""
        self._first_step = 0
        self._events: list[int] = []
        self._condensed: list[dict[str, Table]] = []
        self._condensed_rows = 0
        self._requests: list[tuple[int, int, int, int, Status, str | None, str | None]] = []
        self._host: list[dict[str, int]] = []

    def stretch(self, stretch: Stretch) -> None:
        """The stretch last billed."""
        self._stretches.append((len(self.log), stretch))
        self.log.append((stretch, self._clock.step_start, self._clock.step_end, 0))
        self._more_steps += stretch.steps - 1

    def dropped(self, request_id: int) -> None:
        """A request was aborted: it gets nothing of what comes after the step last put into the log."""
        if self._takes_stretches:
            self._events += (request_id, DROPPED, self._last_step(), NULL)

    def _last_step(self) -> int:
        return self._first_step + len(self.log) + self._more_steps - 1

    def membership(self, step: Step | Stretch) -> None:
        """Who came and went in the step last put into the log, or in the last of a stretch."""
        index = self._last_step()
        for request_id, slot in step.admitted:
            self._events += (request_id, ADMITTED, index, slot)
        for request_id in step.ended:
            self._events += (request_id, ENDED, index, NULL)
        for request_id in step.released:
            self._events += (request_id, RELEASED, index, NULL)

    def request(
        self,
        request_id: int,
        due_ns: int,
        handed_ns: int,
        end_ns: int,
        status: Status,
        finish_reason: str | None = None,
        error: str | None = None,
    ) -> None:
        """A request has ended."""
        self._requests.append((request_id, due_ns, handed_ns, end_ns, status, finish_reason, error))

    def host(self, sample: dict[str, int]) -> None:
        """A sample of the machine's state."""
        self._host.append(sample)

    @property
    def pending_rows(self) -> int:
        """About how many rows wait to be emitted."""
        return self._condensed_rows + len(self.log)

    def condense(self) -> None:
        """Turn the log into columns while it is still in the processor's cache."""
        steps = [row[0] for row in self.log]
        n_steps = np.ones(len(steps), dtype=np.int64)
        for at, stretch in self._stretches:
            n_steps[at] = stretch.steps
        step = self._first_step + np.cumsum(n_steps) - n_steps
        tokens, token_ids = self._token_tables(steps, step)
        if told := self._told_tokens(step):
            tokens = concatenate([tokens, *told])
        chunk = {"tokens": tokens, "token_ids": token_ids, "steps": self._step_table(steps, step, n_steps)}
        self._condensed.append(chunk)
        self._condensed_rows += len(step) + len(tokens["step"])
        self._first_step += int(n_steps.sum())
        self._more_steps = 0
        self._stretches.clear()
        self.log.clear()

    def part(self, until_ns: int, flight_request_ns: int) -> RecordingPart:
        """Everything since the last part, as columns."""
        self.condense()
        tables = {name: concatenate([chunk[name] for chunk in self._condensed]) for name in self._condensed[0]}
        tables["requests"] = self._request_table()
        tables["slot_events"] = self._slot_events()
        tables["host"] = self._host_table()
        tables["flight"] = {"until_ns": _ints([until_ns]), "request_ns": _ints([flight_request_ns])}
        self._condensed.clear()
        self._condensed_rows = 0
        self._events.clear()
        self._requests.clear()
        self._host.clear()
        return RecordingPart(tables)

    def _request_table(self) -> Table:
        columns = zip(*self._requests, strict=True) if self._requests else ((),) * len(PART_TABLES["requests"])
        return {
            name: np.array(column, dtype=object) if name in TEXT_COLUMNS else _ints(column)
            for name, column in zip(PART_TABLES["requests"], columns, strict=True)
        }

    def _token_tables(self, steps: Sequence[Step | Stretch], step: Int64) -> tuple[Table, Table]:
        ids: list[int] = []
        per_step: list[int] = []
        counts: list[tuple[int, int]] = []
        for one in steps:
            outputs = one.outputs
            if type(outputs) is OneTokenEach:
                per_step.append(len(outputs.request_ids))
                ids += outputs.request_ids
            else:
                per_step.append(len(outputs))
                counts += [
                    (len(ids) + at, tokens)
                    for at, output in enumerate(outputs)
                    if (tokens := len(output.token_ids)) != 1
                ]
                ids += [output.request_id for output in outputs]
        token_counts = np.ones(len(ids), dtype=np.int64)
        if counts:
            at, count = np.array(counts, dtype=np.int64).T
            token_counts[at] = count
        table: Table = {"request_id": _ints(ids), "step": np.repeat(step, _ints(per_step)), "tokens": token_counts}
        return table, {"token_id": _ints(_token_ids(steps) if self._keeps_token_ids else [])}

    def _told_tokens(self, step: Int64) -> list[Table]:
        """Of stretches that say who gets their tokens."""
        tables: list[Table] = []
        for at, stretch in self._stretches:
            if stretch.request_ids is not None:
                ids, steps = _ints(stretch.request_ids), step[at] + np.arange(stretch.steps)
                rows = len(ids) * len(steps)
                tables.append({
                    "request_id": np.tile(ids, len(steps)), "step": np.repeat(steps, len(ids)),
                    "tokens": np.ones(rows, dtype=np.int64),
                })  # fmt: skip
        return tables

    def _slot_events(self) -> Table:
        table = _ints(self._events).reshape(-1, 4)
        return dict(zip(("request_id", "event", "step", "slot"), table.T.copy(), strict=True))

    def _step_table(self, steps: Sequence[Step | Stretch], step: Int64, n_steps: Int64) -> Table:
        works = [one.work for one in steps]
        kinds = _ints([NULL if work is None else KIND_CODES[work.kind] for work in works])
        table: Table = {
            "step": step,
            "n_steps": n_steps,
            "kind": kinds,
            "told": (kinds != NULL).astype(np.int64),
            **self._times(),
        }
        table.update(zip(WORK_COLUMNS, _work_columns(works), strict=True))
        return table

    def _times(self) -> Table:
        starts = _ints([row[1] for row in self.log])
        ends = _ints([row[2] for row in self.log])
        if self._clock.unit == "ps":
            return self._times_ps(starts, ends)
        return {"start_ns": starts, "end_ns": ends, "wall_ns": _ints([row[3] for row in self.log])}

    def _times_ps(self, starts: Int64, ends: Int64) -> Table:
        cost, slope = ends - starts, np.zeros_like(starts)
        if not self._takes_stretches:
            return {"start_ps": starts, "cost_ps": cost, "cost_slope_ps": slope}
        implied = np.zeros_like(starts)
        for at, stretch in self._stretches:
            cost[at], slope[at] = stretch.first_cost_ps, stretch.cost_slope_ps
            implied[at] = stretch.request_ids is None
        return {"start_ps": starts, "cost_ps": cost, "cost_slope_ps": slope, IMPLIED: implied}

    def _host_table(self) -> Table:
        return {name: _ints([sample[name] for sample in self._host]) for name in PART_TABLES["host"]}


def _token_ids(steps: Sequence[Step | Stretch]) -> list[int]:
    ids: list[int] = []
    for one in steps:
        if type(one.outputs) is OneTokenEach:
            ids += one.outputs.token_ids
        else:
            for output in one.outputs:
                ids += output.token_ids
    return ids


def _ints(values: Sequence[Any]) -> Int64:
    return np.fromiter(values, dtype=np.int64, count=len(values))


def _work_columns(works: Sequence[StepWork | None]) -> NDArray[np.int64]:
    """One row a column of the step table."""
    try:
        table = _ints(_flat_counts(works))
    except (AttributeError, TypeError):  # somebody else's engine left a step's work, or a count of it, untold
        rows = [_NOT_TOLD if work is None else _flat_counts([work]) for work in works]
        table = _ints([NULL if value is None else value for row in rows for value in row])
    return table.reshape(len(works), len(WORK_COLUMNS)).T.copy()


def _flat_counts(works: Sequence[StepWork | None]) -> list[int | None]:
    """The counts of all works one after the other, in the order of WORK_COLUMNS, which a test holds it to.

    Spelled out: it runs for every step, and this is twice as fast as asking by name.
    """
    flat: list[int | None] = []
    for work in cast("Sequence[StepWork]", works):
        flat += (
            work.prefilling_slots, work.decoding_slots, work.finished_slots, work.stalled_slots,
            work.empty_queued_slots, work.idle_slots, work.waiting_requests, work.prefill_tokens,
            work.padding_tokens, work.kv_tokens, work.preempted_requests, work.recomputed_tokens,
        )  # fmt: skip
    return flat
