"""Columns: int64 arrays in which one value, the smallest, means missing."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from results.columns import NULL, concatenate, int64, is_null

INT64 = st.integers(-(2**63), 2**63 - 1)


@settings(deadline=None)
@given(st.lists(INT64))
def test_values_become_int64_unchanged(values: list[int]) -> None:
    """Lists, iterators and arrays of whole numbers all become the same int64 array, the extremes included."""
    for given_as in (values, iter(values), tuple(values), np.array(values, dtype=np.int64)):
        made = int64(given_as)
        assert made.dtype == np.int64
        assert made.tolist() == values


def test_an_int64_array_is_not_copied() -> None:
    """An array that is int64 already comes back as itself."""
    column = np.arange(3, dtype=np.int64)
    assert int64(column) is column
    assert int64(np.array([1.0, 2.0])).tolist() == [1, 2]


def test_missing_is_the_smallest_int64_alone() -> None:
    """Only NULL is missing; 0, -1 and the largest number are values."""
    assert NULL == -(2**63)
    column = int64([NULL, 0, -1, 2**63 - 1, NULL + 1])
    assert is_null(column).tolist() == [True, False, False, False, False]


@settings(deadline=None)
@given(st.lists(st.lists(INT64, max_size=5), min_size=1, max_size=5))
def test_tables_are_joined_in_order(parts: list[list[int]]) -> None:
    """Rows of several tables come out one after another, column by column."""
    tables = [{"a": int64(values), "b": int64(values)[::-1]} for values in parts]
    joined = concatenate(tables)
    assert joined["a"].tolist() == [value for values in parts for value in values]
    assert joined["b"].tolist() == [value for values in parts for value in reversed(values)]
