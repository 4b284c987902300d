"""The search for a rate, against limits that are known."""

from math import sqrt

import pytest

from loadgen.rate_search import Answer, Ask, Effort, find_capacity, not_monotone

SEEDS = (7, 8, 9, 10, 11)


def limit_of(limits: dict[int, float], asked: list[tuple[float, int, int]] | None = None) -> Ask:
    """Passes up to the seed's limit, and keeps what it was asked."""

    def ask(rate_rps: float, seed: int, requests: int) -> bool:
        if asked is not None:
            asked.append((rate_rps, seed, requests))
        return rate_rps <= limits[seed]

    return ask


@pytest.mark.parametrize("limit", [0.002, 0.3, 1.0, 7.7, 5_000.0])
@pytest.mark.parametrize("start", [0.01, 1.0, 900.0])
def test_a_limit_is_found_from_above_and_below(limit: float, start: float) -> None:
    """Within 1 % of every seed's limit, however far the start is, also below one request a second."""
    found = find_capacity(limit_of(dict.fromkeys(SEEDS, limit)), start, Effort(SEEDS))
    assert found is not None
    assert all(abs(one / limit - 1) < 0.011 for one in found.per_seed_rps)
    assert found.interval.value == pytest.approx(limit, rel=0.011)


def test_every_seed_has_its_own_limit_and_the_interval_is_over_them() -> None:
    """Also where a seed's limit lies far outside the bracket of the first: mean and t interval of what was found."""
    limits = {7: 4.0, 8: 4.3, 9: 12.0, 10: 0.5, 11: 4.1}
    found = find_capacity(limit_of(limits), 1.0, Effort(SEEDS))
    assert found is not None
    for seed, one in zip(SEEDS, found.per_seed_rps, strict=True):
        assert one == pytest.approx(limits[seed], rel=0.011)
    mean = sum(found.per_seed_rps) / 5
    spread = sqrt(sum((one - mean) ** 2 for one in found.per_seed_rps) / 4)
    assert found.interval.high == pytest.approx(mean + 2.776445 * spread / sqrt(5), rel=1e-6)


def test_no_answer_rests_on_a_rate_that_was_not_asked() -> None:
    """The capacity of a seed lies between a rate that passed and one that failed in the full length."""
    limits = dict(zip(SEEDS, (4.0, 4.5, 3.6, 4.9, 3.2), strict=True))
    found = find_capacity(limit_of(limits), 1.0, Effort(SEEDS, requests=1_000, bracket_requests=300))
    assert found is not None
    for seed, one in zip(SEEDS, found.per_seed_rps, strict=True):
        full = [answer for answer in found.answers if answer.seed == seed and answer.requests == 1_000]
        below = max(answer.rate_rps for answer in full if answer.passed)
        above = min(answer.rate_rps for answer in full if not answer.passed)
        assert below <= one <= above <= 1.0201 * below


def test_nothing_is_asked_twice_and_little_is_asked_at_all() -> None:
    """A bracket of a few short probes, then at most nine a seed."""
    asked: list[tuple[float, int, int]] = []
    find_capacity(limit_of(dict.fromkeys(SEEDS, 7.7), asked), 2.0, Effort(SEEDS))
    assert len(asked) == len(set(asked))
    assert len([one for one in asked if one[2] == 300]) == 3
    assert len([one for one in asked if one[2] == 1_000]) <= 45


def test_rates_are_asked_in_six_digits() -> None:
    """What is written in a config is what was asked."""
    asked: list[tuple[float, int, int]] = []
    find_capacity(limit_of(dict.fromkeys(SEEDS, 7.7), asked), 1 / 3, Effort(SEEDS))
    assert all(rate_rps == float(f"{rate_rps:.6g}") for rate_rps, _, _ in asked)


@pytest.mark.parametrize("limit", [0.0, float("inf")])
def test_a_search_ends_where_there_is_no_limit(limit: float) -> None:
    """Nothing passes, or everything: no capacity, after 25 questions."""
    asked: list[tuple[float, int, int]] = []
    assert find_capacity(limit_of(dict.fromkeys(SEEDS, limit), asked), 1.0, Effort(SEEDS)) is None
    assert len(asked) == 25


def test_two_seeds_have_no_interval() -> None:
    """The quick mode's mean stands alone."""
    found = find_capacity(limit_of({7: 3.0, 8: 3.3}), 1.0, Effort((7, 8)))
    assert found is not None
    assert (found.interval.low, found.interval.reason) == (None, "NO_CI")


def test_a_higher_rate_that_passes_after_a_lower_one_failed_is_told() -> None:
    """Within a seed and a length only."""
    answers = [
        Answer(4.0, 7, 1_000, False),
        Answer(5.0, 7, 1_000, True),
        Answer(5.0, 8, 1_000, True),
        Answer(3.0, 7, 300, False),
        Answer(2.0, 7, 1_000, True),
    ]
    assert not_monotone(answers) == ((7, 4.0, 5.0),)
