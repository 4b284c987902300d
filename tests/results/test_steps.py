"""The step table on the time axis: a stretch of n steps is n steps that follow each other."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from results.columns import Table, int64
from results.steps import durations, ends_ns, started_between, starts_ns, step_ends_ns, step_starts_ns

STRETCHES = st.lists(
    st.tuples(st.integers(1, 5), st.integers(0, 3_000), st.integers(1, 5_000), st.integers(0, 700)),
    min_size=1,
    max_size=6,
)
"""(steps, pause before in ps, cost of the first in ps, slope in ps)."""


def modelled_table(stretches: list[tuple[int, int, int, int]]) -> tuple[Table, list[tuple[int, int]]]:
    """The step table, and by an obvious loop each single step's start and end in ps."""
    rows, single, now_ps, step = [], [], 0, 0
    for n_steps, pause_ps, cost_ps, slope_ps in stretches:
        now_ps += pause_ps
        rows.append((step, n_steps, now_ps, cost_ps, slope_ps))
        for taken in range(n_steps):
            end_ps = now_ps + cost_ps + taken * slope_ps
            single.append((now_ps, end_ps))
            now_ps = end_ps
        step += n_steps
    names = ("step", "n_steps", "start_ps", "cost_ps", "cost_slope_ps")
    return dict(zip(names, (int64(column) for column in zip(*rows, strict=True)), strict=True)), single


@settings(deadline=None)
@given(STRETCHES)
def test_a_stretch_is_its_steps_one_after_another(stretches: list[tuple[int, int, int, int]]) -> None:
    """In modelled time every step's start and end is where a loop over single steps puts it, floored once to ns."""
    table, single = modelled_table(stretches)
    every = np.arange(len(single), dtype=np.int64)
    assert step_starts_ns(table, every).tolist() == [start // 1000 for start, _ in single]
    assert step_ends_ns(table, every).tolist() == [end // 1000 for _, end in single]
    assert step_ends_ns(table, every[::-1].copy()).tolist() == [end // 1000 for _, end in reversed(single)]


@settings(deadline=None)
@given(STRETCHES)
def test_a_row_reaches_from_its_first_step_to_its_last(stretches: list[tuple[int, int, int, int]]) -> None:
    """A row starts with its first step, ends with its last, and lasts their sum, in ps."""
    table, single = modelled_table(stretches)
    first = [int(step) for step in table["step"]]
    last = [int(step + steps) - 1 for step, steps in zip(table["step"], table["n_steps"], strict=True)]
    assert starts_ns(table).tolist() == [single[at][0] // 1000 for at in first]
    assert ends_ns(table).tolist() == [single[at][1] // 1000 for at in last]
    assert durations(table).tolist() == [
        sum(end - start for start, end in single[begin : end + 1]) for begin, end in zip(first, last, strict=True)
    ]


def test_other_clocks_give_the_times_themselves() -> None:
    """With start_ns and end_ns nothing is computed: a step's times are the row's."""
    table: Table = {"step": int64([4, 5, 7]), "n_steps": int64([1, 1, 1]), "start_ns": int64([10, 30, 90]),
                    "end_ns": int64([25, 80, 99])}  # fmt: skip
    assert starts_ns(table).tolist() == [10, 30, 90]
    assert ends_ns(table).tolist() == [25, 80, 99]
    assert durations(table).tolist() == [15, 50, 9]
    assert step_starts_ns(table, int64([7, 4])).tolist() == [90, 10]
    assert step_ends_ns(table, int64([7, 4])).tolist() == [99, 25]


def test_no_steps_have_no_times() -> None:
    """Asking for no step at all is no error, even of an empty table."""
    empty = int64([])
    for names in (("start_ns", "end_ns"), ("start_ps", "cost_ps", "cost_slope_ps")):
        table: Table = dict.fromkeys(("step", "n_steps", *names), empty)
        assert step_ends_ns(table, empty).tolist() == step_starts_ns(table, empty).tolist() == []
        assert ends_ns(table).tolist() == starts_ns(table).tolist() == durations(table).tolist() == []


@settings(deadline=None)
@given(STRETCHES, st.integers(-1, 40), st.integers(0, 40), st.booleans())
def test_a_part_of_the_table_has_the_steps_that_started_in_it(
    stretches: list[tuple[int, int, int, int]], begin_ns: int, more_ns: int, to_the_end: bool
) -> None:
    """Whatever stretch an edge falls into: the same numbers, starts and ends as by choosing among single steps."""
    table, single = modelled_table(stretches)
    end_ns = None if to_the_end else begin_ns + more_ns
    part = started_between(table, begin_ns, end_ns)
    inside = [
        at for at, (start, _) in enumerate(single)
        if start // 1000 >= begin_ns and (end_ns is None or start // 1000 < end_ns)
    ]  # fmt: skip
    named = [
        step + at for step, count in zip(part["step"], part["n_steps"], strict=True) for at in range(int(count))
    ]
    assert named == inside
    assert int(durations(part).sum()) == sum(single[at][1] - single[at][0] for at in inside)
    if inside:
        assert step_starts_ns(part, int64(inside)).tolist() == [single[at][0] // 1000 for at in inside]


def test_a_part_of_a_table_of_another_clock_is_whole_steps() -> None:
    """A step that started before the edge belongs to what was before."""
    table: Table = {"step": int64([4, 5, 6]), "n_steps": int64([1, 1, 1]), "start_ns": int64([10, 30, 90]),
                    "end_ns": int64([20, 80, 95])}  # fmt: skip
    assert started_between(table, 11, 90)["step"].tolist() == [5]
    assert started_between(table, 30, 91)["step"].tolist() == [5, 6]
    assert started_between(table, 91, None)["step"].tolist() == []
