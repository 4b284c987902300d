"""The measured window of a schedule: when what counts begins and ends, as planned."""

from collections.abc import Sequence

from results.columns import is_null
from results.schedule import COOLDOWN, FILL, MEASURE, Schedule

MAKESPAN = "makespan"
WHOLE_RUN, MEASURED = "whole run", "measured window"


def window_kind(schedule: Schedule) -> str:
    """`schedule` and `trace`: by due times. `makespan`: to the last token."""
    return str(schedule.origin.get("window", {}).get("kind", "schedule"))


def loaded_span_ns(schedule: Schedule, window_ns: Sequence[int]) -> tuple[int, int | None]:
    """Of which time slots and servers tell: the window as far as a fill or a cool-down bounds it, else the whole run.

    End None: to the run's end, so that measured requests are followed to theirs. Begin 0: from empty.
    """
    begin_ns = window_ns[0] if (schedule.phase == FILL).any() else 0
    return begin_ns, window_ns[1] if (schedule.phase == COOLDOWN).any() else None


def span_name(span_ns: tuple[int, int | None]) -> str:
    """In words."""
    return WHOLE_RUN if span_ns == (0, None) else MEASURED


def planned_window_ns(schedule: Schedule) -> tuple[int, int | None]:
    """(begin, end): from the last due time of the fill, else 0, to the last measured one or the declared end.

    End None: a makespan, which the run decides. Of a makespan with a fill or a cool-down (a closed loop, whose due
    times nobody knows before) neither is known: `results.summary.window` takes them from the rows.
    """
    fill, cooldown = (schedule.due_ns[schedule.phase == phase] for phase in (FILL, COOLDOWN))
    begin_ns = int(fill[~is_null(fill)].max(initial=0))
    if window_kind(schedule) == MAKESPAN:
        return begin_ns, None
    declared = schedule.origin.get("window", {}).get("end_ns")
    measured = schedule.due_ns[schedule.phase == MEASURE]
    end_ns = int(declared) if declared is not None else int(measured[~is_null(measured)].max(initial=begin_ns))
    known = cooldown[~is_null(cooldown)]
    return begin_ns, min(end_ns, int(known.min())) if len(known) else end_ns
