"""REPRODUCED, DIFFERS, INCONCLUSIVE: two one-sided tests of new runs against the one first run."""

import numpy as np
import pytest
from scipy import stats

from results.equivalence import Likeness, against_one, worst


def test_close_runs_are_reproduced() -> None:
    """1 % apart with little spread: the 90 % interval lies inside 10 %, and has room for the first run's own chance."""
    values = [0.01, 0.012, 0.008, 0.011, 0.009]
    found = against_one(values)
    half = 2.131847 * np.std(values, ddof=1) * (1 / 5 + 1) ** 0.5
    assert found.likeness is Likeness.REPRODUCED
    assert (found.low_ratio, found.high_ratio) == pytest.approx((np.exp(0.01 - half), np.exp(0.01 + half)), rel=1e-6)


def test_both_one_sided_tests_decide() -> None:
    """REPRODUCED exactly when both textbook tests of two samples, one of them a single run, reject at 5 %."""
    draw, margin, seen = np.random.default_rng(1), np.log(1.1), set()
    for _ in range(300):
        values = draw.normal(draw.choice([0.0, 0.06, 0.2]), 0.04, 6)
        above = stats.ttest_ind(values, [-margin], alternative="greater").pvalue < 0.05
        below = stats.ttest_ind(values, [margin], alternative="less").pvalue < 0.05
        apart = stats.ttest_ind(values, [0.0]).pvalue < 0.05 and abs(values.mean()) > margin
        found = against_one(values.tolist()).likeness
        seen.add(found)
        assert (found is Likeness.REPRODUCED, found is Likeness.DIFFERS) == (above and below, apart)
    assert seen == set(Likeness)


def test_a_clear_regression_differs() -> None:
    """20 % in every run."""
    assert against_one([0.18, 0.19, 0.18, 0.17, 0.18]).likeness is Likeness.DIFFERS


def test_a_sure_difference_within_the_margin_is_no_difference_that_counts() -> None:
    """9 % where 10 % is allowed, with an interval that reaches across: not DIFFERS."""
    values = [0.085, 0.09, 0.08, 0.1, 0.095]
    assert against_one(values, 0.10).likeness is not Likeness.DIFFERS
    assert against_one(values, 0.05).likeness is Likeness.DIFFERS


def test_noise_is_inconclusive_and_says_how_many_runs_it_takes() -> None:
    """3 % standard deviation and no shift: more runs than three, and so many of them show it in four of five cases."""
    found = against_one([0.03, -0.03, 0.0])
    assert found.likeness is Likeness.INCONCLUSIVE
    assert found.needed is not None and 3 < found.needed < 20
    draw = np.random.default_rng(4)
    shown = [
        against_one((draw.normal(0, 0.03, found.needed) - draw.normal(0, 0.03)).tolist()).likeness
        is Likeness.REPRODUCED
        for _ in range(400)
    ]
    assert 0.74 < np.mean(shown) < 0.9


def test_many_figures_at_once_make_a_difference_harder_to_claim() -> None:
    """Each of six has its sixth of the 5 %; that it is equal is no harder to show."""
    values = [0.13, 0.19, 0.16, 0.22]
    assert against_one(values).likeness is Likeness.DIFFERS
    assert against_one(values, families=6).likeness is Likeness.INCONCLUSIVE
    assert against_one([0.25 * one for one in values], families=6).likeness is Likeness.REPRODUCED


def test_two_runs_say_nothing() -> None:
    """Below three there is no interval."""
    found = against_one([0.0, 0.0])
    assert (found.likeness, found.low_ratio, found.needed) == (Likeness.INCONCLUSIVE, None, 3)


def test_bit_for_bit_equal_runs_are_reproduced() -> None:
    """No spread and no shift; without spread any shift beyond the margin is one."""
    assert against_one([0.0] * 3).likeness is Likeness.REPRODUCED
    assert against_one([0.3] * 3).likeness is Likeness.DIFFERS


def test_nothing_shows_equivalence_of_what_is_beyond_the_margin() -> None:
    """A shift larger than the margin, unclear only for noise: no number of runs makes it equal."""
    found = against_one([0.4, -0.1, 0.2, 0.05])
    assert (found.likeness, found.needed) == (Likeness.INCONCLUSIVE, None)


@pytest.mark.parametrize(
    ("found", "result"),
    [("RRR", "R"), ("RIR", "I"), ("RID", "D"), ("", "I")],
)
def test_the_worst_figure_decides(found: str, result: str) -> None:
    """One that differs, else one that is open; of nothing nothing is known."""
    letters = {one.value[0]: one for one in Likeness}
    assert worst([letters[letter] for letter in found]) is letters[result]
