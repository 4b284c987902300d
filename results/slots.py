"""Slot accounting: what every slot of every engine step was doing, and the fractions made from it.

In each step every slot is in exactly one of six states, so the six counts of a `StepWork` sum to the number
of slots. The fractions are functions of the step table's columns; none of them is called "waste" alone,
because each answers another question.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

SLOT_STATES = (
    "prefilling_slots",
    "decoding_slots",
    "finished_slots",
    "stalled_slots",
    "empty_queued_slots",
    "idle_slots",
)


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


def slot_steps(steps: Steps) -> dict[str, int]:
    """Slot-steps spent in each state over the run: each step's count times its length in steps."""
    told = steps["told"].astype(np.bool_)
    n_steps = steps["n_steps"][told].astype(np.int64)
    return {name: int((steps[name][told].astype(np.int64) * n_steps).sum()) for name in SLOT_STATES}


def wasted_slot_fraction(steps: Steps) -> float | None:
    """finished / (prefilling + decoding + finished) in slot-steps, prefill steps included; None: no work told.

    The headline of both texts on static batching; 0 for continuous batching by construction.
    """
    spent = slot_steps(steps)
    busy = spent["prefilling_slots"] + spent["decoding_slots"] + spent["finished_slots"]
    return spent["finished_slots"] / busy if busy else None


def unused_slot_fraction(steps: Steps) -> float | None:
    """1 - (prefilling + decoding) / (steps x slots): what can also be seen from outside, over HTTP."""
    spent = slot_steps(steps)
    total = sum(spent.values())
    return 1 - (spent["prefilling_slots"] + spent["decoding_slots"]) / total if total else None


def padding_fraction(steps: Steps) -> float | None:
    """1 - real / rectangle prompt tokens over all prefills; None when nothing was prefilled."""
    told = steps["told"].astype(np.bool_)
    real = int(steps["prefill_tokens"][told].sum())
    padding = int(steps["padding_tokens"][told].sum())
    return padding / (real + padding) if real + padding else None


def slot_time_share(steps: Steps, duration: NDArray[np.int64]) -> dict[str, float] | None:
    """The six states weighted by each step's billed duration (any unit, one per stretch); they sum to 1."""
    told = steps["told"].astype(np.bool_)
    weight = duration[told].astype(np.float64)
    spent = {name: float((steps[name][told].astype(np.float64) * weight).sum()) for name in SLOT_STATES}
    total = sum(spent.values())
    return {name.removesuffix("_slots"): value / total for name, value in spent.items()} if total else None
