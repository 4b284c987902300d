"""A worker's clock: the quickest answer counts, what the same clock is, and what is known of how far it is off."""

from hypothesis import given
from hypothesis import strategies as st

from loadgen.locust.clocks import LOOK_AGAIN_NS, MOST_PINGS, PINGS, QUICK_NS, WatchedClock, WorkerClock, clock_id


def ask(clock: WatchedClock, at_ns: int, offset_ns: int, round_trip_ns: int = 100) -> list[bool]:
    """Until it wants no more answers; whether each had something new to tell."""
    told = []
    while clock.wants_an_answer:
        told.append(clock.answered(at_ns, at_ns + round_trip_ns, at_ns + round_trip_ns // 2 + offset_ns, False))
    return told


def test_the_quickest_answer_counts() -> None:
    """Its middle is when the worker looked; half its round trip bounds the error."""
    clock = WorkerClock()
    clock.answered(1_000, 9_000, 105_500, same_clock=False)
    clock.answered(10_000, 10_200, 110_100, same_clock=False)
    clock.answered(20_000, 29_000, 120_000, same_clock=False)
    assert (clock.offset_ns, clock.round_trip_ns, clock.count) == (100_000, 200, 3)


@given(
    st.integers(-(2**60), 2**60),
    st.lists(st.tuples(st.integers(0, 10**9), st.integers(0, 10**9)), min_size=1, max_size=20),
)
def test_the_true_offset_is_never_further_off_than_is_said(offset_ns: int, ways: list[tuple[int, int]]) -> None:
    """Whatever each way of a question took, since the worker looked between its being sent and being answered."""
    clock = WorkerClock()
    for at, (there_ns, back_ns) in enumerate(ways):
        sent_ns = at * 10**10
        clock.answered(sent_ns, sent_ns + there_ns + back_ns, sent_ns + there_ns + offset_ns, same_clock=False)
    assert clock.uncertainty_ns is not None
    assert abs(clock.offset_ns - offset_ns) <= clock.uncertainty_ns


def test_the_same_clock_has_no_offset_and_no_uncertainty() -> None:
    """What is measured within a round trip is noise; more than that is another clock, whatever both say of it."""
    clock = WorkerClock()
    clock.answered(1_000, 2_000, 1_900, same_clock=True)
    assert (clock.offset_ns, clock.uncertainty_ns, clock.is_shared) == (0, 0, True)
    clock.answered(3_000, 3_100, 903_050, same_clock=True)
    assert (clock.offset_ns, clock.uncertainty_ns, clock.is_shared) == (900_000, 51, False)


def test_nothing_is_known_of_a_clock_that_was_never_asked() -> None:
    """Then neither offset nor error can be told."""
    assert WorkerClock().uncertainty_ns is None


def test_two_looks_at_this_process_see_one_clock() -> None:
    """And the kernel tells which."""
    assert clock_id() == clock_id() != ""


def test_a_clock_is_told_once_when_it_is_known() -> None:
    """After so many answers, and not before; further ones change nothing."""
    clock = WatchedClock()
    assert ask(clock, 0, 5_000) == [*[False] * (PINGS - 1), True]
    assert clock.answered(50, 52, 9_999_999, False) is False
    told = clock.told()
    assert (told["offset_ns"], told["uncertainty_ns"], told["shared"]) == (5_000, 51, False)
    assert "drift_ns" not in told


def test_slow_answers_are_asked_for_more_often() -> None:
    """Up to a limit, or to the first quick one after the least number."""
    clock = WatchedClock()
    assert len(ask(clock, 0, 5_000, round_trip_ns=QUICK_NS + 1)) == MOST_PINGS
    clock = WatchedClock()
    for _ in range(PINGS + 3):
        assert clock.answered(0, 10 * QUICK_NS, 5_000, False) is False
    assert clock.is_slow
    assert clock.answered(0, QUICK_NS, 5_000, False) is True


def test_a_drift_is_told_and_the_run_keeps_its_offset() -> None:
    """A clock of its own is looked at again after a while; the origin was told by the first look."""
    clock = WatchedClock()
    ask(clock, 0, 5_000)
    clock.look_again(LOOK_AGAIN_NS // 2)
    assert not clock.wants_an_answer
    clock.look_again(2 * LOOK_AGAIN_NS)
    assert ask(clock, 2 * LOOK_AGAIN_NS, 8_000)[-1] is True
    told = clock.told()
    assert (told["offset_ns"], told["drift_ns"], told["drift_over_ns"]) == (5_000, 3_000, 2 * LOOK_AGAIN_NS)
    assert told["drift_uncertainty_ns"] == 102


def test_a_shared_clock_is_not_looked_at_again() -> None:
    """It cannot drift from itself."""
    clock = WatchedClock()
    while clock.wants_an_answer:
        clock.answered(0, 100, 50, same_clock=True)
    clock.look_again(10 * LOOK_AGAIN_NS)
    assert not clock.wants_an_answer
