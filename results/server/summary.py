"""The server's side of a run as one document: figures in the run's window, null with the reason and what to pass."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from results.server.known import MIXED, SPECULATING, SPECULATING_NOW, UNKNOWN, Told, dialect_of, told_by
from results.server.names import FAILED
from results.server.panels import mean_name, panel_values
from results.server.rounds import Rounds, Server
from results.server.slot_use import slot_use, unused_fraction
from results.server.table import Mask, ServerTable
from results.server.window import NotObservableError, ServerWindow, open_window

NOT_OBSERVABLE = "NOT_OBSERVABLE"
ASK_ELSEWHERE = "pass --metrics-url URL where the server tells its metrics"
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Span:
    """The scrapes of a run's window."""

    rounds: Rounds
    start_ns: int
    end_ns: int | None

    @property
    def inside(self) -> Mask:
        """Rounds in the window."""
        t_ns = self.rounds.t_ns
        return (t_ns >= self.start_ns) & (t_ns <= (t_ns if self.end_ns is None else self.end_ns))

    def window(self, server: Server) -> ServerWindow:
        """A server's counters in it. NotObservableError: there is no such window."""
        return open_window(self.rounds, server, self.start_ns, self.end_ns)

    def told(self, panel: str) -> Iterator[tuple[ServerWindow, Told]]:
        """Every server's window, and how it tells a panel. NotObservableError where one does not."""
        for server in self.rounds.servers:
            told = told_by(panel, server.kind)
            if told is None:
                raise NotObservableError(f"{server.kind} servers do not tell it")
            yield self.window(server), told


def server_summary(table: ServerTable, start_ns: int = 0, end_ns: int | None = None, slots: int | None = None) -> Json:
    """{"server": ...}: from the first scrape at or after start_ns to the last (up to end_ns).

    `slots`: of each engine, where the server does not tell. A figure that cannot be had is null, with its code in
    `reasons` and a line for people in `advice`.
    """
    span = Span(Rounds(table), start_ns, end_ns)
    figures, advice = _slot_figures(span, slots)
    for name, (panel, function) in FIGURES.items():
        try:
            figures[name] = function(span, panel)
            why = "not told while the run lasted"
        except NotObservableError as error:
            figures[name], why = None, str(error)
        if figures[name] is None:
            advice[name] = _why_not(span, panel) or why
    return {
        "server": {
            "kind": kind_of(span.rounds),
            "servers": len(span.rounds.servers),
            "scrapes": int(span.inside.sum()),
            "places_that_failed": sum(one.name == FAILED for one in table.series),
            **figures,
            "speculating": speculating(span),
            "reasons": dict.fromkeys(advice, NOT_OBSERVABLE),
            "advice": advice,
        }
    }


def _slot_figures(span: Span, slots: int | None) -> tuple[Json, dict[str, str]]:
    figures: Json = {"unused_slot_fraction": None, "slots": None, "steps": None}
    try:
        use = slot_use(span.rounds, span.start_ns, span.end_ns, slots)
        figures.update(slots=_whole(use.slots) or None, steps=_whole(use.steps))
        figures["unused_slot_fraction"] = unused_fraction(use)
    except NotObservableError as error:
        return figures, {name: str(error) for name, value in figures.items() if value is None}
    return figures, {} if figures["slots"] else {"slots": "it does not tell its slots: pass --slots N"}


def _why_not(span: Span, panel: str) -> str:
    """Why a panel is missing altogether, in one line with the remedy; empty: some other reason."""
    if not span.rounds.servers:
        return f"no metrics were asked for: {ASK_ELSEWHERE}"
    for server in span.rounds.servers:
        if not server.answered.any():
            because = f" ({server.failure})" if server.failure else ""
            return f"{server.place} told no metrics{because}: {ASK_ELSEWHERE}"
        told = told_by(panel, server.kind)
        if told is None:
            elsewhere = f": {ASK_ELSEWHERE}" if server.kind == UNKNOWN else ""
            return f"{server.kind} servers do not tell it{elsewhere}"
        if not any(one.name.startswith(told.names) for one in span.rounds.table.series):
            return f"it does not tell {told.names[0]}"
    return ""


def kind_of(rounds: Rounds) -> str:
    """Of all servers: mixed where they differ."""
    kinds = {server.kind for server in rounds.servers}
    return MIXED if len(kinds) > 1 else next(iter(kinds), UNKNOWN)


def speculating(span: Span) -> bool | None:
    """Whether drafts were made in the window; None: these servers do not tell."""
    found = [_speculates(span, server) for server in span.rounds.servers]
    if any(found):
        return True
    return None if not found or None in found else False


def _speculates(span: Span, server: Server) -> bool | None:
    kind = dialect_of(server.kind)
    try:
        window = span.window(server)
        if any(window.delta_or_0(name) > 0 for name in SPECULATING.get(kind, ())):
            return True
    except NotObservableError:
        return None
    gauge = SPECULATING_NOW.get(kind)
    told = window.last(gauge).values() if gauge else ()
    return any(told) if kind in SPECULATING or told else None


def _largest(span: Span, panel: str) -> float | None:
    """The largest value that a gauge's panel had."""
    values = panel_values(span.rounds, panel)
    told = values[span.inside] if values is not None else np.empty(0)
    told = told[~np.isnan(told)]
    return _whole(float(told.max())) if len(told) else None


def _growth(span: Span, panel: str) -> float | None:
    """How far a counter grew, over all servers."""
    grown = 0.0
    for window, told in span.told(panel):
        name = next((name for name in told.names if window.has(name)), told.names[0])
        grown += window.delta(name)
    return _whole(grown)


def _mean(span: Span, panel: str) -> float | None:
    """Growth of the sums over growth of the counts, over all servers; None: nobody was counted."""
    amount = count = 0.0
    for window, told in span.told(panel):
        name = mean_name(window.rounds, window.server, told)
        if name is None:
            raise NotObservableError(f"it does not tell {told.names[0]}")
        amount += window.delta(f"{name}_sum") * told.scale_ratio
        count += window.delta(f"{name}_count")
    return amount / count if count else None


FIGURES: dict[str, tuple[str, Callable[[Span, str], float | None]]] = {
    "running_max": ("running_requests", _largest),
    "waiting_max": ("waiting_requests", _largest),
    "kv_max_fraction": ("kv_used_fraction", _largest),
    "preemptions": ("preempted_requests", _growth),
    "queue_time_ms_mean": ("queue_time_ms", _mean),
}
"""Of which panel, and what of it."""


def _whole(value: float) -> float | int:
    return int(value) if value == int(value) else value
