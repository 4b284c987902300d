"""What a server behind a wire tells beyond an engine: columns of the requests table, and whose token count counts.

Pure functions of columns. Knows no wire; a column that the parts of a run do not have is a column of NULL.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from results.columns import NULL, Int64, Table, int64, is_null
from results.status import Status

REMOTE_COLUMNS = (
    "dispatched_ns", "connected_ns", "uploaded_ns", "header_ns", "first_byte_ns", "answer_ns", "connect_ns", "tls_ns",
    "connection_reused", "resends", "http_status", "told_output_tokens", "told_prompt_tokens", "cached_tokens",
    "told_reasoning_tokens", "counted_tokens", "content_reads", "reasoning_events", "reply_bytes",
)  # fmt: skip
"""Integers, NULL where not reached or not told. Times are on the run's axis; connect_ns and tls_ns are durations."""
REMOTE_TEXT_COLUMNS = ("reply_id", "output_sha256", "content_encoding")
TOKEN_SOURCES = ("usage", "tokenizer", "chunks", "engine")
"""Who counted a request's output tokens; the column token_source has the place in here, NULL where none came."""
USAGE, TOKENIZER, CHUNKS, ENGINE = range(len(TOKEN_SOURCES))
NEAR_TOKENS, NEAR_FRACTION = 2, 0.02
"""Two counts of the same text agree when they differ by no more than the larger of these."""
LENGTH = "length"
"""The finish reason of what reached its limit."""

Columns = Mapping[str, NDArray[np.generic]]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Accounting:
    """Output tokens of every request, and who counted them."""

    output_tokens: Int64
    token_source: Int64
    streamed_tokens: Int64
    """Those that came over the wire: without the reasoning that a server counts and does not send."""


def column(requests: Columns, name: str) -> Int64:
    """A column of the requests; all NULL where the run has none of that name."""
    return int64(requests[name]) if name in requests else np.full(len(requests["request_id"]), NULL, dtype=np.int64)


def told(requests: Columns, name: str) -> Int64:
    """A column of counts with 0 where nothing was told, for sums."""
    values = column(requests, name)
    return int64(np.where(is_null(values), 0, values))


def prompt_tokens(requests: Columns) -> Int64:
    """As the server counted them, else as they were asked for: a template and a tokenizer make others of them."""
    counted = column(requests, "told_prompt_tokens")
    return int64(np.where(is_null(counted), int64(requests["prompt_tokens"]), counted))


def account(requests: Columns, event_tokens: Int64) -> Accounting:
    """The server's usage counts, else a tokenizer's count, else the sum of the events' tokens (`event_tokens`)."""
    usage, counted = column(requests, "told_output_tokens"), column(requests, "counted_tokens")
    by_usage, by_tokenizer = ~is_null(usage), ~is_null(counted)
    output_tokens = np.where(by_usage, usage, np.where(by_tokenizer, counted, event_tokens))
    by_events = np.where(event_tokens > 0, CHUNKS, NULL)
    source = np.where(by_usage, USAGE, np.where(by_tokenizer, TOKENIZER, by_events))
    hidden = np.where(by_usage, hidden_tokens(requests), 0)
    return Accounting(int64(output_tokens), int64(source), int64(np.maximum(output_tokens - hidden, 0)))


def hidden_tokens(requests: Columns) -> Int64:
    """Reasoning tokens that the server counts in its usage and of which it sent no event."""
    return int64(np.where(told(requests, "reasoning_events") > 0, 0, told(requests, "told_reasoning_tokens")))


def near(one: Int64, other: Int64) -> Mask:
    """Where two counts of the same text agree."""
    allowed = np.maximum(NEAR_TOKENS, NEAR_FRACTION * np.maximum(one, other))
    return np.asarray(np.abs(one - other) <= allowed)


def of_asked_length(requests: Columns, token_source: Int64) -> Mask:
    """Which requests got as many tokens as they asked for, as far as their count can say.

    Usage and an engine are exact. A tokenizer counts text, so it may be a little off. A chunk may hold several
    tokens: fewer chunks than tokens asked for are believed when the server says that the limit was reached.
    """
    got, asked = int64(requests["output_tokens"]), int64(requests["output_tokens_asked"])
    close = near(got, asked)
    reached = np.asarray(requests["finish_reason"] == LENGTH)
    by_chunks = close | ((got < asked) & reached)
    exact = np.isin(token_source, (USAGE, ENGINE))
    return np.asarray(np.where(exact, got == asked, np.where(token_source == CHUNKS, by_chunks, close)))


def judge_ends(requests: Table, events: Int64, lengths_are_pinned: bool) -> None:
    """What ended by itself is empty without an event, and of wrong length where the workload pins lengths.

    `events`: token-bearing events of each. Tokens that were counted, limited and never sent are a budget spent
    out of sight.
    """
    ended = requests["status"] == Status.OK
    nothing = ended & (events == 0)
    spent = nothing & (told(requests, "told_output_tokens") > 0) & (requests["finish_reason"] == LENGTH)
    requests["status"][nothing] = np.int64(Status.EMPTY)
    requests["status"][spent] = np.int64(Status.BUDGET_SPENT_HIDDEN)
    if lengths_are_pinned:
        wrong = ended & ~nothing & ~of_asked_length(requests, column(requests, "token_source"))
        requests["status"][wrong] = np.int64(Status.WRONG_LENGTH)
