"""Quantiles: Hyndman and Fan's type 8, and null with a reason where the sample does not carry one."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from results.stats import FAILED_TAIL, N_TOO_SMALL, NO_VALUES, quantile, sample_floor

FINITE = st.floats(0, 1e12, allow_nan=False, allow_infinity=False)
QUANTILES = (0.5, 0.9, 0.95, 0.99)


@settings(deadline=None)
@given(st.lists(FINITE, min_size=2, max_size=400), st.sampled_from(QUANTILES))
def test_a_quantile_is_numpys_median_unbiased_one(values: list[float], q: float) -> None:
    """Where the sample is large enough the quantile equals numpy's method median_unbiased, whatever the order."""
    value, reason = quantile(np.array(values), q)
    if len(values) < sample_floor(q):
        assert (value, reason) == (None, N_TOO_SMALL)
    else:
        assert reason is None
        expected = float(np.quantile(np.array(values), q, method="median_unbiased"))
        assert value == pytest.approx(expected, rel=1e-9, abs=1e-9)


@settings(deadline=None)
@given(st.integers(2, 300), st.floats(0.01, 0.99))
def test_any_quantile_agrees_with_numpy(n: int, q: float) -> None:
    """The rule holds for every q that the sample carries, not only for those in tables."""
    values = np.arange(n, dtype=np.float64) ** 2
    value, reason = quantile(values, q)
    if n >= 1 / (1 - q) + 1e-6:
        assert reason is None
        assert value == pytest.approx(float(np.quantile(values, q, method="median_unbiased")), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize(("q", "floor"), [(0.5, 2), (0.9, 10), (0.95, 20), (0.99, 100), (0.999, 1000)])
def test_the_floor_is_the_reciprocal_of_the_tail(q: float, floor: int) -> None:
    """A quantile q is given from ceil(1 / (1 - q)) values on, and not one earlier."""
    assert sample_floor(q) == floor
    below, at = np.ones(floor - 1), np.ones(floor)
    assert quantile(below, q) == (None, N_TOO_SMALL)
    assert quantile(at, q) == (1.0, None)


def test_no_values_have_no_quantile() -> None:
    """An empty sample has a reason of its own."""
    assert quantile(np.array([]), 0.5) == (None, NO_VALUES)


def test_p99_of_100_is_near_the_second_largest() -> None:
    """At n = 100 type 8 puts p99 at position 100 1/3 x .99 + 1/3 = 99.663 of the sorted values."""
    value, _ = quantile(np.arange(1, 101, dtype=np.float64), 0.99)
    assert value == pytest.approx(99 + 199 / 300)


@settings(deadline=None)
@given(st.integers(2, 400), st.integers(0, 400), st.sampled_from(QUANTILES))
def test_a_quantile_that_falls_on_failures_is_null(n: int, failures: int, q: float) -> None:
    """Failures stand at +inf: a quantile between two order statistics is given only if both are finite."""
    failures = min(failures, n)
    values = np.concatenate([np.arange(n - failures, dtype=np.float64), np.full(failures, np.inf)])
    value, reason = quantile(values, q)
    if n < sample_floor(q):
        assert reason == N_TOO_SMALL
    elif failures / n > 1 - q + 1e-9:
        assert (value, reason) == (None, FAILED_TAIL)
    elif reason is None:
        position = (n + 1 / 3) * q + 1 / 3
        assert position <= n - failures + 1e-6
        assert value == pytest.approx(min(position, n - failures) - 1, abs=1e-6)
    else:
        assert reason == FAILED_TAIL
        assert (n + 1 / 3) * q + 1 / 3 > n - failures - 1e-6


def test_all_failed_is_a_failed_tail() -> None:
    """When nothing but failures is left every quantile falls on them."""
    assert quantile(np.full(5, np.inf), 0.5) == (None, FAILED_TAIL)


@pytest.mark.parametrize("n", [3, 5, 21, 101])
def test_a_quantile_that_is_a_value_of_the_sample_needs_no_other(n: int) -> None:
    """The median of an odd number is its middle value: failures above it do not touch it."""
    failures = (n - 1) // 2
    values = np.concatenate([np.arange(n - failures, dtype=np.float64), np.full(failures, np.inf)])
    assert quantile(values, 0.5) == (failures, None)


def test_a_quantile_between_a_success_and_a_failure_is_null() -> None:
    """The median of one of each lies between the two: half way to infinity is not a number."""
    assert quantile(np.array([1.0, np.inf]), 0.5) == (None, FAILED_TAIL)
    assert quantile(np.array([1.0, 2.0, np.inf]), 0.5) == (2.0, None)
