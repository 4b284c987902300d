"""MSER-5 as a diagnostic: what it sees in a slow beginning, and that a clean series raises no warning."""

import numpy as np

from results.stationarity import mser5, settles_late


def slow_cut(values: np.ndarray) -> int:
    """The definition, term by term."""
    means = [values[at : at + 5].mean() for at in range(0, len(values) // 5 * 5, 5)]
    scores = []
    for cut in range(len(means) - 1):
        rest = np.array(means[cut:])
        scores.append(((rest - rest.mean()) ** 2).sum() / len(rest) ** 2)
    return 5 * int(np.argmin(scores))


def test_the_cut_is_the_one_of_the_definition() -> None:
    """Sums from behind give what a loop over every cut gives."""
    for seed in range(20):
        draw = np.random.default_rng(seed)
        values = draw.exponential(1, 143) + 4 * (np.arange(143) < draw.integers(0, 80))
        found = mser5(values)
        assert found is not None and found.cut_requests == slow_cut(values)


def test_a_slow_beginning_is_seen() -> None:
    """30 of 100 values six times as long: the cut lies at their end. 60 of 100: in the second half, a failure."""
    values = np.random.default_rng(2).normal(1, 0.05, 100)
    values[:30] *= 6
    found = mser5(values)
    assert found is not None and (found.cut_requests in (30, 35), found.failed) == (True, False)
    values[:60] = 6
    late = mser5(values)
    assert late is not None and late.failed


def test_a_warning_takes_more_than_a_cut() -> None:
    """The cut must lie behind the planned one, and the halves must differ the same way."""
    values = np.random.default_rng(3).normal(1, 0.05, 200)
    assert settles_late(values) is None
    values[:90] *= 2
    assert "beginning of 90" in str(settles_late(values))
    assert settles_late(values, planned_requests=100) is None
    short = np.random.default_rng(3).normal(1, 0.05, 200)
    short[:10] *= 2
    assert settles_late(short) is None


def test_too_few_values_say_nothing() -> None:
    """Below twenty, and with failures among them, there is no cut."""
    assert mser5(np.ones(19)) is None
    assert mser5(np.array([np.inf] + [1.0] * 40)) is None
