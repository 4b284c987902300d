"""Slots as a summary tells them: of an engine in process and of a server's own steps alike."""

from results import slots
from results.figure_json import NOT_TOLD, Json, with_reasons
from results.stats import NO_VALUES
from results.steps import Steps, durations, ends_ns, starts_ns


def slot_figures(steps: Steps, held_back_fraction: float | None, why_no_held_back: str) -> Json:
    """Of these steps, with how many there are and how long they took; null has its reason beside it."""
    spent, busy = slots.slot_steps(steps), slots.slot_steps(steps, slots.BUSY_STATES)
    return {
        "busy_ns": int((ends_ns(steps) - starts_ns(steps)).sum()),
        **with_reasons(
            {
                "total_slot_steps": (sum(busy.values()) if busy else None, NOT_TOLD),
                "wasted_slot_steps": (busy["finished_slots"] if busy else None, NOT_TOLD),
                "slot_steps": (spent, NOT_TOLD),
                "wasted_slot_fraction": (slots.wasted_slot_fraction(steps), NO_VALUES),
                "unused_slot_fraction": (slots.unused_slot_fraction(steps), NO_VALUES),
                "padding_fraction": (slots.padding_fraction(steps), NO_VALUES),
                "held_back_fraction": (held_back_fraction, why_no_held_back),
                "slot_time_share": (slots.slot_time_share(steps, durations(steps)), NO_VALUES),
            }
        ),
    }
