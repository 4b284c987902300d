"""What a step does that computes chunks of prompts beside decodes, and what of it is counted and billed."""

from collections.abc import Sequence
from dataclasses import dataclass

from engines.cache_room import Sequenced
from engines.executor import Mixture
from results.slots import StepWork


@dataclass(slots=True)
class Plan:
    """What one step does."""

    chunks: list[tuple[Sequenced, int]]
    """Rows, and how many tokens of each are computed."""
    admitted: list[tuple[int, int]]
    preempted_requests: int = 0


def work_of(
    plan: Plan, running: Sequence[Sequenced], slots: int, waiting_requests: int
) -> tuple[StepWork, Mixture]:
    """The counts of a step that has been planned and not yet been committed."""
    mixture = Mixture()
    prefilling = decoding = prefill_tokens = recomputed = 0
    for one, tokens in plan.chunks:
        if one.decodes:
            decoding += 1
            mixture.decode_kv_tokens += one.computed_tokens + 1
            if tokens > 1:
                mixture.drafted_tokens += tokens - 1
                mixture.draft_attended_tokens += _pairs(one, tokens) - one.computed_tokens - 1
            continue
        after = one.computed_tokens + tokens
        prefilling += 1
        prefill_tokens += tokens
        recomputed += max(0, min(after, one.before_tokens) - one.computed_tokens)
        mixture.prefill_kv_tokens += after
        mixture.attended_tokens += _pairs(one, tokens)
    empty = slots - len(running)
    queued = min(empty, waiting_requests)
    kind = "mixed" if prefilling and decoding else "prefill" if prefilling else "decode"
    kv_tokens = sum(one.computed_tokens for one in running)
    kv_tokens += sum(tokens - one.wrong_tokens for one, tokens in plan.chunks)
    work = StepWork(
        kind, prefilling, decoding, 0, len(running) - prefilling - decoding, queued, empty - queued, waiting_requests,
        prefill_tokens, 0, kv_tokens, plan.preempted_requests, recomputed,
    )  # fmt: skip
    return work, mixture


def _pairs(one: Sequenced, tokens: int) -> int:
    """Of a token among the next ones and a token it looks at, itself included."""
    return tokens * one.computed_tokens + tokens * (tokens + 1) // 2
