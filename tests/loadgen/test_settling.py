"""A warm-up has settled when its last two groups of twenty service times agree."""

import numpy as np

from engines.cost import LinearCost
from engines.policies import continuous
from loadgen.settling import settled
from loadgen.warmup import MOST_ALIKE, warm_up
from results.schedule import make_schedule
from tests.engines.playing import engine_of

NOISE = np.random.default_rng(5).normal(0, 10_000, 40)


class Ticking:
    """A timer whose every reading is later than the one before by what it is told."""

    def __init__(self, steps: list[int]) -> None:
        self.now, self.steps, self.readings = 0, steps, 0

    def __call__(self) -> int:
        self.now += self.steps[min(self.readings // 2, len(self.steps) - 1)] if self.readings % 2 else 0
        self.readings += 1
        return self.now


def test_two_groups_must_agree_in_median_and_in_spread() -> None:
    """Medians within 5 %, interquartile ranges within 10 % of the median; fewer than forty tell nothing."""
    even = (1_000_000 + NOISE).astype(int).tolist()
    assert settled(even) is True
    assert settled(even[1:]) is None
    assert settled([*even[:20], *(value + 80_000 for value in even[20:])]) is False
    wide = [value + (400_000 if at % 2 else -400_000) for at, value in enumerate(even[20:])]
    assert settled([*even[:20], *wide]) is False
    assert settled([*(9 * value for value in even), *even]) is True


def test_a_warm_up_goes_on_until_it_has_settled() -> None:
    """Slow at first: it serves on until two groups agree, and the engine is empty."""
    schedule = make_schedule([0, 1, 2], [40, 50, 60], [4, 4, 4])
    engine = engine_of(continuous(2), LinearCost())
    shapes = 2
    slow = [5_000_000 - 50_000 * at for at in range(60)]
    warmed = warm_up(engine, schedule, Ticking([*[1] * shapes, *slow, *[1_000_000] * 200]))
    assert warmed.converged is True
    assert warmed.left_requests == 0
    singles = len(warmed.rows["request_id"]) - 3
    assert 60 < singles <= 120
    assert warmed.rows["request_id"].tolist() == list(range(3, 3 + 3 + singles))
    assert (warmed.rows["end_ns"] <= 0).all()


def test_a_warm_up_that_never_settles_ends_all_the_same() -> None:
    """After so many requests, and says so."""
    schedule = make_schedule([0, 1, 2], [40, 50, 60], [4, 4, 4])
    slower = [1_000_000 + 100_000 * at for at in range(400)]
    warmed = warm_up(engine_of(continuous(2), LinearCost()), schedule, Ticking(slower))
    assert warmed.converged is False
    assert len(warmed.rows["request_id"]) == MOST_ALIKE + 3
