"""Reading a request's body: what is understood, and what is refused by the name of its field."""

import json
from http import HTTPStatus
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from targets.serve.ask import MOST_TOKENS, Ask, Served, read_ask
from targets.serve.refusal import Refusal

SERVED = Served("tiny", context_tokens=100, vocabulary=260, eos_token_id=257)
OPEN = Served("open")
MESSAGES = [{"role": "user", "content": "hi"}]


def read(chat: bool = False, served: Served = SERVED, **fields: Any) -> Ask:
    """A body with these fields, and a prompt."""
    prompt = {"messages": MESSAGES} if chat else {"prompt": "hi"}
    return read_ask(json.dumps({**prompt, **fields}).encode(), chat, served)


def refusal(chat: bool = False, served: Served = SERVED, **fields: Any) -> Refusal:
    """Of such a body."""
    with pytest.raises(Refusal) as caught:
        read(chat, served, **fields)
    return caught.value


@pytest.mark.parametrize(
    ("prompt", "ids"),
    [
        ("aé", [97, 0xC3, 0xA9]),
        (["aé"], [97, 0xC3, 0xA9]),
        ([0, 259], [0, 259]),
        ([[5]], [5]),
        ([5], [5]),
    ],
)
def test_a_prompt_is_text_or_token_ids(prompt: Any, ids: list[int]) -> None:
    """Text is its UTF-8 bytes; a list of one prompt is that prompt."""
    assert read(prompt=prompt).prompt_token_ids == ids


def test_a_chat_is_its_lines() -> None:
    """Each message is a line of role and content, and the assistant's line is left open."""
    messages = [
        {"role": "system", "content": [{"type": "text", "text": "Be "}, {"type": "text", "text": "brief."}]},
        {"role": "user", "content": "Hi\u00e9"},
        {"role": "assistant", "content": None},
    ]
    expected = "system: Be brief.\nuser: Hi\u00e9\nassistant: \nassistant:"
    assert bytes(read(chat=True, messages=messages).prompt_token_ids).decode() == expected


def test_absent_and_null_fields_have_their_defaults() -> None:
    """16 tokens, greedy, ended by the end-of-text token, in one piece; null is as good as absent."""
    names = (
        "max_tokens", "max_completion_tokens", "ignore_eos", "min_tokens", "temperature", "seed", "stop", "stream",
        "stop_token_ids", "n", "model", "stream_options", "return_token_ids",
    )  # fmt: skip
    bare = read()
    assert read(**dict.fromkeys(names)) == bare
    params = bare.params
    assert (params.max_tokens, params.ignore_eos, params.temperature, params.seed) == (16, False, 0.0, None)
    assert (bare.stream, bare.stops, bare.include_usage, bare.return_token_ids) == (False, (), False, False)


def test_fields_reach_the_engine() -> None:
    """Lengths, sampling and stops are taken over as they are; unknown fields change nothing."""
    ask = read(
        model="tiny", max_tokens=5, ignore_eos=True, temperature=0.7, seed=-3, stop="x", stop_token_ids=[1, 2],
        stream=True, stream_options={"include_usage": True, "other": 1}, return_token_ids=True, n=1, top_p=0.5,
        nonsense={"a": [1]},
    )  # fmt: skip
    params = ask.params
    assert (params.max_tokens, params.ignore_eos, params.temperature, params.seed) == (5, True, 0.7, -3)
    assert (params.stop_token_ids, ask.stops, ask.ending_token_ids) == ((1, 2), ("x",), frozenset())
    assert (ask.stream, ask.include_usage, ask.return_token_ids) == (True, True, True)


def test_the_newer_name_of_the_limit_goes_first() -> None:
    """max_completion_tokens counts where both are given."""
    assert read(max_tokens=5, max_completion_tokens=7).params.max_tokens == 7


def test_a_least_length_takes_the_ends_from_the_engine() -> None:
    """With min_tokens the engine is told of no early end; they are seen to outside of it."""
    ask = read(max_tokens=9, min_tokens=3, stop_token_ids=[4])
    assert (ask.params.ignore_eos, ask.params.stop_token_ids) == (True, ())
    assert (ask.ending_token_ids, ask.min_tokens) == (frozenset([4, 257]), 3)
    assert read(min_tokens=3, ignore_eos=True).ending_token_ids == frozenset()


def test_a_temperature_too_low_to_divide_by_is_greedy() -> None:
    """What would overflow the logits is taken as 0."""
    assert read(temperature=1e-300).params.temperature == 0.0


WRONG: list[tuple[str, Any]] = [
    *(("max_tokens", value) for value in ("5", 0, -1, 1.5, True, [], MOST_TOKENS + 1, 10**30)),
    *(("max_completion_tokens", value) for value in ("5", 0, 1.0)),
    *(("min_tokens", value) for value in (-1, 17, "1", False)),
    *(("temperature", value) for value in (-0.1, "hot", True, [])),
    *(("seed", value) for value in ("1", 1.5, True, 2**64)),
    *(("stop", value) for value in (5, [""], "", [1], {}, ["a"] * 65, "x" * 1_025)),
    *(("stop_token_ids", value) for value in (5, ["a"], [-1], [True], [1] * 65, "1")),
    *(("n", value) for value in (0, 2, "1", True)),
    *(("stream", value) for value in ("true", 1, [])),
    *(("stream_options", value) for value in (True, [], "usage")),
    ("return_token_ids", 1),
    ("ignore_eos", "yes"),
    *(("model", value) for value in (5, [], "other", "")),
    *(("prompt", value) for value in (None, "", [], 5, {}, [[]], ["a", "b"], [[1], [2]], [1.5], [True], [-1], [260],
                                      [2**64], ["a", 1], "x" * 85)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value"), WRONG, ids=[f"{name}={str(value)[:20]}" for name, value in WRONG])
def test_a_wrong_value_is_refused_by_the_name_of_its_field(name: str, value: Any) -> None:
    """400 with `param`, and one line that names the field."""
    refused = refusal(**{name: value})
    assert refused.status is HTTPStatus.BAD_REQUEST
    assert refused.param == name
    assert name in refused.message or name == "prompt"
    assert "\n" not in refused.message
    assert len(refused.message) < 200


@pytest.mark.parametrize(
    ("messages", "param"),
    [
        (None, "messages"),
        ([], "messages"),
        ("hi", "messages"),
        ([5], "messages[0]"),
        ([{"content": "x"}], "messages[0].role"),
        ([*MESSAGES, {"role": "robot", "content": "x"}], "messages[1].role"),
        ([{"role": "user", "content": 5}], "messages[0].content"),
        ([{"role": "user", "content": [{"type": "image_url"}]}], "messages[0].content"),
        ([{"role": "user", "content": "x" * 90}], "messages"),
    ],
)
def test_a_wrong_message_is_refused_by_its_place(messages: Any, param: str) -> None:
    """`param` says which message and what of it."""
    assert refusal(chat=True, messages=messages).param == param


def test_a_nested_field_is_named_with_its_parent() -> None:
    """stream_options.include_usage is called so."""
    assert refusal(stream_options={"include_usage": "yes"}).param == "stream_options.include_usage"


def test_what_does_not_fit_the_context_is_refused() -> None:
    """Prompt and output together: the last that fits is taken, one more is not."""
    assert read(prompt=[1] * 90, max_tokens=10)
    refused = refusal(prompt=[1] * 90, max_tokens=11)
    assert (refused.param, refused.code) == ("prompt", "context_length_exceeded")
    assert "100" in refused.message


def test_an_engine_without_a_context_limit_has_one_here() -> None:
    """No request is without end."""
    assert read(served=OPEN, prompt=[2**31 - 1], max_tokens=MOST_TOKENS - 1)
    assert refusal(served=OPEN, prompt=[1], max_tokens=MOST_TOKENS).param == "prompt"


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"5", b'"x"', b"\xff", b'{"a": NaN}', b"[" * 100_000])
def test_what_is_no_json_object_is_refused(body: bytes) -> None:
    """No field is at fault."""
    with pytest.raises(Refusal) as caught:
        read_ask(body, False, SERVED)
    assert (caught.value.status, caught.value.param) == (HTTPStatus.BAD_REQUEST, None)


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 2**40) | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
NAMES = sorted({name for name, _ in WRONG} | {"messages"})


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from(NAMES), JSON_VALUES, max_size=5), st.booleans())
def test_any_json_is_read_or_refused(fields: dict[str, Any], chat: bool) -> None:
    """Nothing a client can write ends in anything but a request or a refusal."""
    try:
        ask = read_ask(json.dumps(fields).encode(errors="surrogatepass"), chat, SERVED)
    except Refusal as refused:
        assert refused.message
    else:
        assert ask.prompt_token_ids
