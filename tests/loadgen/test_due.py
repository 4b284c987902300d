"""Who is due next, and how many are in flight."""

import numpy as np
import pytest

from loadgen.due import NEVER_NS, DueQueue, InFlight
from tests.engines.playing import schedule_of


def test_those_with_a_due_time_come_in_its_order() -> None:
    """Ties in the order of their ids."""
    queue = DueQueue(schedule_of([1] * 4, [0, 5, 5, 9]))
    assert queue.next_due_ns == 0
    assert [queue.pop() for _ in range(4)] == [(0, 0), (5, 1), (5, 2), (9, 3)]
    assert queue.next_due_ns == NEVER_NS
    assert queue.all_handed_over


def test_a_follower_is_due_after_the_latest_end_and_its_think_time() -> None:
    """Two before it, the second ends later: 30 + 4."""
    queue = DueQueue(schedule_of([1] * 3, [0, 1], after={2: [0, 1]}, think_ns={2: 4}))
    queue.pop()
    queue.pop()
    assert queue.next_due_ns == NEVER_NS and not queue.all_handed_over
    queue.ended(1, 30)
    assert queue.next_due_ns == NEVER_NS
    queue.ended(0, 20)
    assert queue.next_due_ns == 34
    assert queue.pop() == (34, 2)
    assert queue.all_handed_over


def test_followers_and_the_others_are_merged_by_due_time_then_id() -> None:
    """A follower of a lower id goes first at the same time, one of a higher id after."""
    queue = DueQueue(schedule_of([1] * 4, [0, None, 10, None], after={1: [0], 3: [0]}, think_ns={1: 5, 3: 5}))
    queue.pop()
    queue.ended(0, 5)
    assert [queue.pop() for _ in range(3)] == [(10, 1), (10, 2), (10, 3)]


def test_a_follower_due_before_the_next_arrival_comes_before_it() -> None:
    """The heap is looked at beside the pointer, not after it."""
    queue = DueQueue(schedule_of([1] * 4, [0, 100, 200, None], after={3: [0]}))
    queue.pop()
    queue.ended(0, 7)
    assert queue.next_due_ns == 7
    assert [queue.pop() for _ in range(3)] == [(7, 3), (100, 1), (200, 2)]


def test_one_end_may_make_several_due() -> None:
    """And a request named twice is waited for once."""
    queue = DueQueue(schedule_of([1] * 4, [0], after={1: [0], 2: [0, 0], 3: [1, 2]}, think_ns={1: 3, 2: 1}))
    queue.pop()
    queue.ended(0, 10)
    assert [queue.pop(), queue.pop()] == [(11, 2), (13, 1)]
    queue.ended(1, 20)
    assert queue.next_due_ns == NEVER_NS
    queue.ended(2, 15)
    assert queue.pop() == (20, 3)


def test_nobody_is_due_after_a_stop() -> None:
    """Not even a follower whose predecessor ends later; the drain counts from the stop."""
    queue = DueQueue(schedule_of([1] * 3, [0, 50], after={2: [0]}))
    queue.pop()
    assert queue.last_due_ns == 0
    queue.stop(33)
    queue.ended(0, 40)
    assert queue.next_due_ns == NEVER_NS
    assert queue.stopped and queue.all_handed_over and queue.last_due_ns == 33


def test_an_empty_schedule_has_nobody() -> None:
    """Nobody is due, and all have been handed over."""
    queue = DueQueue(schedule_of([]))
    assert queue.next_due_ns == NEVER_NS and queue.all_handed_over


@pytest.mark.parametrize("seed", range(5))
def test_any_order_of_ends_gives_the_due_times_of_the_rule(seed: int) -> None:
    """due = latest end of all it waits for + think, for random trees, against the rule applied backwards."""
    generator = np.random.default_rng(seed)
    rows = 60
    after = {row: generator.integers(0, row, generator.integers(1, 4)).tolist() for row in range(1, rows) if row % 4}
    think = {row: int(generator.integers(0, 9)) for row in after}
    due = [10 * row for row in range(rows)]
    queue = DueQueue(schedule_of([1] * rows, due, after=after, think_ns=think))
    end_ns = dict[int, int]()
    came = dict[int, int]()
    running = list[int]()
    now_ns = 0
    while len(end_ns) < rows:
        while queue.next_due_ns <= now_ns:
            due_ns, row = queue.pop()
            came[row] = due_ns
            running.append(row)
        if running:
            row = running.pop(int(generator.integers(len(running))))
            now_ns += int(generator.integers(0, 6))
            end_ns[row] = now_ns
            queue.ended(row, now_ns)
        else:
            now_ns = queue.next_due_ns
    for row in range(rows):
        assert came[row] == (max(end_ns[one] for one in after[row]) + think[row] if row in after else due[row])


def test_requests_in_flight_are_counted_from_when_they_were_due() -> None:
    """Due 0, seen at 2, gone at 6; due 3, seen at 4, gone at 9: 6 + 6 request-ns."""
    flight = InFlight()
    flight.enter(0, 2)
    flight.enter(3, 4)
    flight.leave(6)
    flight.leave(9)
    assert flight.taken(20) == 6 + 6


def test_the_integral_is_taken_in_pieces_that_add_up() -> None:
    """Each piece holds what has passed since the one before."""
    flight = InFlight()
    flight.enter(0, 0)
    assert flight.taken(5) == 5
    assert flight.taken(5) == 0
    flight.enter(5, 7)
    assert flight.taken(10) == 5 + 5
    flight.leave(11)
    flight.leave(12)
    assert flight.taken(12) == 1 + 2
    assert flight.taken(99) == 0
