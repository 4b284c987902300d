"""Streams read in slices: however the reads are cut and taken together, one reply."""

from itertools import accumulate, pairwise

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from results.status import Status
from targets.apis.openai_chat import OpenAiChat
from targets.target import Reply
from targets.transport.reading import StreamReading
from targets.transport.transcript import Transcript

TEXTS = st.text(max_size=4) | st.sampled_from(['"', "\\", 'a","b', "\n", "é", "", 'data: {"content":"x"}'])
OTHER_KINDS = ["role", "finish", "other", "reasoning", "ids", "[DONE]", "named", "note", "begun"]
KINDS = st.sampled_from(["plain"] * 24 + OTHER_KINDS)

OTHERS = {"[DONE]": b"data: [DONE]\n\n", "note": b": nothing\n\n", "begun": b"event: error\n"}


def lines_of(kind: str, text: str) -> bytes:
    """One event of a chat completion as it stands in a stream."""
    if kind in OTHERS:
        return OTHERS[kind]
    delta = {"role": {"role": "assistant"}, "reasoning": {"reasoning": text}, "finish": {}}.get(kind, {"content": text})
    choice: dict[str, object] = {"delta": delta, "finish_reason": "length" if kind == "finish" else None}
    if kind == "ids":
        choice["token_ids"] = [1, 2]
    data = orjson.dumps({"id": "another" if kind == "other" else "x", "choices": [choice]})
    return (b"event: message\n" if kind == "named" else b"") + b"data: " + data + b"\n\n"


def read(pieces: list[bytes], at_once: int) -> tuple[Reply, bool]:
    """Piece k arrives at 100 + k; so many are looked at together."""
    transcript = Transcript(Reply(0, Status.OK), OpenAiChat())
    reading = StreamReading(transcript, "sse", None)
    reading.add([100 + at for at in range(len(pieces))], pieces)
    while reading.read_some(at_once):
        pass
    transcript.close()
    return transcript.reply, transcript.marked_end


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(KINDS, TEXTS), min_size=1, max_size=60), st.integers(9, 70))
def test_reads_of_one_event_each_taken_together_are_those_taken_one_by_one(
    events: list[tuple[str, str]], at_once: int
) -> None:
    """Whatever stands among them and in their texts."""
    pieces = [lines_of(*one) for one in events]
    assert read(pieces, at_once) == read(pieces, 1)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(KINDS, TEXTS), min_size=20, max_size=40), st.sets(st.integers(1, 5_000), max_size=4))
def test_cuts_in_the_middle_change_only_times(events: list[tuple[str, str]], at: set[int]) -> None:
    """A few reads that end within an event, or join two, among many that are one each."""
    wire = b"".join(lines_of(*one) for one in events)
    ends = set(accumulate(len(lines_of(*one)) for one in events))
    places = sorted({0, len(wire), *(ends ^ {place for place in at if place < len(wire)})})
    pieces = [wire[begin:end] for begin, end in pairwise(places)]
    assert read(pieces, len(pieces)) == read(pieces, 1)
    assert read(pieces, len(pieces))[0].text == read([wire], 1)[0].text


@pytest.mark.parametrize("first", [[], ["plain"] * 10])
def test_an_event_begun_in_the_read_before_is_no_part_of_a_run(first: list[str]) -> None:
    """What follows a name belongs to it, though it looks like those after it."""
    pieces = [lines_of(kind, "a") for kind in [*first, "begun", *["plain"] * 20]]
    reply, _ = read(pieces, len(pieces))
    assert reply.event_t_ns.tolist() == [100 + at for at in range(len(pieces)) if at - len(first) not in (0, 1)]
    assert reply.answer_ns == reply.event_t_ns[0]
    assert (reply, False) == read(pieces, 1)


@pytest.mark.parametrize("kind", OTHER_KINDS)
@pytest.mark.parametrize("first", [0, 1, 10])
def test_one_event_of_another_kind_before_a_run(kind: str, first: int) -> None:
    """What it tells holds for the run: that tokens are counted, or that nothing counts any more."""
    pieces = [lines_of(one, "a") for one in [*["plain"] * first, kind, *["plain"] * 20]]
    assert read(pieces, len(pieces)) == read(pieces, 1)
