"""A cost model's coefficients from replies alone, against a server whose costs are known."""

import numpy as np
import pytest

from engines.cost import DurationPs, LinearCost
from engines.policies import continuous
from results.fitting_streams import fit_streams
from results.recording import Recording
from results.steps import step_ends_ns
from tests.engines.playing import engine_of, play, schedule_of
from tests.results.streams import Stream, streamed

COSTS = {"decode_base": 2_000_000_000, "decode_row": 205_000_000, "prefill_base": 3_000_000_000,
         "prefill_token": 128_000_000, "decode_kv": 400_000}  # fmt: skip
NETWORK_NS = 200_000


def served(gap_ns: float, jitter_ns: int = 0, requests: int = 400) -> Recording:
    """What a client would see of an engine with these costs, behind a way of 0.2 ms."""
    generator = np.random.default_rng(2)
    due = np.cumsum(generator.exponential(gap_ns, requests)).astype(int).tolist()
    lengths, prompts = generator.integers(2, 40, requests).tolist(), generator.integers(8, 300, requests).tolist()
    cost = LinearCost(**{name: DurationPs(value) for name, value in COSTS.items()})
    run = play(schedule_of(lengths, due, prompts), engine_of(continuous(8), cost))
    assert run.token_step is not None
    late_ns = NETWORK_NS + generator.integers(0, jitter_ns + 1, len(run.token_step))
    times = step_ends_ns(run.steps, run.token_step) + late_ns
    streams = [
        Stream(times[run.token_offsets[row] : run.token_offsets[row + 1]].tolist(), due[row],
               told={"told_prompt_tokens": prompts[row]})
        for row in range(requests)
    ]  # fmt: skip
    return streamed(*streams)


def test_costs_of_a_server_are_found_from_outside() -> None:
    """All of a decode's to a few parts in a hundred; a prefill's with the way there and back."""
    fit = fit_streams(served(120e6))
    assert fit.coefficients_ps["decode_base"] == pytest.approx(COSTS["decode_base"], rel=0.02)
    assert fit.coefficients_ps["decode_row"] == pytest.approx(COSTS["decode_row"], rel=0.05)
    assert fit.coefficients_ps["decode_kv"] == pytest.approx(COSTS["decode_kv"], rel=0.1)
    assert fit.coefficients_ps["prefill_token"] == pytest.approx(COSTS["prefill_token"], rel=0.01)
    base_ps = COSTS["prefill_base"] + NETWORK_NS * 1_000
    assert fit.coefficients_ps["prefill_base"] == pytest.approx(base_ps, rel=0.01)
    assert all(one.errors["p90"] < 0.02 for one in fit.kinds.values())
    assert 0.4 < fit.rho_fraction < 0.8


def test_jitter_on_the_way_does_not_move_them_far() -> None:
    """Half a millisecond of it, a quarter of a step."""
    fit = fit_streams(served(120e6, jitter_ns=500_000))
    assert fit.coefficients_ps["decode_base"] == pytest.approx(COSTS["decode_base"], rel=0.1)
    assert fit.coefficients_ps["prefill_token"] == pytest.approx(COSTS["prefill_token"], rel=0.02)


def test_a_server_that_was_never_idle_is_refused_in_one_line() -> None:
    """Nobody's first token tells what a prefill costs."""
    with pytest.raises(ValueError, match="steps of kind prefill: at least 40"):
        fit_streams(served(20e6))


def test_events_of_several_tokens_are_refused() -> None:
    """Their gaps are not decodes."""
    several = [Stream([(10, 4), (20, 4), (30, 4)]) for _ in range(50)]
    with pytest.raises(ValueError, match=r"an event holds 4\.00 tokens"):
        fit_streams(streamed(*several))
