"""Exact numbers in locust's own tables: rows of TTFT, ITL, TPOT, E2E and lateness, each within 0.2 %.

Locust's statistics keep response times in whole milliseconds and two digits; these keep them in logarithmic bins.
Rows go into `stats.entries` directly, and E2E alone into `stats.total`: "Aggregated" is E2E, not a mixture with gaps.
Touches of locust that it does not promise: `stats.entries`, `stats.total`, the fields of a `StatsEntry`,
`StatsCSV._percentile_fields`.
"""

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from locust import stats as locust_stats

from loadgen.locust.histogram import bins_of, quantile_of_bins
from loadgen.locust.live import TITLES, LiveView
from loadgen.locust.tally import Float64, Samples
from results.columns import Int64

_locust: Any = locust_stats
"""Untyped: its response times are whole milliseconds, ours are not."""
NS_PER_MS, NS_PER_S = 1e6, 1e9
THOUSAND_MS = 1000
AGGREGATED = "Aggregated"
E2E = "e2e"


class ExactEntry(_locust.StatsEntry):  # type: ignore[misc]  # Any
    """A row of locust's statistics whose response times are in bins of 0.2 %. Its quantiles are of type 8."""

    min_response_time: Any
    max_response_time: Any

    def feed(self, values_ms: Float64, wall_s: Float64) -> None:
        """Count response times, each at the wall time when it was."""
        if not len(values_ms):
            return
        other = self._part(wall_s)
        other.num_requests = len(values_ms)
        other.total_response_time = float(values_ms.sum())
        other.min_response_time, other.max_response_time = float(values_ms.min()), float(values_ms.max())
        other.response_times = bins_of(values_ms)
        other.num_reqs_per_sec = _by_second(wall_s)
        self.extend(other)

    def feed_failures(self, wall_s: Float64) -> None:
        """Count requests that failed: they have no response time."""
        if not len(wall_s):
            return
        other = self._part(wall_s)
        other.num_requests = other.num_none_requests = other.num_failures = len(wall_s)
        other.num_reqs_per_sec = other.num_fail_per_sec = _by_second(wall_s)
        self.extend(other)

    def get_response_time_percentile(self, q: float) -> float:
        """Of all so far, in ms; 0 of none, as locust has it."""
        value = self.max_response_time if q >= 1 else quantile_of_bins(self.response_times, q) or 0.0
        return _digits(min(max(value, self.min_response_time or 0.0), self.max_response_time))

    @property
    def median_response_time(self) -> float:
        """In ms."""
        return self.get_response_time_percentile(0.5)

    def get_current_response_time_percentile(self, q: float) -> float | None:
        """Of about the last ten seconds, by locust's own copies of ten seconds ago."""
        window_s, now_s = 10, int(time.time())
        for off in sorted(range(-8, 9), key=abs):
            cached = (self.response_times_cache or {}).get(now_s - window_s - off)
            if cached is not None:
                newer = _locust.diff_response_time_dicts(self.response_times, cached.response_times)
                value = quantile_of_bins(newer, q)
                return None if value is None else _digits(value)
        return None

    def to_dict(self, escape_string_values: bool = False) -> dict[str, Any]:
        """As locust writes it for its pages, with extremes that are not rounded to whole ms."""
        told: dict[str, Any] = super().to_dict(escape_string_values)
        told["min_response_time"] = _digits(self.min_response_time or 0.0)
        told["max_response_time"] = _digits(self.max_response_time)
        return told

    def to_string(self, current: bool = True) -> str:
        """A line of locust's table on the console, with decimals where whole milliseconds would hide the number."""
        rates = (self.current_rps, self.current_fail_per_sec) if current else (self.total_rps, self.total_fail_per_sec)
        failed = f"{self.num_failures}({self.fail_ratio * 100:.2f}%)"
        times = (self.avg_response_time, self.min_response_time or 0, self.max_response_time, self.median_response_time)
        width = _locust.STATS_NAME_WIDTH - _locust.STATS_TYPE_WIDTH + 4
        name = f"{(self.method or ''):<{_locust.STATS_TYPE_WIDTH}} {self.name:<{width}}"
        average, least, largest, median = (_wide(value, 7) for value in times)
        counts = f"{self.num_requests:7d} {failed:>12} |{average} {least} {largest}{median}"
        return f"{name} {counts} | {rates[0] or 0:7.2f} {rates[1] or 0:11.2f}"

    def percentile(self) -> str:
        """A line of locust's second table on the console."""
        named = f"{(self.method or ''):<{_locust.STATS_TYPE_WIDTH}} {self.name:<{_locust.STATS_NAME_WIDTH}}"
        values = (self.get_response_time_percentile(percent) for percent in _locust.PERCENTILES_TO_REPORT)
        first, others = _wide(next(values), 8), " ".join(_wide(value, 6) for value in values)
        return f"{named} {first} {others} {self.num_requests:6d}"

    def _log_response_time(self, response_time_ms: float | None) -> None:
        """Of an ordinary locust user beside ours."""
        if response_time_ms is None:
            self.num_none_requests += 1
            return
        self.total_response_time += response_time_ms
        least = self.min_response_time
        self.min_response_time = response_time_ms if least is None else min(least, response_time_ms)
        self.max_response_time = max(self.max_response_time, response_time_ms)
        for middle, count in bins_of(np.array([response_time_ms])).items():
            self.response_times[middle] = self.response_times.get(middle, 0) + count

    def _part(self, wall_s: Float64) -> Any:
        other = _locust.StatsEntry(self.stats, self.name, self.method)
        other.start_time = self.start_time
        other.last_request_timestamp = float(wall_s.max())
        return other


class ExactStats:
    """Puts the samples of a live view into locust's statistics."""

    def __init__(self, stats: Any, live: LiveView) -> None:
        """Listens to the view from now on."""
        self._stats = stats
        self._live = live
        self._run: int | None = None
        self._origin_s = 0.0
        live.listen(self._take)

    def _take(self, samples: Samples) -> None:
        self._look_at_clock(samples)
        name = self._live.name
        for key, title in TITLES.items():
            values_ms, wall_s = samples.values_ns[key] / NS_PER_MS, self._wall_s(samples.at_ns[key])
            self._entry(name, title).feed(values_ms, wall_s)
            if key == E2E:
                self._total().feed(values_ms, wall_s)
        self._fail(name, samples.failures)

    def _fail(self, name: str, failures: Sequence[tuple[str, int]]) -> None:
        title = TITLES[E2E]
        wall_s = self._wall_s(np.array([at_ns for _, at_ns in failures], dtype=np.int64))
        self._entry(name, title).feed_failures(wall_s)
        self._total().feed_failures(wall_s)
        for kind, _ in failures:
            key = _locust.StatsError.create_key(title, name, kind)
            self._stats.errors.setdefault(key, _locust.StatsError(title, name, kind)).occurred()

    def _entry(self, name: str, method: str) -> ExactEntry:
        """Made anew whenever locust has cleared its statistics."""
        found = self._stats.entries.get((name, method))
        if not isinstance(found, ExactEntry):
            found = ExactEntry(self._stats, name, method, use_response_times_cache=True)
            self._stats.entries[(name, method)] = found
        return found

    def _total(self) -> ExactEntry:
        found = self._stats.total
        if not isinstance(found, ExactEntry):
            found = ExactEntry(self._stats, AGGREGATED, "", use_response_times_cache=True)
            found.start_time = self._stats.total.start_time
            found.extend(self._stats.total)
            self._stats.total = found
        return found

    def _look_at_clock(self, samples: Samples) -> None:
        """Where time 0 of a run lies on the wall: rows come at most a moment after what they tell of."""
        newest_ns = max((int(at_ns.max()) for at_ns in samples.at_ns.values() if len(at_ns)), default=0)
        newest_ns = max(newest_ns, *(at_ns for _, at_ns in samples.failures), 0)
        latest_origin_s = time.time() - newest_ns / NS_PER_S
        if self._run != self._live.run:
            self._run, self._origin_s = self._live.run, latest_origin_s
        self._origin_s = min(self._origin_s, latest_origin_s)

    def _wall_s(self, at_ns: Int64) -> Float64:
        """Virtual time is not the wall's: what happened in it counts when it is told."""
        if not self._live.real_time:
            return np.full(len(at_ns), time.time())
        return self._origin_s + at_ns / NS_PER_S


def install_exact(environment: Any, live: LiveView) -> ExactStats:
    """Exact rows in the environment's statistics, and percentiles with decimals in its CSV files."""
    _locust.StatsCSV._percentile_fields = _percentile_fields
    return ExactStats(environment.stats, live)


def _percentile_fields(writer: Any, stats_entry: Any, use_current: bool = False) -> list[Any]:
    """As locust has it, without cutting them to whole milliseconds."""
    if not stats_entry.num_requests:
        return list(writer.percentiles_na)
    of = stats_entry.get_response_time_percentile
    if use_current and stats_entry.use_response_times_cache:
        of = stats_entry.get_current_response_time_percentile
    return [of(percent) or 0 for percent in writer.percentiles_to_report]


def _by_second(wall_s: Float64) -> dict[int, int]:
    seconds, counts = np.unique(wall_s.astype(np.int64), return_counts=True)
    return dict(zip(seconds.tolist(), counts.tolist(), strict=True))


def _digits(value: float) -> float:
    """Five of them: of microseconds as many as of minutes."""
    return float(f"{value:.5g}")


def _wide(value: float, columns: int) -> str:
    if value and value < 1:
        return f"{value:{columns}.3f}"
    return f"{value:{columns}.1f}" if value and value < THOUSAND_MS else f"{value:{columns}.0f}"
