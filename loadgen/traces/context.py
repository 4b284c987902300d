"""What to do with rows whose prompt and output together exceed the context. To add a policy: one function, one row."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from loadgen.traces.flow import Flow, Mask, Outcome, exclude
from loadgen.traces.rows import Json
from results.columns import Int64


def refuse(flow: Flow, over: Mask, budget_tokens: int) -> Outcome:
    """ValueError that says how many do not fit and what can be done."""
    if not over.any():
        return flow, {}, {}
    raise ValueError(f"{over.mean():.1%} of the rows ({int(over.sum()):,} of {len(flow):,}) do not fit a context "
                     f"of {budget_tokens:,} tokens: say {budget_tokens}:drop, {budget_tokens}:clip-prompt or "
                     f"{budget_tokens}:clip-output")  # fmt: skip


def drop(flow: Flow, over: Mask, budget_tokens: int) -> Outcome:
    """Leave them out."""
    return *exclude(flow, {"over_context": over}), {}


def clip_prompt(flow: Flow, over: Mask, budget_tokens: int) -> Outcome:
    """Shorten the prompt; leave out rows whose output alone fills the context."""
    room = budget_tokens - flow.output_tokens
    clipped = replace(flow, prompt_tokens=np.where(over, room, flow.prompt_tokens))
    return *exclude(clipped, {"output_fills_context": room < 1}), _cut(over & (room >= 1), flow.prompt_tokens - room)


def clip_output(flow: Flow, over: Mask, budget_tokens: int) -> Outcome:
    """Shorten the output; leave out rows whose prompt alone fills the context."""
    room = budget_tokens - flow.prompt_tokens
    clipped = replace(flow, output_tokens=np.where(over, room, flow.output_tokens))
    return *exclude(clipped, {"prompt_fills_context": room < 1}), _cut(over & (room >= 1), flow.output_tokens - room)


def _cut(clipped: Mask, tokens: Int64) -> Json:
    return {"clipped_rows": int(clipped.sum()), "clipped_tokens": int(tokens[clipped].sum())}


CONTEXT_POLICIES: dict[str, Callable[[Flow, Mask, int], Outcome]] = {
    "error": refuse,
    "drop": drop,
    "clip-prompt": clip_prompt,
    "clip-output": clip_output,
}
