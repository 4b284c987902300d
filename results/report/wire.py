"""Figures of a server's replies that no summary holds, from the rows: phases, connections, and how requests ended."""

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np

from results.columns import NULL, int64, is_null
from results.figure_json import latency
from results.metrics import Events, Float64, Mask, events_of, lag_ns, measured
from results.recording import Recording
from results.remote import column, told
from results.status import NAMES

NS_PER_S = 1_000_000_000
LONGEST_TEXT = 300
SHOWN_ENDS = 12
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class End:
    """A way in which requests ended, and how many did."""

    status: str
    http_status: int | None
    finish_reason: str
    error: str
    requests: int


def wire_figures(recording: Recording) -> Json:
    """Of the measured requests. Latencies as in the summary, over the requests that got so far."""
    chosen, events = measured(recording), events_of(recording)
    requests = recording.requests
    reused = column(requests, "connection_reused")[chosen]
    first, last = _times(events, events.first), _times(events, events.last)
    header = _known(column(requests, "header_ns"))
    return {
        "head_to_token_ms": latency(_defined(first - header, chosen)),
        "decode_ms": latency(_defined(last - first, chosen)),
        "lag_ms": latency(_defined(lag_ns(recording), chosen)),
        "connections": {
            "opened_here": int((reused == 0).sum()),
            "reused": int((reused == 1).sum()),
            "resends": int(told(requests, "resends")[chosen].sum()),
        },
        "reasoning_tokens": _sum_where_told(column(requests, "told_reasoning_tokens")[chosen]),
        "prompt_tokens": _sum_where_told(column(requests, "told_prompt_tokens")[chosen]),
        "reasoning_events": int(told(requests, "reasoning_events")[chosen].sum()),
        "cached_tokens": _sum_where_told(column(requests, "cached_tokens")[chosen]),
        "encodings": _encodings(recording, chosen),
        **_event_rates(events),
    }


def ends_of(recording: Recording) -> tuple[tuple[End, ...], int]:
    """The ways in which measured requests ended, the most frequent first, and how many ways are left out."""
    requests = recording.requests
    rows = np.flatnonzero(measured(recording)).tolist()
    http = column(requests, "http_status")
    counts = Counter(
        (
            NAMES[int(requests["status"][row])],
            None if http[row] == NULL else int(http[row]),
            _cut(requests["finish_reason"][row]),
            _cut(requests["error"][row]),
        )
        for row in rows
    )
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0][0], item[0][1] or 0, item[0][2:]))
    shown = tuple(End(*kind, requests=count) for kind, count in ordered[:SHOWN_ENDS])
    return shown, max(len(ordered) - SHOWN_ENDS, 0)


def _times(events: Events, index: Any) -> Float64:
    """When the indexed event of each request arrived; NaN where it has none."""
    found = np.full(len(events.delivered), np.nan)
    found[events.delivered] = events.t_ns[index[events.delivered]]
    return found


def _known(values: Any) -> Float64:
    return np.where(is_null(values), np.nan, int64(values).astype(np.float64))


def _defined(values: Float64, chosen: Mask) -> Float64:
    kept: Float64 = values[chosen]
    return kept[~np.isnan(kept)]


def _sum_where_told(values: Any) -> int | None:
    known = int64(values)[~is_null(values)]
    return int(known.sum()) if len(known) else None


def _event_rates(events: Events) -> Json:
    """Token-bearing events a second: from the first to the last, and in the busiest second."""
    if len(events.t_ns) < 2:  # noqa: PLR2004 - a span has two ends
        return {"events_per_s": None, "busiest_events_per_s": None}
    begin_ns = int(events.t_ns.min())
    span_ns = int(events.t_ns.max()) - begin_ns
    busiest = int(np.bincount((events.t_ns - begin_ns) // NS_PER_S).max())
    return {"events_per_s": len(events.t_ns) * NS_PER_S / span_ns if span_ns else None, "busiest_events_per_s": busiest}


def _encodings(recording: Recording, chosen: Mask) -> list[str]:
    """What bodies were packed with: nothing, unless the server did what it was asked not to."""
    values = recording.requests.get("content_encoding")
    return sorted({_cut(value) for value in values[chosen].tolist() if value}) if values is not None else []


def _cut(text: object) -> str:
    words = "" if text is None else " ".join(str(text).split())
    return words if len(words) <= LONGEST_TEXT else words[:LONGEST_TEXT] + "…"
