"""A cost model's coefficients from a server's replies: it tells no steps, so they are read off the tokens' times.

A gap between two tokens of a reply in which nobody got a first token is a decode of as many rows as replies were under
way; what a request waited for its first token when no other was there is a prefill of its prompt alone, with the way
there and back. A server that computes prompts in chunks beside decodes, or several tokens a step, is not so simple.
"""

from dataclasses import replace

import numpy as np

from results.columns import NULL, Int64, int64
from results.fitting import Fit, Steps, fit_steps
from results.metrics import Events, Mask, completed, events_of
from results.recording import KINDS, Recording
from results.remote import column, prompt_tokens

SHORT_FRACTION = 0.25
"""Of the median gap."""
TOKENS_PER_EVENT = 1.05
"""More, on average, and gaps between events are no decodes."""


def fit_streams(recording: Recording) -> Fit:
    """ValueError when the replies do not tell single tokens, or too few came to an idle server."""
    events = events_of(recording)
    if len(events.tokens) and events.tokens.mean() > TOKENS_PER_EVENT:
        held = f"an event holds {events.tokens.mean():.2f} tokens on average"
        raise ValueError(f"{held}: gaps between them are no decodes")
    steps = observed_steps(recording, events)
    return replace(fit_steps(steps), rho_fraction=_busy_fraction(recording, events))


def observed_steps(recording: Recording, events: Events) -> Steps:
    """The decodes and prefills that can be seen from outside, as a step table in the order of time."""
    good = completed(recording) & events.delivered
    first, last, sent = (np.full(len(good), NULL, dtype=np.int64) for _ in range(3))
    first[events.delivered], last[events.delivered] = events.firsts_ns, events.lasts_ns
    told = column(recording.requests, "dispatched_ns")
    sent = np.where(told == NULL, int64(recording.requests["handed_ns"]), told)
    parts = (_decodes(recording, events, first[good], last[good], good), _prefills(recording, sent, first, last, good))
    table = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    order = np.argsort(table["end_ns"], kind="stable")
    return {name: values[order] for name, values in table.items()}


def _decodes(recording: Recording, events: Events, first: Int64, last: Int64, good: Mask) -> dict[str, Int64]:
    """Gaps without a first token of anybody in them."""
    owner = np.repeat(np.arange(len(good)), np.diff(recording.token_offsets))
    inside = (owner[1:] == owner[:-1]) & good[owner[1:]]
    inside &= ~_read_together(np.diff(events.t_ns), inside)
    begin, end = events.t_ns[:-1][inside], events.t_ns[1:][inside]
    firsts, lasts = np.sort(first), np.sort(last)
    undisturbed = np.searchsorted(firsts, end, side="right") == np.searchsorted(firsts, begin, side="right")
    begin, end = begin[undisturbed], end[undisturbed]
    begun, ended = np.searchsorted(firsts, begin, side="right"), np.searchsorted(lasts, end, side="left")
    prompts = prompt_tokens(recording.requests)[good]
    held = prompts + np.diff(recording.token_offsets)[good]
    came = np.concatenate([[0], np.cumsum(prompts[np.argsort(first, kind="stable")])])
    gone = np.concatenate([[0], np.cumsum(held[np.argsort(last, kind="stable")])])
    given = np.searchsorted(np.sort(events.t_ns), begin, side="right")
    return _table("decode", begin, end, begun - ended, came[begun] + given - gone[ended], begin * 0)


def _read_together(gaps: Int64, inside: Mask) -> Mask:
    """Gaps far shorter than others, and those before them: the client, or the way, was late with two tokens at once."""
    if not inside.any():
        return inside
    short = inside & (gaps < SHORT_FRACTION * np.median(gaps[inside]))
    return np.asarray(short | np.append(short[1:], False))


def _prefills(recording: Recording, sent: Int64, first: Int64, last: Int64, good: Mask) -> dict[str, Int64]:
    """Requests that nobody was there beside, from their sending to their first token."""
    sends, lasts = np.sort(sent[sent != NULL]), np.sort(last[last != NULL])
    there = np.searchsorted(sends, first, side="left") - np.searchsorted(lasts, sent, side="right")
    alone = good & (sent != NULL) & (there == 1)
    prompts = prompt_tokens(recording.requests)[alone]
    return _table("prefill", sent[alone], first[alone], prompts * 0, prompts, prompts)


def _table(kind: str, begin: Int64, end: Int64, rows: Int64, kv_tokens: Int64, prefill: Int64) -> dict[str, Int64]:
    zeros, ones = np.zeros(len(begin), dtype=np.int64), np.ones(len(begin), dtype=np.int64)
    chosen = end > begin
    columns = {
        "kind": ones * KINDS.index(kind), "told": ones, "n_steps": ones, "start_ns": begin, "end_ns": end,
        "decoding_slots": rows, "finished_slots": zeros, "kv_tokens": kv_tokens, "prefill_tokens": prefill,
        "padding_tokens": zeros,
    }  # fmt: skip
    return {name: int64(values)[chosen] for name, values in columns.items()}


def _busy_fraction(recording: Recording, events: Events) -> float:
    """Time with a request in flight / time from the first sending to the last token."""
    sent = int64(recording.requests["handed_ns"])[events.delivered]
    order = np.argsort(sent, kind="stable")
    begins, reach = sent[order], np.maximum.accumulate(events.lasts_ns[order])
    idle = np.maximum(begins[1:] - reach[:-1], 0).sum()
    span = int(reach[-1] - begins[0]) if len(begins) else 0
    return 1 - float(idle) / span if span else 0.0
