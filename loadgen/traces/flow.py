"""The rows of a trace on their way to a schedule, and the one way to leave some out: counted, by reason."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from loadgen.traces.rows import Json, Trace, order_key, span_ns
from results.columns import Int64, is_null

Mask = NDArray[np.bool_]
Excluded = dict[str, int]


@dataclass(frozen=True, slots=True)
class Flow:
    """The rows that are left, in the order in which they will be sent."""

    trace: Trace
    rows: Int64
    """Positions in the trace."""
    at_ns: Int64
    prompt_tokens: Int64
    output_tokens: Int64
    begin_ns: int
    end_ns: int
    """The window, on the scale of `at_ns`."""
    copies: int = 1
    """How often the rows stand one after the other."""

    def __len__(self) -> int:
        """How many rows."""
        return len(self.rows)


Outcome = tuple[Flow, Excluded, Json]
"""What is left, how many rows went for which reason, and what else there is to record."""


def flow_of(trace: Trace) -> Flow:
    """All rows, sorted stably by time and source row; a row that waits stays behind those it waits for."""
    rows = np.argsort(order_key(trace), kind="stable").astype(np.int64)
    begin_ns, end_ns = span_ns(trace)
    return Flow(trace, rows, trace.at_ns[rows], trace.prompt_tokens[rows], trace.output_tokens[rows],
                begin_ns, end_ns)  # fmt: skip


def exclude(flow: Flow, reasons: Mapping[str, Mask]) -> tuple[Flow, Excluded]:
    """The flow without the rows that a mask marks, each counted under the first reason that holds.

    Who waits for an excluded row is excluded too, as `waits_for_excluded`: it would never be due, and tying it
    to another row would invent a think time.
    """
    gone = np.zeros(len(flow), dtype=np.bool_)
    counts = {}
    for reason, mask in reasons.items():
        counts[reason] = int((mask & ~gone).sum())
        gone |= mask
    orphans = _orphans(flow, gone)
    counts["waits_for_excluded"] = int(orphans.sum())
    kept = ~(gone | orphans)
    return _take(flow, kept), {reason: rows for reason, rows in counts.items() if rows}


def _take(flow: Flow, kept: Mask) -> Flow:
    return replace(flow, rows=flow.rows[kept], at_ns=flow.at_ns[kept], prompt_tokens=flow.prompt_tokens[kept],
                   output_tokens=flow.output_tokens[kept])  # fmt: skip


def _orphans(flow: Flow, gone: Mask) -> Mask:
    orphans = np.zeros(len(flow), dtype=np.bool_)
    after = flow.trace.after
    if after is None or not gone.any():
        return orphans
    source_row = flow.trace.source_row[flow.rows]
    lost = set(source_row[gone].tolist())
    for position in np.flatnonzero(is_null(flow.at_ns) & ~gone).tolist():
        if not lost.isdisjoint(after[flow.rows[position]]):
            orphans[position] = True
            lost.add(int(source_row[position]))
    return orphans
