"""Waits against a loop over every nanosecond."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from results.columns import NULL, int64
from results.recording import Recording
from results.schedule import make_schedule
from results.waits import AdmissionWaits, admission_waits, held_back_fraction


def run_of(
    steps: Sequence[tuple[int, int]],
    requests: Sequence[tuple[int, int]],
    end_ns: Sequence[int] | None = None,
) -> Recording:
    """Steps as (start, end), requests as (due, admitted step)."""
    empty = int64([])
    return Recording(
        schedule=make_schedule([0] * len(requests), [1] * len(requests), [1] * len(requests)),
        requests={
            "due_ns": int64([due for due, _ in requests]),
            "admitted_step": int64([step for _, step in requests]),
            "end_ns": int64(end_ns if end_ns is not None else [NULL] * len(requests)),
        },
        token_offsets=int64([0] * (len(requests) + 1)),
        token_step=empty,
        token_t_ns=None,
        token_count=empty,
        token_ids=empty,
        steps={
            "step": int64(range(len(steps))),
            "n_steps": int64([1] * len(steps)),
            "start_ns": int64([start for start, _ in steps]),
            "end_ns": int64([end for _, end in steps]),
        },
        host={},
        in_flight_request_ns=0,
    )


@st.composite
def runs(draw: st.DrawFn) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Steps that do not overlap, with and without pauses, and requests that became due before their slot's step."""
    steps, now = [], 0
    for pause, length in draw(st.lists(st.tuples(st.integers(0, 4), st.integers(1, 6)), min_size=1, max_size=6)):
        steps.append((now + pause, now + pause + length))
        now += pause + length
    admitted = draw(st.lists(st.integers(0, len(steps) - 1), min_size=1, max_size=5))
    return steps, [(draw(st.integers(0, steps[step][0])), step) for step in admitted]


def by_loop(steps: list[tuple[int, int]], due: int, start: int) -> tuple[int, int, int]:
    """Step, collect and slot wait, one nanosecond after another."""
    running_at_due = next((end for begin, end in steps if begin < due < end), due)
    step_wait = collect_wait = slot_wait = 0
    for moment in range(due, start):
        if moment < running_at_due:
            step_wait += 1
        elif not any(begin <= moment < end for begin, end in steps):
            collect_wait += 1
        else:
            slot_wait += 1
    return step_wait, collect_wait, slot_wait


def waits_of(recording: Recording) -> AdmissionWaits:
    """Of an engine that tells."""
    found = admission_waits(recording)
    assert found is not None
    return found


@settings(deadline=None)
@given(runs())
def test_the_three_waits_are_those_of_a_loop_over_time(
    run: tuple[list[tuple[int, int]], list[tuple[int, int]]],
) -> None:
    """Step wait, collect wait and slot wait of every request equal a count of nanoseconds, and add up."""
    steps, requests = run
    found = waits_of(run_of(steps, requests))
    for at, (due, admitted) in enumerate(requests):
        parts = by_loop(steps, due, steps[admitted][0])
        assert (found.step_ns[at], found.collect_ns[at], found.slot_ns[at]) == parts
        assert found.all_ns[at] == sum(parts) == steps[admitted][0] - due
    assert found.request_id.tolist() == list(range(len(requests)))


@settings(deadline=None)
@given(runs())
def test_held_back_is_the_time_with_someone_waiting_and_no_step(
    run: tuple[list[tuple[int, int]], list[tuple[int, int]]],
) -> None:
    """held_back_fraction equals a count of the nanoseconds in which somebody waits and nothing runs."""
    steps, requests = run
    run_ns = steps[-1][1]
    held = sum(
        any(due <= moment < steps[admitted][0] for due, admitted in requests)
        and not any(begin <= moment < end for begin, end in steps)
        for moment in range(run_ns)
    )
    assert held_back_fraction(run_of(steps, requests)) == pytest.approx(held / run_ns)


def test_a_step_that_starts_exactly_at_due_is_not_waited_for() -> None:
    """Due at a step's start: what follows is slot wait; due within it: step wait to its end."""
    steps = [(0, 10), (10, 20), (20, 30)]
    found = waits_of(run_of(steps, [(0, 1), (10, 2), (11, 2), (19, 2), (20, 2)]))
    assert found.step_ns.tolist() == [0, 0, 9, 1, 0]
    assert found.collect_ns.tolist() == [0, 0, 0, 0, 0]
    assert found.slot_ns.tolist() == [10, 10, 0, 0, 0]


def test_a_batch_that_waits_to_be_full_collects() -> None:
    """The time from due to the batch's start with no step running is collect wait, and held back."""
    found = waits_of(run_of([(50, 60)], [(10, 0), (40, 0)]))
    assert found.collect_ns.tolist() == [40, 10]
    assert held_back_fraction(run_of([(50, 60)], [(10, 0), (40, 0)])) == pytest.approx(40 / 60)


def test_only_requests_with_a_slot_have_admission_waits() -> None:
    """Those that were never admitted are left out by id; nobody admitted means not told."""
    found = waits_of(run_of([(5, 9), (9, 12)], [(0, NULL), (1, 1), (2, NULL), (3, 0)]))
    assert found.request_id.tolist() == [1, 3]
    assert found.all_ns.tolist() == [8, 2]
    assert admission_waits(run_of([(5, 9)], [(0, NULL)])) is None
    assert admission_waits(run_of([], [])) is None


def test_a_request_that_gives_up_is_held_back_until_its_end() -> None:
    """Without a slot it waits to its end; without an end, to the end of the run."""
    steps = [(0, 10), (30, 40)]
    gave_up = run_of(steps, [(0, 0), (12, NULL)], end_ns=[40, 20])
    assert held_back_fraction(gave_up) == pytest.approx(8 / 40)
    never = run_of(steps, [(0, 0), (12, NULL)], end_ns=[40, NULL])
    assert held_back_fraction(never) == pytest.approx(18 / 40)
    later = run_of(steps, [(0, 0), (45, NULL)], end_ns=[40, 50])
    assert held_back_fraction(later) == pytest.approx(5 / 50)
    not_due = run_of(steps, [(0, 0), (NULL, NULL)], end_ns=[40, NULL])
    assert held_back_fraction(not_due) == 0.0


def test_without_steps_or_admissions_nothing_is_known() -> None:
    """An engine that does not tell, and a run without a step, have no held-back fraction."""
    assert held_back_fraction(run_of([], [(0, NULL)])) is None
    assert held_back_fraction(run_of([(0, 5)], [(0, NULL)])) is None


def test_held_back_of_a_part_of_the_run_is_of_its_time_alone() -> None:
    """Nobody runs from 0 to 50 while somebody waits from 10 on: inside [20, 60) that is 30 of 40."""
    run = run_of([(50, 60)], [(10, 0), (40, 0)])
    assert held_back_fraction(run, (20, 60)) == pytest.approx(30 / 40)
    assert held_back_fraction(run, (20, None)) == pytest.approx(30 / 40)
    assert held_back_fraction(run, (50, 60)) == 0.0
    assert held_back_fraction(run, (60, 60)) is None
    earlier = run_of([(10, 40), (50, 60)], [(0, 1)])  # held from 0 to 50, and idle from 0 to 10 and from 40 to 50
    assert held_back_fraction(earlier, (20, 60)) == pytest.approx(10 / 40)
