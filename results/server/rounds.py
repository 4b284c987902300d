"""Scrapes in the order of their rounds: each series as one array, a value a round, and the servers they belong to."""

import re
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from results.columns import Int64
from results.server.known import PREFIXES, SAME_IN_EVERY_RANK, UNKNOWN
from results.server.names import FAILED, OWN_NAMES
from results.server.table import Float64, Mask, ServerTable

_RANKS = re.compile(rf'(?:{"|".join(SAME_IN_EVERY_RANK)})="[^"]*",?')
_REASON = re.compile(r'reason="((?:[^"\\]|\\.)*)"')
_METRICS = "metrics"


def server_of(url: str) -> str:
    """The server that a metrics URL belongs to: the URL without its last part.

    A mark behind # tells apart two URLs that differ in what is not shown.
    """
    address, _, mark = url.partition("#")
    return address.rpartition("/")[0] + mark


@dataclass(frozen=True, slots=True)
class Server:
    """One process that tells of itself, under one or several URLs."""

    place: str
    kind: str
    answered: Mask
    """By round: whether its main URL told anything."""
    failure: str
    """Why it last told nothing; empty: it never failed."""


class Rounds:
    """A table of scrapes, by series and round."""

    def __init__(self, table: ServerTable) -> None:
        """Sorts it once."""
        self.table = table
        numbers = np.unique(table.round)
        self.count = len(numbers)
        self._place = np.searchsorted(numbers, table.round)
        self._order = np.argsort(table.series_index, kind="stable")
        self._offsets = np.searchsorted(table.series_index[self._order], np.arange(len(table.series) + 1))
        self.t_ns: Int64 = np.full(self.count, np.iinfo(np.int64).max)
        np.minimum.at(self.t_ns, self._place, table.t_ns)

    @cached_property
    def servers(self) -> tuple[Server, ...]:
        """In the order in which they were asked."""
        places = dict.fromkeys(server_of(one.url) for one in self.table.series)
        return tuple(self._server(place) for place in places)

    def find(self, server: Server, *names: str) -> dict[str, Float64]:
        """A server's series of the first of the names that it tells, by labels: a value a round, NaN where it has none.

        Processes that share an engine tell the same: the largest of theirs counts.
        """
        for name in names:
            found: dict[str, Float64] = {}
            for number, one in enumerate(self.table.series):
                if one.name == name and server_of(one.url) == server.place:
                    key = _RANKS.sub("", one.labels)
                    values = self._values(number)
                    found[key] = np.fmax(found[key], values) if key in found else values
            if found:
                return found
        return {}

    def times_ns(self, server: Server) -> Int64:
        """When its answer to each round was asked for; of the round where it gave none."""
        times = self.t_ns.copy()
        for number, one in enumerate(self.table.series):
            if server_of(one.url) == server.place and one.name not in OWN_NAMES:
                rows = self._rows(number)
                times[self._place[rows]] = self.table.t_ns[rows]
        return times

    def _server(self, place: str) -> Server:
        own = [(number, one) for number, one in enumerate(self.table.series) if server_of(one.url) == place]
        told = [(number, one) for number, one in own if one.name not in OWN_NAMES]
        kind = next((kind for mark, kind in PREFIXES.items() if any(one.name.startswith(mark) for _, one in told)),
                    UNKNOWN)  # fmt: skip
        main = [pair for pair in told if _asks_metrics(pair[1].url)] or told
        answered = np.zeros(self.count, dtype=np.bool_)
        for number, _ in main:
            answered[self._place[self._rows(number)]] = True
        failures = [(self._rows(number)[-1], one.labels) for number, one in own
                    if one.name == FAILED and (not main or one.url == main[0][1].url)]  # fmt: skip
        return Server(place, kind, answered, _reason(max(failures)[1]) if failures else "")

    def _rows(self, number: int) -> Int64:
        rows: Int64 = self._order[self._offsets[number] : self._offsets[number + 1]]
        return rows

    def _values(self, number: int) -> Float64:
        values = np.full(self.count, np.nan)
        rows = self._rows(number)
        values[self._place[rows]] = self.table.value[rows]
        return values


def _asks_metrics(url: str) -> bool:
    return url.partition("#")[0].endswith(_METRICS)


def _reason(labels: str) -> str:
    found = _REASON.search(labels)
    return found[1] if found else ""
