"""Everything that is counted of a run while it goes on, from the rows of its parts."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from loadgen.locust.ended import Assembler, News
from loadgen.locust.histogram import Curves, LogHistogram
from loadgen.locust.seconds import Seconds
from results import metrics
from results.columns import Int64, Table, int64, is_null
from results.fluidity import deadlines_met, fluidity
from results.recording import Recording, RecordingPart
from results.schedule import MEASURE, Schedule
from results.slo import FLUIDITY, Slo
from results.slots import BUSY_STATES, SLOT_STATES
from results.status import NAMES
from results.steps import ends_ns, starts_ns
from results.summary import LATENCIES

Float64 = NDArray[np.float64]
LATENCY_ROWS = ("ttft", "itl", "tpot", "e2e", "lateness")
CURVES = ("ttft", "itl", "lateness")


@dataclass(frozen=True, slots=True)
class Samples:
    """What a part has added, for whoever counts too. Latencies in ns, of measured requests that did not fail."""

    values_ns: Mapping[str, Float64]
    """By the names of LATENCY_ROWS."""
    at_ns: Mapping[str, Int64]
    """The moment of each value on the run's axis; of a request's figures its end."""
    failures: tuple[tuple[str, int], ...]
    """(kind, moment) of each failed request."""


class Tally:
    """One run so far."""

    def __init__(self, schedule: Schedule, slo: Slo | None) -> None:
        """Nothing has happened yet."""
        self.schedule = schedule
        self.slo = slo
        self.latencies = {name: LogHistogram() for name in LATENCY_ROWS}
        self.undefined = dict.fromkeys(LATENCY_ROWS, 0)
        self.curves = {name: Curves() for name in CURVES}
        self.by_status = np.zeros(len(NAMES), dtype=np.int64)
        self.ended_requests = self.failed_requests = self.completed_requests = self.attained_requests = 0
        self.output_tokens = self.prompt_tokens = 0
        self.newest_error: str | None = None
        self.until_ns: dict[int, int] = {}
        """How far the parts of each worker reach."""
        self.ended_by_rank: dict[int, int] = {}
        self.arrivals, self.completions, self.failures = Seconds(), Seconds(), Seconds()
        self.tokens, self.flight = Seconds(), Seconds()
        self.tokens_of_ended = Seconds()
        """Output tokens of each request at the moment of its end."""
        self.streamed = False
        """A streaming target: the tokens of a request are told when it ends, not before."""
        self.slots = SlotTally()
        self.server_waiting, self.server_looks = Seconds(), Seconds()
        """Waiting requests as a server told them, added up, and how often it did."""
        self._assembler = Assembler(schedule)
        due_ns = schedule.due_ns
        self.arrivals.add(due_ns[~is_null(due_ns)])

    @property
    def now_ns(self) -> int:
        """How far the newest part reaches."""
        return max(self.until_ns.values(), default=0)

    @property
    def settled_ns(self) -> int:
        """Up to here all is told that will ever be: the due time of the oldest request that has not ended."""
        due_ns = self.schedule.due_ns
        waits = is_null(due_ns)
        if waits.any():
            return max(self.now_ns - int(self.latencies["e2e"].at(0.99) or 0), 0)
        open_ns = due_ns[~self._assembler.known]
        return min(int(open_ns.min()), self.now_ns) if len(open_ns) else self.now_ns

    def add(self, part: RecordingPart, rank: int) -> Samples | None:
        """Count a part of a worker; None: nothing that is measured has ended."""
        news = self._assembler.take(part)
        self._flight(part.tables["flight"], rank)
        self.tokens.add(news.delivered_ns, news.delivered_tokens)
        self.slots.add(news.steps)
        if news.ended is None:
            return None
        self.ended_by_rank[rank] = self.ended_by_rank.get(rank, 0) + len(news.request_id)
        return self._ended(news, news.ended)

    def stop(self) -> None:
        """Nothing more is sent: what the schedule has left does not arrive."""
        self.arrivals.cut(self.now_ns)

    def server_told(self, at_ns: int, waiting_requests: float | None) -> None:
        """What a server has told of its queue."""
        if waiting_requests is not None:
            moment = int64([max(at_ns, 0)])
            self.server_waiting.add(moment, waiting_requests)
            self.server_looks.add(moment)

    def _flight(self, flight: Table, rank: int) -> None:
        """Spread what was in flight over the time since the worker's part before."""
        for until_ns, request_ns in zip(int64(flight["until_ns"]), int64(flight["request_ns"]), strict=True):
            self.flight.spread(self.until_ns.get(rank, 0), int(until_ns), float(request_ns))
            self.until_ns[rank] = max(int(until_ns), self.until_ns.get(rank, 0))

    def _ended(self, news: News, ended: Recording) -> Samples | None:
        events = metrics.events_of(ended)
        self.streamed = ended.token_t_ns is not None
        if self.streamed:
            self.tokens.add(events.t_ns, metrics.tokens_by_event(ended, events))
        due_ns = int64(ended.requests["due_ns"])
        self.arrivals.add(due_ns[is_null(self.schedule.due_ns[news.request_id])])
        chosen = np.asarray(ended.requests["phase"] == MEASURE)
        failed, ends_at = metrics.failed(ended), _ends_ns(ended)
        self.tokens_of_ended.add(ends_at, metrics.streamed_tokens(ended))
        self.completions.add(ends_at[metrics.completed(ended)])
        self.failures.add(ends_at[failed])
        self._count(ended, chosen)
        values = {name: function(ended, events) for name, function in LATENCIES.items()}
        self._attained(ended, events, values, chosen)
        return self._latencies(ended, events, values, chosen) if chosen.any() else None

    def _count(self, ended: Recording, chosen: NDArray[np.bool_]) -> None:
        status = int64(ended.requests["status"])[chosen]
        self.by_status += np.bincount(status, minlength=len(NAMES))
        self.ended_requests += len(status)
        self.failed_requests += int(metrics.failed(ended)[chosen].sum())
        self.completed_requests += int(metrics.completed(ended)[chosen].sum())
        self.output_tokens += int(ended.requests["output_tokens"][chosen].sum())
        self.prompt_tokens += int(ended.requests["prompt_tokens"][chosen].sum())
        errors = [error for error in ended.requests["error"][chosen] if error]
        self.newest_error = str(errors[-1]) if errors else self.newest_error

    def _attained(
        self, ended: Recording, events: metrics.Events, values: Mapping[str, Float64], chosen: NDArray[np.bool_]
    ) -> None:
        """By the rule of the summary: an answer that came, within every limit."""
        if self.slo is None:
            return
        deadlines = self.slo.deadlines
        fluid = np.full(len(chosen), np.nan)
        if deadlines is not None:
            fluid = fluidity(ended, deadlines_met(ended, events, deadlines))
        answered = metrics.completed(ended) & ~np.isnan(values["ttft"])
        self.attained_requests += int((self.slo.attained({**values, FLUIDITY: fluid}) & answered & chosen).sum())

    def _latencies(
        self, ended: Recording, events: metrics.Events, values: Mapping[str, Float64], chosen: NDArray[np.bool_]
    ) -> Samples:
        good = chosen & ~metrics.failed(ended)
        gaps, _ = metrics.gaps_ns(ended, events, good)
        rows = {"ttft": values["ttft"], "tpot": values["tpot"], "e2e": values["e2e"], "lateness": metrics.lag_ns(ended)}
        for name, column in rows.items():
            self.latencies[name].add(column[chosen])
            self.undefined[name] += int(np.isnan(column[chosen]).sum())
        self.latencies["itl"].add(gaps.astype(np.float64))
        within = np.repeat(good, np.diff(ended.token_offsets))
        within[events.first[events.delivered]] = False
        gap_at = events.t_ns[within]
        first_at = _first_ns(events)
        for name, column, at_ns in (
            ("ttft", rows["ttft"][good], first_at[good]),
            ("itl", gaps.astype(np.float64), gap_at),
            ("lateness", rows["lateness"][chosen], int64(ended.requests["handed_ns"])[chosen]),
        ):
            self.curves[name].add(column, at_ns)
        ends_at, moments = _ends_ns(ended), {}
        for name, column in rows.items():
            kept = good & np.isfinite(column)
            rows[name], moments[name] = column[kept], ends_at[kept]
        status = int64(ended.requests["status"])
        bad = np.flatnonzero(chosen & metrics.failed(ended))
        return Samples(
            {**rows, "itl": gaps.astype(np.float64)},
            {**moments, "itl": gap_at},
            tuple((NAMES[int(status[row])], int(ends_at[row])) for row in bad),
        )


class SlotTally:
    """What the slots of a stepping engine did. Of no use for targets that tell no steps."""

    def __init__(self) -> None:
        """No step yet."""
        self.slot_steps = dict.fromkeys(SLOT_STATES, 0)
        self.told_steps = self.steps = 0
        self.share = {name: Seconds() for name in SLOT_STATES}
        """Slot-time in ns by second."""
        self.waiting, self.busy = Seconds(), Seconds()
        """Waiting requests weighted by the time of the steps, and that time, in ns by second."""
        self._partly_told = False

    @property
    def told(self) -> bool:
        """Whether every step that told anything told of all slots."""
        return self.told_steps > 0 and not self._partly_told

    def add(self, steps: Table) -> None:
        """Count steps."""
        self.steps += int(steps["n_steps"].sum())
        told = steps["told"].astype(np.bool_)
        if not told.any():
            return
        steps = {name: values[told] for name, values in steps.items()}
        n_steps, at_ns = int64(steps["n_steps"]), ends_ns(steps)
        lasted = (at_ns - starts_ns(steps)).astype(np.float64)
        self.told_steps += int(n_steps.sum())
        for name in SLOT_STATES:
            counts = int64(steps[name])
            if is_null(counts).any():
                self._partly_told = True
                continue
            self.slot_steps[name] += int((counts * n_steps).sum())
            self.share[name].add(at_ns, counts * lasted)
        waiting = int64(steps["waiting_requests"])
        known = ~is_null(waiting)
        self.waiting.add(at_ns[known], waiting[known] * lasted[known])
        self.busy.add(at_ns[known], lasted[known])

    def wasted_slot_fraction(self) -> float | None:
        """As in `results.slots`, of the steps so far."""
        busy = sum(self.slot_steps[name] for name in BUSY_STATES)
        return self.slot_steps["finished_slots"] / busy if self.told and busy else None

    def unused_slot_fraction(self) -> float | None:
        """As in `results.slots`, of the steps so far."""
        total = sum(self.slot_steps.values())
        used = self.slot_steps["prefilling_slots"] + self.slot_steps["decoding_slots"]
        return 1 - used / total if self.told and total else None


def _ends_ns(ended: Recording) -> Int64:
    """The end of each request; its due time where it has none."""
    ends = int64(ended.requests["end_ns"])
    return int64(np.where(is_null(ends), int64(ended.requests["due_ns"]), ends))


def _first_ns(events: metrics.Events) -> Int64:
    """The first delivery of each request; 0 where it has none."""
    first = np.zeros(len(events.first), dtype=np.int64)
    first[events.delivered] = events.t_ns[events.first[events.delivered]]
    return first
