"""The README's API of one's own reads what a server of its kind sends."""

import re
from pathlib import Path

import pytest

from targets.api import Api, BodyOptions, Delta, Usage
from targets.apis.catalog import make_api
from targets.target import PlannedRequest

TESTS = Path(__file__).parents[2]
EXAMPLE = TESTS / "examples" / "messages_api.py"
README = TESTS.parent / "README.md"

STREAM = [
    ("message_start", b'{"type":"message_start","message":{"id":"msg_1","content":[],"usage":{"input_tokens":36}}}'),
    ("content_block_start", b'{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}'),
    ("ping", b'{"type":"ping"}'),
    ("content_block_delta", b'{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hi"}}'),
    (
        "content_block_delta",
        b'{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"m"}}',
    ),
    ("content_block_stop", b'{"type":"content_block_stop","index":0}'),
    (
        "message_delta",
        b'{"type":"message_delta","delta":{"stop_reason":"max_tokens"},"usage":{"input_tokens":36,"output_tokens":2}}',
    ),
    ("message_stop", b'{"type":"message_stop"}'),
]
WHOLE = (
    b'{"id":"msg_1","type":"message","content":[{"type":"text","text":"Him"}],"stop_reason":"end_turn",'
    b'"usage":{"input_tokens":36,"output_tokens":2}}'
)


@pytest.fixture
def api() -> Api:
    """The example, found as a user's own file is."""
    return make_api(f"{EXAMPLE}:Messages")


def test_the_example_reads_a_stream(api: Api) -> None:
    """Its events bear two tokens, a finish reason in OpenAI's words, the counts and the end."""
    assert [api.event(data, event_type) for event_type, data in STREAM] == [
        Delta(),
        Delta(),
        Delta(),
        Delta("Hi"),
        Delta("m", reasoning=True),
        Delta(),
        Delta(finish_reason="length", usage=Usage(2, 36)),
        None,
    ]
    assert api.event(b'{"type":"error","error":{"message":"Overloaded"}}', "error") == Delta(error="Overloaded")


def test_the_example_reads_a_whole_reply(api: Api) -> None:
    """A reply that was not streamed bears the text, the end, the counts and the id."""
    assert api.whole(WHOLE) == [Delta("Him", finish_reason="stop", usage=Usage(2, 36), reply_id="msg_1")]


def test_the_example_writes_a_request(api: Api) -> None:
    """The prompt, the limit and the user's further fields are in the body; token ids are refused."""
    request = PlannedRequest(1, "Hello", [1], max_tokens=9)
    body = api.body(request, BodyOptions("m", extra={"top_k": 3}))
    assert body["messages"] == [{"role": "user", "content": "Hello"}]
    assert (body["model"], body["max_tokens"], body["stream"], body["top_k"]) == ("m", 9, True, 3)
    with pytest.raises(ValueError, match="not token ids"):
        api.body(request, BodyOptions("m", token_prompts=True))


def test_the_readme_shows_this_example() -> None:
    """What the README prints is the file that is tested here, and is short."""
    shown = re.search(r"<!-- example API -->\n```python\n(.*?)```", README.read_text(), re.DOTALL)
    if shown is None:
        pytest.skip("the README has no section on an API of one's own yet")
    assert shown[1] == EXAMPLE.read_text()
    assert len(shown[1].splitlines()) <= 45
