"""Both endpoints over HTTP: the engine's very tokens, in OpenAI's form."""

import random
from typing import Any

import pytest

from engines.cost import HashExecutor
from engines.engine import Request, SamplingParams
from engines.policies import continuous, static
from tests.targets.serve.conversing import Answer, Client, Gated, computing, play, speaking, token_ids_in_process

CHAT = "/v1/chat/completions"
MESSAGES = [{"role": "user", "content": "hi"}]
POLICIES = {
    "continuous": lambda: continuous(3),
    "static": lambda: static(3),
    "static, handed back at the end": lambda: static(3, return_="end"),
}


def sampled(count: int) -> list[tuple[list[int], SamplingParams]]:
    """Prompts and parameters of some requests, greedy and drawn, of many lengths."""
    chance = random.Random(5)
    return [
        (
            [chance.randrange(256) for _ in range(chance.randint(1, 20))],
            SamplingParams(chance.randint(1, 12), True, chance.choice([0.0, 1.0]), chance.randrange(100)),
        )
        for _ in range(count)
    ]


def served_token_ids(engine: Any, asked: list[tuple[list[int], SamplingParams]]) -> list[list[int]]:
    """The token ids each request gets over HTTP; they are submitted one after the other, and served together."""
    given: list[list[int]] = []

    async def scenario(client: Client) -> None:
        begun = [
            await client.begin(
                prompt=prompt, max_tokens=params.max_tokens, ignore_eos=True, temperature=params.temperature,
                seed=params.seed,
            )
            for prompt, params in asked
        ]  # fmt: skip
        given.extend([(await client.finish(response)).token_ids for response in begun])

    play(engine, scenario)
    return given


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_the_transformers_tokens_are_those_of_the_same_engine_in_process(policy: Any) -> None:
    """Greedy and drawn, in whatever batches they were served: behind HTTP nothing changes a token."""
    pytest.importorskip("torch", reason="the tinygpt executor needs torch")
    from engines.torch_executor import tinygpt_executor

    def engine() -> Any:
        executor = tinygpt_executor(3, batch_invariant=True, layers=2, width=64, heads=4, ffn=128, context=64)
        return computing(executor, policy())

    asked = sampled(10)
    requests = [Request(at, prompt, params, 0) for at, (prompt, params) in enumerate(asked)]
    given = served_token_ids(engine(), asked)
    assert given == token_ids_in_process(engine(), requests)
    assert [len(ids) for ids in given] == [params.max_tokens for _, params in asked]


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_requests_are_numbered_as_they_come(policy: Any) -> None:
    """The cost executor's tokens follow from the request's number: the same as in process."""
    asked = sampled(10)
    requests = [Request(at, prompt, params, 0) for at, (prompt, params) in enumerate(asked)]
    expected = token_ids_in_process(computing(HashExecutor(), policy()), requests)
    assert served_token_ids(computing(HashExecutor(), policy()), asked) == expected


def answers(engine: Any, *bodies: dict[str, Any], path: str = "/v1/completions") -> list[Answer]:
    """One request after the other."""
    given: list[Answer] = []

    async def scenario(client: Client) -> None:
        given.extend([await client.ask(path, **body) for body in bodies])

    play(engine, scenario)
    return given


def bodies_of(path: str) -> dict[str, Any]:
    """The least body of an endpoint."""
    return {"messages": MESSAGES} if path == CHAT else {"prompt": "hi"}


@pytest.mark.parametrize("path", ["/v1/completions", CHAT])
@pytest.mark.parametrize("words", [b"plain", "h€llo😀".encode(), b"\xff\xc3\xe2\x82", [97, 257, 98, 259]])
def test_streamed_and_whole_replies_say_the_same(path: str, words: Any) -> None:
    """Text, token ids, usage and finish reason agree, also where bytes are no text."""
    body = {**bodies_of(path), "max_tokens": 11, "ignore_eos": True, "return_token_ids": True}
    options = {"stream": True, "stream_options": {"include_usage": True}}
    whole, streamed = answers(speaking(words), body, {**body, **options}, path=path)
    assert streamed.ends
    assert streamed.text == whole.text
    assert streamed.token_ids == whole.token_ids == [words[at % len(words)] for at in range(11)]
    assert streamed.events[-1]["usage"] == whole.json["usage"]
    assert streamed.events[-1]["choices"] == []
    assert whole.json["usage"]["completion_tokens"] == 11
    assert [choice["finish_reason"] for choice in streamed.choices][-1] == "length"
    assert whole.json["choices"][0]["finish_reason"] == "length"


def test_a_completion_is_in_openais_form() -> None:
    """Field by field; prompt and output add up."""
    (reply,) = answers(speaking(b"abc"), {"prompt": "hello", "max_tokens": 3})
    document = reply.json
    assert document.pop("id").startswith("cmpl-")
    assert isinstance(document.pop("created"), int)
    assert document == {
        "object": "text_completion",
        "model": "speaking",
        "choices": [{"index": 0, "text": "abc", "logprobs": None, "finish_reason": "length", "stop_reason": None}],
        "usage": {"prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 8},
    }
    assert reply.headers["Content-Type"].startswith("application/json")


def test_a_chat_stream_begins_with_the_role() -> None:
    """The role with empty content, then content, then the reason with the last of it; one id throughout."""
    (reply,) = answers(
        speaking(b"abc"), {"messages": MESSAGES, "max_tokens": 3, "stream": True}, path="/v1/chat/completions"
    )
    assert [(choice["delta"], choice["finish_reason"]) for choice in reply.choices] == [
        ({"role": "assistant", "content": ""}, None),
        ({"content": "a"}, None),
        ({"content": "b"}, None),
        ({"content": "c"}, "length"),
    ]
    assert len({event["id"] for event in reply.events}) == 1
    assert {event["object"] for event in reply.events} == {"chat.completion.chunk"}
    assert all("usage" not in event for event in reply.events)
    assert reply.ends
    assert reply.headers["Content-Type"].startswith("text/event-stream")


def test_nothing_is_said_before_the_first_token() -> None:
    """The reply's head comes at once, the role with the first token and not before."""
    engine = Gated(speaking())

    async def scenario(client: Client) -> None:
        response = await client.begin(CHAT, messages=MESSAGES, max_tokens=2)
        assert response.status == 200
        engine.let(1)
        first = await response.content.readany()
        assert first.count(b"data: ") == 2
        assert b'"role":"assistant"' in first
        engine.let(10)
        await response.read()

    play(engine, scenario)


def test_an_event_without_text_is_sent_for_its_token_ids_alone() -> None:
    """A client that asked for ids sees every token at its time; one that did not sees no empty event."""
    body = {"prompt": "x", "max_tokens": 4, "stream": True}
    quiet, told = answers(speaking("€".encode() + b"a"), body, {**body, "return_token_ids": True})
    assert [choice["text"] for choice in quiet.choices] == ["€", "a"]
    assert [choice["text"] for choice in told.choices] == ["", "", "€", "a"]
    assert all("token_ids" not in choice for choice in quiet.choices)


STOPS = [
    ({"stop": "cd"}, "ab", 4, "cd"),
    ({"stop": ["xx", "e"]}, "abcd", 5, "e"),
    ({"stop": "cx"}, "abcdefgh", 8, None),
    ({"stop": "a"}, "", 1, "a"),
    ({"stop_token_ids": [ord("c")]}, "abc", 3, None),
    ({"stop_token_ids": [ord("c")], "min_tokens": 4}, "abcdefgh", 8, None),
    ({"stop": "b", "min_tokens": 3}, "abcdefgh", 8, None),
    ({"stop": "d", "min_tokens": 4}, "abc", 4, "d"),
]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("fields", "text", "tokens", "stop"), STOPS, ids=[str(row[0]) for row in STOPS])
def test_a_stop_ends_a_reply(fields: Any, text: str, tokens: int, stop: str | None, stream: bool) -> None:
    """Across tokens, before the string and never within it; tokens count to the one that completed it."""
    usage = {"stream_options": {"include_usage": True}} if stream else {}
    (reply,) = answers(speaking(b"abcdefgh"), {"prompt": "x", "max_tokens": 8, "stream": stream, **usage, **fields})
    last = reply.events[-1] if stream else reply.json
    choice = reply.choices[-1] if stream else reply.json["choices"][0]
    assert (reply.text, last["usage"]["completion_tokens"]) == (text, tokens)
    assert choice["finish_reason"] == ("stop" if len(text) < 8 else "length")
    assert choice["stop_reason"] == stop


def test_the_end_of_text_ends_a_reply_unless_ignored() -> None:
    """Token 257 has no text; ignore_eos goes on, min_tokens goes on for a while."""
    words = [97, 257, 98, 257, 99]
    body = {"prompt": "x", "max_tokens": 5}
    replies = answers(speaking(words), body, {**body, "ignore_eos": True}, {**body, "min_tokens": 3})
    assert [reply.text for reply in replies] == ["a", "abc", "ab"]
    assert [reply.json["choices"][0]["finish_reason"] for reply in replies] == ["stop", "length", "stop"]
    assert [reply.json["usage"]["completion_tokens"] for reply in replies] == [2, 5, 4]


def test_a_stop_string_frees_the_slot() -> None:
    """Once the text has ended the engine computes nothing more for it, and it counts as stopped."""
    engine = Gated(speaking(policy=continuous(1)))

    async def scenario(client: Client) -> None:
        response = await client.begin(prompt="x", max_tokens=1_000, stop="cd")
        engine.let(4)
        assert (await client.finish(response)).text == "ab"
        engine.let(1)
        await client.until("vllm:num_requests_running", 0)
        assert await client.metric("vllm:request_success_total", finished_reason="stop") == 1
        assert engine.steps <= 5

    play(engine, scenario)


@pytest.mark.parametrize(("given", "kept"), [("c0ffee-1", True), ("x" * 65, False), ("a b", False), ("é", False)])
def test_a_plain_request_id_becomes_the_replys(given: str, kept: bool) -> None:
    """So that both sides can speak of the same request; anything odd is not repeated."""

    async def scenario(client: Client) -> None:
        headers = {"X-Request-Id": given}
        async with client.session.post(f"{client.url}/v1/completions", json={"prompt": "x"}, headers=headers) as reply:
            assert ((await reply.json())["id"] == f"cmpl-{given}") is kept

    play(speaking(), scenario)


def test_the_served_name_is_the_one_given() -> None:
    """Listed, repeated in replies, and the only one taken."""

    async def scenario(client: Client) -> None:
        listed = (await client.get("/v1/models")).json["data"]
        assert [(row["id"], row["max_model_len"]) for row in listed] == [("mine", 50)]
        assert (await client.ask(prompt="x", model="mine")).json["model"] == "mine"
        assert (await client.ask(prompt="x", model="other")).error["param"] == "model"

    play(speaking(context_tokens=50), scenario, served_model="mine")
