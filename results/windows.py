"""A schedule whose load changes by design, window by window: what a pooled figure of it hides.

Twenty windows of equal length: what was offered, how it was served, and for how long the SLO was not met.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from results.columns import int64
from results.concurrency import mean_in_flight
from results.figure_json import NO_TIME, NOT_ASKED, NS_PER_MS, NS_PER_S, Json, with_reasons
from results.recording import Recording
from results.stats import quantile
from results.verdicts.overload import has_one_rate
from results.window import MAKESPAN, window_kind

WINDOWS = 20
ONE_WINDOW = "ONE_WINDOW"
MET_FRACTION = 0.99
"""A window in which fewer of the requests due in it meet the SLO is over it."""
Float64 = NDArray[np.float64]
Mask = NDArray[np.bool_]


def by_window(
    recording: Recording,
    values_ns: Mapping[str, Float64],
    chosen: Mask,
    window_ns: tuple[int, int],
    attained: Mask | None,
) -> Json:
    """Null for a schedule of one rate, a burst and a closed loop: one window says all, or none can be laid."""
    schedule = recording.schedule
    if has_one_rate(schedule) or window_kind(schedule) == MAKESPAN or window_ns[1] <= window_ns[0]:
        return with_reasons(dict.fromkeys(("rows", "over_slo_s", "longest_over_slo_s"), (None, ONE_WINDOW)))
    edges_ns = np.linspace(*window_ns, WINDOWS + 1).astype(np.int64)
    due = int64(recording.requests["due_ns"])
    place = np.clip(np.searchsorted(edges_ns, due, side="right") - 1, 0, WINDOWS - 1)
    rows = [
        _row(recording, values_ns["ttft"], chosen & (place == at), (int(edges_ns[at]), int(edges_ns[at + 1])), attained)
        for at in range(WINDOWS)
    ]
    return {"rows": rows, **_over(rows, attained is not None)}


def _row(recording: Recording, ttft_ns: Float64, inside: Mask, span_ns: tuple[int, int], attained: Mask | None) -> Json:
    count, seconds = int(inside.sum()), (span_ns[1] - span_ns[0]) / NS_PER_S
    known = ttft_ns[inside]
    known = known[~np.isnan(known)]
    ttft = {f"ttft_{name}_ms": _in_ms(quantile(known, q)) for name, q in (("p50", 0.5), ("p99", 0.99))}
    share = (float(attained[inside].mean()) if count else None) if attained is not None else None
    figures = {
        "offered_rps": (count / seconds if seconds else None, NO_TIME),
        "in_flight": (mean_in_flight(recording, "due_ns", span_ns), NO_TIME),
        **ttft,
        "attainment": (share, NOT_ASKED if attained is None else "NO_VALUES"),
    }
    return {"begin_ns": span_ns[0], "end_ns": span_ns[1], "requests": count, **with_reasons(figures)}


def _in_ms(found: tuple[float | None, str | None]) -> tuple[float | None, str | None]:
    value, reason = found
    return (None if value is None else value / NS_PER_MS), reason


def _over(rows: list[Json], asked: bool) -> Json:
    """Time over the SLO, and the longest stretch of it: how long the system took to recover."""
    if not asked:
        return with_reasons(dict.fromkeys(("over_slo_s", "longest_over_slo_s"), (None, NOT_ASKED)))
    total = longest = running = 0.0
    for row in rows:
        over = row["attainment"] is not None and row["attainment"] < MET_FRACTION
        seconds = (row["end_ns"] - row["begin_ns"]) / NS_PER_S
        running = running + seconds if over else 0.0
        total, longest = total + (seconds if over else 0.0), max(longest, running)
    return {"over_slo_s": total, "longest_over_slo_s": longest}
