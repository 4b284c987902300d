"""Published workloads and comparisons, as the engines play them in modelled time."""

import numpy as np
import pytest

from loadgen.config import from_texts
from loadgen.presets import LENGTHS, anyscale, capped_exponential
from loadgen.published import anyscale_figures, norm_p50_ms, orca_figures
from loadgen.workload import build_schedule


def test_a_cap_moves_the_mean_of_the_lengths_it_keeps() -> None:
    """Means computed elsewhere, for whole lengths of 1 at least: 15.7 at a cap of 32, 54.9, 122.1, 129.6 at 1,536."""
    for cap_tokens, mean in ((32, 15.7), (128, 54.9), (512, 122.1), (1536, 129.6)):
        drawn = np.concatenate([capped_exponential(1_000, seed, cap_tokens) for seed in range(40)])
        assert drawn.min() >= 1 and drawn.max() <= cap_tokens
        assert drawn.mean() == pytest.approx(mean, rel=0.07)


def test_a_cap_that_keeps_next_to_nothing_is_refused() -> None:
    """One line, and the remedy."""
    with pytest.raises(ValueError, match="take a larger one"):
        capped_exponential(1_000, 1, 2)


@pytest.mark.parametrize("name", LENGTHS)
def test_a_preset_is_a_workload_of_a_run(name: str) -> None:
    """Its lengths, as many requests as the text had or as are asked for, under the config's arrivals."""
    texts = {"preset": name, "arrival": "burst", "clock": "modelled"}
    schedule = build_schedule(from_texts(texts))
    assert len(schedule) == LENGTHS[name].requests and not schedule.due_ns.any()
    some = build_schedule(from_texts({**texts, "arrival": "poisson", "rate": "3", "requests": "8"}))
    prompts, outputs = LENGTHS[name].lengths(8, 7)
    assert some.prompt_tokens.tolist() == prompts.tolist() and some.output_tokens.tolist() == outputs.tolist()
    assert some.due_ns[-1] > 0 and some.origin["label"] == f"preset {name}"


def test_the_burst_of_a_text_has_its_shape() -> None:
    """Static to the longest of all is the slowest by far, then static, continuous, paged; shares as computed for it."""
    ours = {one.figure: one.ours for one in anyscale_figures()}
    assert ours["useful share, every batch as long as its own longest"] == pytest.approx(48.0, abs=2)
    ratios = [ours[name] for name in ("static with its own longest / that", "continuous / that", "paged / that")]
    assert 3 < ratios[0] < 5 and ratios == sorted(ratios) and ratios[1] > 8
    both, answers = (
        ours[name] for name in ("static to the longest of all, prompts and answers", "the same, answers alone")
    )
    prompts, outputs = anyscale(1_000, 7)
    assert both / answers == pytest.approx((prompts.sum() + outputs.sum()) / outputs.sum())


@pytest.mark.slow
def test_iteration_level_carries_many_times_the_load_of_request_level() -> None:
    """Within twice the latency of an idle system; the limit itself is met at no load."""
    ours = {one.figure: one.ours for one in orca_figures()}
    assert ours["iteration-level / request-level, x".removesuffix(", x")] > 5
    limit_ms = ours["limit: twice the normalised latency of an idle system"]
    assert norm_p50_ms("continuous,batch=128", 0.001) == pytest.approx(limit_ms / 2)


def test_every_difference_has_its_reason() -> None:
    """Beside the figure."""
    assert all(one.why and one.text for one in anyscale_figures())
