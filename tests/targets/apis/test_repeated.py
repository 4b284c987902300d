"""Reading what repeats without parsing it: never another answer than parsing gives."""

from typing import Any

import orjson
from hypothesis import example, given, settings
from hypothesis import strategies as st

from targets.api import Delta
from targets.apis.openai_reading import read_data
from targets.apis.repeated import MOST_FRAMES, Repeated

MARK = b'"content":"'


def answer(read: Any, data: bytes) -> Delta | str | None:
    """What a reader says, or that it refuses."""
    try:
        found: Delta | None = read(data)
    except ValueError:
        return "refused"
    return found


def chunk(text: str, extra: str = "", before: str = "") -> bytes:
    """A chunk with the text written as it is."""
    return f'{{{before}"id":"r","choices":[{{"index":0,"delta":{{"content":"{text}"{extra}}}}}]}}'.encode()


TEXTS = st.text(max_size=4) | st.sampled_from(['a\\"b', "\\", "\\u00e9", '","content":"x', "é", "\x00", "\n", ""])
EXTRAS = st.sampled_from(
    ["", ',"role":"assistant"', ',"content":"late"', ',"reasoning":"r"', '},"usage":{"completion_tokens":2']
)
BEFORES = st.sampled_from(["", '"content":"top",', '"note":"\\"content\\":\\"",', '"error":"x",', '"error":null,'])


@settings(deadline=None)
@given(st.lists(st.tuples(TEXTS, EXTRAS, BEFORES), min_size=3, max_size=12))
@example([("a", ',"content":"late"', "")] * 3 + [("b", ',"content":"late"', "")])
@example([("a", "", '"content":"top",')] * 3 + [("b", "", '"content":"top",')])
def test_it_answers_as_parsing_does(parts: list[tuple[str, str, str]]) -> None:
    """Events that share their frame or not, well formed or not, are read as a parser reads each of them."""
    repeated = Repeated(MARK, read_data)
    for data in [chunk(*part) for part in parts for _ in range(3)]:
        assert answer(repeated.read, data) == answer(read_data, data)


@settings(deadline=None)
@given(st.lists(st.binary(max_size=12), min_size=2, max_size=6))
def test_raw_bytes_in_place_of_the_text(texts: list[bytes]) -> None:
    """Control characters and bytes that are not UTF-8 are refused inside a known frame as outside it."""
    repeated = Repeated(MARK, read_data)
    for data in [chunk("a")] * 3 + [chunk("@").replace(b"@", text) for text in texts]:
        assert answer(repeated.read, data) == answer(read_data, data)


def test_a_known_frame_is_not_parsed_again() -> None:
    """The third event of a frame costs no parse: the first two and one probe do."""
    parsed = []

    def counting(data: bytes) -> Delta | None:
        parsed.append(data)
        return read_data(data)

    repeated = Repeated(MARK, counting)
    assert [repeated.read(chunk(text)) for text in "abcde"] == [Delta(text, reply_id="r") for text in "abcde"]
    assert len(parsed) == 3


def test_what_is_kept_is_bounded() -> None:
    """Servers whose events never repeat, or repeat at length, do not fill the memory."""
    repeated = Repeated(MARK, read_data)
    for number in range(3 * MOST_FRAMES):
        for _ in range(2):
            repeated.read(orjson.dumps({"id": str(number), "choices": [{"delta": {"content": "a"}}]}))
    for _ in range(3):
        repeated.read(chunk("a", before=f'"note":"{"x" * 10_000}",'))
    assert max(len(repeated._seen), len(repeated._frames)) <= MOST_FRAMES
    assert max(map(len, repeated._frames)) < 100
