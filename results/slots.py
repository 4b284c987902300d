"""Slot accounting: what every slot of every engine step was doing, and the fractions made from it.

In each step every slot is in exactly one of six states, so the six counts of a `StepWork` sum to the number
of slots. The fractions are functions of the step table's columns; none of them is called "waste" alone,
because each answers another question.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from results.columns import Int64, int64, is_null


class SlotEvent(IntEnum):
    """What a row of the slot events says of a request."""

    ADMITTED = 0
    ENDED = 1
    RELEASED = 2
    DROPPED = 3
    """It was aborted after this step."""


SLOT_STATES = (
    "prefilling_slots",
    "decoding_slots",
    "finished_slots",
    "stalled_slots",
    "empty_queued_slots",
    "idle_slots",
)
BUSY_STATES = ("prefilling_slots", "decoding_slots", "finished_slots")
"""What a step computes."""


@dataclass(slots=True)
class StepWork:
    """What one step did, in counts.

    prefilling: admitted in this step. decoding: yields a token. finished: its request has ended and the batch
    goes on. stalled: unfinished, but got no work. empty_queued: empty while somebody waits. idle: empty
    otherwise. The six sum to the engine's slots. Every field of a `StepWork` given by somebody else's engine
    may be None: "not told".
    """

    kind: str
    """prefill, decode or mixed."""
    prefilling_slots: int
    decoding_slots: int
    finished_slots: int
    stalled_slots: int
    empty_queued_slots: int
    idle_slots: int
    waiting_requests: int | None
    """Due at or before the step's start and without a slot after its admissions."""
    prefill_tokens: int
    """Real prompt tokens computed in this step."""
    padding_tokens: int
    """Tokens computed only to make the prefill a rectangle."""
    kv_tokens: int
    """Tokens held in the KV cache by all rows in slots when the step ends."""
    preempted_requests: int = 0
    recomputed_tokens: int = 0


WORK_COLUMNS = (*SLOT_STATES, "waiting_requests", "prefill_tokens", "padding_tokens", "kv_tokens",
                "preempted_requests", "recomputed_tokens")  # fmt: skip

Steps = Mapping[str, NDArray[np.generic]]


def slot_steps(steps: Steps, names: Sequence[str] = SLOT_STATES) -> dict[str, int] | None:
    """Slot-steps spent in each state over the run: each step's count times its length in steps.

    None when a step whose work was told leaves one of these counts out, or no work was told.
    """
    told = _told(steps, names)
    if told is None:
        return None
    n_steps = int64(steps["n_steps"])[told]
    return {name: int((int64(steps[name])[told] * n_steps).sum()) for name in names}


def wasted_slot_fraction(steps: Steps) -> float | None:
    """finished / (prefilling + decoding + finished) in slot-steps, prefill steps included; None: not told.

    The headline of both texts on static batching; 0 for continuous batching by construction.
    """
    spent = slot_steps(steps, BUSY_STATES)
    busy = sum(spent.values()) if spent else 0
    return spent["finished_slots"] / busy if spent and busy else None


def unused_slot_fraction(steps: Steps) -> float | None:
    """1 - (prefilling + decoding) / (steps x slots): what can also be seen from outside, over HTTP."""
    spent = slot_steps(steps)
    total = sum(spent.values()) if spent else 0
    return 1 - (spent["prefilling_slots"] + spent["decoding_slots"]) / total if spent and total else None


def padding_fraction(steps: Steps) -> float | None:
    """1 - real / rectangle prompt tokens over all prefills; None when nothing was prefilled, or it is not told."""
    told = _told(steps, ("prefill_tokens", "padding_tokens"))
    if told is None:
        return None
    real, padding = (int(int64(steps[name])[told].sum()) for name in ("prefill_tokens", "padding_tokens"))
    return padding / (real + padding) if real + padding else None


def slot_time_share(steps: Steps, duration: Int64) -> dict[str, float] | None:
    """The six states weighted by each step's billed duration (any unit, one per stretch); they sum to 1."""
    told = _told(steps, SLOT_STATES)
    if told is None:
        return None
    weight = duration[told].astype(np.float64)
    spent = {name: float((steps[name][told].astype(np.float64) * weight).sum()) for name in SLOT_STATES}
    total = sum(spent.values())
    return {name.removesuffix("_slots"): value / total for name, value in spent.items()} if total else None


def _told(steps: Steps, names: Sequence[str]) -> NDArray[np.bool_] | None:
    """The rows whose work was told; None when there is none, or one leaves a named count out."""
    told = steps["told"].astype(np.bool_)
    if not told.any() or any(is_null(steps[name][told]).any() for name in names):
        return None
    return told
