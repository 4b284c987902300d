"""The slot picture as an inline drawing: read without scripts, coloured by the style sheet."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from markupsafe import Markup

from results.columns import NULL
from results.report.answer import STATES
from results.report.figures import fraction
from results.report.slot_picture import DECODING, FINISHED, PREFILLING, SlotPicture

STEP_WIDTH, GUTTER_WIDTH, AXIS_HEIGHT = 10, 46, 30
ROW_HEIGHTS = (22, 14, 8)
"""Up to 8 slots, up to 32, more."""
SLOTS_OF_HEIGHT = (8, 32)
STEPS_A_TICK = 10
LABELLED_FROM_STEPS = 4
NS_PER_S = 1e9


@dataclass(frozen=True, slots=True)
class Drawing:
    """One stretch, ready for the page."""

    title: str
    svg: Markup
    counts: str


def draw(picture: SlotPicture) -> Markup:
    """The SVG element. It holds numbers and our own words alone."""
    slots, steps = picture.state.shape
    row_height = _row_height(slots)
    width, height = GUTTER_WIDTH + STEP_WIDTH * steps + 4, row_height * slots + AXIS_HEIGHT
    parts = [
        f'<svg class="slots" viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="{slots} slots over {steps} steps from step {picture.first_step}">'
    ]
    for slot in range(slots):
        parts.append(_text(GUTTER_WIDTH - 6, slot * row_height + row_height * 0.7, f"slot {slot}", "end"))
        parts += _stretches(picture, slot)
    parts += _axis(picture.first_step, steps, slots * row_height)
    return Markup("".join([*parts, "</svg>"]))


def counts_text(picture: SlotPicture) -> str:
    """Slot-steps by state, from the step table, in words."""
    slots, steps = picture.state.shape
    spent = picture.counts.sum(axis=1)
    states = ", ".join(f"{state.replace('_', ' ')} {int(count)}" for state, count in zip(STATES, spent, strict=True))
    busy = int(spent[PREFILLING] + spent[DECODING] + spent[FINISHED])
    wasted = f"; wasted_slot_fraction of this stretch {fraction(int(spent[FINISHED]) / busy)}" if busy else ""
    return (
        f"{steps} steps from {picture.start_ns / NS_PER_S:.3f} s to {picture.end_ns / NS_PER_S:.3f} s x {slots} "
        f"slot{'s' if slots > 1 else ''} = {steps * slots} slot-steps: {states}{wasted}."
    )


def _stretches(picture: SlotPicture, slot: int) -> Iterator[str]:
    """One rectangle for each run of steps with one request in one state; the id where a request begins."""
    state, request_id = picture.state[slot], picture.request_id[slot]
    row_height = _row_height(len(picture.state))
    changes = np.flatnonzero((np.diff(state) != 0) | (np.diff(request_id) != 0)) + 1
    edges = [0, *changes.tolist(), len(state)]
    for begin, end in pairwise(edges):
        who = int(request_id[begin])
        gap = 1 if begin and who != int(request_id[begin - 1]) else 0
        x, y = GUTTER_WIDTH + begin * STEP_WIDTH + gap, slot * row_height + 1
        name = STATES[int(state[begin])]
        first, last = picture.first_step + begin, picture.first_step + end - 1
        when = f"step {first}" if first == last else f"steps {first}-{last}"
        whom = f"request {who}: " if who != NULL else ""
        yield (
            f'<rect class="s-{name}" x="{x}" y="{y}" width="{(end - begin) * STEP_WIDTH - gap}" '
            f'height="{row_height - 2}"><title>{whom}{name.replace("_", " ")}, slot {slot}, {when}</title></rect>'
        )
    yield from _ids(picture, slot)


def _ids(picture: SlotPicture, slot: int) -> Iterator[str]:
    request_id, row_height = picture.request_id[slot], _row_height(len(picture.state))
    if row_height < ROW_HEIGHTS[0]:
        return
    edges = [0, *(np.flatnonzero(np.diff(request_id) != 0) + 1).tolist(), len(request_id)]
    for begin, end in pairwise(edges):
        if request_id[begin] != NULL and end - begin >= LABELLED_FROM_STEPS:
            x, y = GUTTER_WIDTH + begin * STEP_WIDTH + STEP_WIDTH + 3, slot * row_height + row_height * 0.68
            yield _text(x, y, str(int(request_id[begin])), "start", "id")


def _axis(first_step: int, steps: int, line: int) -> Iterator[str]:
    """A line between any two steps, and every tenth step by its number."""
    lines = "".join(f"M{GUTTER_WIDTH + at * STEP_WIDTH} 0V{line}" for at in range(steps + 1))
    yield f'<path class="grid" d="{lines}"/>'
    for at in range((-first_step) % STEPS_A_TICK, steps, STEPS_A_TICK):
        yield _text(GUTTER_WIDTH + (at + 0.5) * STEP_WIDTH, line + 13, str(first_step + at), "middle")
    yield _text(GUTTER_WIDTH + steps * STEP_WIDTH / 2, line + 26, "engine step", "middle")


def _text(place: float, line: float, text: str, anchor: str, kind: str = "") -> str:
    of_kind = f' class="{kind}"' if kind else ""
    return f'<text x="{place:g}" y="{line:g}" text-anchor="{anchor}"{of_kind}>{text}</text>'


def _row_height(slots: int) -> int:
    return ROW_HEIGHTS[sum(slots > most for most in SLOTS_OF_HEIGHT)]
