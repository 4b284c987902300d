"""What the banner of a live page warns of: workers that are lost, sends that are late, a server that cannot keep up.

A live look at the rows so far, by the lines of the verdict where it has them. The verdict itself comes at the end,
from all rows.
"""

from collections.abc import Iterable
from math import sqrt

from loadgen.locust.tally import Tally
from results.verdicts.thresholds import Thresholds

S_NS, MS_NS = 1_000_000_000, 1_000_000
LATENESS_FROM_REQUESTS = 20
OVERLOAD_FROM_S = 10
OVERLOAD_FROM_REQUESTS = 50
CHANCE_RATIO = 3.0
"""A pile of up to so many square roots of the arrivals may be chance."""
RISE_RATIO = 1.2
"""TTFT of the newest quarter of a run over that of the quarter before it: of a queue that grows steadily it is 1.4."""
Alarm = dict[str, str]


def alarms(tally: Tally, lost: Iterable[int], sends_freely: bool, open_loop: bool, lines: Thresholds) -> list[Alarm]:
    """Each with its kind and one sentence. Lateness is judged where it is the client's, overload in an open loop."""
    found = [
        _alarm("worker", f"Worker {rank + 1} is lost. Requests of its share that it has not told of count as failed.")
        for rank in sorted(lost)
    ]
    if sends_freely:
        found += _lateness(tally, lines)
    if open_loop:
        found += _overload(tally, lines)
    return found + _failures(tally, lines)


def _lateness(tally: Tally, lines: Thresholds) -> list[Alarm]:
    late = tally.latencies["lateness"]
    median_ns = tally.latencies["ttft"].at(0.5) or 0.0
    if late.count < LATENESS_FROM_REQUESTS:
        return []
    for name, value_ns, limit_ns in (
        ("p99", late.at(0.99) or 0.0, max(lines.lag_p99_ns, lines.lag_p99_ttft_ratio * median_ns)),
        ("largest", late.largest or 0.0, max(lines.lag_max_ns, lines.lag_max_ttft_ratio * median_ns)),
    ):
        if value_ns > limit_ns:
            text = (
                f"This client sends late: the {name} lateness is {value_ns / MS_NS:.1f} ms, allowed are "
                f"{limit_ns / MS_NS:.1f} ms. Add workers, or give it processors of its own."
            )
            return [_alarm("lateness", text)]
    return []


def _overload(tally: Tally, lines: Thresholds) -> list[Alarm]:
    """Requests pile up over the newer half of the run, and those that begin wait ever longer."""
    now = tally.now_ns // S_NS - 1
    half = now // 2
    arrived = tally.arrivals.total(half, now) if now >= OVERLOAD_FROM_S else 0.0
    if arrived < OVERLOAD_FROM_REQUESTS:
        return []
    gone = tally.completions.total(half, now) + tally.failures.total(half, now)
    most = max(lines.growth_small_run_fraction * arrived, CHANCE_RATIO * sqrt(arrived))
    if arrived - gone <= most or not _rises(tally, now):
        return []
    text = (
        f"Overload: of {arrived:.0f} requests that arrived in the last {now - half} s, {gone:.0f} have ended, and TTFT "
        "rises. Latencies now grow with the length of the run."
    )
    return [_alarm("overload", text)]


def _rises(tally: Tally, now_s: int) -> bool:
    """The median TTFT of the newest quarter of the run against the quarter before."""
    middles, (medians,) = tally.curves["ttft"].quantiles(0.5)
    told = [(at, value) for at, value in zip(middles, medians, strict=True) if value is not None]
    newest = [value for at, value in told if at >= 0.75 * now_s]
    before = [value for at, value in told if 0.5 * now_s <= at < 0.75 * now_s]
    if not newest:
        return bool(before)
    return bool(before) and sum(newest) / len(newest) > RISE_RATIO * sum(before) / len(before)


def _failures(tally: Tally, lines: Thresholds) -> list[Alarm]:
    failed, ended = tally.failed_requests, tally.ended_requests
    if not ended or failed / ended <= lines.failed_fraction:
        return []
    return [_alarm("failures", f"{failed:,} of {ended:,} requests that have ended failed ({failed / ended:.1%}).")]


def _alarm(kind: str, text: str) -> Alarm:
    return {"kind": kind, "text": text}
