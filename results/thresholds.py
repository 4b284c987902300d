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
    wrong_length_fraction: float = _row(0.01, "of the scheduled requests", "WRONG_LENGTHS above it")
    little_error_ns: int = _row(0, "ns of requests in flight", "LITTLE_MISMATCH above it, either way")
    lag_p99_ns: int = _row(5_000_000, "ns", "CLIENT_LATE: 99 % of hand-overs later than this")
    lag_p99_ttft_ratio: float = _row(0.05, "of the median TTFT", "the same limit where it is the larger one")
    lag_max_ns: int = _row(100_000_000, "ns", "CLIENT_LATE: any hand-over later than this")
    lag_max_ttft_ratio: float = _row(0.5, "of the median TTFT", "the same limit where it is the larger one")
    lag_sum_fraction: float = _row(0.05, "of the sum of TTFT", "CLIENT_LATE: sum of lags above it")
    lag_sum_warn_fraction: float = _row(0.01, "of the sum of TTFT", "CLIENT_LATE as a warning above it")
    own_wait_fraction: float = _row(0.05, "of the run", "HOST_CONTENTION: the client itself waited for longer")
    billed_least_ratio: float = _row(0.5, "billed / wall time of the steps", "HOST_CONTENTION below it (charged)")
    billed_most_ratio: float = _row(1.05, "billed / wall time of the steps", "HOST_CONTENTION above it (charged)")
    billed_step_ns: int = _row(50_000, "ns of wall time a step", "below it the timers' own cost spoils that ratio")
    growth_fraction: float = _row(0.05, "of the arrivals", "in-flight growth above it is a sign of overload")
    growth_small_run_fraction: float = _row(0.20, "of the arrivals", "OVERLOADED needs more than this in a small run")
    trend_p_fraction: float = _row(0.01, "one-sided p", "a Mann-Kendall trend below it is a sign of overload")
    load_requests: int = _row(200, "arrivals in the window", "below it the load is not judged")
    load_full_requests: int = _row(1_000, "arrivals in the window", "below it a run is a small run")
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
