"""Counters of one server between two scrapes, with everything that makes their difference worthless."""

from dataclasses import dataclass

import numpy as np

from results.columns import Int64, int64
from results.server.known import PROCESS_START
from results.server.rounds import Rounds, Server
from results.server.table import Float64


class NotObservableError(Exception):
    """Why a figure cannot be had from these scrapes, in words."""


@dataclass(frozen=True, slots=True)
class ServerWindow:
    """A server's rounds inside the window in which it answered; at least two."""

    rounds: Rounds
    server: Server
    at: Int64
    """Places of those rounds, in order."""

    def has(self, name: str) -> bool:
        """Whether it ever told it."""
        return bool(self.rounds.find(self.server, name))

    def ends(self, name: str) -> dict[str, tuple[float, float]]:
        """A counter's first and last value, by labels. NotObservableError where it is none, or of another process."""
        found = self.rounds.find(self.server, name)
        if not found:
            raise NotObservableError(f"it does not tell {name}")
        return {labels: self._ends(name, values[self.at]) for labels, values in found.items()}

    def delta(self, name: str) -> float:
        """A counter's growth over the window, over all its labels."""
        return sum(last - first for first, last in self.ends(name).values())

    def delta_or_0(self, name: str) -> float:
        """The same for a counter that is not there before it first moves."""
        return self.delta(name) if self.has(name) else 0.0

    def last(self, name: str) -> dict[str, float]:
        """A gauge's last value, by labels."""
        found = self.rounds.find(self.server, name)
        return {labels: float(told[-1]) for labels, values in found.items() if len(told := values[~np.isnan(values)])}

    def _ends(self, name: str, values: Float64) -> tuple[float, float]:
        told = values[~np.isnan(values)]
        if not len(told) or np.isnan(values[-1]):
            raise NotObservableError(f"{name} was not there any more at the end: the server is not the same")
        if (np.diff(told) < 0).any():
            raise NotObservableError(f"{name} fell: the server restarted, or several answer under one address")
        if np.isnan(values[0]) and not self.has(PROCESS_START):
            raise NotObservableError(f"{name} was not there from the start: the server may not be the same")
        return (0.0 if np.isnan(values[0]) else float(values[0])), float(told[-1])


def open_window(rounds: Rounds, server: Server, start_ns: int, end_ns: int | None) -> ServerWindow:
    """From its first answer at or after start_ns to its last one (up to end_ns). NotObservableError: no such window."""
    if not server.answered.any():
        raise NotObservableError(f"{server.place or 'it'} told no metrics{_because(server.failure)}")
    inside = server.answered & (rounds.t_ns >= start_ns)
    if end_ns is not None:
        inside &= rounds.t_ns <= end_ns
    at = int64(inside.nonzero()[0])
    if len(at) < 2:  # noqa: PLR2004 - a difference has two ends
        seen = f"it answered {len(at)} times in the time that counts, and a difference needs 2"
        raise NotObservableError(f"{seen}{_because(server.failure)}")
    window = ServerWindow(rounds, server, at)
    for values in rounds.find(server, PROCESS_START).values():
        told = values[at]
        if len(np.unique(told[~np.isnan(told)])) > 1 or np.isnan(told[-1]):
            raise NotObservableError(f"{PROCESS_START} changed: the server restarted, or several answer in turn")
    return window


def _because(failure: str) -> str:
    return f" ({failure})" if failure else ""
