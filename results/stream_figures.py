"""Figures of a streaming target alone: the phases of a request, how its reply came, whose token counts they are."""

import numpy as np
from numpy.typing import NDArray

from results.columns import NULL, int64, is_null
from results.figure_json import NO_TIME, NOT_TOLD, Json, latency, share, with_reasons
from results.metrics import Events, Mask, completed, events_of
from results.recording import Recording
from results.remote import TOKEN_SOURCES, column, hidden_tokens, near, told
from results.stats import NO_VALUES
from results.verdicts.client_waits import client_lag_ns
from results.verdicts.stream_shape import stream_shape

SPANS = {
    "dispatch_ms": ("due_ns", "dispatched_ns"),
    "connection_ms": ("dispatched_ns", "connected_ns"),
    "upload_ms": ("handed_ns", "uploaded_ns"),
    "wait_ms": ("uploaded_ns", "header_ns"),
    "head_to_body_ms": ("header_ns", "first_byte_ns"),
}
"""Phase -> the columns it lies between. `wait`: from the last byte sent to the reply's head."""
DURATIONS = {"connect_ms": "connect_ns", "tls_ms": "tls_ns"}
"""Those of requests that had to wait for them alone."""


def stream_figures(recording: Recording, chosen: Mask) -> Json:
    """The parts of the summary that only a streaming target has."""
    events = events_of(recording)
    return {
        "phases": _phases(recording, events, chosen),
        "stream": _stream(recording, chosen),
        "tokens": _tokens(recording, chosen),
        "client": _client(recording, chosen),
    }


def _phases(recording: Recording, events: Events, chosen: Mask) -> Json:
    """Where the time of a request went before its first token; each over the requests that got so far."""
    requests = recording.requests
    spans = {name: _between(recording, *ends) for name, ends in SPANS.items()}
    waits = {name: _known(column(requests, of)) for name, of in DURATIONS.items()}
    first = np.full(len(recording.schedule), NULL, dtype=np.int64)
    first[events.delivered] = events.t_ns[events.first[events.delivered]]
    body = column(requests, "first_byte_ns")
    known = ~is_null(first) & ~is_null(body)
    text = np.full(len(first), np.nan)
    text[known] = (first - body)[known]
    found = {**spans, **waits, "body_to_token_ms": text}
    return {name: latency(values[chosen & ~np.isnan(values)]) for name, values in found.items()}


def _between(recording: Recording, begin: str, end: str) -> NDArray[np.float64]:
    first, last = column(recording.requests, begin), column(recording.requests, end)
    known = ~is_null(first) & ~is_null(last)
    value = np.full(len(first), np.nan)
    value[known] = (last - first)[known]
    return value


def _known(values: NDArray[np.int64]) -> NDArray[np.float64]:
    return np.where(is_null(values), np.nan, values.astype(np.float64))


def _stream(recording: Recording, chosen: Mask) -> Json:
    shape = stream_shape(recording)
    requests = recording.requests
    reused = column(requests, "connection_reused")[chosen]
    reads = shape.reads_per_event_ratio
    return with_reasons(
        {
            "tokens_per_event": (shape.tokens_per_event_ratio, NO_VALUES),
            "several_tokens_share": (shape.several_tokens_fraction, NO_VALUES),
            "reads_per_event": (reads, NOT_TOLD),
            "coalesced_reads_share": (None if reads is None else max(1 - reads, 0.0), NOT_TOLD),
            "no_gap_share": (shape.no_gap_fraction, NO_VALUES),
            "whole_replies_share": (shape.whole_fraction, NO_VALUES),
            "connections_reused_share": share(float((reused == 1).sum()), float((reused != NULL).sum())),
            "resends": (int(told(requests, "resends")[chosen].sum()), NO_VALUES),
            "reply_bytes": (int(told(requests, "reply_bytes")[chosen].sum()), NO_VALUES),
        }
    )


def _tokens(recording: Recording, chosen: Mask) -> Json:
    """Asked, counted and received; and prompt tokens, asked, told and cached."""
    requests = recording.requests
    ended = chosen & completed(recording)
    sources = np.bincount(column(requests, "token_source")[ended & _sourced(recording)], minlength=len(TOKEN_SOURCES))
    usage, counted = column(requests, "told_output_tokens"), column(requests, "counted_tokens")
    compared = ended & ~is_null(usage) & ~is_null(counted)
    unlike = compared & ~near(usage - hidden_tokens(requests), counted)
    prompts, cached = column(requests, "told_prompt_tokens"), column(requests, "cached_tokens")
    tells_cache = ended & ~is_null(prompts) & ~is_null(cached)
    return with_reasons(
        {
            "source": ({name: int(n) for name, n in zip(TOKEN_SOURCES, sources, strict=True) if n}, NO_VALUES),
            "approximate": (bool(sources[TOKEN_SOURCES.index("chunks")]), NO_VALUES),
            "asked": (int(int64(requests["output_tokens_asked"])[ended].sum()), NO_VALUES),
            "received": (int(int64(requests["output_tokens"])[ended].sum()), NO_VALUES),
            "hidden": (int(hidden_tokens(requests)[ended].sum()), NO_VALUES),
            "compared_requests": (int(compared.sum()), NO_VALUES),
            "unlike_requests": (int(unlike.sum()) if compared.any() else None, NOT_TOLD),
            "prompt_asked": (int(int64(requests["prompt_tokens"])[ended].sum()), NO_VALUES),
            "prompt_told": (int(told(requests, "told_prompt_tokens")[ended].sum()), NO_VALUES),
            "cached_share": (
                share(float(cached[tells_cache].sum()), float(prompts[tells_cache].sum()))[0], NOT_TOLD
            ),
        }
    )  # fmt: skip


def _sourced(recording: Recording) -> Mask:
    return ~is_null(column(recording.requests, "token_source"))


def _client(recording: Recording, chosen: Mask) -> Json:
    """How late requests were handed over, and their share of all time to first token."""
    lag = client_lag_ns(recording)[chosen]
    handed = lag[~np.isnan(lag)]
    ttft_sum = _ttft_sum_ns(recording, chosen)
    return {
        "lag_ms": latency(handed),
        **with_reasons({"lag_of_ttft_share": (float(handed.sum()) / ttft_sum if ttft_sum else None, NO_TIME)}),
    }


def _ttft_sum_ns(recording: Recording, chosen: Mask) -> float:
    events = events_of(recording)
    has = chosen & events.delivered & completed(recording)
    return float((events.t_ns[events.first[has]] - int64(recording.requests["due_ns"])[has]).sum())
