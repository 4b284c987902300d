"""What an engine of slots needs of others: an executor that computes, and a cost model that bills."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from engines.engine import JSON
from engines.policies import Policy, Row
from results.slots import StepWork


@dataclass(slots=True)
class Batch:
    """What an executor runs in one step."""

    kind: str
    """prefill: the rows are new and their prompts are computed together; decode: each gets its next token."""
    rows: Sequence[Row]


class Executor(Protocol):
    """Where a step's tokens come from. It keeps what it needs (cache, last tokens) by `row.slot`.

    One with a `kv_capacity_tokens` has a cache of so many tokens: who does not fit into it waits.
    """

    context_tokens: int | None
    """Prompt and output of a request must fit into so many tokens; None: no limit."""
    eos_token_id: int | None
    """Ends a request that does not ignore it; None: there is none."""

    def run(self, batch: Batch) -> Sequence[int]:
        """The next token id of each row; what it gives for a finished row is not delivered."""
        ...

    def describe(self) -> Mapping[str, JSON]:
        """Model, weights, threads; `reads_prompts`: whether it ever looks at a prompt's token ids."""
        ...


class CostModel(Protocol):
    """What a step costs in modelled time, from its counts alone."""

    def cost_ps(self, work: StepWork) -> int:
        """Integer picoseconds, above 0."""
        ...

    def describe(self) -> Mapping[str, JSON]:
        """Its coefficients."""
        ...


@dataclass(slots=True)
class Mixture:
    """What a step reads and multiplies beside its counts, where prompts come in chunks beside decodes."""

    decode_kv_tokens: int = 0
    """Contexts of the rows that decode, the token's own included."""
    prefill_kv_tokens: int = 0
    """Contexts of the prompts that are computed, as far as they are when the step ends."""
    attended_tokens: int = 0
    """Pairs of a computed prompt token and a token it looks at, itself included."""
    drafted_tokens: int = 0
    """Computed beside the rows' next tokens to see whether they are right."""
    draft_attended_tokens: int = 0
    """Pairs of a drafted token and a token it looks at, itself included."""


@runtime_checkable
class MixedCost(Protocol):
    """A cost model for steps that compute chunks of prompts beside decodes."""

    def mixed_cost_ps(self, work: StepWork, mixture: Mixture) -> int:
        """Integer picoseconds, above 0."""
        ...

    def describe(self) -> Mapping[str, JSON]:
        """Its coefficients."""
        ...


@runtime_checkable
class StretchCost(Protocol):
    """A cost model that can also say how a decode's cost goes on, so that its steps can be advanced together.

    One that has `decode_laws_ps(rows)` too is asked once for each number of rows where a run is long: a decode costs
    the greater of a + b x tokens in the cache and c + d x the same, (a, b, c, d) in ps.
    """

    def cost_ps(self, work: StepWork) -> int:
        """Integer picoseconds, above 0."""
        ...

    def describe(self) -> Mapping[str, JSON]:
        """Its coefficients."""
        ...

    def decode_slope_ps(self, work: StepWork) -> tuple[int, int | None]:
        """How much more each further decode of the same rows costs, not below 0, and for how many steps that holds.

        The rows' kv_tokens grow by decoding_slots a step. The steps count from this one; None: for ever.
        """
        ...


def description(policy: Policy, executor: Executor, cost_model: CostModel | MixedCost | None) -> dict[str, JSON]:
    """What an engine of slots says of itself.

    An executor that does not say otherwise reads prompts, computes tokens and costs wall time.
    """
    told = executor.describe()
    return {
        "policy": policy.name,
        "slots": policy.slots,
        "options": dict(policy.options),
        "returns": policy.deliver,
        "context_tokens": executor.context_tokens,
        "executor": told,
        "cost_model": cost_model.describe() if cost_model else None,
        "reads_prompts": told.get("reads_prompts", True),
        "computes_tokens": told.get("computes_tokens", True),
        "cost_source": told.get("cost_source", "wall"),
    }
