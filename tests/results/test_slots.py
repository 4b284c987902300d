"""Slot accounting: the fractions against figures worked out by hand."""

import numpy as np
import pytest

from results.columns import NULL, Table, int64
from results.slots import (
    SLOT_STATES,
    StepWork,
    padding_fraction,
    slot_steps,
    slot_time_share,
    unused_slot_fraction,
    wasted_slot_fraction,
)


def steps_of(
    *states: tuple[int, int, int, int, int, int], n_steps: list[int] | None = None, told: list[int] | None = None,
    prefill: list[int] | None = None, padding: list[int] | None = None,
) -> Table:  # fmt: skip
    """A step table from the six counts of each step."""
    rows = len(states)
    table: Table = {name: int64([state[index] for state in states]) for index, name in enumerate(SLOT_STATES)}
    table["n_steps"] = int64(n_steps or [1] * rows)
    table["told"] = int64(told or [1] * rows)
    table["prefill_tokens"] = int64(prefill or [0] * rows)
    table["padding_tokens"] = int64(padding or [0] * rows)
    return table


def static_batch(outputs: list[int], slots: int) -> Table:
    """The steps of one static batch, worked out from its outputs: a prefill, then decodes until all are done."""
    states = [(len(outputs), 0, 0, 0, 0, slots - len(outputs))]
    for step in range(2, max(outputs) + 1):
        decoding = sum(length >= step for length in outputs)
        states.append((0, decoding, len(outputs) - decoding, 0, 0, slots - len(outputs)))
    return steps_of(*states)


def test_the_hand_case_of_a_static_batch() -> None:
    """Outputs 2, 4 and 8 on four slots take 8 steps: 3 prefilling, 11 decoding, 10 finished, 8 idle."""
    steps = static_batch([2, 4, 8], 4)
    assert slot_steps(steps) == {
        "prefilling_slots": 3, "decoding_slots": 11, "finished_slots": 10, "stalled_slots": 0,
        "empty_queued_slots": 0, "idle_slots": 8,
    }  # fmt: skip
    assert wasted_slot_fraction(steps) == pytest.approx(10 / 24)
    assert unused_slot_fraction(steps) == pytest.approx(1 - 14 / 32)


@pytest.mark.parametrize(
    ("outputs", "wasted"), [([8, 4, 12], 12 / 36), ([100, 200, 300, 1_000], 0.60), ([5, 5, 5], 0.0)]
)
def test_the_published_wasted_fractions(outputs: list[int], wasted: float) -> None:
    """A full static batch wastes 12 of 36 on outputs 8, 4, 12 and .60 on 100, 200, 300, 1,000."""
    assert wasted_slot_fraction(static_batch(outputs, len(outputs))) == pytest.approx(wasted)


def test_a_stretch_counts_once_a_step() -> None:
    """A row of n steps weighs n times in slot-steps."""
    once = steps_of(*[(0, 2, 1, 0, 0, 1)] * 5, (1, 0, 1, 2, 0, 0))
    stretch = steps_of((0, 2, 1, 0, 0, 1), (1, 0, 1, 2, 0, 0), n_steps=[5, 1])
    assert slot_steps(stretch) == slot_steps(once)
    assert wasted_slot_fraction(stretch) == wasted_slot_fraction(once) == pytest.approx(6 / 17)
    assert unused_slot_fraction(stretch) == pytest.approx(1 - 11 / 24)


def test_stalled_and_empty_slots_are_unused_but_not_wasted() -> None:
    """Stalled is never added to the headline, and empty slots are not in its denominator."""
    steps = steps_of((1, 0, 0, 3, 0, 0), (0, 1, 0, 0, 2, 1))
    assert wasted_slot_fraction(steps) == 0.0
    assert unused_slot_fraction(steps) == pytest.approx(1 - 2 / 8)


def test_padding_is_the_part_of_the_rectangle_that_is_no_prompt() -> None:
    """Three prompts padded to 62 tokens are a rectangle of 186; with 92 real ones .505 of it is padding."""
    steps = steps_of((3, 0, 0, 0, 0, 0), (0, 3, 0, 0, 0, 0), prefill=[92, 0], padding=[94, 0])
    assert padding_fraction(steps) == pytest.approx(94 / 186)
    assert padding_fraction(steps_of((0, 3, 0, 0, 0, 0))) is None


def test_time_shares_weigh_each_step_by_its_length() -> None:
    """A slot's state counts for as long as the step lasted, a stretch for all of its steps; the six sum to 1."""
    steps = steps_of((2, 0, 0, 0, 1, 1), (0, 2, 1, 1, 0, 0), n_steps=[1, 3])
    share = slot_time_share(steps, int64([30, 10]))
    assert share == pytest.approx(
        {"prefilling": 60 / 160, "decoding": 20 / 160, "finished": 10 / 160, "stalled": 10 / 160,
         "empty_queued": 30 / 160, "idle": 30 / 160}
    )  # fmt: skip
    assert share is not None
    assert sum(share.values()) == pytest.approx(1)


def test_untold_steps_are_left_out() -> None:
    """A step whose work was not told counts nowhere; where none was told there is no fraction at all."""
    states = [(0, 2, 2, 0, 0, 0), (NULL,) * 6]
    some = steps_of(*states, told=[1, 0], prefill=[8, NULL], padding=[2, NULL])
    assert wasted_slot_fraction(some) == 0.5
    assert unused_slot_fraction(some) == 0.5
    assert padding_fraction(some) == 0.2
    assert slot_time_share(some, int64([1, 100]))["decoding"] == 0.5  # type: ignore[index]
    none = steps_of(states[1], told=[0], prefill=[NULL], padding=[NULL])
    assert wasted_slot_fraction(none) is None
    assert unused_slot_fraction(none) is None
    assert padding_fraction(none) is None
    assert slot_time_share(none, int64([5])) is None


def test_a_count_that_was_not_told_makes_no_figure() -> None:
    """Every field of somebody else's StepWork may be missing: a missing count is never taken for a number."""
    steps = steps_of((1, 0, 0, 0, 0, 3), (1, 0, 0, 0, 0, 3), prefill=[10, 12], padding=[2, NULL])
    assert padding_fraction(steps) in (None, 2 / 12)
    counts = steps_of((1, 0, NULL, 0, 0, 3))
    assert wasted_slot_fraction(counts) is None
    assert unused_slot_fraction(counts) is None


def test_no_steps_have_no_fractions() -> None:
    """An empty step table has no fraction, not 0."""
    steps = steps_of()
    assert wasted_slot_fraction(steps) is None
    assert unused_slot_fraction(steps) is None
    assert padding_fraction(steps) is None
    assert slot_time_share(steps, np.array([], dtype=np.int64)) is None


def test_the_six_states_are_the_first_counts_of_a_step() -> None:
    """A StepWork's six states sum to the slots; the counts that only some engines have default to none."""
    work = StepWork("decode", 0, 2, 1, 0, 1, 4, None, 0, 0, 99)
    assert sum(getattr(work, name) for name in SLOT_STATES) == 8
    assert (work.preempted_requests, work.recomputed_tokens) == (0, 0)
