"""Fluidity: the share of its deadlines that a stream met, one deadline a token; for people who read along.

The first token is due D_p after the request was, each further one D_d after the token before it was. A token that
is early adds to the slack of those behind it. One that is late by x misses floor(x / D_d) + 1 deadlines, and the
clock starts anew from it (Agrawal et al., "Etalon", 2024). Integers throughout: exact at exact multiples.
"""

from dataclasses import dataclass

import numpy as np

from results.columns import Int64, int64
from results.metrics import Events, Float64, failed, tokens_by_event
from results.recording import Recording
from results.span_deadlines import missed_and_total
from results.spans import TokenSpans


@dataclass(frozen=True, slots=True)
class Deadlines:
    """What a reader expects."""

    first_ns: int
    """D_p: of the first token, from the due time on. 0 or more."""
    further_ns: int
    """D_d: of each further token. More than 0."""


@dataclass(frozen=True, slots=True)
class Met:
    """Deadlines of each request."""

    missed: Int64
    total: Int64


def deadlines_met(recording: Recording, events: Events, deadlines: Deadlines) -> Met:
    """Of every request, failed ones too as far as they came."""
    if events.spans is not None:
        return _met_by_spans(recording, events.spans, deadlines)
    tokens = tokens_by_event(recording, events)
    counts = np.diff(recording.token_offsets)
    missed, total = np.zeros(len(counts), dtype=np.int64), np.zeros(len(counts), dtype=np.int64)
    due_ns = int64(recording.requests["due_ns"])[events.delivered]
    next_ns = np.zeros(len(counts), dtype=np.int64)
    next_ns[events.delivered] = due_ns + deadlines.first_ns
    longest_first = np.argsort(-counts, kind="stable")
    for place in range(int(counts.max(initial=0))):
        rows = longest_first[: int((counts > place).sum())]
        at = events.first[rows] + place
        _look(rows, events.t_ns[at], tokens[at], deadlines.further_ns, next_ns, missed, total)
    return Met(missed, total)


def _met_by_spans(recording: Recording, spans: TokenSpans, deadlines: Deadlines) -> Met:
    due_ns = int64(recording.requests["due_ns"])[spans.seated]
    missed, total = missed_and_total(spans, due_ns, deadlines.first_ns, deadlines.further_ns)
    return Met(int64(spans.of_all(missed)), int64(spans.of_all(total)))


def _look(
    rows: Int64, t_ns: Int64, tokens: Int64, further_ns: int, next_ns: Int64, missed: Int64, total: Int64
) -> None:
    """One delivery of each of these requests: its tokens come together, so at most the first of them is late."""
    behind = t_ns - next_ns[rows]
    late = (behind > 0) & (tokens > 0)
    misses = np.where(late, behind // further_ns + 1, 0)
    missed[rows] += misses
    total[rows] += tokens - late + misses
    next_ns[rows] = np.where(late, t_ns, next_ns[rows]) + tokens * further_ns


def fluidity(recording: Recording, met: Met) -> Float64:
    """1 - missed / total of each request; -inf where it failed, NaN without a token."""
    with np.errstate(divide="ignore", invalid="ignore"):
        value = np.where(met.total > 0, (met.total - met.missed) / met.total, np.nan)
    return np.asarray(np.where(failed(recording), -np.inf, value))
