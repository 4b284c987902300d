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
    return plain_run(data, MARK, read_data)


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

    assert plain_run([chunk(text) for text in "abcdefghij"], MARK, counting) is not None
    assert len(parsed) == 1
