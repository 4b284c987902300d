"""The ledger of HTTP runs: whose token count counts, how a reply ended, and that nothing of it is lost on the way."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from results.columns import NULL
from results.recording import Recording, RecordingPart, empty_part, merge
from results.remote import (
    CHUNKS,
    ENGINE,
    REMOTE_COLUMNS,
    REMOTE_TEXT_COLUMNS,
    TOKEN_SOURCES,
    TOKENIZER,
    USAGE,
)
from results.status import Status
from results.store import INCOMPLETE, RunFolder, digest, load_run
from results.summary import summarise
from results.tables import read_tables, write_tables
from tests.results.streams import Stream, part_of, schedule_of, streamed

FREE = {"ignore_eos": False}
FIVE = (10, 20, 30, 40, 50)


def counts(recording: Recording) -> list[tuple[int, int, int]]:
    """(output tokens, source, streamed tokens) of every request."""
    names = ("output_tokens", "token_source", "streamed_tokens")
    return list(zip(*(recording.requests[name].tolist() for name in names), strict=True))


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        (Stream(FIVE, told={"told_output_tokens": 7, "counted_tokens": 6}), (7, USAGE, 7)),
        (Stream(FIVE, told={"counted_tokens": 6}), (6, TOKENIZER, 6)),
        (Stream(FIVE), (5, CHUNKS, 5)),
        (Stream([(10, 3), (20, 4)]), (7, CHUNKS, 7)),
        (Stream((), told={"told_output_tokens": 0}), (0, USAGE, 0)),
        (Stream(()), (0, NULL, 0)),
        (Stream(FIVE, told={"told_output_tokens": 905, "told_reasoning_tokens": 900}), (905, USAGE, 5)),
        (Stream(FIVE, told={"told_output_tokens": 5, "told_reasoning_tokens": 3, "reasoning_events": 3}),
         (5, USAGE, 5)),
        (Stream(FIVE, told={"counted_tokens": 5, "told_reasoning_tokens": 900}), (5, TOKENIZER, 5)),
        (Stream(FIVE, told={"told_output_tokens": 5, "told_reasoning_tokens": 9}), (5, USAGE, 0)),
    ],
    ids=["usage", "tokenizer", "chunks", "chunks that tell", "usage of none", "nothing", "hidden reasoning",
         "streamed reasoning", "a tokenizer counts what was streamed", "more hidden than counted"],
)  # fmt: skip
def test_who_counts_the_tokens(stream: Stream, expected: tuple[int, int, int]) -> None:
    """Usage, else a tokenizer, else the events; what was counted and never sent does not count as streamed."""
    assert counts(streamed(stream)) == [expected]


@pytest.mark.parametrize(
    ("stream", "status"),
    [
        (Stream(FIVE, asked=5, told={"told_output_tokens": 5}), Status.OK),
        (Stream(FIVE, asked=6, told={"told_output_tokens": 5}), Status.WRONG_LENGTH),
        (Stream(FIVE, asked=5, told={"told_output_tokens": 6}), Status.WRONG_LENGTH),
        (Stream(FIVE, asked=8, told={"told_output_tokens": 8}), Status.OK),
        (Stream(FIVE, asked=7, told={"counted_tokens": 5}), Status.OK),
        (Stream(FIVE, asked=8, told={"counted_tokens": 5}), Status.WRONG_LENGTH),
        (Stream(FIVE, asked=200, told={"counted_tokens": 196}), Status.OK),
        (Stream(FIVE, asked=200, told={"counted_tokens": 195}), Status.WRONG_LENGTH),
        (Stream(FIVE, asked=20), Status.OK),
        (Stream(FIVE, asked=20, finish_reason="stop"), Status.WRONG_LENGTH),
        (Stream(FIVE, asked=20, finish_reason=None), Status.WRONG_LENGTH),
        (Stream(FIVE, asked=3), Status.OK),
        (Stream(FIVE, asked=2), Status.WRONG_LENGTH),
        (Stream((), asked=5), Status.EMPTY),
        (Stream((), asked=5, told={"told_output_tokens": 5}, finish_reason="stop"), Status.EMPTY),
        (Stream((), asked=5, told={"told_output_tokens": 5}), Status.BUDGET_SPENT_HIDDEN),
        (Stream((), asked=5, status=Status.SHED, told={"told_output_tokens": 5}), Status.SHED),
        (Stream(FIVE, asked=9, status=Status.TRUNCATED), Status.TRUNCATED),
    ],
)  # fmt: skip
def test_how_a_reply_ended_by_itself(stream: Stream, status: Status) -> None:
    """Usage decides exactly, a tokenizer within 2 tokens or 2 %, chunks only where they cannot be the whole truth."""
    assert streamed(stream).requests["status"].tolist() == [status]


def test_where_lengths_are_not_pinned_any_length_is_right() -> None:
    """With ignore_eos off a shorter reply is a reply, and an empty one is still empty."""
    recording = streamed(Stream(FIVE, asked=9), Stream((), asked=9), sampling=FREE)
    assert recording.requests["status"].tolist() == [Status.OK, Status.EMPTY]


def test_an_engines_tokens_are_counted_by_the_engine() -> None:
    """Where deliveries come from steps the source is the engine, and there is nothing hidden to take off."""
    tables = {**empty_part().tables, **{name: part_of({0: Stream()}).tables[name] for name in ("requests", "flight")}}
    tables["tokens"] = {"request_id": np.array([0]), "step": np.array([0]), "tokens": np.array([3])}
    requests = merge(schedule_of([Stream(asked=3)]), [RecordingPart(tables)]).requests
    assert (requests["output_tokens"].tolist(), requests["token_source"].tolist()) == ([3], [ENGINE])
    assert "streamed_tokens" not in requests


STREAMS = [
    Stream(FIVE, told={"connected_ns": 1, "told_output_tokens": 5, "reply_id": "a-1", "content_encoding": "gzip"}),
    Stream([(70, 2), (75, 1)], due_ns=60, told={"connect_ns": 3, "connection_reused": 0, "output_sha256": "0f"}),
    Stream((), due_ns=61, status=Status.TRANSPORT_ERROR, error="refused", finish_reason=None, end_ns=64),
    Stream((), due_ns=70, status=None, asked=4),
]


def test_every_column_of_the_parts_is_kept() -> None:
    """Columns of the wire stand in the requests table; NULL or none for a request that no part tells of."""
    requests = streamed(*STREAMS).requests
    assert set(requests) >= {*REMOTE_COLUMNS, *REMOTE_TEXT_COLUMNS}
    assert requests["connected_ns"].tolist() == [1, NULL, NULL, NULL]
    assert requests["connection_reused"].tolist() == [NULL, 0, NULL, NULL]
    assert requests["reply_id"].tolist() == ["a-1", None, None, None]
    assert requests["resends"].tolist() == [0, 0, 0, NULL]
    assert requests["status"].tolist() == [
        Status.OK, Status.OK, Status.TRANSPORT_ERROR, Status.NOT_DISPATCHED
    ]  # fmt: skip


def test_a_column_that_only_one_part_has_is_missing_in_the_others() -> None:
    """Workers that tell different columns merge into all of them."""
    one, other = part_of({0: STREAMS[0]}), part_of({1: STREAMS[1]})
    less = {name: rows for name, rows in other.tables["requests"].items() if name not in ("resends", "reply_id")}
    merged = merge(schedule_of(STREAMS[:2]), [one, RecordingPart({**other.tables, "requests": less})]).requests
    assert merged["resends"].tolist() == [0, NULL]
    assert merged["reply_id"].tolist() == ["a-1", None]


def same(one: Recording, other: Recording) -> None:
    """Fails when any column, time or count differs."""
    assert one.requests.keys() == other.requests.keys()
    for name in one.requests:
        assert one.requests[name].tolist() == other.requests[name].tolist(), name
    for name in ("token_offsets", "token_t_ns", "token_count", "token_ids"):
        assert getattr(one, name).tolist() == getattr(other, name).tolist(), name
    assert one.token_step is None
    assert one.in_flight_request_ns == other.in_flight_request_ns
    assert json.dumps(summarise(one), sort_keys=True) == json.dumps(summarise(other), sort_keys=True)


@pytest.mark.parametrize(
    "shares", [[(0, 1, 2)], [(0, 2), (1,)], [(1,), (2, 0)], [(2,), (), (0,), (1,)]], ids=["1", "2", "2 turned", "4"]
)
def test_any_number_of_workers_is_one_recording(shares: list[tuple[int, ...]]) -> None:
    """Rows of 1, 2 or 4 workers in any order, one without a row among them, give the same columns and summary."""
    parts = [part_of({row: STREAMS[row] for row in share}) for share in shares]
    same(streamed(*STREAMS), merge(schedule_of(STREAMS), parts))
    same(streamed(*STREAMS), merge(schedule_of(STREAMS), [empty_part(), *parts]))


def test_events_of_one_request_told_in_two_parts_stand_in_their_order() -> None:
    """Events that were emitted before the reply's end are sorted by time with the later ones."""
    early = part_of({0: Stream((10, 20), status=None)})
    early.tables["flight"]["until_ns"][:] = 99
    late = part_of({0: Stream((30, 40), asked=4)})
    for parts in ([early, late], [late, early]):
        recording = merge(schedule_of([Stream(asked=4)]), parts)
        assert recording.token_t_ns is not None
        assert recording.token_t_ns.tolist() == [10, 20, 30, 40]


def test_a_run_in_which_nothing_came_is_a_streamed_one() -> None:
    """Without an event the recording still has times in place of steps, and failures keep their rows."""
    recording = streamed(STREAMS[2])
    assert recording.token_step is None
    assert recording.token_t_ns is not None
    assert counts(recording) == [(0, NULL, 0)]


def test_the_tables_give_back_what_was_written(tmp_path: Path) -> None:
    """Every column survives the Parquet files; missing is null, sources and states are names, texts are strings."""
    recording = streamed(*STREAMS)
    write_tables(recording, tmp_path)
    same(recording, read_tables(recording.schedule, tmp_path, recording.in_flight_request_ns))
    rows = pq.read_table(tmp_path / "requests.parquet").to_pydict()
    assert rows["token_source"] == [TOKEN_SOURCES[USAGE], TOKEN_SOURCES[CHUNKS], None, None]
    assert rows["content_encoding"] == ["gzip", None, None, None]
    assert rows["connected_ns"] == [1, None, None, None]
    assert pq.read_table(tmp_path / "tokens.parquet").to_pydict()["t_ns"] == [list(FIVE), [70, 75], [], []]


def test_the_digest_is_of_what_came_whoever_tells_of_it() -> None:
    """Times, ids and headers of a reply are not in the digest; its tokens and its status are."""
    plain = streamed(Stream(FIVE, told={"told_output_tokens": 5}))
    later = Stream((11, 21, 31, 41, 51), told={"reply_id": "x", "told_output_tokens": 5})
    assert digest(streamed(later)) == digest(plain)
    assert digest(streamed(Stream(FIVE, asked=5, told={"told_output_tokens": 6}))) != digest(plain)


def killed(folder: Path, parts: list[RecordingPart], cut: Callable[[Path], None] | None = None) -> Any:
    """A run whose process died after these parts."""
    run_folder = RunFolder(folder, schedule_of(STREAMS), {})
    with run_folder.writer() as writer:
        for one in parts:
            writer.write(one)
    if cut:
        cut(folder / "parts")
    return load_run(folder)


def test_a_killed_run_is_read_from_its_parts(tmp_path: Path) -> None:
    """Whatever had reached the kernel is there; what was due by the last sign of life and has no end is unfinished."""
    run = killed(tmp_path / "run", [part_of({0: STREAMS[0]}), part_of({1: STREAMS[1]})])
    assert run.label == INCOMPLETE
    statuses = [Status.OK, Status.OK, Status.UNFINISHED, Status.UNFINISHED]
    assert run.recording.requests["status"].tolist() == statuses
    assert run.recording.stopped_ns == 75
    assert run.recording.token_t_ns.tolist() == [*FIVE, 70, 75]
    assert run.recording.requests["reply_id"].tolist() == ["a-1", None, None, None]


def test_what_was_not_yet_due_when_the_process_died_was_not_sent(tmp_path: Path) -> None:
    """The run reached as far as its latest event, end or count of requests in flight."""
    run = killed(tmp_path / "run", [part_of({0: STREAMS[0]})])
    assert run.recording.stopped_ns == 50
    assert run.recording.requests["status"].tolist() == [Status.OK, *[Status.NOT_DISPATCHED] * 3]


def test_a_quiet_run_reached_as_far_as_its_driver_had_counted(tmp_path: Path) -> None:
    """While nothing comes the count of requests in flight goes on: what became due in that time is unfinished."""
    quiet = part_of({0: STREAMS[0]})
    quiet.tables["flight"]["until_ns"][:] = 65
    recording = killed(tmp_path / "run", [quiet]).recording
    assert recording.stopped_ns == 65
    statuses = [Status.OK, Status.UNFINISHED, Status.UNFINISHED, Status.NOT_DISPATCHED]
    assert recording.requests["status"].tolist() == statuses


@pytest.mark.parametrize("lost", ["tokens", "requests"])
def test_a_killed_run_without_one_of_its_streams_is_readable(tmp_path: Path, lost: str) -> None:
    """A process that died before the first event, or before the first end, leaves a run all the same."""

    def drop(parts: Path) -> None:
        (parts / f"0000-{lost}.arrows").unlink()

    recording = killed(tmp_path / "run", [part_of({0: STREAMS[0]})], drop).recording
    assert recording.token_t_ns is not None
    assert len(recording.token_t_ns) == (0 if lost == "tokens" else 5)
    assert recording.stopped_ns == 50
