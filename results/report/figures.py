"""A figure of one engine at one load: over its repeats, in brackets where it is of this run only, or a reason."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from results.report.differences import unwrapped
from results.report.folder import Point
from results.report.servers import calibration_of, told_by_server
from results.report.verdicts import OVERLOADED

Json = dict[str, Any]
QUEUE_BOUND = (
    "ttft_ms", "ttft_ok_ms", "ttft_net_ms", "ttat_ms", "e2e_ms", "norm_ms", "queue_wait_ms", "admission_wait_ms",
    "wait_ms", "head_to_token_ms",
)  # fmt: skip
"""Latencies that hold the queue: while it grows they grow with the length of the run."""
FAILED_TAIL = "FAILED_TAIL"
WITHHELD = ("NOT_STREAMING", "BUFFERED", "CHUNKED")
"""Codes under which a metric does not mean what its name says, so that no figure of it stands anywhere."""
GOES_WITH = {
    ("ttft_net_ms",): "ttft_ms",
    ("wire", "head_to_token_ms"): "ttft_ms",
    ("wire", "decode_ms"): "tpot_ms",
}
"""Figures that mean as much as the metric beside them does."""
WHOLE_FROM, TENTHS_FROM = 100, 10


@dataclass(frozen=True, slots=True)
class Figure:
    """The mean over the repeats of one figure, with the smallest and the largest."""

    value: float | None
    low: float | None = None
    high: float | None = None
    reason: str = ""
    """Why there is no value."""
    of_run: bool = False
    """A latency of this run of so many requests, and of no other length."""


NO_ROWS = Figure(None, reason="missing")


def figure_of(points: Sequence[Point], group: str, *names: str) -> Figure:
    """`group.name` of the summaries; null in one of them is null here, with its reason.

    Groups of a server that no summary holds: `wire` (its replies), `server` (what it told), `calibration`, `facts`.
    """
    found = [_value(point, group, *names) for point in points]
    if not found:
        return NO_ROWS
    values = [value for value, _ in found if value is not None]
    is_latency = names[-1] != "n"
    of_run = not {group, *names}.isdisjoint(QUEUE_BOUND) and is_latency and any(is_of_run(point) for point in points)
    if len(values) < len(found):
        return Figure(None, reason=next(reason for value, reason in found if value is None), of_run=of_run)
    return Figure(sum(values) / len(values), min(values), max(values), of_run=of_run)


def is_overloaded(point: Point) -> bool:
    """Whether it was judged that the queue grew for the whole run."""
    withheld = (point.summary or {}).get("ttft_ms", {}).get("withheld")
    return OVERLOADED in (point.verdict.load_state, withheld)


def is_of_run(point: Point) -> bool:
    """Whether its waiting times depend on how long the run was: overloaded, or all due at once."""
    return is_overloaded(point) or point.load == "burst"


def requests_of(points: Sequence[Point]) -> str:
    """How many requests a run, as a text."""
    counts = sorted({int((point.summary or {})["requests"]["scheduled"]) for point in points if point.summary})
    return f"{counts[0]:,}" if len(counts) == 1 else f"{counts[0]:,}-{counts[-1]:,}" if counts else "no"


def withheld_code(point: Point, metric: str) -> str:
    """Why no figure of a metric stands anywhere; empty where they may."""
    return next((one.code for name, one in point.verdict.withheld if name == metric and one.code in WITHHELD), "")


def amount(value: float) -> str:
    """Three digits or so: 1,659 · 76.3 · 2.05."""
    if abs(value) >= WHOLE_FROM:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= TENTHS_FROM else f"{value:.2f}"


def fraction(value: float) -> str:
    """Three places: 0.297."""
    return f"{value:.3f}"


def percent(value: float) -> str:
    """Whole, unless that would round a miss up to all, or something down to nothing."""
    whole = f"{100 * value:.0f} %"
    return whole if whole not in ("100 %", "0 %") or value in (0, 1) else f"{100 * value:.1f} %"


def reason_text(reason: str) -> str:
    """Why a figure is null, in words."""
    return REASONS.get(reason, reason)


REASONS = {
    FAILED_TAIL: "inf (failures)",
    "N_TOO_SMALL": "too few values",
    "NO_VALUES": "no values",
    "NOT_OBSERVABLE": "not told",
    "NOT_ASKED": "not asked",
    "NO_TIME": "no time",
    "missing": "missing",
    "NOT_STREAMING": "withheld: not streamed",
    "BUFFERED": "withheld: buffered",
    "CHUNKED": "withheld: chunked",
}


def _value(point: Point, group: str, *names: str) -> tuple[float | None, str]:
    *above, name = names
    figures = unwrapped(_document(point, group))
    for key in above:
        inner = figures.get(key)
        figures = inner if isinstance(inner, dict) else {}
    code = "" if name == "n" else withheld_code(point, GOES_WITH.get((group, *above), group))
    value = figures.get(name)
    if isinstance(value, int | float) and not code:
        return float(value), ""
    reasons = figures.get("reasons")
    return None, code or str((reasons if isinstance(reasons, dict) else {}).get(name, "NO_VALUES"))


def _document(point: Point, group: str) -> Json:
    """The group of figures: of the summary, or of what goes with it."""
    beside = {
        "wire": point.wire,
        "server": told_by_server(point.info),
        "calibration": calibration_of(point.info),
        "facts": point.info.get("facts"),
    }
    found = beside[group] if group in beside else (point.summary or {}).get(group)
    return found if isinstance(found, dict) else {}
