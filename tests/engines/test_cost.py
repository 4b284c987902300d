"""The cost-only executor and the linear cost of a step."""

from pathlib import Path

import pytest

from engines.cost import HashExecutor, LinearCost, fitted_executor, hash_executor
from engines.engine import Request, SamplingParams
from engines.policies import Row
from engines.slots import Batch
from results.slots import StepWork
from tests.engines.playing import linear_ps


def work(**counts: int) -> StepWork:
    """A step's counts, all 0 but those given."""
    names = ("prefilling_slots", "decoding_slots", "finished_slots", "stalled_slots", "empty_queued_slots",
             "idle_slots", "waiting_requests", "prefill_tokens", "padding_tokens", "kv_tokens")  # fmt: skip
    kind = "prefill" if counts.get("prefilling_slots") else "decode"
    return StepWork(kind, **{name: counts.get(name, 0) for name in names})


def row(request_id: int, output_tokens: int) -> Row:
    """A row that has got so many tokens."""
    one = Request(request_id, [1], SamplingParams(9), 0)
    return Row(one, request_id, 0, 1, 9, frozenset(), 0, output_tokens)


@pytest.mark.parametrize(
    ("counts", "cost_us"),
    [
        ({"decoding_slots": 1}, 2_155),
        ({"decoding_slots": 8}, 3_590),
        ({"decoding_slots": 3, "finished_slots": 5}, 3_590),
        ({"prefilling_slots": 1, "prefill_tokens": 64}, 10_192),
        ({"prefilling_slots": 2, "prefill_tokens": 100, "padding_tokens": 28}, 18_384),
        ({"prefilling_slots": 1, "prefill_tokens": 64, "stalled_slots": 7}, 10_192),
    ],
)
def test_default_costs(counts: dict[str, int], cost_us: int) -> None:
    """decode 1.95 + 0.205 ms a row, finished ones too; prefill 2 + 0.128 ms a token, padding too; stalls are free."""
    assert LinearCost().cost_ps(work(**counts)) == cost_us * 1_000_000


def test_a_decode_without_a_cache_is_billed_as_the_prefill_it_is() -> None:
    """Its tokens are those of the whole text."""
    assert LinearCost().cost_ps(work(decoding_slots=1, prefill_tokens=10)) == 2_000_000_000 + 10 * 128_000_000


def test_costs_are_whole_picoseconds() -> None:
    """Sums over any number of steps are therefore exact."""
    cost = linear_ps(1, 2, 3, 5)
    assert cost.cost_ps(work(decoding_slots=7)) == 15
    assert cost.cost_ps(work(prefilling_slots=1, prefill_tokens=7)) == 38
    assert all(isinstance(cost.cost_ps(work(decoding_slots=rows)), int) for rows in range(9))


@pytest.mark.parametrize("costs", [(0, 1, 1, 1), (1, 1, 0, 1), (1, -1, 1, 1), (1, 1, 1, -1), (-1, 1, 1, 1)])
def test_a_step_that_could_cost_nothing_is_refused(costs: tuple[int, int, int, int]) -> None:
    """Time must go on: bases above 0, slopes not below, in one line."""
    with pytest.raises(ValueError, match="a step must cost time: decode-base and prefill-base above 0") as caught:
        linear_ps(*costs)
    assert "\n" not in str(caught.value)


def test_slopes_may_be_0() -> None:
    """A step of constant cost is fine."""
    assert linear_ps(4, 0, 5, 0).cost_ps(work(decoding_slots=8)) == 4


def test_the_cost_describes_its_coefficients_in_picoseconds() -> None:
    """What a run's numbers were made with can be read from its stamp."""
    assert LinearCost().describe() == {
        "name": "linear",
        "decode_base_ps": 1_950_000_000,
        "decode_row_ps": 205_000_000,
        "prefill_base_ps": 2_000_000_000,
        "prefill_token_ps": 128_000_000,
    }


def test_token_ids_depend_on_request_and_position_alone() -> None:
    """The same beside anybody, in any order, in any kind of step: two schedules of it compare token by token."""
    executor = hash_executor(slots=8, cached=True)
    alone = [executor.run(Batch("decode", [row(3, position)]))[0] for position in range(40)]
    beside = [executor.run(Batch("prefill", [row(1, 5), row(3, position)]))[1] for position in range(40)]
    assert alone == beside
    assert all(0 <= token < 256 for token in alone)
    assert len(set(alone)) > 30
    assert alone != [executor.run(Batch("decode", [row(4, position)]))[0] for position in range(40)]


def test_the_cost_only_executor_says_that_its_tokens_mean_nothing() -> None:
    """No prompt is read, no context is too long, no token id is worth keeping."""
    told = HashExecutor().describe()
    assert HashExecutor.context_tokens is None
    assert (told["reads_prompts"], told["computes_tokens"], told["cost_source"]) == (False, False, "thread_cpu")


def test_a_fitted_cost_may_be_nothing(tmp_path: Path) -> None:
    """A fit whose rows or tokens cost nothing that can be seen writes 0, which is read as such."""
    costs = tmp_path / "mine.toml"
    costs.write_text("decode_base = 7\ndecode_row = 0\nprefill_base = 5\nprefill_token = 0\n")
    model = fitted_executor(4, costs=str(costs)).cost_model
    assert model.cost_ps(work(decoding_slots=3)) == 7
    assert model.cost_ps(work(prefilling_slots=1, prefill_tokens=9)) == 5
