"""What an event in OpenAI's form bears, in every dialect of it that servers were seen to speak."""

from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from targets.api import BodyOptions, Delta, Usage
from targets.apis.openai_chat import OpenAiChat
from targets.apis.openai_completions import OpenAiCompletions
from targets.apis.openai_reading import read_plain, read_whatever
from targets.target import PlannedRequest

API = OpenAiChat()


def event(choice: object = None, **more: object) -> Delta:
    """What a chunk bears with this choice (None: with no choice) and further fields."""
    chunk = {"choices": [] if choice is None else [choice], **more}
    found = API.event(orjson.dumps(chunk), "message")
    assert found is not None
    return found


def bears(**delta: object) -> Delta:
    """What a chunk bears whose delta is this."""
    return event({"index": 0, "delta": delta})


def call(name: object, arguments: object) -> dict[str, object]:
    """A tool call."""
    return {"index": 0, "function": {"name": name, "arguments": arguments}}


@pytest.mark.parametrize(
    ("delta", "expected"),
    [
        ({"content": "a"}, Delta("a")),
        ({"role": "assistant", "content": "a"}, Delta("a")),
        ({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}, Delta("ab")),
        ({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "a"}]}]}, Delta("a")),
        ({"refusal": "no"}, Delta("no")),
        ({"reasoning_content": "hm"}, Delta("hm", reasoning=True)),
        ({"reasoning": "hm", "content": None}, Delta("hm", reasoning=True)),
        ({"reasoning": "hm", "reasoning_content": "hm", "content": ""}, Delta("hm", reasoning=True)),
        ({"reasoning": "hm", "content": "a"}, Delta("hma")),
        ({"tool_calls": [call("look", "")]}, Delta("look")),
        ({"tool_calls": [call(None, '{"at":')]}, Delta('{"at":')),
        ({"tool_calls": [call("f", "1"), call("g", {"x": 2})]}, Delta('f1g{"x": 2}')),
        ({"function_call": {"name": "f", "arguments": "1"}}, Delta("f1")),
        ({"role": "assistant"}, Delta()),
        ({"role": "assistant", "content": ""}, Delta()),
        ({"role": "assistant", "content": None, "tool_calls": None, "reasoning": None, "refusal": None}, Delta()),
        ({"tool_calls": [], "content": None}, Delta()),
        ({"tool_calls": [{"index": 0, "function": None}]}, Delta()),
        ({}, Delta()),
    ],
)  # fmt: skip
def test_what_a_delta_bears(delta: dict[str, object], expected: Delta) -> None:
    """Content, reasoning, refusals and tool calls bear tokens; roles, empty texts and nulls bear none."""
    assert bears(**delta) == expected


def test_legacy_text_and_a_missing_delta() -> None:
    """`text` in the choice bears tokens; a choice without a delta bears none."""
    assert event({"index": 0, "text": "a"}) == Delta("a")
    assert event({"index": 0, "delta": None}) == Delta()
    assert event({}) == Delta()


def test_only_the_choice_with_index_0_counts() -> None:
    """Of several generations one is counted, wherever it stands; an index that is not told is 0."""
    other, counted = {"index": 1, "delta": {"content": "no"}}, {"index": 0, "delta": {"content": "yes"}}
    both = API.event(orjson.dumps({"choices": [other, counted]}), "message")
    assert both == Delta("yes")
    assert event(other) == Delta()
    assert event({"delta": {"content": "yes"}}) == Delta("yes")


def test_a_finish_reason_may_come_with_the_last_text_or_alone() -> None:
    """vLLM puts it on the last token's event, others in one of its own; null and an empty text are none."""
    assert event({"index": 0, "delta": {"content": "a"}, "finish_reason": "length"}) == Delta(
        "a", finish_reason="length"
    )
    assert event({"index": 0, "delta": {}, "finish_reason": "stop"}) == Delta(finish_reason="stop")
    assert event({"index": 0, "delta": {"content": "a"}, "finish_reason": ""}) == Delta("a")


@pytest.mark.parametrize(
    ("choice", "tokens"),
    [
        ({"token_ids": [4, 5]}, 2),
        ({"logprobs": {"content": [{"token": "a"}, {"token": "b"}, {"token": "c"}]}}, 3),
        ({"logprobs": {"tokens": ["a", "b"], "token_logprobs": [0, 0]}}, 2),
        ({"logprobs": {"content": []}}, None),
        ({"logprobs": None, "token_ids": None}, None),
    ],
)
def test_tokens_in_an_event_are_told_by_ids_or_logprobs(choice: dict[str, object], tokens: int | None) -> None:
    """Token ids, else logprobs, say how many tokens an event holds; otherwise it is unknown."""
    assert event({"index": 0, "delta": {"content": "abc"}, **choice}) == Delta("abc", tokens=tokens)


COUNTS = {"prompt_tokens": 36, "completion_tokens": 6}
TIMINGS = {"cache_n": 35, "prompt_n": 1, "prompt_ms": 11.2, "predicted_n": 6, "predicted_ms": 73.9}


@pytest.mark.parametrize(
    ("more", "usage"),
    [
        ({"usage": COUNTS}, Usage(6, 36)),
        ({"usage": {**COUNTS, "prompt_tokens_details": {"cached_tokens": 32}}}, Usage(6, 36, 32)),
        ({"usage": {**COUNTS, "prompt_tokens_details": {"cached_tokens": 0}}}, Usage(6, 36, 0)),
        ({"usage": {**COUNTS, "completion_tokens_details": {"reasoning_tokens": 4}}}, Usage(6, 36, None, 4)),
        ({"usage": {**COUNTS, "prompt_tokens_details": None, "completion_tokens_details": None}}, Usage(6, 36)),
        ({"usage": {**COUNTS, "reasoning_tokens": 4, "prompt_cache_hit_tokens": 3}}, Usage(6, 36, 3, 4)),
        ({"usage": COUNTS, "timings": TIMINGS}, Usage(6, 36, 35)),
        ({"timings": TIMINGS}, Usage(6, 36, 35)),
        ({"usage": {"input_tokens": 36, "output_tokens": 6}}, Usage(6, 36)),
        ({"x_groq": {"usage": COUNTS}, "usage": None}, Usage(6, 36)),
        ({"usage": None}, None),
        ({"usage": {}}, None),
        ({"usage": {"completion_tokens": None, "prompt_tokens": -1}}, None),
        ({"usage": {"completion_tokens": "6", "prompt_tokens": 1e9}}, None),
        ({"usage": {"completion_tokens": True, "prompt_tokens": 2**63}}, None),
    ],
)
def test_counts_are_read_wherever_they_stand(more: dict[str, object], usage: Usage | None) -> None:
    """Counts come with no choice, with the finish or with a text, from usage or timings; what is no count is untold."""
    assert event(**more) == Delta(usage=usage)
    assert event({"index": 0, "delta": {}, "finish_reason": "stop"}, **more) == Delta(finish_reason="stop", usage=usage)
    assert event({"index": 0, "delta": {"content": "a"}}, **more) == Delta("a", usage=usage)


def test_counts_inside_the_choice() -> None:
    """Some servers put usage into the choice."""
    assert event({"index": 0, "delta": {}, "usage": COUNTS}) == Delta(usage=Usage(6, 36))


@pytest.mark.parametrize(
    ("chunk", "error"),
    [
        ({"error": "prompt too long"}, "prompt too long"),
        ({"error": {"message": "bad", "param": "min_tokens", "code": 400}}, "bad (field min_tokens)"),
        ({"error": {"message": "min_tokens is bad", "param": "min_tokens"}}, "min_tokens is bad"),
        ({"error": {"type": "overloaded_error"}}, "overloaded_error"),
        ({"error": {"code": 500}}, '{"code": 500}'),
        ({"error": 13}, "13"),
        ({"object": "error", "message": "gone", "code": 500}, "gone"),
        ({"error": "two\nlines\x1b[31m\r\n"}, "two lines [31m"),
        ({"error": {"message": "x" * 5_000}}, "x" * 1_000),
        ({"error": "late", "choices": [{"index": 0, "delta": {"content": ""}, "finish_reason": "error"}]}, "late"),
    ],
)
def test_a_fault_is_one_line(chunk: dict[str, object], error: str) -> None:
    """A fault in any form becomes one printable, capped line that names the field when the server does."""
    found = API.event(orjson.dumps(chunk), "message")
    assert found is not None and found.error == error


def test_no_fault() -> None:
    """A null or empty error beside a text is none."""
    for nothing in (None, "", {}, False):
        assert event({"index": 0, "delta": {"content": "a"}}, error=nothing) == Delta("a")


def test_named_events() -> None:
    """Events under a server's own names are notes and bear nothing, unless a chunk stands in them."""
    assert API.event(b"anything", "progress") == Delta()
    assert API.event(b'{"step":3}', "progress") == Delta()
    assert API.event(b'{"choices":[{"delta":{"content":"a"}}]}', "completion") == Delta("a")
    assert API.event(b"[DONE]", "done") is None


def test_json_that_is_not_strict() -> None:
    """NaN among logprobs and half a surrogate pair do not cost an event; the half becomes U+FFFD."""
    nan = b'{"choices":[{"index":0,"delta":{"content":"a"},"logprobs":{"content":[{"logprob":NaN}]}}]}'
    assert API.event(nan, "message") == Delta("a", tokens=1)
    half = b'{"choices":[{"index":0,"delta":{"content":"a\\ud83d"}}]}'
    assert API.event(half, "message") == Delta("a�")
    pair = b'{"choices":[{"index":0,"delta":{"content":"\\ud83d\\ude00"}}]}'
    assert API.event(pair, "message") == Delta("\N{GRINNING FACE}")


def test_bodies_of_both_endpoints() -> None:
    """Every field that is sent, and nothing else; usage is asked for in streams alone."""
    request = PlannedRequest(1, "Hello", [1], max_tokens=9)
    shared = {"model": "m", "temperature": 0.0, "max_tokens": 9, "ignore_eos": True, "min_tokens": 9}
    streamed = {**shared, "stream": True, "stream_options": {"include_usage": True}}
    messages = {"messages": [{"role": "user", "content": "Hello"}]}
    assert API.body(request, BodyOptions("m")) == {**streamed, **messages}
    assert API.body(request, BodyOptions("m", stream=False)) == {**shared, **messages, "stream": False}
    assert OpenAiCompletions().body(request, BodyOptions("m")) == {**streamed, "prompt": "Hello"}
    assert "stream_options" not in API.body(request, BodyOptions("m", usage=False))
    named = API.body(request, BodyOptions("m", max_tokens_field="max_completion_tokens", pin_lengths=False))
    assert (named["max_completion_tokens"], "max_tokens" in named) == (9, False)


WORDS = st.none() | st.text("ab", max_size=2) | st.integers(0, 1) | st.just([1]) | st.just({})
PLAIN_EVENTS = st.fixed_dictionaries(
    {},
    optional={
        "id": WORDS,
        "error": WORDS,
        "usage": st.none() | st.just({"completion_tokens": 3}),
        "timings": st.just({"predicted_n": 3}),
        "model": WORDS,
        "choices": st.lists(
            st.fixed_dictionaries(
                {},
                optional={
                    "index": st.sampled_from([None, 0, 1]),
                    "finish_reason": st.sampled_from([None, "length"]),
                    "logprobs": st.none() | st.just({"content": [1, 2]}),
                    "token_ids": st.none() | st.just([1, 2]),
                    "text": WORDS,
                    "delta": st.none()
                    | st.fixed_dictionaries(
                        {}, optional={"role": WORDS, "content": WORDS, "reasoning_content": WORDS, "tool_calls": WORDS}
                    ),
                },
            ),
            max_size=2,
        ),
    },
)


@settings(max_examples=500)
@given(PLAIN_EVENTS)
def test_a_plain_event_is_read_like_any_other(chunk: dict[str, Any]) -> None:
    """The short way is taken only where the long one says the same."""
    plain = read_plain(chunk)
    if plain is not None:
        assert plain == read_whatever(chunk)


def test_the_event_that_most_are_is_plain() -> None:
    """One choice with a content and nothing else to say goes the short way."""
    choice = {"index": 0, "delta": {"content": " a"}, "finish_reason": None, "logprobs": None}
    assert read_plain({"id": "x", "choices": [choice], "usage": None}) == Delta(" a", reply_id="x")
