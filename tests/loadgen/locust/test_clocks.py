"""A worker's clock: the quickest answer counts, and one boot has one clock."""

from loadgen.locust.clocks import WorkerClock


def test_the_quickest_answer_counts() -> None:
    """Its middle is when the worker looked; half its round trip bounds the error."""
    clock = WorkerClock()
    clock.answered(1_000, 9_000, 105_500, same_boot=False)
    clock.answered(10_000, 10_200, 110_100, same_boot=False)
    clock.answered(20_000, 29_000, 120_000, same_boot=False)
    assert (clock.offset_ns, clock.round_trip_ns, clock.count) == (100_000, 200, 3)


def test_processes_of_one_boot_have_one_clock() -> None:
    """What is measured within a round trip is noise; more than that is another clock all the same."""
    clock = WorkerClock()
    clock.answered(1_000, 2_000, 1_900, same_boot=True)
    assert clock.offset_ns == 0
    clock.answered(3_000, 3_100, 903_050, same_boot=True)
    assert clock.offset_ns == 900_000
