"""The figures of a text on batching, as the engines play them in modelled time."""

from itertools import pairwise

import pytest

from loadgen.page_claims import BATCHES, CLAIMS, PAGE, PAGE_ROUNDED
from loadgen.roofline_runs import Told, curve, decode_point, tell


@pytest.fixture(scope="module")
def told() -> dict[str, Told]:
    """Every claim, played."""
    return {one.figure: one for one in tell(CLAIMS, PAGE_ROUNDED, PAGE)}


@pytest.mark.parametrize(
    ("figure", "round_weights", "counted_weights"),
    [
        ("weights", 16, 16.06),
        ("step of one sequence, weights alone", 4.776, 4.794),
        ("the same, where a row of the input embedding is gathered", 4.464, 4.480),
        ("the same, at 30 % of the peak", 88.6, 88.6),
        ("caches take as long to read as the weights at", 122.1, 122.5),
        ("throughput that more memory could not exceed", 25_558, 25_558),
        ("math units busy there", 32.8, 32.9),
        ("maths in it", 16.18, 16.24),
        ("math units busy", 0.3387, 0.3387),
        ("maths catch up with reading at", 295.2, 295.2),
        ("cache of a token", 128, 128),
        ("throughput of 8 without reading caches", 8, 8),
        ("throughput of 8 at 1,000 tokens of context", 7.57, 7.57),
        ("step of 8 at 1,000 tokens of context", 5.089, 5.107),
        ("sequences in a cache of 53 GB", 404, 404),
        ("step there", 20.58, 20.60),
        ("throughput there", 19_628, 19_611),
        ("useful work of 100, 200, 300 and 1,000", 40, 40),
        ("the 100-token answer is ready after", 0.4776, 0.4794),
        ("and is handed back after", 4.776, 4.794),
        ("who comes a step late waits", 4.771, 4.789),
        ("the last of 100 users waits", 472.8, 474.6),
    ],
)
def test_a_figure_of_the_text_comes_out_of_a_run(
    told: dict[str, Told], figure: str, round_weights: float, counted_weights: float
) -> None:
    """Within a thousandth of what the text's own assumptions give, with its 16 GB and with the weights counted."""
    assert told[figure].round_weights == pytest.approx(round_weights, rel=1e-3)
    assert told[figure].counted_weights == pytest.approx(counted_weights, rel=1e-3)


@pytest.mark.parametrize("batch", BATCHES)
def test_drawn_lengths_use_as_much_of_a_batch_as_the_closed_forms_say(told: dict[str, Told], batch: int) -> None:
    """(B + 1) / 2B of uniform and 1 / H_B of exponential lengths, within a hundredth."""
    harmonic = sum(1 / rank for rank in range(1, batch + 1))
    for distribution, share in (("uniform", (batch + 1) / (2 * batch)), ("exponential", 1 / harmonic)):
        one = told[f"useful work of {distribution} lengths, {batch} in a batch"]
        assert one.text == pytest.approx(100 * share) == pytest.approx(one.round_weights, rel=0.01)
        assert one.round_weights == one.counted_weights != one.text


def test_every_claim_has_its_reason(told: dict[str, Told]) -> None:
    """A difference is explained beside it."""
    assert all(one.why for one in told.values())
    assert told["throughput of 8 at 1,000 tokens of context"].difference_fraction == pytest.approx(-0.0538, abs=1e-4)


def test_the_curve_stops_where_the_cache_is_full_and_the_ideal_one_bends_at_break_even() -> None:
    """404 sequences; without caches throughput grows with the batch up to 295 and not beyond."""
    read, ideal = curve(PAGE, 1_000, False), curve(PAGE, 1_000, True)
    assert read[-1].rows == 404 and all(one.rows <= 404 for one in read)
    assert all(one.step_ps == ideal[0].step_ps for one in ideal if one.rows <= 295)
    assert all(one.busy_share == 1 for one in ideal if one.rows >= 296)
    assert all(later.tokens_per_s > one.tokens_per_s for one, later in pairwise(read))


def test_reading_the_cache_counts_as_many_tokens_as_the_context_has() -> None:
    """One sequence of 1,000 tokens reads 131,072,000 bytes more than one without a cache."""
    with_cache = decode_point(PAGE.executor(), 1, 1_000)
    without = decode_point(PAGE.executor(cache="free"), 1, 1_000)
    assert (with_cache.step_ps - without.step_ps) * 3.35 == pytest.approx(131_072_000, rel=1e-4)


def test_a_context_that_the_cache_does_not_take_is_refused() -> None:
    """Where not even one sequence is decoded, the line names its length and what the cache holds."""
    executor = PAGE.executor(kv_cache=131_072_000)
    assert decode_point(executor, 8, 999).rows == 1
    with pytest.raises(ValueError, match="no sequence of 5000 tokens was decoded: the cache holds 1000,"):
        decode_point(executor, 8, 5000)
