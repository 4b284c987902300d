"""The rows of an imported trace, as columns, and what can be counted in them.

Knows no format and no replay. Every row of the source is here, failed ones and zeros included; what is sent
is the replay's decision.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from results.columns import NULL, Int64, is_null

Json = dict[str, Any]
DEFAULT_CLASSES = ("default",)
MAX_ABS_NS = 2**62
"""Times are held within this many nanoseconds (146 years) of the first row, so that sums stay in int64."""


@dataclass(frozen=True, slots=True)
class Trace:
    """Columns of one length, in the source's row order; int64, NULL where the source does not say."""

    source_row: Int64
    """0-based number in the source, rising; never renumbered."""
    at_ns: Int64
    """Since the first row's time (below 0 for a row recorded earlier); NULL where the row waits for others."""
    prompt_tokens: Int64
    output_tokens: Int64
    header: Json
    """format, name, source, importer, time, rows, warnings; files by name, never by path."""
    after: tuple[tuple[int, ...], ...] | None = None
    """The source rows that each row waits for, all of them earlier ones; None: nobody waits."""
    think_ns: Int64 | None = None
    """Wait after the latest end of those in `after`."""
    session: Int64 | None = None
    turn: Int64 | None = None
    ok: Int64 | None = None
    """1, or 0 where the request failed when it was recorded."""
    request_class: Int64 | None = None
    """Index into class_names."""
    class_names: tuple[str, ...] = DEFAULT_CLASSES
    phase: Int64 | None = None
    """Index into results.schedule.PHASES."""

    def __post_init__(self) -> None:
        """ValueError when the columns do not fit together."""
        for name in ("at_ns", "prompt_tokens", "output_tokens", "after", "think_ns", "session", "turn", "ok",
                     "request_class", "phase"):  # fmt: skip
            column = getattr(self, name)
            if column is not None and len(column) != len(self.source_row):
                raise ValueError(f"column {name} has {len(column)} rows, source_row has {len(self.source_row)}")
        if bool((np.diff(self.source_row) <= 0).any()):
            raise ValueError("source rows must rise: each number once, in the order of the source")

    def __len__(self) -> int:
        """How many rows."""
        return len(self.source_row)


def failed_rows(output_tokens: Int64, ok: Int64 | None) -> NDArray[np.bool_]:
    """Where the source says that the request failed, or that nothing came back."""
    failed = output_tokens == 0
    return np.asarray(failed if ok is None else failed | (ok == 0))


def span_ns(trace: Trace) -> tuple[int, int]:
    """When the recording begins and ends, in its own time; both ends belong to it.

    It begins with the first row, or an earlier one where rows run backwards. It ends where the source says so
    (`header["time"]["end_ns"]`), and with its last arrival otherwise: silence after that was not recorded.
    """
    timed = trace.at_ns[~is_null(trace.at_ns)]
    if not len(timed):
        return 0, 0
    declared = trace.header.get("time", {}).get("end_ns")
    last = max(int(timed.max()), 0)
    return min(0, int(timed.min())), last if declared is None else max(last, int(declared))


def order_key(trace: Trace) -> Int64:
    """By what rows are sorted, stably: their time; for a row without one, the latest time before it.

    A row that waits for others thus stays behind all of them, and a trace in time order keeps its order.
    """
    waits = is_null(trace.at_ns)
    if not waits.any():
        return trace.at_ns
    latest = np.maximum.accumulate(np.where(waits, NULL, trace.at_ns))
    return np.where(waits, latest, trace.at_ns)


def count_rows(at_ns: Int64, prompt_tokens: Int64, output_tokens: Int64, ok: Int64 | None = None) -> Json:
    """The header's `rows`: of all kept rows how many failed, are 0, share a time, or step backwards."""
    timed = at_ns[~is_null(at_ns)]
    return {
        "read": len(at_ns),
        "kept": len(at_ns),
        "failed": int(failed_rows(output_tokens, ok).sum()),
        "zero_in": int((prompt_tokens == 0).sum()),
        "zero_out": int((output_tokens == 0).sum()),
        "ties": int((np.diff(np.sort(timed)) == 0).sum()),
        "backward": int((np.diff(timed) < 0).sum()),
    }
