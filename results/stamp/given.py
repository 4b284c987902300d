"""Groups 2 and 3, which only a caller can tell: the workload and the engine, brought into one form."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from results.stamp.canonical import Json, sha256_of
from results.stamp.facts import IDENTITY, INFO, PERFORMANCE

if TYPE_CHECKING:
    from results.schedule import Schedule

WORKLOAD: dict[str, str] = {
    "schedule_sha256": IDENTITY,
    "content_sha256": INFO,
    "requests": IDENTITY,
    "process": IDENTITY,
    "parameters": IDENTITY,
    "rate_rps": IDENTITY,
    "window": IDENTITY,
    "stationary": IDENTITY,
    "label": INFO,
    "prompt_recipe": INFO,
    "sampling": IDENTITY,
    "prompt_tokens": IDENTITY,
    "output_tokens": IDENTITY,
    "trace_sha256": IDENTITY,
    "trace": INFO,
    "steps": INFO,
    "prompt_set_sha256": INFO,
    "order_sha256": IDENTITY,
    "tokenizer_sha256": IDENTITY,
    "chat_template_sha256": IDENTITY,
}
"""Field -> what it means when it differs. Times, lengths and their order are in schedule_sha256.

order_sha256: of the lengths in the order of the requests, whatever their times. prompt_set_sha256: of what the prompts
are made from, whatever their order.
"""

ENGINE: dict[str, str] = {
    "policy": PERFORMANCE,
    "slots": PERFORMANCE,
    "options": PERFORMANCE,
    "returns": PERFORMANCE,
    "context_tokens": PERFORMANCE,
    "clock": IDENTITY,
    "cost_source": PERFORMANCE,
    "cost_model": PERFORMANCE,
    "executor": PERFORMANCE,
    "reads_prompts": INFO,
    "computes_tokens": INFO,
    "token_rows": INFO,
    "model": IDENTITY,
    "model_config": IDENTITY,
    "revision": IDENTITY,
    "weights_sha256": IDENTITY,
    "dtype": IDENTITY,
    "quantisation": IDENTITY,
    "parameters": IDENTITY,
    "vocabulary": IDENTITY,
    "device": PERFORMANCE,
    "threads": PERFORMANCE,
    "engine_version": PERFORMANCE,
    "engine_commit": PERFORMANCE,
}
LIFTED = {
    "name": "model", "model": "model", "config": "model_config", "weights_sha256": "weights_sha256", "dtype": "dtype",
    "parameters": "parameters", "vocabulary": "vocabulary", "threads": "threads", "device": "device",
    "revision": "revision", "quantisation": "quantisation",
}  # fmt: skip
"""What an executor tells -> the field of the group that it fills; of two for one field the later counts."""


def workload_facts(schedule: "Schedule") -> Json:
    """What a schedule says of itself: hashes, counts, where it came from, how its prompts are made."""
    origin = dict(schedule.origin)
    source = dict(origin.get("trace") or {}).get("source") or {}
    recipe = dict(schedule.recipe)
    return {
        **origin,
        "schedule_sha256": schedule.sha256,
        "content_sha256": schedule.content_sha256,
        "requests": len(schedule),
        "prompt_tokens": int(schedule.prompt_tokens.sum()),
        "output_tokens": int(schedule.output_tokens.sum()),
        "prompt_recipe": recipe.get("prompt"),
        "sampling": recipe.get("sampling"),
        "trace_sha256": source.get("sha256"),
        "order_sha256": sha256_of([schedule.prompt_tokens.tolist(), schedule.output_tokens.tolist()]),
        "prompt_set_sha256": sha256_of([recipe.get("prompt"), sorted(schedule.prompt_tokens.tolist())]),
    }


def engine_facts(described: Mapping[str, Any], clock: str) -> Json:
    """What an engine says of itself, the model lifted out of its executor, and whose time counts."""
    executor = described.get("executor")
    told = executor if isinstance(executor, Mapping) else {}
    lifted = {field: told[name] for name, field in LIFTED.items() if name in told}
    return {**lifted, **described, "clock": clock}
