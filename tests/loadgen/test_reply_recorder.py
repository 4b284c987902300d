"""Replies as columns."""

from array import array

import numpy as np

from loadgen.reply_recorder import PAUSE_EVERY_REPLIES, ReplyRecorder
from results.columns import NULL
from results.recording import RecordingPart
from results.status import Status
from targets.target import Reply


def kept_replies(replies: int) -> ReplyRecorder:
    """Some replies of two tokens each."""
    recorder = ReplyRecorder(1_000, len)
    for at in range(replies):
        times = array("q", [2_000 + at, 3_000 + at])
        recorder.reply(Reply(at, Status.OK, sent_ns=1_500, event_t_ns=times, text=f"a {at}"), at, at + 1)
    return recorder


def same(one: RecordingPart, other: RecordingPart) -> bool:
    """Whether every column of every table is equal."""
    return one.tables.keys() == other.tables.keys() and all(
        columns.keys() == other.tables[name].keys()
        and all(np.array_equal(column, other.tables[name][key]) for key, column in columns.items())
        for name, columns in one.tables.items()
    )


def test_pauses_change_nothing_and_come_often() -> None:
    """Between columns, and among the replies of those that are computed."""
    replies = 3 * PAUSE_EVERY_REPLIES
    pauses: list[None] = []
    kept = kept_replies(replies).take(9_000, 0)
    part = kept.part(lambda: pauses.append(None))
    assert same(part, kept.part())
    assert part.tables["requests"]["request_id"].tolist() == list(range(replies))
    assert part.tables["requests"]["counted_tokens"].tolist() == [len(f"a {at}") for at in range(replies)]
    assert len(pauses) > 2 * replies // PAUSE_EVERY_REPLIES + 10


def test_times_are_on_the_axis_of_the_run() -> None:
    """And those that were not reached stay null."""
    part = kept_replies(1).take(9_000, 5).part()
    assert part.tables["requests"]["handed_ns"].tolist() == [500]
    assert part.tables["requests"]["header_ns"].tolist() == [NULL]
    assert part.tables["tokens"]["t_ns"].tolist() == [1_000, 2_000]
