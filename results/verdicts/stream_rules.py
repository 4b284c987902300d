"""Rules about how a server's replies came: whether what was timed is a stream of tokens at all."""

import numpy as np

from results.columns import is_null
from results.metrics import completed
from results.remote import column, hidden_tokens, near
from results.status import Status
from results.verdicts.applicability import Outcome
from results.verdicts.case import PASSED, TOO_LITTLE, Case, Ruling
from results.verdicts.stream_shape import StreamShape, stream_shape

OF_GAPS = ("tpot_ms", "tpot_std_ms", "itl_ms", "icl_ms", "stall_ms", "stalls", "fluidity", "rates.decode_tokens_per_s")
OF_STREAMS = ("ttft_ms", "ttft_ok_ms", "ttft_net_ms", "ttat_ms", *OF_GAPS)
"""Figures that mean nothing where the moments of the events are not those of the tokens."""
SHOWN_LETTERS = 40
NO_ENCODING = ("", "identity")


def not_streaming(case: Case) -> Ruling:
    """Replies of several tokens come in several events."""
    shape, most = stream_shape(case.recording), case.thresholds.whole_fraction
    if shape.whole_fraction is None:
        return TOO_LITTLE
    if shape.whole_fraction <= most:
        return PASSED
    text = f"{shape.whole_fraction:.1%} of {shape.requests} replies came whole, in one event; at most {most:.0%} may"
    return Ruling(
        Outcome.FAILED,
        text,
        "turn streaming on; of replies that come whole only E2E and throughput are given",
        dict.fromkeys(OF_STREAMS, text),
    )


def buffered(case: Case) -> Ruling:
    """Events arrive one by one, as they were made: judged on the socket reads that carry content."""
    lines, shape = case.thresholds, stream_shape(case.recording)
    reads, ratio = shape.reads_per_event_ratio, shape.tokens_per_event_ratio
    if not shape.streamed_requests or ratio is None:
        return TOO_LITTLE
    seen = []
    if reads is not None and reads < lines.reads_per_event_ratio:
        seen.append(f"{1 / reads:.1f} events came in one read of the socket")
    if (shape.no_gap_fraction or 0.0) > lines.no_gap_fraction and ratio <= lines.tokens_per_event_ratio:
        seen.append(f"{shape.no_gap_fraction:.0%} of the gaps between events are 0")
    if seen:
        text = f"{' and '.join(seen)}: {_cause(case, shape)}"
        remedy = "measure without what holds the events back, or compare E2E and throughput alone"
        return Ruling(Outcome.FAILED, text, remedy, dict.fromkeys(OF_STREAMS, text))
    if reads is not None and 1 - reads > lines.coalesced_fraction:
        text = f"{1 - reads:.0%} of the events came with the one before: {_cause(case, shape)}"
        return Ruling(Outcome.WARNED, text, "gaps between tokens look shorter and longer than they are")
    return PASSED


def _cause(case: Case, shape: StreamShape) -> str:
    """The likely one."""
    told = case.recording.requests.get("content_encoding", ())
    encodings = {str(one) for one in told if one not in (None, *NO_ENCODING)}
    if encodings:
        named = ", ".join(sorted(_harmless(one) for one in encodings)[:3])
        return f"the replies were compressed on the way ({named}) although identity was asked for"
    if shape.reads_per_reply_ratio is not None and shape.reads_per_reply_ratio < 1.5:  # noqa: PLR2004 - about one
        return "each reply came in one piece: a proxy or gateway keeps it until it is whole"
    return "the server, a proxy or the network sends in blocks, or this client read too seldom"


def _harmless(text: str) -> str:
    """A server's text, short and printable."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)[:SHOWN_LETTERS]


def chunked(case: Case) -> Ruling:
    """An event holds about one token, so that the gap between events is one between tokens."""
    shape, most = stream_shape(case.recording), case.thresholds.tokens_per_event_ratio
    if shape.tokens_per_event_ratio is None:
        return TOO_LITTLE
    if shape.tokens_per_event_ratio <= most:
        return PASSED
    text = f"an event holds {shape.tokens_per_event_ratio:.2f} tokens on average; above {most:g} its gaps are no ITL"
    return Ruling(
        Outcome.FAILED,
        text,
        "compare TPOT, which counts tokens; the gaps between events are given as icl_ms",
        {"itl_ms": text},
    )


def token_count_mismatch(case: Case) -> Ruling:
    """The server's usage is no smaller than the events that came, and within 2 tokens or 2 % of a tokenizer's count."""
    against = _fewer_than_events(case)
    by_tokenizer = _unlike_tokenizer(case)
    if against is None or by_tokenizer.outcome is Outcome.WARNED:
        return by_tokenizer
    remedy = "mend the usage, or what cuts tokens in pieces on the way: TPOT, rates and lengths follow the usage"
    return Ruling(Outcome.WARNED, against, remedy)


def _fewer_than_events(case: Case) -> str | None:
    """More events bore tokens than the usage counts. The other way round is no contradiction: an event may hold
    several tokens, or wait for the rest of a letter. None: few replies are like that."""
    recording = case.recording
    usage, events = column(recording.requests, "told_output_tokens"), np.diff(recording.token_offsets)
    told = case.counted & completed(recording) & ~is_null(usage)
    against = told & (events > usage)
    count, total = int(against.sum()), int(told.sum())
    if count <= case.thresholds.unlike_count_fraction * total:
        return None
    nothing = int((against & (usage == 0)).sum())
    of_nothing = f", {nothing} of them of no token at all" if nothing else ""
    return (
        f"the usage of {count} of {total} replies{of_nothing} is below what came: it says {int(usage[against].sum())} "
        f"tokens, and {int(events[against].sum())} events bore some"
    )


def _unlike_tokenizer(case: Case) -> Ruling:
    requests = case.recording.requests
    usage, counted = column(requests, "told_output_tokens"), column(requests, "counted_tokens")
    compared = case.counted & completed(case.recording) & ~is_null(usage) & ~is_null(counted)
    total = int(compared.sum())
    if not total:
        return TOO_LITTLE
    unlike = compared & ~near(usage - hidden_tokens(requests), counted)
    count = int(unlike.sum())
    if count <= case.thresholds.unlike_count_fraction * total:
        return PASSED
    told, found = int(usage[unlike].sum()), int(counted[unlike].sum())
    return Ruling(
        Outcome.WARNED,
        f"of {count} of {total} replies the server's usage says {told} tokens, the tokenizer {found}",
        "see that the tokenizer is the served model's; the server's count is used",
    )


def hidden_reasoning(case: Case) -> Ruling:
    """No tokens are counted that never came."""
    requests = case.recording.requests
    ended = case.counted & completed(case.recording)
    spent = ended & (requests["status"] == Status.BUDGET_SPENT_HIDDEN)
    hidden = ended & ((hidden_tokens(requests) > 0) | spent)
    count = int(hidden.sum())
    if not ended.any():
        return TOO_LITTLE
    if count <= case.thresholds.hidden_requests:
        return PASSED
    tokens = int(hidden_tokens(requests)[hidden].sum())
    more = f", and {int(spent.sum())} replies brought nothing else" if spent.any() else ""
    return Ruling(
        Outcome.WARNED,
        f"{count} of {int(ended.sum())} replies count {tokens} reasoning tokens that were not sent{more}",
        "TPOT is of the tokens that came; do not compare with servers that send their reasoning",
    )
