"""The recorder's columns of a step's work."""

from loadgen.recorder import _work_columns
from results.columns import NULL
from results.slots import WORK_COLUMNS, StepWork


def test_counts_stand_in_the_columns_of_their_names() -> None:
    """Each count of a step's work lands in the column of its own name."""
    values = dict(zip(WORK_COLUMNS, range(100, 100 + len(WORK_COLUMNS)), strict=True))
    columns = _work_columns([StepWork(kind="mixed", **values)])
    assert dict(zip(WORK_COLUMNS, columns[:, 0].tolist(), strict=True)) == values


def test_what_was_not_told_is_missing() -> None:
    """A step without work, and a count left out, are null in every column concerned."""
    told = StepWork("decode", 0, 1, 0, 0, 0, 7, None, 0, 0, 9)
    columns = dict(zip(WORK_COLUMNS, _work_columns([told, None]).tolist(), strict=True))
    assert columns["waiting_requests"] == [NULL, NULL]
    assert columns["decoding_slots"] == [1, NULL]
