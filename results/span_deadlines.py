"""Fluidity's deadlines where tokens are implied: counted by stretches of lateness, not token by token.

A token is late when the decode that gives it ends after the deadline, which moves by D_d a token and starts anew from
every late one. With f(d) = end of decode d - d x D_d, the late tokens of a request are those at which f exceeds all it
has been since the request's first, and what the first token left of slack. So they are a chain that leads from one
decode to the next one with a greater f: the same chain for all requests, of which each goes a piece.
"""

import numpy as np

from results.columns import Int64, int64
from results.spans import Mask, TokenSpans


def missed_and_total(spans: TokenSpans, due_ns: Int64, first_ns: int, further_ns: int) -> tuple[Int64, Int64]:
    """Deadlines missed and deadlines in all of each seated request; `due_ns` is theirs. Integers: exact."""
    behind = spans.first_ns - (due_ns + first_ns)
    late = behind > 0
    missed = np.where(late, behind // further_ns + 1, 0)
    next_ns = np.where(late, spans.first_ns, due_ns + first_ns) + further_ns
    low, high = spans.low, spans.high
    late_tokens = late.astype(np.int64)
    several = high > low
    more, more_late = _later(spans, next_ns[several] - low[several] * further_ns, further_ns, several)
    missed[several] += more
    late_tokens[several] += more_late
    return missed, 1 + high - low - late_tokens + missed


def _later(spans: TokenSpans, slack_ns: Int64, further_ns: int, several: Mask) -> tuple[Int64, Int64]:
    """Deadlines missed after the first token, and how many tokens missed them, of those that had several."""
    f_ns, low, high = _links(spans, further_ns, several)
    table = _maxima(f_ns, int((high - low).max(initial=1)))
    first = _first_above(table, low, high, slack_ns)
    chosen = np.flatnonzero(first < high)
    first = first[chosen]
    last = _last_record(f_ns, table, low[chosen], high[chosen])
    chain_missed, chain_late = _chains(f_ns, further_ns)
    missed, late = (np.zeros(len(low), dtype=np.int64) for _ in range(2))
    missed[chosen] = (f_ns[first] - slack_ns[chosen]) // further_ns + 1 + chain_missed[first] - chain_missed[last]
    late[chosen] = 1 + chain_late[first] - chain_late[last]
    return missed, late


def _links(spans: TokenSpans, further_ns: int, several: Mask) -> tuple[Int64, Int64, Int64]:
    """f of those decodes that can be links, and among them the first and one past the last of each request.

    A decode whose f is no greater than that of the one before can only be a link where a request begins.
    """
    f_ns = spans.decode_ends_ns - np.arange(len(spans.decode_ends_ns)) * further_ns
    is_link = np.diff(f_ns, prepend=f_ns[:1]) > 0
    is_link[spans.low[several]] = True
    before = np.concatenate([[0], np.cumsum(is_link)])
    return f_ns[is_link], int64(before[spans.low[several]]), int64(before[spans.high[several]])


def _maxima(values: Int64, most_rows: int) -> list[Int64]:
    """Level k: the largest of 2^k values from each place on, as far as there are so many."""
    levels = [values]
    while 2 ** len(levels) <= min(most_rows, len(values)):
        half = 2 ** (len(levels) - 1)
        levels.append(np.maximum(levels[-1][:-half], levels[-1][half:]))
    return levels


def _first_above(levels: list[Int64], low: Int64, high: Int64, limit: Int64) -> Int64:
    """The first place in [low, high) whose value is above the limit; `high` where there is none."""
    place = low.copy()
    for level in reversed(range(len(levels))):
        width = 2**level
        fits = np.flatnonzero(place + width <= high)
        below = fits[levels[level][place[fits]] <= limit[fits]]
        place[below] += width
    return place


def _last_record(f_ns: Int64, levels: list[Int64], low: Int64, high: Int64) -> Int64:
    """Where the largest value of [low, high) stands first."""
    largest = f_ns[low].copy()
    for level, table in enumerate(levels):
        width = 2**level
        here = np.flatnonzero((high - low >= width) & (high - low < 2 * width))
        largest[here] = np.maximum(table[low[here]], table[high[here] - width])
    return _first_above(levels, low, high, largest - 1)


def _chains(f_ns: Int64, further_ns: int) -> tuple[Int64, Int64]:
    """From each link along those with a greater f: deadlines missed and tokens late, to the end of the run."""
    values: list[int] = f_ns.tolist()
    missed, late = [0] * len(values), [0] * len(values)
    ahead: list[int] = []
    for place in range(len(values) - 1, -1, -1):
        value = values[place]
        while ahead and values[ahead[-1]] <= value:
            ahead.pop()
        if ahead:
            greater = ahead[-1]
            missed[place] = missed[greater] + (values[greater] - value) // further_ns + 1
            late[place] = late[greater] + 1
        ahead.append(place)
    return int64(missed), int64(late)
