"""Intervals: each against values that were computed in another way, and for what it refuses to say."""

from math import comb

import numpy as np
import pytest
from scipy import stats

from results.intervals import (
    AUTOCORRELATED,
    NO_CI,
    in_run,
    independence,
    order_statistics,
    over_runs,
    pooled,
    run_cv,
    wilson,
)
from results.stats import FAILED_TAIL, N_TOO_SMALL, NO_VALUES, quantile


def p50(values: np.ndarray) -> float | None:
    """The median, type 8."""
    return quantile(values, 0.5)[0]


def p90(values: np.ndarray) -> float | None:
    """The 90th percentile, type 8."""
    return quantile(values, 0.9)[0]


def mean(values: np.ndarray) -> float | None:
    """The mean."""
    return float(values.mean())


def queue(seed: int, rho: float, requests: int) -> np.ndarray:
    """Sojourn times of an M/M/1 queue by Lindley's recursion."""
    draw = np.random.default_rng(seed)
    service, gaps = draw.exponential(1, requests), draw.exponential(1 / rho, requests)
    sojourn, wait = np.empty(requests), 0.0
    for at in range(requests):
        wait = max(0.0, wait - gaps[at])
        wait += service[at]
        sojourn[at] = wait
    return sojourn


def test_the_interval_over_runs_is_students() -> None:
    """10, 12, 14: 12 +- 4.303 x 2 / sqrt 3."""
    found = over_runs([10.0, 12.0, 14.0])
    assert found.value == 12
    assert found.low == pytest.approx(12 - 4.302653 * 2 / 3**0.5, rel=1e-6)
    assert found.high == pytest.approx(12 + 4.302653 * 2 / 3**0.5, rel=1e-6)


def test_two_runs_have_no_interval() -> None:
    """Below three runs the mean stands alone, with the reason."""
    found = over_runs([10.0, 12.0])
    assert (found.value, found.low, found.high, found.reason) == (11, None, None, NO_CI)


@pytest.mark.parametrize("values", [[], [1.0, 2.0, None], [1.0, 2.0, float("inf")]])
def test_a_run_without_the_figure_is_not_left_out(values: list[float | None]) -> None:
    """A mean over the runs that happen to have the figure would be a choice."""
    found = over_runs(values)
    assert (found.value, found.low, found.reason) == (None, None, NO_VALUES)


def test_the_interval_over_runs_covers_at_its_rate() -> None:
    """95 % of 2,000 intervals from 5 normal values hold the mean: within 2.5 standard errors."""
    draw = np.random.default_rng(3).normal(10, 2, (2_000, 5))
    found = [over_runs(row.tolist()) for row in draw]
    held = sum(one.low is not None and one.high is not None and one.low <= 10 <= one.high for one in found)
    assert abs(held / 2_000 - 0.95) < 2.5 * (0.05 * 0.95 / 2_000) ** 0.5


def test_the_jackknife_of_a_mean_is_the_interval_over_runs() -> None:
    """For runs of equal length the pooled mean's pseudo-values are the runs' means."""
    runs = [np.array([1.0, 3.0]), np.array([4.0, 8.0]), np.array([5.0, 9.0]), np.array([0.0, 2.0])]
    found, direct = pooled(runs, mean), over_runs([2.0, 6.0, 7.0, 1.0])
    assert (found.value, found.low, found.high) == pytest.approx((direct.value, direct.low, direct.high))
    assert found.label != direct.label


def test_a_pooled_quantile_is_of_all_rows() -> None:
    """Nine quiet runs and a bad one: the p90 of the rows, not a mean of ten p90s."""
    runs = [np.arange(100.0) + (1000 if at == 9 else 0) for at in range(10)]
    found = pooled(runs, p90)
    assert found.value == quantile(np.concatenate(runs), 0.9)[0]
    assert found.value != pytest.approx(np.mean([p90(run) for run in runs]))
    assert pooled(runs[:2], p90).reason == NO_CI
    assert pooled([], p90).value is None


def test_sectioning_by_hand() -> None:
    """Ten sections of one value each: the mean +- t(9) x root of the mean squared deviation / sqrt 10."""
    values = np.array([4.0, 6.0] * 5)
    found = in_run(values, mean)
    spread = (10 / 9) ** 0.5
    assert found.value == 5
    assert found.low == pytest.approx(5 - 2.262157 * spread / 10**0.5, rel=1e-6)
    assert found.high == pytest.approx(5 + 2.262157 * spread / 10**0.5, rel=1e-6)
    assert "lower bound" in found.label


def test_sectioning_needs_the_statistic_in_every_section() -> None:
    """A p90 needs 10 values, so its interval needs 100."""
    values = np.random.default_rng(1).random(100)
    assert in_run(values, p90).low is not None
    short = in_run(values[:99], p90)
    assert short.value is not None
    assert (short.low, short.reason) == (None, N_TOO_SMALL)
    assert in_run(values[:5], mean).low is None


def test_one_run_knows_less_than_it_says() -> None:
    """The finding that makes it a lower bound: at rho .8 the interval of one queue's mean misses far more than 5 %."""
    held = 0
    for seed in range(60):
        found = in_run(queue(seed, 0.8, 1_000), mean)
        held += found.low is not None and found.high is not None and found.low <= 5 <= found.high
    assert held < 0.9 * 60


@pytest.mark.parametrize(("count", "given"), [(367, False), (368, True)])
def test_a_certificate_of_p99_takes_368_values(count: int, given: bool) -> None:
    """ln .025 / ln .99, rounded up."""
    found = order_statistics(np.random.default_rng(8).permutation(count).astype(float), 0.99)
    assert (found.interval.low is not None) is given
    assert (found.interval.reason is None) is given


def test_the_ranks_of_a_median_are_those_of_the_books() -> None:
    """n = 10: the second and the ninth value hold the median with 97.9 %."""
    found = order_statistics(np.random.default_rng(4).permutation(10) + 1.0, 0.5)
    assert (found.interval.low, found.interval.high) == (2, 9)
    assert sum(comb(10, at) for at in range(2, 9)) / 2**10 == pytest.approx(0.9785, abs=1e-4)


def test_a_queue_gets_no_certificate() -> None:
    """Sojourn times of neighbours are alike: far fewer effective values, the interval is withheld."""
    found = order_statistics(queue(5, 0.8, 2_000), 0.9)
    assert found.effective_requests < 400
    assert found.autocorrelations[0] > 0.7
    assert (found.interval.low, found.interval.reason) == (None, AUTOCORRELATED)


def test_effective_values_of_an_autoregression() -> None:
    """Lag-1 correlation .6 leaves n (1 - .6) / (1 + .6) = a quarter; independent ones count in full, nearly."""
    draw = np.random.default_rng(11).normal(size=40_000)
    values = np.empty_like(draw)
    last = 0.0
    for at, one in enumerate(draw):
        last = 0.6 * last + one
        values[at] = last
    assert independence(values)[1] == pytest.approx(10_000, rel=0.15)
    assert independence(values)[0][:2] == pytest.approx((0.58, 0.35), abs=0.03)
    assert independence(draw)[1] > 0.9 * len(draw)


def test_equal_values_are_no_evidence_of_dependence() -> None:
    """A constant column has no correlation; failures count as ranks, not as numbers."""
    assert independence(np.full(50, 3.0)) == ((), 50.0)
    values = np.random.default_rng(2).random(500)
    values[::50] = np.inf
    assert independence(values)[1] > 300


def test_autocorrelations_are_those_of_the_middle_ranks() -> None:
    """Lag by lag from the definition, ties sharing the mean of their ranks, and no value beside one beyond the end."""
    values = np.random.default_rng(6).integers(0, 4, 60).astype(float)
    ranks = stats.rankdata(values) - 30.5
    lags, _ = independence(values)
    assert lags == pytest.approx([(ranks[at:] * ranks[:-at]).sum() / (ranks**2).sum() for at in range(1, 11)])


def test_a_certificate_is_withheld_below_four_fifths_of_independence() -> None:
    """Values that tell 0.6 times as much as independent ones, and 0.95 times."""
    noise = np.random.default_rng(12).normal(size=6_000)
    for weight, least, most, reason in ((0.3, 0.5, 0.7, AUTOCORRELATED), (0.0, 0.8, 1.0, None)):
        values = noise[1:] + weight * noise[:-1]
        found = order_statistics(values, 0.5)
        assert least <= found.effective_requests / len(values) <= most
        assert found.interval.reason == reason


def test_a_certificate_that_reaches_into_the_failures_has_no_upper_bound() -> None:
    """12 of 1,000 failed: the p98 is known, and what lies above it is not."""
    values = np.random.default_rng(8).permutation(np.concatenate([np.arange(988.0), np.full(12, np.inf)]))
    found = order_statistics(values, 0.98).interval
    assert found.value is not None and found.low is not None
    assert (found.high, found.reason) == (None, FAILED_TAIL)


def test_wilsons_interval_is_the_published_one() -> None:
    """Against scipy's, for several shares, and open at nothing."""
    for count, of in ((0, 10), (9, 10), (90, 100), (999, 1000)):
        found = wilson(count, of)
        oracle = stats.binomtest(count, of).proportion_ci(method="wilson")
        assert (found.low, found.high) == pytest.approx((oracle.low, oracle.high), abs=1e-12)
    assert wilson(0, 0).value is None


def test_variation_over_runs() -> None:
    """Standard deviation by mean; none of one run, or around zero."""
    assert run_cv([9.0, 10.0, 11.0]) == pytest.approx(0.1)
    assert run_cv([5.0]) is None
    assert run_cv([-1.0, 1.0]) is None
    assert run_cv([-9.0, -10.0, -11.0]) == pytest.approx(0.1)
