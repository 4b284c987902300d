"""Every threshold of the verdict: one table, overridable by name, written out with every verdict.

Says where a line is drawn; what is compared with it, the rules say. The lines are proposals, to be tuned by
comparing an engine with itself.
"""

from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields, replace
from typing import Any


def _row(value: float, unit: str, meaning: str) -> Any:
    """One threshold: its default, the unit, and what lies beyond it."""
    return field(default=value, metadata={"unit": unit, "meaning": meaning})


@dataclass(frozen=True, slots=True)
class Thresholds:
    """All of them; the table below is the only place where they stand."""

    missing_requests: int = _row(0, "requests", "SENDS_MISSING above it")
    unfinished_requests: int = _row(0, "requests", "UNFINISHED above it")
    failed_fraction: float = _row(0.01, "of the scheduled requests", "FAILURES above it")
    timeout_slo_ratio: float = _row(10, "of the SLO's limit", "FAILURES as a warning: requests are aborted below it")
    wrong_length_fraction: float = _row(0.01, "of the scheduled requests", "WRONG_LENGTHS above it")
    little_error_ns: int = _row(0, "ns of requests in flight", "LITTLE_MISMATCH above it, either way")
    lag_p99_ns: int = _row(5_000_000, "ns", "CLIENT_LATE: 99 % of hand-overs later than this")
    lag_p99_ttft_ratio: float = _row(0.05, "of the median TTFT", "the same limit where it is the larger one")
    lag_max_ns: int = _row(100_000_000, "ns", "CLIENT_LATE: any hand-over later than this")
    lag_max_ttft_ratio: float = _row(0.5, "of the median TTFT", "the same limit where it is the larger one")
    lag_sum_fraction: float = _row(0.05, "of the sum of TTFT", "CLIENT_LATE: sum of lags above it")
    lag_sum_warn_fraction: float = _row(0.01, "of the sum of TTFT", "CLIENT_LATE as a warning above it")
    late_ns: int = _row(1_000_000, "ns", "a hand-over later than this is a late one (BURSTED, HOST_CONTENTION)")
    drift_requests: int = _row(100, "hand-overs", "SCHEDULE_DRIFT: below it not judged")
    drift_ns: int = _row(1_000_000, "ns", "SCHEDULE_DRIFT: median lag of the last tenth less that of the first")
    drift_gap_ratio: float = _row(0.10, "of the mean gap", "SCHEDULE_DRIFT: allowed on top of it")
    burst_bin_ns: int = _row(10_000_000, "ns", "BURSTED: late hand-overs are counted in bins of this width")
    burst_ratio: float = _row(3.0, "of the most planned for a bin", "BURSTED above it")
    ceiling_fraction: float = _row(0.5, "of the calibrated events/s", "CLIENT_SATURATED above it")
    client_cpu_fraction: float = _row(0.7, "of one core", "CLIENT_SATURATED above it (over a wire)")
    client_cpu_window_ns: int = _row(5_000_000_000, "ns", "CLIENT_SATURATED: the client's CPU is averaged over this")
    skew_fraction: float = _row(0.01, "of the run", "CLOCK_SKEW: wall and monotonic clock differ by more")
    skew_warn_fraction: float = _row(0.001, "of the run", "CLOCK_SKEW as a warning above it")
    clock_uncertain_ns: int = _row(1_000_000, "ns", "CLOCK_UNCERTAIN: a worker's clock may be off by more")
    clock_uncertain_ttft_ratio: float = _row(0.1, "of the median TTFT", "the same limit where it is the larger one")
    own_wait_fraction: float = _row(0.05, "of the run", "HOST_CONTENTION: the client itself waited for longer")
    billed_least_ratio: float = _row(0.5, "billed / wall time of the steps", "HOST_CONTENTION below it (charged)")
    billed_most_ratio: float = _row(1.05, "billed / wall time of the steps", "HOST_CONTENTION above it (charged)")
    billed_step_ns: int = _row(50_000, "ns of wall time a step", "below it the timers' own cost spoils that ratio")
    rate_limited_requests: int = _row(0, "requests", "RATE_LIMITED: answered with 429, above it")
    auth_expired_requests: int = _row(0, "requests", "AUTH_EXPIRED: refused after others were let in, above it")
    ports_exhausted_requests: int = _row(0, "requests", "PORTS_EXHAUSTED above it")
    left_in_flight_requests: int = _row(0, "requests", "WARMUP_LEAK: in the target at time 0, above it")
    silent_requests: int = _row(3, "requests", "FAILURES says since when nothing answers from so many on")
    whole_fraction: float = _row(0.05, "of the replies", "NOT_STREAMING: several tokens in one event, above it")
    reads_per_event_ratio: float = _row(0.5, "reads / events", "BUFFERED below it")
    coalesced_fraction: float = _row(0.2, "of the events", "BUFFERED as a warning: came with the one before, above it")
    no_gap_fraction: float = _row(0.5, "of the gaps", "BUFFERED: gaps of 0 with about one token an event, above it")
    tokens_per_event_ratio: float = _row(1.05, "tokens / events", "CHUNKED above it: gaps are not between tokens")
    unlike_count_fraction: float = _row(0.01, "of the compared replies", "TOKEN_COUNT_MISMATCH above it")
    hidden_requests: int = _row(0, "replies", "HIDDEN_TOKENS: with reasoning counted and not sent, above it")
    beginning_requests: int = _row(500, "requests", "WARMUP_NOT_CONVERGED: below it no slow beginning is looked for")
    cache_fraction: float = _row(0.05, "of the prompt tokens", "CACHE_UNEXPECTED: off the declared share by more")
    throttled_fraction: float = _row(0.001, "of the run", "THROTTLED: held back by a control group, above it")
    pressure_fraction: float = _row(0.2, "of the run", "CONTENDED_HOST: some task waited for a CPU, above it")
    steal_fraction: float = _row(0.01, "of the CPUs' time", "CONTENDED_HOST: taken by the hypervisor, above it")
    crowd_requests: int = _row(50, "requests in flight, mean", "above it OVERLOADED needs rising latencies too")
    effective_requests: int = _row(100, "measured requests", "AUTOCORRELATED: below it not judged")
    effective_fraction: float = _row(0.8, "independent of all values", "AUTOCORRELATED below it")
    interval_repeats: int = _row(3, "independent runs", "NO_CI below it")
    unstable_cv_ratio: float = _row(0.10, "standard deviation / mean over runs", "UNSTABLE above it")
    growth_fraction: float = _row(0.05, "of the arrivals", "in-flight growth above it is a sign of overload")
    growth_small_run_fraction: float = _row(0.20, "of the arrivals", "OVERLOADED needs more than this in a small run")
    trend_p_fraction: float = _row(0.01, "one-sided p", "a Mann-Kendall trend below it is a sign of overload")
    load_requests: int = _row(200, "arrivals in the window", "below it the load is not judged")
    load_full_requests: int = _row(1_000, "arrivals in the window", "below it a run is a small run")
    stall_ns: int = _row(200_000_000, "ns", "a gap above it is a stall in the summary's share of stalled requests")
    standard_requests: int = _row(1_000, "measured requests", "EXPLORATORY below it")
    publishable_requests: int = _row(4_000, "measured requests", "at most STANDARD below it")
    repeats: int = _row(5, "independent runs", "EXPLORATORY below it")

    def override(self, values: Mapping[str, float]) -> "Thresholds":
        """With other values. ValueError in one line for a name that does not exist or a value below 0."""
        kinds = {row.name: type(_default(row)) for row in fields(self)}
        for name, value in values.items():
            if name not in kinds:
                raise ValueError(f"unknown threshold {name!r}: known are {', '.join(kinds)}")
            whole = kinds[name] is int
            if not 0 <= value < float("inf") or (whole and value != int(value)):
                raise ValueError(f"threshold {name}={value}: write a {'whole ' if whole else ''}number from 0 on")
        return replace(self, **{name: kinds[name](value) for name, value in values.items()})

    def to_json(self) -> dict[str, float]:
        """Value by name; the names carry the units."""
        return {row.name: getattr(self, row.name) for row in fields(self)}


def threshold_table() -> list[tuple[str, float, str, str]]:
    """(name, default, unit, meaning) of each, for people."""
    return [(row.name, _default(row), row.metadata["unit"], row.metadata["meaning"]) for row in fields(Thresholds)]


def _default(row: Field[Any]) -> Any:
    return row.default
