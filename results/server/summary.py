"""The server's side of a run as one document: figures in the run's window, null with the reason and what to pass."""

from collections.abc import Callable
from typing import Any

import numpy as np

from results.server.known import MIXED, SPECULATING, SPECULATING_NOW, UNKNOWN, dialect_of, told_by
from results.server.names import FAILED
from results.server.panels import growth, mean_name, panel_values, total
from results.server.rounds import Rounds, Server
from results.server.slot_use import slot_use, unused_fraction
from results.server.table import Float64, Mask, ServerTable
from results.server.window import NotObservableError, open_window

NOT_OBSERVABLE = "NOT_OBSERVABLE"
ASK_ELSEWHERE = "pass --metrics-url URL where the server tells its metrics"
Json = dict[str, Any]


def server_summary(table: ServerTable, start_ns: int = 0, end_ns: int | None = None, slots: int | None = None) -> Json:
    """{"server": ...}: from the first scrape at or after start_ns to the last (up to end_ns).

    `slots`: of each engine, where the server does not tell. A figure that cannot be had is null, with its code in
    `reasons` and a line for people in `advice`.
    """
    rounds = Rounds(table)
    advice: dict[str, str] = {}
    figures: Json = {"unused_slot_fraction": None, "slots": None, "steps": None}
    try:
        use = slot_use(rounds, start_ns, end_ns, slots)
        figures.update(slots=_whole(use.slots) or None, steps=_whole(use.steps))
        figures["unused_slot_fraction"] = unused_fraction(use)
    except NotObservableError as error:
        advice.update({name: str(error) for name, value in figures.items() if value is None})
    inside = (rounds.t_ns >= start_ns) & (rounds.t_ns <= (rounds.t_ns if end_ns is None else end_ns))
    for name, (panel, function) in FIGURES.items():
        figures[name] = function(rounds, panel, inside)
        if figures[name] is None:
            advice[name] = _why(rounds, panel)
    failed = sum(one.name == FAILED for one in table.series)
    return {
        "server": {
            "kind": kind_of(rounds),
            "servers": len(rounds.servers),
            "scrapes": int(inside.sum()),
            "places_that_failed": failed,
            **figures,
            "speculating": speculating(rounds, start_ns, end_ns),
            "reasons": dict.fromkeys(advice, NOT_OBSERVABLE),
            "advice": advice,
        }
    }


def kind_of(rounds: Rounds) -> str:
    """Of all servers: mixed where they differ."""
    kinds = {server.kind for server in rounds.servers}
    return MIXED if len(kinds) > 1 else next(iter(kinds), UNKNOWN)


def speculating(rounds: Rounds, start_ns: int, end_ns: int | None) -> bool | None:
    """Whether drafts were made in the window; None: these servers do not tell."""
    found = [_speculates(rounds, server, start_ns, end_ns) for server in rounds.servers]
    if any(found):
        return True
    return None if not found or None in found else False


def _speculates(rounds: Rounds, server: Server, start_ns: int, end_ns: int | None) -> bool | None:
    kind = dialect_of(server.kind)
    try:
        window = open_window(rounds, server, start_ns, end_ns)
        if any(window.delta_or_0(name) > 0 for name in SPECULATING.get(kind, ())):
            return True
    except NotObservableError:
        return None
    gauge = SPECULATING_NOW.get(kind)
    told = window.last(gauge).values() if gauge else ()
    return any(told) if kind in SPECULATING or told else None


def _largest(rounds: Rounds, panel: str, inside: Mask) -> float | None:
    """The largest value that a gauge's panel had."""
    values = _told(panel_values(rounds, panel), inside)
    return _whole(float(values.max())) if len(values) else None


def _growth(rounds: Rounds, panel: str, inside: Mask) -> float | None:
    """How far a count's panel grew."""
    values = _told(panel_values(rounds, panel), inside)
    return _whole(float(values[-1] - values[0])) if len(values) and values[-1] >= values[0] else None


def _pooled_mean(rounds: Rounds, panel: str, inside: Mask) -> float | None:
    """Growth of the sums over growth of the counts, over the whole window and all servers."""
    amount = count = 0.0
    for server in rounds.servers:
        told = told_by(panel, server.kind)
        name = mean_name(rounds, server, told) if told else None
        if told is None or name is None:
            return None
        sums, counts = (_told(total(rounds, server, f"{name}_{part}"), inside) for part in ("sum", "count"))
        if not len(counts) or np.isnan(growth(counts)[1:]).any():
            return None
        amount += float(sums[-1] - sums[0]) * told.scale_ratio
        count += float(counts[-1] - counts[0])
    return amount / count if count else None


def _told(values: Float64 | None, inside: Mask) -> Float64:
    if values is None:
        return np.empty(0)
    kept: Float64 = values[inside]
    return kept[~np.isnan(kept)]


FIGURES: dict[str, tuple[str, Callable[[Rounds, str, Mask], float | None]]] = {
    "running_max": ("running_requests", _largest),
    "waiting_max": ("waiting_requests", _largest),
    "kv_max_fraction": ("kv_used_fraction", _largest),
    "preemptions": ("preempted_requests", _growth),
    "queue_time_ms_mean": ("queue_time_ms", _pooled_mean),
}
"""Of which panel, and what of it."""


def _why(rounds: Rounds, panel: str) -> str:
    """Why a figure is missing, in one line with the remedy."""
    if not rounds.servers:
        return f"no metrics were asked for: {ASK_ELSEWHERE}"
    for server in rounds.servers:
        if not server.answered.any():
            because = f" ({server.failure})" if server.failure else ""
            return f"{server.place or 'it'} told no metrics{because}: {ASK_ELSEWHERE}"
        told = told_by(panel, server.kind)
        if told is None:
            return f"{server.kind} servers do not tell it: {ASK_ELSEWHERE}"
        if not any(one.name.startswith(told.names) for one in rounds.table.series):
            return f"it does not tell {told.names[0]}"
    return "it did not change while the run lasted, or the server restarted"


def _whole(value: float) -> float | int:
    return int(value) if value == int(value) else value
