"""How the replies of a server came: in how many events and reads, with how many tokens each."""

from dataclasses import dataclass

import numpy as np

from results.metrics import Mask, completed, events_of, gaps_ns, measured, streamed_tokens
from results.recording import Recording
from results.remote import CHUNKS, LENGTH, column, told


@dataclass(frozen=True, slots=True)
class StreamShape:
    """Of the measured requests that came to an end by themselves with at least one event. None: no value behind it."""

    requests: int
    whole_fraction: float | None
    """Replies of several tokens that came in one event."""
    streamed_requests: int
    """Replies of more than one event: those that the rest is about."""
    tokens_per_event_ratio: float | None
    reads_per_event_ratio: float | None
    """Socket reads in which events were complete / events: 1 where each event came by itself."""
    reads_per_reply_ratio: float | None
    no_gap_fraction: float | None
    """Of all gaps between events, those of 0 ns."""
    several_tokens_fraction: float | None
    """Of all replies, those with more tokens than events."""


def stream_shape(recording: Recording) -> StreamShape:
    """From the rows."""
    events = events_of(recording)
    replies = measured(recording) & completed(recording) & events.delivered
    counts = np.diff(recording.token_offsets)
    whole = replies & (counts == 1) & _has_several_tokens(recording)
    streamed = replies & (counts > 1)
    tokens = streamed_tokens(recording)
    reads = told(recording.requests, "content_reads")
    tells_reads = streamed & (reads > 0)
    gaps, _ = gaps_ns(recording, events, streamed)
    return StreamShape(
        requests=int(replies.sum()),
        whole_fraction=_ratio(whole.sum(), replies.sum()),
        streamed_requests=int(streamed.sum()),
        tokens_per_event_ratio=_ratio(tokens[streamed].sum(), counts[streamed].sum()),
        reads_per_event_ratio=_ratio(reads[tells_reads].sum(), counts[tells_reads].sum()),
        reads_per_reply_ratio=_ratio(reads[tells_reads].sum(), tells_reads.sum()),
        no_gap_fraction=_ratio((gaps == 0).sum(), len(gaps)),
        several_tokens_fraction=_ratio((replies & (tokens > counts)).sum(), replies.sum()),
    )


def _has_several_tokens(recording: Recording) -> Mask:
    """Several tokens were counted; or nobody counted, several were asked for, and the limit was reached."""
    requests = recording.requests
    uncounted = column(requests, "token_source") == CHUNKS
    full = (requests["finish_reason"] == LENGTH) & (column(requests, "output_tokens_asked") > 1)
    return np.asarray((streamed_tokens(recording) > 1) | (uncounted & full))


def _ratio(part: np.generic | int, whole: np.generic | int) -> float | None:
    return float(part) / float(whole) if whole else None
