"""The cost-only executor: tokens out of a hash, and a linear cost model to bill its steps in modelled time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NewType

from engines.engine import JSON
from engines.executor import Batch, Mixture
from engines.rows import row_of
from results.slots import StepWork

DurationPs = NewType("DurationPs", int)
"""An option given with a unit (0.205ms) and held in picoseconds."""
ByteCount = NewType("ByteCount", int)
"""An option given with a unit (53GB)."""


class HashExecutor:
    """Computes nothing: a row's token ids (0..255) depend on its request and position alone."""

    context_tokens: int | None = None
    eos_token_id: int | None = None

    def run(self, batch: Batch) -> Sequence[int]:
        """One token id a row."""
        return [row.request_id * 167 + row.output_tokens & 255 for row in batch.rows]

    def describe(self) -> Mapping[str, JSON]:
        """No prompt is ever read, and the tokens mean nothing."""
        return {"name": "cost", "reads_prompts": False, "computes_tokens": False, "cost_source": "thread_cpu"}


def hash_executor(slots: int, cached: bool = True) -> HashExecutor:
    """For any number of slots, with or without a cache: there is nothing to keep."""
    return HashExecutor()


class LinearCost:
    """decode: a + b x rows in slots that decode or have finished + c x tokens in the cache (0 unless told);
    prefill: pa + pb x rectangle tokens.

    Padding is work and is counted. The coefficients' defaults were fitted to a small transformer on a CPU; they
    are held in integer picoseconds, so every sum is exact.
    """

    def __init__(
        self,
        decode_base: DurationPs = DurationPs(1_950_000_000),
        decode_row: DurationPs = DurationPs(205_000_000),
        prefill_base: DurationPs = DurationPs(2_000_000_000),
        prefill_token: DurationPs = DurationPs(128_000_000),
        decode_kv: DurationPs = DurationPs(0),
    ) -> None:
        """All in picoseconds. ValueError when a step could cost nothing."""
        told = (decode_base, decode_row, prefill_base, prefill_token, decode_kv)
        if min(told) < 0 or min(decode_base, prefill_base) < 1:
            raise ValueError("a step must cost time: decode-base and prefill-base above 0, the others not below")
        self._decode_base_ps = decode_base
        self._decode_row_ps = decode_row
        self._prefill_base_ps = prefill_base
        self._prefill_token_ps = prefill_token
        self._decode_kv_ps = decode_kv

    def cost_ps(self, work: StepWork) -> int:
        """Picoseconds of one step. A decode without a cache is billed as the forward pass it is."""
        if work.prefill_tokens:
            return self._prefill_base_ps + self._prefill_token_ps * (work.prefill_tokens + work.padding_tokens)
        cost_ps = self._decode_base_ps + self._decode_row_ps * (work.decoding_slots + work.finished_slots)
        return cost_ps + self._decode_kv_ps * work.kv_tokens if self._decode_kv_ps else cost_ps

    def mixed_cost_ps(self, work: StepWork, mixture: Mixture) -> int:
        """A prefill of so many tokens, in which each row that decodes costs what it costs in a decode.

        A drafted token costs what a row does.
        """
        rows, kv_tokens = work.decoding_slots + mixture.drafted_tokens, mixture.decode_kv_tokens
        rows_ps = self._decode_row_ps * rows + self._decode_kv_ps * kv_tokens
        if not work.prefill_tokens:
            return self._decode_base_ps + rows_ps
        return self._prefill_base_ps + self._prefill_token_ps * work.prefill_tokens + rows_ps

    def decode_laws_ps(self, rows: int) -> tuple[int, int, int, int]:
        """A decode of so many rows costs the greater of a + b x tokens in the cache and c + d x the same: one law."""
        return self._decode_base_ps + self._decode_row_ps * rows, self._decode_kv_ps, 0, 0

    def decode_slope_ps(self, work: StepWork) -> tuple[int, int | None]:
        """For ever: as the rows' contexts grow, unless those cost nothing."""
        return self._decode_kv_ps * work.decoding_slots, None

    def describe(self) -> Mapping[str, JSON]:
        """The coefficients."""
        return {
            "name": "linear",
            "decode_base_ps": self._decode_base_ps,
            "decode_row_ps": self._decode_row_ps,
            "prefill_base_ps": self._prefill_base_ps,
            "prefill_token_ps": self._prefill_token_ps,
            **({"decode_kv_ps": self._decode_kv_ps} if self._decode_kv_ps else {}),
        }


@dataclass(frozen=True, slots=True)
class FittedCosts:
    """A file that `tokenload fit` writes: the linear cost's coefficients, in picoseconds."""

    name: str
    decode_base: int
    decode_row: int
    prefill_base: int
    prefill_token: int
    source: str
    decode_kv: int = 0


class FittedExecutor(HashExecutor):
    """Computes nothing; its steps are billed as those of the run it was fitted to."""

    def __init__(self, costs: FittedCosts) -> None:
        """As the file says."""
        told = (costs.decode_base, costs.decode_row, costs.prefill_base, costs.prefill_token, costs.decode_kv)
        self.cost_model = LinearCost(*map(DurationPs, told))
        self._source = costs.source

    def describe(self) -> Mapping[str, JSON]:
        """What it was fitted to."""
        return {**super().describe(), "name": "fitted", "fitted_to": self._source}


def fitted_executor(slots: int, cached: bool = True, costs: str = "fitted.toml") -> FittedExecutor:
    """`costs`: the file. ValueError in one line when it is none."""
    return FittedExecutor(row_of(costs, {}, FittedCosts, "costs", may_be_zero=True))
