"""From token ids to text: valid at every moment, and the same however the tokens come."""

import codecs
import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from targets.serve.generated_text import GeneratedText, Piece

TOKENS = st.lists(st.integers(0, 259) | st.sampled_from(list("añ€😀".encode())), max_size=40)
CUTS = st.lists(st.integers(0, 40), max_size=8)
STOPS = st.lists(st.text("ab€\ufffd", min_size=1, max_size=4), max_size=3)


def cut(tokens: list[int], at: list[int]) -> list[list[int]]:
    """The tokens in deliveries."""
    edges = [0, *sorted(min(one, len(tokens)) for one in at), len(tokens)]
    return [tokens[low:high] for low, high in itertools.pairwise(edges)]


def say(text: GeneratedText, deliveries: list[list[int]]) -> list[Piece]:
    """Every piece to the last, as a reply would have them."""
    pieces = []
    for number, delivery in enumerate(deliveries):
        pieces.append(text.add(delivery, "length" if number == len(deliveries) - 1 else None))
        if pieces[-1].finish_reason is not None:
            break
    return pieces


def decoded(tokens: list[int]) -> str:
    """The plain decoding of all bytes."""
    return bytes(token for token in tokens if token < 256).decode("utf-8", "replace")


@settings(deadline=None)
@given(TOKENS, CUTS)
def test_pieces_join_to_the_plain_decoding(tokens: list[int], at: list[int]) -> None:
    """Whatever the cuts, every piece is valid text and together they are what all bytes decode to."""
    pieces = say(GeneratedText(), cut(tokens, at))
    assert all(piece.text.encode("utf-8").decode("utf-8") == piece.text for piece in pieces)
    assert "".join(piece.text for piece in pieces) == decoded(tokens)
    assert [token for piece in pieces for token in piece.token_ids] == tokens


def ended(tokens: list[int], stops: list[str]) -> tuple[str, int, str | None]:
    """Text, tokens and stop of a reply, by looking at all that is settled after each token."""
    decoder, text = codecs.getincrementaldecoder("utf-8")("replace"), ""
    for number, token in enumerate(tokens, start=1):
        text += decoder.decode(bytes([token]) if token < 256 else b"")
        found = sorted((text.find(stop), stop) for stop in stops if stop in text)
        if found:
            return text[: found[0][0]], number, found[0][1]
    return text + decoder.decode(b"", final=True), len(tokens), None


@settings(deadline=None)
@given(TOKENS, CUTS, STOPS)
def test_a_stop_string_ends_the_text_before_it(tokens: list[int], at: list[int], stops: list[str]) -> None:
    """The first token that completes a stop string is the last, and no part of the string is ever shown."""
    text = GeneratedText(stops)
    pieces = say(text, cut(tokens, at))
    expected, counted, stop = ended(tokens, stops)
    assert "".join(piece.text for piece in pieces) == expected
    assert (text.tokens, pieces[-1].stop_reason) == (counted, stop)
    assert pieces[-1].finish_reason == ("length" if stop is None else "stop")
    assert sum(len(piece.token_ids) for piece in pieces) == counted


def test_a_character_comes_with_its_last_byte() -> None:
    """Bytes of an unfinished character are held back, and what never ends comes out marked."""
    text = GeneratedText()
    assert [text.add([byte]).text for byte in "€".encode()] == ["", "", "€"]
    assert text.add([0xE2], "length").text == "\ufffd"


def test_what_may_begin_a_stop_string_is_held_back() -> None:
    """Characters that turn out not to be a stop string come with the one that says so."""
    text = GeneratedText(["END"])
    assert [text.add([ord(letter)]).text for letter in "xENx"] == ["x", "", "", "ENx"]
    assert text.add(list(b"EN"), "length").text == "EN"


def test_the_stop_string_that_begins_first_counts() -> None:
    """Of several in one delivery the text ends before the first, also where a later one is longer."""
    piece = GeneratedText(["cd", "abc"]).add(list(b"xabcd"), "length")
    assert (piece.text, piece.stop_reason, list(piece.token_ids)) == ("x", "abc", list(b"xabc"))


@pytest.mark.parametrize(("min_tokens", "said"), [(0, "ab"), (2, "ab"), (3, "abab"), (4, "abab"), (5, "ababab")])
def test_no_token_ends_a_reply_before_the_least_number(min_tokens: int, said: str) -> None:
    """An ending token is the last only from token number min_tokens on."""
    text = GeneratedText((), frozenset([ord("b")]), min_tokens)
    assert text.add(list(b"abababab"), "length").text == said


def test_an_ending_token_keeps_the_bytes_before_it() -> None:
    """A reply that ends inside a character says so, and its ending token has no text."""
    piece = GeneratedText((), frozenset([257])).add([ord("a"), 0xC3, 257, ord("b")])
    assert (piece.text, piece.finish_reason, piece.stop_reason) == ("a\ufffd", "stop", 257)


def test_a_stop_string_before_the_least_number_is_text() -> None:
    """Text of the tokens before number min_tokens is not searched."""
    piece = GeneratedText(["ab"], min_tokens=3).add(list(b"ababab"), "length")
    assert (piece.text, piece.stop_reason) == ("ab", "ab")
