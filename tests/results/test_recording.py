"""Parts and their merge: every scheduled request comes out exactly once, whatever was told of it."""

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from results.columns import NULL, Table, int64
from results.recording import PART_TABLES, TEXT_COLUMNS, Recording, RecordingPart, SlotEvent, empty_part, merge
from results.schedule import Schedule, make_schedule
from results.status import Status

STEPS_A_PART = 3


def part(**rows: Sequence[Sequence[Any]]) -> RecordingPart:
    """A part from rows, table by table, in the order of the columns; steps end with start_ns and end_ns."""
    tables = {}
    for name, columns in PART_TABLES.items():
        names = (*columns, "start_ns", "end_ns") if name == "steps" else columns
        told = [[*row, *[0] * (len(names) - len(row))] for row in rows.get(name, ())]
        tables[name] = {column: _column(column, [row[at] for row in told]) for at, column in enumerate(names)}
    return RecordingPart(tables)


def _column(name: str, values: list[Any]) -> Any:
    return np.array(values, dtype=object) if name in TEXT_COLUMNS else int64(values)


def request(request_id: int, end_ns: int, status: Status = Status.OK, error: str | None = None) -> tuple[Any, ...]:
    """A row of the requests table."""
    return request_id, 10 * request_id, 10 * request_id + 1, end_ns, status, "length", error


def plain(rows: int) -> Schedule:
    """Requests 10 ns apart that ask for 2 tokens each."""
    return make_schedule([10 * row for row in range(rows)], [3] * rows, [2] * rows)


def same(one: Recording, other: Recording, *leave: str) -> None:
    """Fails when any column differs."""
    for name in ("requests", "steps", "host"):
        if name not in leave:
            mine, others = getattr(one, name), getattr(other, name)
            assert mine.keys() == others.keys()
            for column in mine:
                assert mine[column].tolist() == others[column].tolist(), (name, column)
    for name in ("token_offsets", "token_step", "token_count", "token_ids"):
        assert getattr(one, name).tolist() == getattr(other, name).tolist(), name
    assert one.in_flight_request_ns == other.in_flight_request_ns


def test_every_scheduled_request_comes_out_once_in_the_order_of_ids() -> None:
    """Rows told in any order come out sorted; those nobody told of are not_dispatched at their scheduled time."""
    recording = merge(plain(4), [part(requests=[request(3, 90), request(1, 50, Status.CANCELLED, "why")])])
    assert recording.requests["request_id"].tolist() == [0, 1, 2, 3]
    assert recording.requests["status"].tolist() == [
        Status.NOT_DISPATCHED, Status.CANCELLED, Status.NOT_DISPATCHED, Status.EMPTY,
    ]  # fmt: skip
    assert recording.requests["due_ns"].tolist() == [0, 10, 20, 30]
    assert recording.requests["end_ns"].tolist() == [NULL, 50, NULL, 90]
    assert recording.requests["handed_ns"].tolist() == [NULL, 11, NULL, 31]
    assert recording.requests["error"].tolist() == [None, "why", None, None]
    assert recording.requests["finish_reason"].tolist() == [None, "length", None, "length"]


def test_what_was_asked_stands_beside_what_was_received() -> None:
    """Prompt, output asked, phase, session, turn and class of the schedule are columns of the requests."""
    schedule = make_schedule([0, 5], [3, 4], [1, 2], session=[7, 8], turn=[0, 1], request_class=[1, 0],
                             class_names=("a", "b"))  # fmt: skip
    requests = merge(schedule, []).requests
    assert requests["prompt_tokens"].tolist() == [3, 4]
    assert requests["output_tokens_asked"].tolist() == [1, 2]
    assert requests["output_tokens"].tolist() == [0, 0]
    assert (requests["session"].tolist(), requests["turn"].tolist()) == ([7, 8], [0, 1])
    assert requests["request_class"].tolist() == [1, 0]
    assert requests["phase"].tolist() == [2, 2]


def test_a_request_told_of_twice_counts_as_first_told() -> None:
    """Of two rows with one id the first stands, whole."""
    first, second = request(0, 40, Status.TIMEOUT_TOTAL, "first"), request(0, 60, Status.OK, "second")
    recording = merge(plain(1), [part(requests=[first], steps=[(0, 1)]), part(requests=[second], steps=[(1, 1)])])
    assert recording.requests["end_ns"].tolist() == [40]
    assert recording.requests["status"].tolist() == [Status.TIMEOUT_TOTAL]
    assert recording.requests["error"].tolist() == ["first"]


def test_a_followers_due_time_is_the_one_that_came_about() -> None:
    """The recording has the due time that resulted; the schedule's stays missing."""
    schedule = make_schedule([0, NULL], [1, 1], [1, 1], after=[(), (0,)], think_ns=[NULL, 5])
    recording = merge(schedule, [part(requests=[(1, 77, 78, 99, Status.OK, None, None)])])
    assert recording.requests["due_ns"].tolist() == [0, 77]
    assert recording.schedule.due_ns.tolist() == [0, NULL]
    assert merge(schedule, []).requests["due_ns"].tolist() == [0, NULL]


def test_slot_events_become_columns_of_the_requests() -> None:
    """Admitted step and slot, ended step and released step; missing where nothing was told."""
    events = [(1, SlotEvent.ADMITTED, 4, 2), (1, SlotEvent.ENDED, 6, NULL), (1, SlotEvent.RELEASED, 9, NULL),
              (0, SlotEvent.ADMITTED, 5, 0)]  # fmt: skip
    requests = merge(plain(3), [part(slot_events=events)]).requests
    assert requests["admitted_step"].tolist() == [5, 4, NULL]
    assert requests["slot"].tolist() == [0, 2, NULL]
    assert requests["ended_step"].tolist() == [NULL, 6, NULL]
    assert requests["released_step"].tolist() == [NULL, 9, NULL]


def test_tokens_and_their_ids_are_grouped_by_request() -> None:
    """Deliveries of a request stand together in the order of steps, and each keeps its own token ids."""
    tokens = [(1, 0, 2), (0, 0, 1), (1, 1, 1), (0, 2, 3)]
    ids = [[101], [102], [1], [103], [2], [3], [4]]
    recording = merge(plain(3), [part(tokens=tokens, token_ids=ids, steps=[(0, 1), (1, 1), (2, 1)])])
    assert recording.token_offsets.tolist() == [0, 2, 4, 4]
    assert recording.token_step is not None
    assert recording.token_step.tolist() == [0, 2, 0, 1]
    assert recording.token_t_ns is None
    assert recording.token_count.tolist() == [1, 3, 2, 1]
    assert recording.token_ids.tolist() == [1, 2, 3, 4, 101, 102, 103]
    assert recording.requests["output_tokens"].tolist() == [4, 3, 0]


def test_a_streaming_targets_tokens_keep_their_times() -> None:
    """Where parts hold t_ns in place of steps, the recording does."""
    one = part()
    tokens: Table = {"request_id": int64([0, 0]), "t_ns": int64([40, 60]), "tokens": int64([1, 1])}
    recording = merge(plain(1), [RecordingPart({**one.tables, "tokens": tokens})])
    assert recording.token_step is None
    assert recording.token_t_ns is not None
    assert recording.token_t_ns.tolist() == [40, 60]


@st.composite
def cut_up_runs(draw: st.DrawFn) -> tuple[Schedule, list[RecordingPart]]:
    """A run in parts of a few steps each, some of them without a step, each with a sample of the host."""
    rows = draw(st.integers(1, 6))
    parts, step, told = [], 0, 0
    for number in range(draw(st.integers(1, 5))):
        steps = draw(st.integers(0, STEPS_A_PART))
        tokens = [
            (request_id, step + at, draw(st.integers(1, 3)))
            for at in range(steps)
            for request_id in draw(st.lists(st.integers(0, rows - 1), unique=True, max_size=3))
        ]
        ends = min(draw(st.integers(0, 2)), rows - told)
        parts.append(
            part(
                steps=[(step + at, 1, 0, 0) for at in range(steps)],
                tokens=tokens,
                token_ids=[[draw(st.integers(0, 255))] for _, _, count in tokens for _ in range(count)],
                requests=[request(told + at, 100 * number) for at in range(ends)],
                slot_events=[(told + at, SlotEvent.ENDED, step, NULL) for at in range(ends)],
                host=[[1_000 * number]],
                flight=[[1_000 * number, draw(st.integers(0, 99))]],
            )
        )
        step, told = step + steps, told + ends
    return plain(rows), parts


@settings(deadline=None)
@given(cut_up_runs(), st.randoms(use_true_random=False))
def test_any_number_of_parts_in_any_order_is_one_recording(
    run: tuple[Schedule, list[RecordingPart]], chance: random.Random
) -> None:
    """Parts merged in any order, or as one, give the same requests, tokens and steps."""
    schedule, parts = run
    whole = merge(schedule, parts)
    shuffled = list(parts)
    chance.shuffle(shuffled)
    same(whole, merge(schedule, shuffled), "host")
    joined = {
        name: {column: np.concatenate([one.tables[name][column] for one in parts]) for column in parts[0].tables[name]}
        for name in PART_TABLES
    }
    same(whole, merge(schedule, [RecordingPart(joined)]), "host")


@settings(deadline=None)
@given(cut_up_runs(), st.randoms(use_true_random=False))
def test_samples_of_the_host_stay_in_the_order_of_time(
    run: tuple[Schedule, list[RecordingPart]], chance: random.Random
) -> None:
    """A part in which no step ran does not jump ahead of the others: host samples come out sorted by time."""
    schedule, parts = run
    chance.shuffle(parts)
    times = merge(schedule, parts).host["t_ns"].tolist()
    assert times == sorted(times)


@settings(deadline=None)
@given(cut_up_runs())
def test_nothing_is_lost_in_a_merge(run: tuple[Schedule, list[RecordingPart]]) -> None:
    """As many deliveries, tokens, ids, steps and in-flight time come out as went in."""
    schedule, parts = run
    recording = merge(schedule, parts)
    assert len(recording.token_count) == sum(len(one.tables["tokens"]["tokens"]) for one in parts)
    assert int(recording.token_count.sum()) == len(recording.token_ids)
    assert recording.steps["step"].tolist() == list(range(len(recording.steps["step"])))
    assert recording.in_flight_request_ns == sum(int(one.tables["flight"]["request_ns"].sum()) for one in parts)
    assert recording.token_offsets[0] == 0
    assert recording.token_offsets[-1] == len(recording.token_count)
    assert (np.diff(recording.token_offsets) >= 0).all()


def test_no_parts_are_a_run_in_which_nothing_was_sent() -> None:
    """Without a part every request is not_dispatched and every table is empty."""
    for parts in ([], [empty_part()]):
        recording = merge(plain(2), parts)
        assert recording.requests["status"].tolist() == [Status.NOT_DISPATCHED] * 2
        assert recording.token_offsets.tolist() == [0, 0, 0]
        assert len(recording.steps["step"]) == len(recording.host["t_ns"]) == 0
    assert len(merge(make_schedule([], [], []), []).requests["status"]) == 0


def test_an_empty_part_changes_nothing() -> None:
    """Merged with other parts in nanoseconds, a part without rows is as if it were not there."""
    told = part(requests=[request(0, 30)], steps=[(0, 1)], tokens=[(0, 0, 2)], host=[[5]])
    same(merge(plain(1), [told]), merge(plain(1), [told, empty_part()]))
