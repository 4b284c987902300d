"""Reading runs of events together: never another answer than reading each."""

from collections.abc import Sequence

import orjson
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from targets.api import Delta, PlainRun
from targets.apis.openai_reading import read_data
from targets.apis.plain_runs import SHORTEST_RUN, plain_run

MARK = b'"content":"'
ENOUGH = SHORTEST_RUN


def chunk(text: str, extra: str = "", before: str = "") -> bytes:
    """A chunk with the text written as it is."""
    return f'{{{before}"id":"r","choices":[{{"index":0,"delta":{{"content":"{text}"{extra}}}}}]}}'.encode()


def run_of(data: Sequence[bytes]) -> PlainRun | None:
    """What is found in these events."""
    return plain_run(data, MARK, read_data, b"", b"")


def answers(data: Sequence[bytes]) -> list[Delta | str | None]:
    """What reading each of them says, or that it refuses."""
    found: list[Delta | str | None] = []
    for one in data:
        try:
            found.append(read_data(one))
        except ValueError:
            found.append("refused")
    return found


TEXTS = st.text(max_size=4) | st.sampled_from(
    ['a\\"b', "\\", "\\u00e9", '","content":"x', 'a","b', "é", "\x00", "\n", "", "q", "r"]
)
EXTRAS = st.sampled_from(
    ["", ',"role":"assistant"', ',"content":"late"', ',"reasoning":"r"', '},"usage":{"completion_tokens":2']
)
BEFORES = st.sampled_from(["", '"content":"top",', '"note":"\\"content\\":\\"",', '"error":"x",', '"error":null,'])


@settings(deadline=None, max_examples=300)
@given(EXTRAS, BEFORES, st.lists(TEXTS, min_size=ENOUGH, max_size=2 * ENOUGH))
@example(',"content":"late"', "", ["a"] * ENOUGH)
@example("", '"content":"top",', ["a"] * ENOUGH)
@example("", "", ["a", "\\"] * ENOUGH)
@example("", "", ['a","b', "c\\"] * ENOUGH)
@example("", "", ["c\\", ',"d', *["e"] * 2 * ENOUGH])
def test_a_run_is_read_as_each_of_its_events(extra: str, before: str, texts: list[str]) -> None:
    """Whatever stands in the texts and around them: well formed or not, escaped or not."""
    data = [chunk(text, extra, before) for text in texts]
    run = run_of(data)
    if run is not None:
        told = [Delta(text, reply_id="r") for text in run.texts]
        assert told == answers(data[run.first : run.last]) and len(told) >= SHORTEST_RUN


@settings(deadline=None)
@given(st.lists(st.binary(max_size=6), min_size=ENOUGH, max_size=ENOUGH))
def test_raw_bytes_in_place_of_the_texts(texts: list[bytes]) -> None:
    """Control characters and bytes that are not UTF-8 are in no run."""
    data = [chunk("@").replace(b"@", text) for text in texts]
    run = run_of(data)
    assert run is None or [Delta(text, reply_id="r") for text in run.texts] == answers(data)


def test_a_run_ends_where_the_events_change() -> None:
    """A role before, a reason to finish after, another second of creation: each is outside."""
    plain = [chunk(str(number)) for number in range(ENOUGH)]
    others = [b'{"choices":[]}', chunk("x", "", '"created":8,'), b"[DONE]"]
    run = run_of([others[0], *plain, *others[1:]])
    assert run == PlainRun(1, 1 + ENOUGH, [str(number) for number in range(ENOUGH)])


def test_quotes_in_texts_do_not_end_a_run() -> None:
    """Code and speech are full of them, escaped as JSON has it."""
    texts = ['say "', "a", '"', "\\", '\\"', "b", "c", "d"]
    run = run_of([chunk(orjson.dumps(text).decode()[1:-1]) for text in texts])
    assert run == PlainRun(0, len(texts), texts)


@pytest.mark.parametrize("few", [0, 1, ENOUGH - 1])
def test_a_few_events_are_no_run(few: int) -> None:
    """Reading each is as cheap."""
    assert run_of([chunk("a")] * few) is None
    assert run_of([b"[DONE]"] * ENOUGH + [chunk("a")] * few + [b"[DONE]"] * ENOUGH) is None


def test_an_event_is_parsed_for_the_run_and_not_for_each() -> None:
    """One probe shows how all of them are read."""
    parsed: list[bytes] = []

    def counting(data: bytes) -> Delta | None:
        parsed.append(data)
        return read_data(data)

    assert plain_run([chunk(text) for text in "abcdefghij"], MARK, counting, b"", b"") is not None
    assert len(parsed) == 1


@settings(deadline=None)
@given(BEFORES, st.lists(TEXTS, min_size=ENOUGH, max_size=2 * ENOUGH))
def test_what_stands_around_the_events_changes_nothing(before: str, texts: list[str]) -> None:
    """A run in lines of a stream is the run in their data."""
    data = [chunk(text, "", before) for text in texts]
    lines = [b"data: " + one + b"\n\n" for one in data]
    assert plain_run(lines, MARK, read_data, b"data: ", b"\n\n") == run_of(data)


@pytest.mark.parametrize(
    "odd", [b'{"choices":[]}', chunk("x", "", '"created":8,'), chunk("x").replace(b'"r"', b'"s"'), b"[DONE]"]
)
def test_a_run_stops_at_another_event_among_them(odd: bytes) -> None:
    """One of the same length, too; where only the text is missing, there is no run at all."""
    plain = [chunk("x")] * ENOUGH
    assert run_of([*plain, *plain, odd, *plain]) == PlainRun(0, 2 * ENOUGH, ["x"] * 2 * ENOUGH)
    assert run_of([*plain, chunk(""), *plain]) is None


@pytest.mark.parametrize("head", [b": note\n", b"event: x\n", b"data: {}\n\n", b"data:", b"data: \r"])
def test_lines_that_are_more_than_one_event_are_no_run(head: bytes) -> None:
    """Neither a comment, a name or another event before it, nor another way to write the field."""
    lines = [head + b"data: " + chunk("a") + b"\n\n"] * ENOUGH
    assert plain_run(lines, MARK, read_data, b"data: ", b"\n\n") is None


@pytest.mark.parametrize(
    ("before", "event", "after"),
    [(b"other:", chunk("a"), b"\n\n"), (b"data: ", chunk("a"), b"\r\n"), (b"data: ", chunk("a"), b"\n"),
     (b"data: ", chunk("a").replace(b":[", b":\n["), b"\n\n"), (b"data: ", b"\r" + chunk("a"), b"\n\n")],
)  # fmt: skip
def test_other_lines_than_one_of_data_and_an_empty_one_are_no_run(before: bytes, event: bytes, after: bytes) -> None:
    """Another field, another end, no end yet, and JSON in several lines, of which one alone is the data."""
    assert plain_run([before + event + after] * ENOUGH, MARK, read_data, b"data: ", b"\n\n") is None


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
def test_a_line_end_inside_an_event_makes_no_run(end: bytes) -> None:
    """To a JSON reader it is a space; in a stream of events the line after it is another field."""
    lines = [b"data: " + chunk("a").replace(b',"choices"', b"," + end + b'"choices"') + b"\n\n"] * ENOUGH
    assert plain_run(lines, MARK, read_data, b"data: ", b"\n\n") is None
    assert plain_run([line[6:-2] for line in lines], MARK, read_data, b"", b"") is not None
