"""What a replay does to a trace, one function a step, in the fixed order of `STEPS`.

A step takes the flow of rows and the options and returns the flow that is left, how many rows it excluded for
which reason, and its parameters; None when it was not asked for. No step changes a length that its options do
not name, and none leaves out a row without counting it.
"""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import numpy as np

from loadgen.traces.context import CONTEXT_POLICIES
from loadgen.traces.flow import Flow, Outcome, exclude
from loadgen.traces.options import Replay
from loadgen.traces.rows import MAX_ABS_NS, Json, failed_rows
from loadgen.units import NS_PER_S
from results.columns import NULL, Int64, is_null

MAX_ROWS = 100_000_000


def select(flow: Flow, options: Replay) -> Outcome | None:
    """Leave out what cannot be sent: failed rows, and rows of no or unknown length. Always done."""
    prompt, output = flow.prompt_tokens, flow.output_tokens
    left, excluded = exclude(flow, {
        "failed": failed_rows(flow.trace.output_tokens, flow.trace.ok)[flow.rows],
        "zero_prompt": prompt == 0,
        "unknown_prompt": is_null(prompt),
        "unknown_output": is_null(output),
    })  # fmt: skip
    counted = flow.trace.header.get("rows", {})
    return left, excluded, {"ties": counted.get("ties"), "backward": counted.get("backward"), **_waiting(left)}


def _waiting(flow: Flow) -> Json:
    """Rows whose recorded time is used although they could wait, and rows that wait an unknown think time (0)."""
    waits, after, think_ns = is_null(flow.at_ns), flow.trace.after, flow.trace.think_ns
    if after is None:
        return {}
    timed_rows = sum(1 for row in flow.rows[~waits].tolist() if after[row])
    unknown = waits if think_ns is None else waits & is_null(think_ns[flow.rows])
    return {"after_unused_rows": timed_rows, "think_taken_as_0_rows": int(unknown.sum())}


def window(flow: Flow, options: Replay) -> Outcome | None:
    """Keep [from, to) of the source's time; a window that reaches past the end is cut there, and says so."""
    if options.window_ns is None:
        return None
    from_ns, to_ns = options.window_ns
    if from_ns >= flow.end_ns:
        raise ValueError(f"the window {seconds(from_ns)}..{seconds(to_ns)} lies outside the trace, which spans "
                         f"{seconds(flow.begin_ns)}..{seconds(flow.end_ns)}: name one inside")  # fmt: skip
    timed = ~is_null(flow.at_ns)
    left, excluded = exclude(flow, {
        "before_window": timed & (flow.at_ns < from_ns),
        "after_window": timed & (flow.at_ns >= to_ns),
    })  # fmt: skip
    end_ns = min(to_ns, flow.end_ns)
    parameters = {"from_ns": from_ns, "to_ns": to_ns, "end_ns": end_ns}
    return replace(left, begin_ns=from_ns, end_ns=end_ns), excluded, parameters


def limit(flow: Flow, options: Replay) -> Outcome | None:
    """Keep the first rows; the window then ends where the first one that is cut off was due."""
    if options.limit is None:
        return None
    cut_ns = flow.at_ns[options.limit :]
    cut_ns = cut_ns[~is_null(cut_ns)]
    end_ns = int(cut_ns[0]) if len(cut_ns) else flow.end_ns
    left, excluded = exclude(flow, {"over_limit": np.arange(len(flow)) >= options.limit})
    return replace(left, end_ns=end_ns), excluded, {"limit_rows": options.limit, "end_ns": end_ns}


def context(flow: Flow, options: Replay) -> Outcome | None:
    """See that prompt and output together fit the context, by the policy named. ValueError by policy error."""
    if options.context_tokens is None:
        return None
    over = flow.prompt_tokens + flow.output_tokens > options.context_tokens
    left, excluded, cut = CONTEXT_POLICIES[options.context_policy](flow, over, options.context_tokens)
    parameters = {"context_tokens": options.context_tokens, "policy": options.context_policy,
                  "over_context_rows": int(over.sum()), **cut}  # fmt: skip
    return left, excluded, parameters


def time_map(flow: Flow, options: Replay) -> Outcome | None:
    """Stretch the window by one exact factor: 1/speed, or what makes its mean rate the one asked for.

    Think times stay as recorded.
    """
    length_ns = flow.end_ns - flow.begin_ns
    if options.rate_rps is not None:
        rows = int((~is_null(flow.at_ns)).sum())
        if length_ns <= 0:
            raise ValueError(f"no time passes among these {rows:,} rows, so they have no rate to change: "
                             "widen the window or leave the rate out")  # fmt: skip
        stretch = rows * NS_PER_S / (Fraction(str(options.rate_rps)) * length_ns)
    elif options.speed is not None:
        stretch = 1 / Fraction(str(options.speed))
    else:
        return None
    if length_ns * stretch > MAX_ABS_NS:
        raise ValueError(f"slowed down by {float(stretch):g}, {seconds(length_ns)} would last for over a century: "
                         "name a higher speed or rate")  # fmt: skip
    slowed = replace(flow, at_ns=_stretched(flow, stretch), end_ns=flow.begin_ns + _scaled(length_ns, stretch))
    parameters = {"speed": float(1 / stretch), "source_length_ns": length_ns,
                  "length_ns": slowed.end_ns - slowed.begin_ns}  # fmt: skip
    return slowed, {}, parameters


def _stretched(flow: Flow, stretch: Fraction) -> Int64:
    """Integer arithmetic of any size, as float64 is not exact beyond 104 days of nanoseconds."""
    begin = flow.begin_ns
    times = [at if at == NULL else begin + _scaled(at - begin, stretch) for at in flow.at_ns.tolist()]
    return np.array(times, dtype=np.int64)


def _scaled(length_ns: int, stretch: Fraction) -> int:
    """Rounded to the nearest nanosecond, half up."""
    return (2 * length_ns * stretch.numerator + stretch.denominator) // (2 * stretch.denominator)


def origin(flow: Flow, options: Replay) -> Outcome | None:
    """Let the window, not its first arrival, begin at 0: where that arrival lies belongs to the traffic."""
    at_ns = np.where(is_null(flow.at_ns), NULL, flow.at_ns - flow.begin_ns)
    moved = replace(flow, at_ns=at_ns, begin_ns=0, end_ns=flow.end_ns - flow.begin_ns)
    return moved, {}, {"shift_ns": flow.begin_ns}


def loop(flow: Flow, options: Replay) -> Outcome | None:
    """Send the window again and again, each copy beginning where the window before it ended.

    A whole recording ends with its last arrival, so the next copy's first request falls on that arrival or
    shortly after it.
    """
    copies = options.loop
    if copies == 1:
        return None
    if len(flow) * copies > MAX_ROWS or flow.end_ns * copies > MAX_ABS_NS:
        raise ValueError(f"loop {copies:,} makes {len(flow) * copies:,} requests in {seconds(flow.end_ns * copies)}: "
                         f"at most {MAX_ROWS:,} in a century can be held")  # fmt: skip
    at_ns = np.tile(flow.at_ns, copies)
    starts_ns = np.repeat(np.arange(copies, dtype=np.int64) * flow.end_ns, len(flow))
    looped = replace(
        flow, rows=np.tile(flow.rows, copies), at_ns=np.where(is_null(at_ns), NULL, at_ns + starts_ns),
        prompt_tokens=np.tile(flow.prompt_tokens, copies), output_tokens=np.tile(flow.output_tokens, copies),
        end_ns=flow.end_ns * copies, copies=copies,
    )  # fmt: skip
    return looped, {}, {"copies": copies, "repeated_rows": len(flow) * (copies - 1)}


Step = Callable[[Flow, Replay], Outcome | None]
STEPS: dict[str, Step] = {
    "select": select,
    "window": window,
    "limit": limit,
    "context": context,
    "time": time_map,
    "origin": origin,
    "loop": loop,
}
"""In this order, whatever the order of the options."""


def seconds(time_ns: int) -> str:
    """`3501.722s`, with minutes behind it from one minute on."""
    text = f"{time_ns / NS_PER_S:.3f}".rstrip("0").rstrip(".") + "s"
    return f"{text} ({time_ns / NS_PER_S / 60:.1f}m)" if abs(time_ns) >= 60 * NS_PER_S else text
