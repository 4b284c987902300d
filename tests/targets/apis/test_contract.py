"""Every row of the table of APIs: bodies, streams, whole replies, faults, and bytes that mean nothing."""

import json
from collections.abc import Mapping
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from targets.api import BodyOptions, Delta
from targets.apis.catalog import APIS, make_api
from targets.target import PlannedRequest
from tests.targets.apis.recorded import RECORDED, read

OPTIONS = BodyOptions(model="m")
REQUEST = PlannedRequest(7, "What is the capital?", [11, 12, 13], max_tokens=17, temperature=0.25, seed=5)
STREAMS_ONLY = ("tgi",)
TAKE_TOKENS = ("openai-completions", "llamacpp")
PIN_LENGTHS = ("openai-chat", "openai-completions", "llamacpp")

each_api = pytest.mark.parametrize("name", APIS)


def values(body: Any) -> list[Any]:
    """Every value in a body that is no object or list."""
    if isinstance(body, Mapping):
        return [one for value in body.values() for one in values(value)]
    if isinstance(body, list):
        return [one for value in body for one in values(value)]
    return [body]


@each_api
def test_every_api_is_recorded_and_named_as_in_the_table(name: str) -> None:
    """A row of the table is an API of that name, and has recorded replies to be tested on."""
    assert make_api(name).name == name
    assert name in RECORDED


@each_api
def test_a_body_says_what_was_planned(name: str) -> None:
    """Prompt, output limit, temperature and seed stand in the body, and JSON can carry it."""
    body = make_api(name).body(REQUEST, OPTIONS)
    assert {"What is the capital?", 17, 0.25, 5} <= set(values(orjson.loads(orjson.dumps(body))))


@each_api
def test_a_request_without_a_seed_sends_none(name: str) -> None:
    """What a request does not have is absent, not null."""
    body = make_api(name).body(PlannedRequest(1, "x", None, 3), OPTIONS)
    assert None not in values(body)
    assert "seed" not in str(body)


@each_api
def test_lengths_are_pinned_only_where_that_is_asked(name: str) -> None:
    """`ignore_eos` goes with pinned lengths of a request that has them, where the API knows the field."""
    api = make_api(name)
    free = PlannedRequest(1, "x", None, 3, ignore_eos=False)
    assert ("ignore_eos" in api.body(REQUEST, OPTIONS)) == (name in PIN_LENGTHS)
    assert "ignore_eos" not in api.body(REQUEST, BodyOptions(model="m", pin_lengths=False))
    assert "ignore_eos" not in api.body(free, OPTIONS)
    assert "min_tokens" not in api.body(free, OPTIONS)


@each_api
def test_further_fields_win(name: str) -> None:
    """A user's field replaces ours; inside an object it replaces that field alone."""
    api = make_api(name)
    body = api.body(REQUEST, BodyOptions(model="m", extra={"stream": "no", "top_k": 3}))
    assert (body["stream"], body["top_k"]) == ("no", 3)
    inner = next((key for key, value in body.items() if isinstance(value, dict)), None)
    if inner is not None:
        merged = api.body(REQUEST, BodyOptions(model="m", extra={inner: {"further": 1}}))[inner]
        assert merged == {**body[inner], "further": 1}


@each_api
def test_the_output_limit_can_have_another_name(name: str) -> None:
    """`max_tokens_field` names the limit in place of the API's own name for it."""
    body = str(make_api(name).body(REQUEST, BodyOptions(model="m", max_tokens_field="most", pin_lengths=False)))
    assert "'most': 17" in body
    assert body.count("17") == 1


@each_api
def test_token_ids_are_sent_or_refused(name: str) -> None:
    """Where an API takes token ids they are the prompt; elsewhere one line says which APIs do."""
    api, options = make_api(name), BodyOptions(model="m", token_prompts=True)
    if name in TAKE_TOKENS:
        assert api.body(REQUEST, options)["prompt"] == [11, 12, 13]
        with pytest.raises(ValueError, match=r"^request 9 has no token ids, only a text: give --prompt-as text$"):
            api.body(PlannedRequest(9, "x", None, 3), options)
    else:
        with pytest.raises(
            ValueError, match=rf"^{name} takes text, .*--prompt-as text, or --api openai-completions or"
        ):
            api.body(REQUEST, options)


@each_api
def test_a_reply_need_not_be_streamed(name: str) -> None:
    """`stream` is false in the body, or one line says that the API always streams."""
    api, options = make_api(name), BodyOptions(model="m", stream=False)
    if name in STREAMS_ONLY:
        with pytest.raises(ValueError, match="always streams"):
            api.body(REQUEST, options)
    else:
        body = api.body(REQUEST, options)
        assert body["stream"] is False
        assert "stream_options" not in body


@each_api
def test_a_stream_is_read(name: str) -> None:
    """Text, token-bearing events, finish reason, counts and id are what the server sent, first reading or tenth."""
    api, recorded = make_api(name), RECORDED[name]
    for _ in range(10):
        deltas = read(api, recorded.stream)
        assert "".join(one.text for one in deltas) == recorded.text
        assert sum(bool(one.text) for one in deltas) == recorded.events
        assert [one.finish_reason for one in deltas if one.finish_reason] == [recorded.finish_reason]
        assert [one.usage for one in deltas if one.usage] == [recorded.usage]
        assert {one.reply_id for one in deltas} == {recorded.reply_id}
        assert not any(one.error or one.reasoning for one in deltas)


@each_api
def test_a_whole_reply_says_the_same(name: str) -> None:
    """A reply that was not streamed bears the same text, finish reason and counts as the stream."""
    api, recorded = make_api(name), RECORDED[name]
    deltas = api.whole(recorded.whole)
    assert "".join(one.text for one in deltas) == recorded.text
    assert [one.finish_reason for one in deltas] == [recorded.finish_reason]
    assert [one.usage for one in deltas] == [recorded.usage]
    assert {one.reply_id for one in deltas} == {recorded.reply_id}


@each_api
def test_a_fault_in_a_stream_or_a_whole_reply_is_told(name: str) -> None:
    """An error event bears the server's words and no token, whether it is a text, an object or named by its type."""
    api = make_api(name)
    for data in (RECORDED[name].fault, b'{"error":"out of memory"}', b'{"error":{"message":"out of memory"}}'):
        found = api.event(data, "message")
        assert found is not None
        assert (found.error, found.text) == ("out of memory", "")
        assert [one.error for one in api.whole(data)] == ["out of memory"]


@pytest.mark.parametrize("name", [name for name in APIS if make_api(name).framing == "sse"])
@pytest.mark.parametrize("data", [b"out of memory", b'{"message":"out of memory"}', b'{"error":"out of memory"}'])
def test_an_event_named_error_is_a_fault(name: str, data: bytes) -> None:
    """`event: error` is a fault in whatever form its data are."""
    assert make_api(name).event(data, "error") == Delta(error="out of memory")


@each_api
@pytest.mark.parametrize(
    "data",
    [
        *(b"", b"[]", b"3", b"null", b"{}", b"\xff\xfe", b"[" * 100_000, b'{"a":' * 100_000),
        *(b"secret-text", b'{"secret-text":', b'"secret-text"', b'{"a":"secret-text"}'),
    ],
)
def test_what_the_api_does_not_send_is_refused_without_repeating_it(name: str, data: bytes) -> None:
    """Bytes that are none of its events are a ValueError of one short line that does not quote them."""
    api = make_api(name)
    for reading in (lambda: api.event(data, "message"), lambda: api.whole(data)):
        with pytest.raises(ValueError) as refused:
            reading()
        assert "secret" not in str(refused.value)
        assert len(str(refused.value)) < 100 and "\n" not in str(refused.value)


FIELDS = sorted(
    {
        *("choices", "delta", "message", "content", "reasoning", "reasoning_content", "tool_calls", "function", "name"),
        *("arguments", "text", "usage", "timings", "error", "index", "finish_reason", "logprobs", "token_ids", "id"),
        *("prompt_tokens_details", "completion_tokens_details", "response", "thinking", "done", "done_reason", "token"),
        *("details", "generated_text", "stop", "stop_type", "tokens", "object", "x_groq", "special", "function_call"),
    }
)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5)
ANYTHING = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=5)
)


@each_api
@settings(deadline=None)
@given(value=st.dictionaries(st.sampled_from(FIELDS), ANYTHING, max_size=6))
def test_any_json_is_read_or_refused(name: str, value: dict[str, Any]) -> None:
    """Whatever a server writes under the known names, the answer is a Delta or a ValueError, and the text is text."""
    api = make_api(name)
    data = json.dumps(value).encode()
    for reading in (lambda: [api.event(data, "message")], lambda: api.whole(data)):
        try:
            deltas = reading()
        except ValueError:
            continue
        for found in deltas:
            assert isinstance(found, Delta) and isinstance(found.text, str)
            assert found.error is None or (found.error and found.error.isprintable())
