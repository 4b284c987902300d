"""Panels: what the server told over time, put together over engines and servers.

A panel's value of a round is missing where a server did not answer in it: a sum without one of its terms is another
number.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from results.columns import Int64
from results.server.known import COUNT, GAUGE, MAX, MEAN, PANELS, PRODUCT_RATE, RATE, SUM, Told, told_by
from results.server.rounds import Rounds, Server
from results.server.table import Float64, ServerTable

NS_PER_S = 1e9


@dataclass(frozen=True, slots=True)
class Panel:
    """One picture: values at times of the run's axis."""

    name: str
    title: str
    unit: str
    t_ns: Int64
    value: Float64
    """NaN: not told in this round."""


def panels(table: ServerTable) -> dict[str, Panel]:
    """By name, in the order of PANELS; one that not all servers tell is not there."""
    rounds = Rounds(table)
    made = {}
    for name, kind in PANELS.items():
        value = panel_values(rounds, name)
        if value is not None:
            made[name] = Panel(name, kind.title, kind.unit, rounds.t_ns, value)
    return made


def panel_values(rounds: Rounds, panel: str) -> Float64 | None:
    """A value a round over all servers; None: one of them does not tell it."""
    per_server = []
    for server in rounds.servers:
        told = told_by(panel, server.kind)
        values = _told_values(rounds, server, told) if told is not None else None
        if values is None:
            return None
        per_server.append(values)
    if not per_server:
        return None
    if len(per_server[0]) > 1:  # a mean: sums and counts are added up apart
        amount, count = (np.sum([one[part] for one in per_server], axis=0) for part in range(2))
        return _ratio(amount, count)
    over = np.max if PANELS[panel].over_engines == MAX else np.sum
    return np.asarray(over([one[0] for one in per_server], axis=0), dtype=np.float64)


def total(rounds: Rounds, server: Server, name: str, over: str = SUM) -> Float64:
    """A name's value by round over all engines and models of a server; an engine that tells it later counts as 0."""
    series = np.array(list(rounds.find(server, name).values()))
    told = server.answered & ~np.isnan(series).all(axis=0)
    level = np.fmax.reduce(series, axis=0) if over == MAX else np.nansum(series, axis=0)
    return np.where(told, level, np.nan)


def growth(level: Float64) -> Float64:
    """Of a counter from round to round; NaN for the first, and where it fell."""
    grown = np.concatenate([[np.nan], np.diff(level)])
    return np.where(grown >= 0, grown, np.nan)


def mean_name(rounds: Rounds, server: Server, told: Told) -> str | None:
    """Of which of its names a server tells both sum and count."""
    parts = ("sum", "count")
    return next((name for name in told.names if all(rounds.find(server, f"{name}_{part}") for part in parts)), None)


def _told_values(rounds: Rounds, server: Server, told: Told) -> tuple[Float64, ...] | None:
    """A server's values by round; of a mean the growth of its sum and of its count."""
    if told.how == MEAN:
        return _mean_parts(rounds, server, told)
    if told.how == PRODUCT_RATE:
        factors = [total(rounds, server, name) for name in told.names if rounds.find(server, name)]
        times_ns = rounds.times_ns(server)
        return (_per_second(factors[0] * factors[1], times_ns),) if len(factors) == len(told.names) else None
    found = next((name for name in told.names if rounds.find(server, name)), None)
    if found is None:
        return None
    level = total(rounds, server, found, PANELS[told.panel].over_engines) * told.scale_ratio
    return (_SHOWN[told.how](level, rounds.times_ns(server)),)


def _mean_parts(rounds: Rounds, server: Server, told: Told) -> tuple[Float64, ...] | None:
    name = mean_name(rounds, server, told)
    if name is None:
        return None
    amount, count = (growth(total(rounds, server, f"{name}_{part}")) for part in ("sum", "count"))
    return amount * told.scale_ratio, count


def _as_told(level: Float64, t_ns: Int64) -> Float64:
    return level


def _per_second(level: Float64, t_ns: Int64) -> Float64:
    passed_ns = np.concatenate([[0.0], np.diff(t_ns)])
    return _ratio(growth(level) * NS_PER_S, passed_ns)


def _ratio(above: Float64, below: Float64) -> Float64:
    """NaN where there is nothing to divide by."""
    ratio: Float64 = np.divide(above, below, out=np.full(len(above), np.nan), where=below > 0)
    return ratio


def _since_first(level: Float64, t_ns: Int64) -> Float64:
    told = level[~np.isnan(level)]
    since = level - told[0] if len(told) else level
    return np.where(since >= 0, since, np.nan)


_SHOWN: dict[str, Callable[[Float64, Int64], Float64]] = {GAUGE: _as_told, RATE: _per_second, COUNT: _since_first}
