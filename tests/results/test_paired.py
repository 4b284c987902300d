"""Pairs of runs: exact p, error rates, findings and the number of pairs it takes."""

from itertools import product

import numpy as np
import pytest
from scipy import stats

from results.paired import Finding, alpha_at, contrast, next_stage, runs_needed, step_down, two_modes


def slow_step_down(values: np.ndarray) -> list[float]:
    """Westfall and Young's step-down procedure with |t|, flip by flip."""
    pairs, figures = values.shape

    def t(column: np.ndarray) -> float:
        return float(abs(stats.ttest_1samp(column, 0).statistic))

    observed = [t(values[:, at]) for at in range(figures)]
    order = sorted(range(figures), key=lambda at: -observed[at])
    adjusted, above = [0.0] * figures, 0.0
    flips = [np.array(signs)[:, None] * values for signs in product((1, -1), repeat=pairs)]
    for place, at in enumerate(order):
        rest = order[place:]
        reached = [max(t(flip[:, one]) for one in rest) >= observed[at] * (1 - 1e-9) for flip in flips]
        above = max(above, sum(reached) / len(flips))
        adjusted[at] = above
    return adjusted


@pytest.mark.parametrize("seed", range(6))
def test_the_adjusted_p_is_that_of_the_definition(seed: int) -> None:
    """All 64 flips of 6 pairs, three figures that hang together: the same p as by the book."""
    draw = np.random.default_rng(seed)
    values = draw.normal(0, 0.05, (6, 1)) + draw.normal(0.02, 0.03, (6, 3))
    assert step_down(values).tolist() == pytest.approx(slow_step_down(values))


def test_the_smallest_p_of_six_pairs_is_one_in_thirty_two() -> None:
    """All six the same way: only the identity and its mirror image are as extreme, for every figure at once."""
    values = np.linspace(0.1, 0.2, 6)[:, None] * np.array([1.0, -2.0, 0.5, 1.0, 3.0])
    assert step_down(values).tolist() == [2 / 64] * 5


def test_no_difference_at_all_has_p_one() -> None:
    """In modelled time an engine equals itself to the last bit."""
    found = contrast(np.zeros((6, 2)), [0.03, 0.1])
    assert [one.p_fraction for one in found] == [1.0, 1.0]
    assert [one.finding for one in found] == [Finding.SAME, Finding.SAME]


def test_equal_differences_without_spread_are_found() -> None:
    """Deterministic runs: every pair 20 % apart, nothing to divide by."""
    (found,) = contrast(np.full((6, 1), np.log(1.2)), [np.log(1.03)])
    assert (found.finding, found.p_fraction) == (Finding.HIGHER, 2 / 64)
    assert found.low == found.high == pytest.approx(np.log(1.2))


def test_more_than_sixteen_pairs_are_sampled() -> None:
    """A fixed sample of the flips: the same p each time, and small where the pairs agree."""
    values = np.random.default_rng(5).normal(0.05, 0.02, (20, 2))
    assert step_down(values).tolist() == step_down(values).tolist()
    assert step_down(values).max() < 1e-3
    assert step_down(values - values.mean(axis=0)).min() > 0.9


def test_false_findings_over_both_stages_stay_below_five_percent() -> None:
    """600 comparisons of equals, five figures with one common part, extended to ten pairs when undecided."""
    draw, false = np.random.default_rng(23), 0
    for _ in range(600):
        values = draw.normal(0, 0.05, (10, 1)) + draw.normal(0, 0.05, (10, 5))
        first = (step_down(values[:6]) <= 0.03125).any()
        false += bool(first or (step_down(values) <= 0.01875).any())
    assert false / 600 <= 0.05 + 2 * (0.05 * 0.95 / 600) ** 0.5


@pytest.mark.parametrize(("pairs", "alpha", "following"), [(5, None, 6), (6, 0.03125, 10), (9, 0.03125, 10),
                                                            (10, 0.01875, None), (40, 0.01875, None)])  # fmt: skip
def test_the_stages(pairs: int, alpha: float | None, following: int | None) -> None:
    """Six pairs at 3.125 %, ten at 1.875 %: 5 % in all."""
    assert alpha_at(pairs) == alpha
    assert next_stage(pairs) == following


def test_five_pairs_can_never_be_sure() -> None:
    """However large the difference, 2 of 32 flips are as extreme: UNRESOLVED."""
    (found,) = contrast(np.full((5, 1), 1.0), [0.03])
    assert found.finding is Finding.UNRESOLVED


def test_a_sure_difference_below_the_practical_size_is_no_finding() -> None:
    """1 % in every pair: significant, and SAME within 3 %."""
    (found,) = contrast(np.log(1.01) + np.linspace(-1e-4, 1e-4, 6)[:, None], [np.log(1.03)])
    assert found.p_fraction == 2 / 64
    assert found.finding is Finding.SAME


def test_direction_and_openness() -> None:
    """A fall is LOWER; a wide spread around it is UNRESOLVED and says how many pairs it takes."""
    lower = contrast(-0.2 + np.linspace(-0.02, 0.02, 6)[:, None], [0.03])[0]
    assert lower.finding is Finding.LOWER
    wide = contrast(np.array([[0.3], [-0.25], [0.2], [-0.3], [0.1], [-0.05]]), [0.03])[0]
    assert wide.finding is Finding.UNRESOLVED
    assert wide.needed == runs_needed(0.03, float(np.std([0.3, -0.25, 0.2, -0.3, 0.1, -0.05], ddof=1)))


@pytest.mark.parametrize(("ratio", "sides", "runs"), [(0.5, 2, 34), (0.8, 2, 15), (1.0, 2, 10), (0.2, 2, 199),
                                                       (0.5, 1, 27)])  # fmt: skip
def test_runs_needed_are_those_of_the_power_tables(ratio: float, sides: int, runs: int) -> None:
    """Cohen's tables of the one-sample t test at 5 % and 80 % power."""
    assert runs_needed(ratio, 1.0, sides) == runs


def test_runs_needed_at_the_edges() -> None:
    """Without spread three, without an effect none would do."""
    assert runs_needed(0.1, 0.0) == 3
    assert runs_needed(0.0, 1.0) is None
    assert runs_needed(1e-9, 1.0) is None


SHAPES = {
    "normal": lambda draw: draw.normal(0, 1, 500),
    "uniform": lambda draw: draw.random(500),
    "exponential": lambda draw: draw.exponential(1, 500),
    "lognormal": lambda draw: draw.lognormal(0, 1, 500),
    "heavy": lambda draw: draw.standard_t(2, 500),
    "constant": lambda draw: np.ones(500),
}


@pytest.mark.parametrize("name", SHAPES)
def test_one_heap_is_not_two(name: str) -> None:
    """Of 100 samples of one mode none is flagged, whatever its tail."""
    assert not any(two_modes(SHAPES[name](np.random.default_rng(seed))) for seed in range(100))


def test_two_heaps_are_seen() -> None:
    """A tenth of 5,000 requests 6 standard deviations later, as behind a gateway that sometimes reconnects."""
    found = 0
    for seed in range(50):
        draw = np.random.default_rng(seed)
        found += two_modes(draw.normal(0, 1, 5_000) + 6 * (draw.random(5_000) < 0.1))
    assert found >= 49


def test_few_values_have_no_shape() -> None:
    """Below 100 nothing is said."""
    assert not two_modes(np.array([0.0] * 49 + [9.0] * 50))
