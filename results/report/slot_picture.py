"""The slot picture: what each slot did in each step, from the rows' admitted, ended and released steps.

The step table only counts; rows say who sat where. The two must agree: a picture whose columns do not add up to
the table's six counts is not drawn.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from results.columns import NULL, Int64, int64, is_null
from results.metrics import completed
from results.recording import KINDS, Recording
from results.slots import SLOT_STATES
from results.steps import ends_ns, starts_ns

PREFILLING, DECODING, FINISHED, STALLED, EMPTY_QUEUED, IDLE = range(len(SLOT_STATES))
PREFILL = KINDS.index("prefill")


@dataclass(frozen=True, slots=True)
class SlotPicture:
    """A stretch of consecutive steps. Arrays are (slots, steps)."""

    first_step: int
    state: NDArray[np.int64]
    """Index into SLOT_STATES."""
    request_id: NDArray[np.int64]
    """NULL where the slot is empty."""
    counts: NDArray[np.int64]
    """(6, steps): the step table's."""
    start_ns: int
    end_ns: int


def slot_picture(recording: Recording, slots: int, first_step: int, steps: int) -> SlotPicture:
    """Of `steps` steps from `first_step`, or as many as there are. ValueError says why there is none."""
    told = _columns(recording, first_step, steps)
    request_id = np.full((slots, len(told.kind)), NULL, dtype=np.int64)
    state = np.full(request_id.shape, IDLE, dtype=np.int64)
    _seat(recording, told, request_id, state)
    for at in range(len(told.kind)):
        empty = np.flatnonzero(request_id[:, at] == NULL)
        state[empty[: told.counts[EMPTY_QUEUED, at]], at] = EMPTY_QUEUED
    picture = SlotPicture(told.first_step, state, request_id, told.counts, told.start_ns, told.end_ns)
    if not agrees(picture):
        raise ValueError("the rows' admitted, ended and released steps do not add up to the counts of the step table")
    return picture


def agrees(picture: SlotPicture) -> bool:
    """Whether every column adds up to the step table's six counts."""
    drawn = np.stack([(picture.state == state).sum(axis=0) for state in range(len(SLOT_STATES))])
    return bool((drawn == picture.counts).all())


def step_at(recording: Recording, t_ns: int) -> int:
    """The step running at a time, or the next one; the last step when all have ended."""
    ends = ends_ns(recording.steps)
    row = min(int(np.searchsorted(ends, t_ns, side="right")), len(ends) - 1)
    return int(recording.steps["step"][row])


@dataclass(frozen=True, slots=True)
class _Told:
    """One entry a step, stretches taken apart."""

    first_step: int
    kind: Int64
    counts: NDArray[np.int64]
    start_ns: int
    end_ns: int


def _columns(recording: Recording, first_step: int, steps: int) -> _Told:
    table = recording.steps
    begins = int64(table["step"])
    if not len(begins):
        raise ValueError("no step was recorded")
    last_step = int(begins[-1] + table["n_steps"][-1]) - 1
    first = max(int(begins[0]), min(first_step, last_step - steps + 1))
    wanted = np.arange(first, min(first + steps, last_step + 1))
    rows = np.searchsorted(begins, wanted, side="right") - 1
    if not bool(table["told"][rows].all()):
        raise ValueError("the engine does not tell what its slots do")
    counts = np.stack([int64(table[name])[rows] for name in SLOT_STATES])
    return _Told(
        first, int64(table["kind"])[rows], counts, int(starts_ns(table)[rows[0]]), int(ends_ns(table)[rows[-1]])
    )


def _seat(recording: Recording, told: _Told, request_id: NDArray[np.int64], state: NDArray[np.int64]) -> None:
    """Write every request that sits in a slot during these steps into the arrays."""
    requests = recording.requests
    admitted, slot = int64(requests["admitted_step"]), int64(requests["slot"])
    left = _left_steps(recording)
    last_step = told.first_step + len(told.kind) - 1
    sits = ~is_null(admitted) & ~is_null(slot) & (admitted <= last_step) & (left >= told.first_step)
    for at in np.flatnonzero(sits).tolist():
        if not 0 <= slot[at] < len(state):
            raise ValueError(f"request {at} says it sat in slot {slot[at]}, and there are {len(state)}")
        first = max(int(admitted[at]), told.first_step) - told.first_step
        until = min(int(left[at]), last_step) - told.first_step + 1
        request_id[slot[at], first:until] = at
        state[slot[at], first:until] = _states(recording, at, told, first, until)


def _states(recording: Recording, at: int, told: _Told, first: int, until: int) -> NDArray[np.int64]:
    """Prefilling when admitted; finished once ended; between, stalled in a prefill of others, else decoding."""
    steps = told.first_step + np.arange(first, until)
    ended = int(recording.requests["ended_step"][at])
    states = np.where(told.kind[first:until] == PREFILL, STALLED, DECODING)
    if ended != NULL:
        states = np.where(steps > ended, FINISHED, states)
    return np.where(steps == recording.requests["admitted_step"][at], PREFILLING, states)


def _left_steps(recording: Recording) -> Int64:
    """The last step that each request holds its slot in: until released, or until it was aborted."""
    requests, table = recording.requests, recording.steps
    released, ends = int64(requests["released_step"]), int64(requests["end_ns"])
    last_step = int(table["step"][-1] + table["n_steps"][-1]) - 1
    left = np.where(is_null(released), last_step, released)
    aborted = is_null(released) & ~is_null(ends) & ~completed(recording)
    before = np.searchsorted(starts_ns(table), ends, side="left") - 1
    until = int64(table["step"])[np.maximum(before, 0)] + int64(table["n_steps"])[np.maximum(before, 0)] - 1
    return int64(np.where(aborted, np.where(before < 0, -1, until), left))
