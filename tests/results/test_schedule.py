"""The schedule: columns that fit together, one hash of their bytes, and a file that gives back both."""

import hashlib
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from results.columns import NULL, Int64, int64
from results.schedule import HASHED_COLUMNS, MEASURE, PHASES, Schedule, load_schedule, make_schedule, save_schedule

SMALL = st.integers(0, 10**12)
TOKENS = st.integers(1, 5_000)


def example() -> Schedule:
    """Two sessions of two turns: requests 2 and 3 wait for others."""
    return make_schedule(
        [0, 5, NULL, NULL], [10, 20, 30, 40], [1, 2, 3, 4],
        after=[(), (), (0,), (1, 2)], think_ns=[NULL, NULL, 7, 0], session=[0, 1, 0, 1], turn=[0, 0, 1, 1],
        request_class=[0, 1, 0, 1], class_names=("short", "long"), recipe={"prompt": {"seed": 7}},
        origin={"process": "x"},
    )  # fmt: skip


@st.composite
def schedules(draw: st.DrawFn) -> Schedule:
    """Any schedule: some requests have a due time, the others wait for earlier ones."""
    rows = draw(st.integers(0, 8))
    waits = [draw(st.booleans()) and row > 0 for row in range(rows)]
    due = sorted(draw(st.lists(SMALL, min_size=rows - sum(waits), max_size=rows - sum(waits))))
    times = iter(due)
    lists = st.lists
    after = [
        sorted(draw(st.sets(st.integers(0, row - 1), min_size=1, max_size=3))) if wait else []
        for row, wait in enumerate(waits)
    ]
    labels = lists(st.one_of(st.just(NULL), st.integers(0, 9)), min_size=rows, max_size=rows)
    return make_schedule(
        [NULL if wait else next(times) for wait in waits],
        draw(lists(TOKENS, min_size=rows, max_size=rows)),
        draw(lists(TOKENS, min_size=rows, max_size=rows)),
        after=after,
        think_ns=[draw(SMALL) if wait else NULL for wait in waits],
        session=draw(labels),
        turn=draw(labels),
        request_class=draw(lists(st.integers(0, 1), min_size=rows, max_size=rows)),
        class_names=draw(st.sampled_from([("a", "b"), ("default", "ünïcode class")])),
        recipe=draw(st.dictionaries(st.text(max_size=5), st.integers(), max_size=2)),
        origin=draw(st.dictionaries(st.text(max_size=5), st.one_of(st.none(), st.floats(0, 1e9)), max_size=2)),
    )


def same(one: Schedule, other: Schedule) -> bool:
    """Whether every column and every word is equal."""
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in HASHED_COLUMNS) and (
        one.class_names, one.recipe, one.origin, one.sha256, one.content_sha256,
    ) == (other.class_names, other.recipe, other.origin, other.sha256, other.content_sha256)  # fmt: skip


def columns_of(schedule: Schedule) -> dict[str, Int64]:
    """Copies of the columns, to be changed."""
    return {name: getattr(schedule, name).copy() for name in HASHED_COLUMNS}


def refusal(**changed: Any) -> str:
    """Why the example is refused with these columns."""
    with pytest.raises(ValueError) as caught:
        replace(example(), **{**columns_of(example()), **changed})
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_the_hash_is_of_names_types_lengths_and_little_endian_bytes() -> None:
    """SHA-256 over `name|dtype|length|bytes` of the columns in a fixed order, the class names last."""
    digest = hashlib.sha256()
    order = ("due_ns", "after_offsets", "after_ids", "think_ns", "session", "turn", "request_class", "phase",
             "prompt_tokens", "output_tokens")  # fmt: skip
    for name in order:
        column = getattr(example(), name)
        digest.update(f"{name}|int64|{len(column)}|".encode() + column.astype("<i8").tobytes())
    digest.update(b"class_name|utf8|5|short" + b"class_name|utf8|4|long")
    assert example().sha256 == digest.hexdigest()


def test_the_hash_of_this_schedule_never_changes() -> None:
    """A golden hash: whoever changes it breaks the comparison with every run stored before."""
    assert make_schedule([0, 1, 1, 10**18], [1, 2, 3, 4], [5, 6, 7, 8]).sha256 == (
        "2ffe732ef14c21b6b1f33f0ac180e0c66cfe5dfeb33b9f26e46160c046ee95ba"
    )


@pytest.mark.parametrize(
    ("name", "row", "value"),
    [("due_ns", 1, 6), ("think_ns", 2, 8), ("session", 0, 5), ("turn", 3, 2), ("request_class", 0, 1), ("phase", 0, 0),
     ("prompt_tokens", 0, 11), ("output_tokens", 3, 5), ("after_ids", 0, 1)],
)  # fmt: skip
def test_every_column_is_in_the_hash(name: str, row: int, value: int) -> None:
    """One other value in any column is another schedule."""
    columns = columns_of(example())
    columns[name][row] = value
    assert replace(example(), **columns).sha256 != example().sha256


def test_who_waits_for_whom_is_in_the_hash() -> None:
    """The same ids cut into other lists, or one row less, are another schedule."""
    base = make_schedule(
        [0, 0, NULL, NULL], [1] * 4, [1] * 4, after=[(), (), (0, 1), (0,)], think_ns=[NULL, NULL, 0, 0]
    )
    other = make_schedule(
        [0, 0, NULL, NULL], [1] * 4, [1] * 4, after=[(), (), (0,), (1, 0)], think_ns=[NULL, NULL, 0, 0]
    )
    assert base.after_ids.tolist() == other.after_ids.tolist()
    assert base.sha256 != other.sha256
    assert make_schedule([0], [1], [1]).sha256 != make_schedule([0, 0], [1, 1], [1, 1]).sha256


def test_recipe_and_origin_are_outside_the_shape() -> None:
    """How prompts are drawn is content, where a schedule comes from is neither."""
    base = example()
    other_recipe = replace(base, **columns_of(base), recipe={"prompt": {"seed": 8}})
    other_origin = replace(base, **columns_of(base), origin={"process": "y", "rate_rps": 3.0})
    assert base.sha256 == other_recipe.sha256 == other_origin.sha256
    assert base.content_sha256 == other_origin.content_sha256 != other_recipe.content_sha256
    longer = make_schedule([0], [2], [1], recipe={"prompt": {"seed": 7}})
    assert longer.content_sha256 != base.content_sha256


def test_class_names_are_in_the_hash_one_by_one() -> None:
    """Other names, another order and names that only join to the same text are other schedules."""
    hashes = {
        make_schedule([0], [1], [1], class_names=names).sha256
        for names in (("a", "b"), ("b", "a"), ("a",), ("ab",), ("a\nb",))
    }
    assert len(hashes) == 5


def test_what_is_not_given_is_missing() -> None:
    """From due times and lengths alone: nobody waits, one class, all measured, the rest missing."""
    made = make_schedule(iter_free := [3, 4], [1, 1], [2, 2])
    assert made.due_ns.tolist() == iter_free
    assert len(made) == 2
    assert (made.think_ns == NULL).all()
    assert (made.session == NULL).all()
    assert (made.turn == NULL).all()
    assert made.request_class.tolist() == [0, 0]
    assert made.phase.tolist() == [MEASURE, MEASURE]
    assert PHASES == ("warmup", "fill", "measure", "cooldown")
    assert (made.class_names, made.recipe, made.origin) == (("default",), {}, {})
    assert [made.after(row).tolist() for row in range(2)] == [[], []]


def test_the_requests_waited_for_are_told_row_by_row() -> None:
    """`after` gives the ids that one request waits for."""
    assert [example().after(row).tolist() for row in range(4)] == [[], [], [0], [1, 2]]


def test_columns_cannot_be_written_to_and_are_not_the_callers() -> None:
    """A schedule is frozen: its arrays are read-only copies, and its fields cannot be set."""
    due = int64([1, 2])
    made = make_schedule(due, [1, 1], [1, 1])
    due[0] = 9
    assert made.due_ns.tolist() == [1, 2]
    for name in HASHED_COLUMNS:
        with pytest.raises(ValueError, match="read-only"):
            getattr(made, name)[:] = 0
    with pytest.raises(AttributeError):
        made.due_ns = due  # type: ignore[misc]


@settings(deadline=None)
@given(schedules())
def test_a_saved_schedule_comes_back_whole(schedule: Schedule) -> None:
    """Columns, class names, recipe, origin and hashes survive the file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "schedule.parquet"
        save_schedule(schedule, path)
        assert same(load_schedule(path), schedule)


def test_the_same_schedule_gives_the_same_bytes(tmp_path: Path) -> None:
    """Nothing of the moment or the machine is in the file."""
    save_schedule(example(), tmp_path / "one")
    save_schedule(example(), tmp_path / "two")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_the_file_is_read_by_others_with_null_for_missing(tmp_path: Path) -> None:
    """A notebook sees null where a request has no due time of its own, never the number that stands for it."""
    save_schedule(example(), tmp_path / "schedule.parquet")
    table = pq.read_table(tmp_path / "schedule.parquet").to_pydict()
    assert table["due_ns"] == [0, 5, None, None]
    assert table["think_ns"] == [None, None, 7, 0]
    assert table["after"] == [[], [], [0], [1, 2]]
    assert table["output_tokens"] == [1, 2, 3, 4]


@pytest.mark.parametrize("name", ["due_ns", "think_ns", "prompt_tokens", "output_tokens", "session", "phase"])
def test_a_changed_file_is_refused(tmp_path: Path, name: str) -> None:
    """A value that was changed in the file no longer fits the hash that stands in it."""
    path = tmp_path / "schedule.parquet"
    save_schedule(example(), path)
    table = pq.read_table(path)
    index = table.column_names.index(name)
    values = table.column(name).to_pylist()
    values[2 if name == "think_ns" else 1] = 2 if name == "phase" and values[1] != 2 else 6
    if name == "phase":
        values[1] = 0
    changed = table.set_column(index, name, pa.array(values, type=pa.int64()))
    pq.write_table(changed, path)
    with pytest.raises(ValueError, match="has been changed: its columns hash to") as caught:
        load_schedule(path)
    assert "\n" not in str(caught.value)


def test_changed_class_names_are_refused(tmp_path: Path) -> None:
    """The names of the classes are part of what is hashed."""
    path = tmp_path / "schedule.parquet"
    save_schedule(example(), path)
    table = pq.read_table(path)
    metadata = {**table.schema.metadata, b"class_names": b'["short", "longer"]'}
    pq.write_table(table.replace_schema_metadata(metadata), path)
    with pytest.raises(ValueError, match="has been changed"):
        load_schedule(path)


def _foreign(path: Path) -> None:
    pq.write_table(pa.table({"due_ns": [1, 2]}), path)


def _other_format(path: Path) -> None:
    pq.write_table(pa.table({"due_ns": [1]}).replace_schema_metadata({"format": "tokenload-schedule/0"}), path)


def _no_column(path: Path) -> None:
    save_schedule(example(), path)
    pq.write_table(pq.read_table(path).drop_columns(["turn"]), path)


def _no_metadata_of_one_kind(path: Path) -> None:
    save_schedule(example(), path)
    table = pq.read_table(path)
    metadata = {key: value for key, value in table.schema.metadata.items() if key != b"class_names"}
    pq.write_table(table.replace_schema_metadata(metadata), path)


def _text(path: Path) -> None:
    path.write_text("due_ns,prompt_tokens\n1,2\n")


def _cut(path: Path) -> None:
    save_schedule(example(), path)
    path.write_bytes(path.read_bytes()[:-20])


def _empty(path: Path) -> None:
    path.write_bytes(b"")


@pytest.mark.parametrize(
    "write",
    [_foreign, _other_format, _no_column, _no_metadata_of_one_kind, _text, _cut, _empty],
    ids=lambda one: one.__name__,
)
def test_what_is_no_schedule_is_refused_in_one_line(tmp_path: Path, write: Any) -> None:
    """Another program's Parquet file, a file without a column, a damaged file: ValueError in one line."""
    path = tmp_path / "some.parquet"
    write(path)
    with pytest.raises(ValueError) as caught:
        load_schedule(path)
    assert "\n" not in str(caught.value)


def test_due_or_waiting_but_not_both_and_not_neither() -> None:
    """A request has a due time of its own or waits for others."""
    message = "a request has either a due time or others that it waits for"
    assert refusal(due_ns=int64([0, 5, 6, NULL])) == message
    assert refusal(due_ns=int64([0, NULL, NULL, NULL])) == message
    assert refusal(after_offsets=int64([0, 0, 0, 1])) == message


def test_times_are_known_and_not_below_zero() -> None:
    """No due time and no think time of a follower is negative or missing."""
    message = "due and think times must be known and not below 0"
    assert refusal(due_ns=int64([-1, 5, NULL, NULL])) == message
    assert refusal(think_ns=int64([NULL, NULL, -7, 0])) == message
    assert refusal(think_ns=int64([NULL, NULL, NULL, 0])) == message


def test_due_times_do_not_fall() -> None:
    """Rows stand in the order of their due times, followers aside."""
    assert refusal(due_ns=int64([5, 4, NULL, NULL])) == "due times must not fall: sort the rows first"
    equal = make_schedule([1, 1, NULL, 1], [1] * 4, [1] * 4, after=[(), (), (0,), ()], think_ns=[NULL, NULL, 0, NULL])
    assert len(equal) == 4


@pytest.mark.parametrize("name", ["prompt_tokens", "output_tokens"])
@pytest.mark.parametrize("value", [0, -1, NULL])
def test_every_request_has_tokens(name: str, value: int) -> None:
    """A prompt and an output have at least one token, and both are known."""
    column = int64([1, value, 1, 1])
    assert refusal(**{name: column}) == "every request needs at least 1 prompt token and 1 output token"


@pytest.mark.parametrize("ids", [[2, 1, 2], [0, 3, 2], [0, 1, 4], [-1, 1, 2]])
def test_a_request_waits_only_for_earlier_ones(ids: list[int]) -> None:
    """No request waits for itself, a later one, or one that is not there."""
    assert refusal(after_ids=int64(ids)) == "a request can wait only for requests before it"


@pytest.mark.parametrize(
    "name", [name for name in HASHED_COLUMNS if not name.startswith("after_") and name != "due_ns"]
)
def test_columns_are_of_one_length(name: str) -> None:
    """A column of another length is named."""
    assert refusal(**{name: int64([1, 1])}) == f"column {name} has 2 rows, due_ns has 4"


def test_lists_of_followers_fit_their_offsets() -> None:
    """Offsets that do not cover the ids are refused, in one line."""
    refusal(after_ids=int64([0]))
    refusal(after_ids=int64([0, 1, 2, 2]))
    refusal(after_offsets=int64([1, 1, 1, 2, 4]))


@pytest.mark.parametrize(
    "changed",
    [
        {"request_class": int64([0, 2, 0, 0])},
        {"request_class": int64([0, -1, 0, 0])},
        {"phase": int64([4, 2, 2, 2])},
        {"phase": int64([NULL, 2, 2, 2])},
    ],
)
def test_class_and_phase_are_indices_into_their_names(changed: dict[str, Int64]) -> None:
    """A class or phase that has no name cannot be written into a table of names, and is refused."""
    refusal(**changed)


def test_an_empty_schedule_is_a_schedule() -> None:
    """No rows is no error: it has a hash of its own."""
    empty = make_schedule([], [], [])
    assert len(empty) == 0
    assert len(empty.sha256) == 64
