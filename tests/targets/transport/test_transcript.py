"""What the events of a reply add up to."""

from collections.abc import Mapping, Sequence
from itertools import repeat

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from results.columns import NULL
from results.status import Status
from targets.api import BodyOptions, Delta, Usage
from targets.apis.openai_chat import OpenAiChat
from targets.target import PlannedRequest, Reply
from targets.transport.transcript import Transcript
from targets.wire.events import TimedEvents


class Told:
    """An API whose events are numbers into a list of deltas; `x` is nothing it sends."""

    name, path, framing = "told", "/told", "sse"
    models_path: str | None = None

    def __init__(self, *deltas: Delta | None) -> None:
        self.deltas = deltas

    def body(self, request: PlannedRequest, options: BodyOptions) -> Mapping[str, object]:
        return {}

    def event(self, data: bytes, event_type: str) -> Delta | None:
        if data == b"x":
            raise ValueError("nothing it sends")
        return self.deltas[int(data)]

    def whole(self, body: bytes) -> Sequence[Delta]:
        return [delta for delta in self.deltas if delta is not None]


def read(*deltas: Delta | None, read_ids: Sequence[int] = (), slices: Sequence[int] = ()) -> tuple[Reply, Transcript]:
    """Event k arrives at 100 + k, in a read of its own unless told; in one slice unless told where each begins."""
    reply = Reply(1, Status.OK)
    transcript = Transcript(reply, Told(*deltas))
    ids = list(read_ids) or list(range(len(deltas)))
    for begin, end in zip([0, *slices], [*slices, len(deltas)], strict=True):
        some = range(begin, end)
        data = [str(at).encode() for at in some]
        transcript.read(TimedEvents([100 + at for at in some], ids[begin:end], data, [""] * len(data)))
    transcript.close()
    return reply, transcript


@pytest.mark.parametrize("slices", [(), (1,), (2, 4), (1, 2, 3, 4, 5)])
def test_only_events_with_text_bear_tokens(slices: Sequence[int]) -> None:
    """Role, usage and finish events do not, wherever the slices are cut; the text is the sum of theirs."""
    reply, transcript = read(
        Delta(reply_id="id"), Delta("a"), Delta(), Delta("b", finish_reason="length"), Delta(usage=Usage(2, 7, 3)),
        None, slices=slices,
    )  # fmt: skip
    assert reply.event_t_ns.tolist() == [101, 103] and reply.event_tokens is None
    assert (reply.text, reply.finish_reason, reply.reply_id) == ("ab", "length", "id")
    assert (reply.told_output_tokens, reply.told_prompt_tokens, reply.cached_tokens) == (2, 7, 3)
    assert reply.told_reasoning_tokens == NULL
    assert reply.answer_ns == 101 and transcript.marked_end


def test_reasoning_is_counted_and_the_answer_has_a_time_of_its_own() -> None:
    """The first event that is not reasoning."""
    reply, _ = read(Delta("hm", True), Delta("hm", True), Delta("so"), Delta("hm", True))
    assert (reply.reasoning_events, reply.answer_ns) == (3, 102)
    assert len(reply.event_t_ns) == 4
    assert read(Delta("hm", True))[0].answer_ns == NULL


@pytest.mark.parametrize("slices", [(), (1,), (2,), (3,)])
def test_tokens_are_counted_from_the_first_event_that_tells(slices: Sequence[int]) -> None:
    """Those that do not tell are taken as one, before it and after it."""
    reply, _ = read(Delta("a"), Delta("b", tokens=4), Delta(tokens=9), Delta("c"), Delta("d", tokens=2), slices=slices)
    assert reply.event_tokens is not None and reply.event_tokens.tolist() == [1, 4, 1, 2]


@pytest.mark.parametrize("slices", [(), (1,), (2,), (3,), (1, 2, 3)])
def test_reads_that_bore_tokens_are_counted_once(slices: Sequence[int]) -> None:
    """Also when the events of one read are looked at in two slices."""
    reply, _ = read(Delta("a"), Delta("b"), Delta("c"), Delta("d"), read_ids=[0, 3, 3, 5], slices=slices)
    assert reply.content_reads == 3


def test_nothing_counts_after_the_end_marker() -> None:
    """In the same slice or in a later one."""
    assert read(Delta("a"), None, Delta("b"))[0].text == "a"
    assert read(Delta("a"), None, Delta("b"), slices=(2,))[0].text == "a"


def test_the_last_usage_told_counts_field_by_field() -> None:
    """Some servers tell it with every event, some tell more at the end."""
    reply, _ = read(Delta("a", usage=Usage(1, 7)), Delta("b", usage=Usage(2, None, 4)))
    assert (reply.told_output_tokens, reply.told_prompt_tokens, reply.cached_tokens) == (2, 7, 4)


def test_the_first_fault_told_is_kept() -> None:
    """Whatever follows it."""
    assert read(Delta("a"), Delta(error="first"), Delta(error="second"))[1].error == "first"


def test_events_before_one_that_cannot_be_read_are_kept() -> None:
    """A partial row."""
    reply = Reply(1, Status.OK)
    transcript = Transcript(reply, Told(Delta("a"), Delta("b")))
    with pytest.raises(ValueError, match="nothing it sends"):
        transcript.read(TimedEvents([1, 2, 3], [0, 1, 2], [b"0", b"x", b"1"], ["", "", ""]))
    transcript.close()
    assert (reply.text, reply.event_t_ns.tolist()) == ("a", [1])


def test_a_whole_reply_has_one_time() -> None:
    """And one read."""
    reply = Reply(1, Status.OK)
    transcript = Transcript(reply, Told(Delta("a", reply_id="i"), Delta("b", finish_reason="stop", usage=Usage(2))))
    transcript.read_whole(55, b"")
    transcript.close()
    assert (reply.event_t_ns.tolist(), reply.content_reads, reply.text) == ([55, 55], 1, "ab")
    assert (reply.finish_reason, reply.told_output_tokens, reply.reply_id) == ("stop", 2, "i")


PIECES = st.one_of(
    st.text(max_size=4),
    st.sampled_from(['"', "\\", 'a","b', "\n", "é", ""]),
)
KINDS = st.sampled_from(["plain"] * 24 + ["role", "finish", "usage", "other", "reasoning", "ids", "[DONE]"])


def chunk_of(kind: str, text: str) -> bytes:
    """One event of a chat completion."""
    bears = {"role": {"role": "assistant"}, "reasoning": {"reasoning": text}, "finish": {}}
    delta = bears.get(kind, {"content": text})
    choice: dict[str, object] = {"index": 0, "delta": delta}
    choice["finish_reason"] = "length" if kind == "finish" else None
    if kind == "ids":
        choice["token_ids"] = [1, 2]
    usage = {"completion_tokens": 9} if kind == "usage" else None
    name = "another" if kind == "other" else "x"
    return b"[DONE]" if kind == "[DONE]" else orjson.dumps({"id": name, "choices": [choice], "usage": usage})


@settings(max_examples=400, deadline=None)
@given(st.lists(st.lists(st.tuples(KINDS, PIECES), min_size=1, max_size=60), max_size=4))
def test_events_read_together_are_those_read_one_by_one(slices: list[list[tuple[str, str]]]) -> None:
    """Whatever the texts hold, reading runs of plain events at once adds up to the same reply."""
    found = []
    for together in (True, False):
        transcript, at = Transcript(Reply(0, Status.OK), OpenAiChat()), 0
        if not together:
            transcript._plain_run = None
        for events in slices:
            data = [chunk_of(*one) for one in events]
            moments = list(range(at, at + len(data)))
            transcript.read(TimedEvents(moments, range(at, at + len(data)), data, repeat("message"), True))
            at += len(data)
        transcript.close()
        found.append((transcript.reply, transcript.marked_end))
    assert found[0] == found[1]
