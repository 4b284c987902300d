"""What a server says of itself before a run, and what is done when it says nothing."""

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from targets.apis.catalog import make_api
from targets.discovery import Discovery, discover
from targets.transport.endpoint import parse_endpoint
from tests.targets.misbehaving import Act, Misbehaving, Script, misbehaving, whole

NOT_FOUND: Script = [whole(b'{"detail":"Not Found"}', status="404 Not Found")]
KEY = "key-9f8e7d6c5b4a"
VLLM_MODELS = (
    b'{"object":"list","data":[{"id":"smollm2-135m","object":"model","owned_by":"vllm","root":"m","parent":null,'
    b'"max_model_len":2048,"permission":[{"id":"p"}]},{"id":"adapter"}]}'
)


def answered(document: bytes, more: str = "") -> Script:
    """A JSON answer."""
    return [whole(document, more=more)]


def found(
    paths: Mapping[str, Script], api: str = "openai-chat", model: str | None = None, base: str = "/v1"
) -> tuple[Discovery, Misbehaving]:
    """What is found at a server that has these paths and answers 404 to all others."""

    async def play() -> tuple[Discovery, Misbehaving]:
        async with asyncio.timeout(30), misbehaving(NOT_FOUND, paths=paths) as server:
            endpoint = parse_endpoint(server.url.replace("/v1", base), key=KEY)
            return await discover(endpoint, make_api(api), model), server

    return asyncio.run(play())


ODD_NAMES = b'{"data":[{"id":""},{"id":3},{},null,{"id":"b\\n"},{"id":"c"}]}'
LISTS: list[tuple[Mapping[str, Script], str, str]] = [
    ({"/v1/models": answered(VLLM_MODELS)}, "openai-chat", "smollm2-135m"),
    ({"/v1/models": answered(b'{"data":[{"id":"only"}]}')}, "llamacpp", "only"),
    ({"/api/tags": answered(b'{"models":[{"name":"tiny:latest","model":"tiny:1b"}]}')}, "ollama-chat", "tiny:1b"),
    ({"/api/tags": answered(b'{"models":[{"name":"tiny:latest"}]}')}, "ollama-generate", "tiny:latest"),
    ({"/info": answered(b'{"model_id":"org/model","version":"3.3.5"}')}, "tgi", "org/model"),
    ({"/props": answered(b'{"model_alias":"alias","build_info":"b7000-abc"}')}, "llamacpp", "alias"),
    (
        {"/v1/models": answered(b'{"data":[]}'), "/api/tags": answered(b'{"models":[{"model":"a"}]}')},
        "openai-chat",
        "a",
    ),
    ({"/v1/models": answered(ODD_NAMES)}, "openai-chat", "c"),
]


@pytest.mark.parametrize(("paths", "api", "model"), LISTS)
def test_the_first_model_that_is_listed(paths: Mapping[str, Script], api: str, model: str) -> None:
    """Without a model the first that the server lists is asked for, in whatever form it lists them."""
    assert found(paths, api)[0].model == model


def test_a_given_model_is_kept() -> None:
    """A model that was given is asked for whether the server lists it or not, and the stamp says which."""
    listed, _ = found({"/v1/models": answered(VLLM_MODELS)}, model="adapter")
    unlisted, _ = found({"/v1/models": answered(VLLM_MODELS)}, model="mine")
    silent, _ = found({}, model="mine")
    assert [one.model for one in (listed, unlisted, silent)] == ["adapter", "mine", "mine"]
    assert [one.facts["served_model_listed"] for one in (listed, unlisted, silent)] == [True, False, False]
    assert listed.facts["served_model_is"] == "given"


def test_facts_for_the_stamp() -> None:
    """Models, what is said of the chosen one, the server's header and version are told; missing ones have reasons."""
    paths = {
        "/v1/models": answered(VLLM_MODELS, "server: uvicorn\r\n"),
        "/version": answered(b'{"version":"0.32.0"}'),
    }
    facts = found(paths)[0].facts
    assert facts == {
        "served_model": "smollm2-135m",
        "served_model_is": "the first one listed",
        "served_model_listed": True,
        "served_models": ["smollm2-135m", "adapter"],
        "served_model_entry": {
            "id": "smollm2-135m", "object": "model", "owned_by": "vllm", "root": "m", "max_model_len": 2048,
        },
        "server_header": "uvicorn",
        "server_version": "0.32.0",
        "not_told": {},
    }  # fmt: skip
    assert json.loads(json.dumps(facts)) == facts
    bare = found({"/v1/models": answered(b'{"data":[{"id":"m"}]}')})[0].facts
    assert (bare["server_version"], bare["not_told"]) == (
        None, {"server_header": "NOT_TOLD", "server_version": "NOT_TOLD"},
    )  # fmt: skip
    assert bare["served_model_is"] == "the only one listed"


@pytest.mark.parametrize("base", ["", "/", "/v1", "/v1/", "/gate/way", "/gate/way/v1"])
def test_the_base_path(base: str) -> None:
    """Models are asked for under the base path, with or without its /v1; the key goes along."""
    prefix = "/gate/way" if "gate" in base else ""
    discovery, server = found({f"{prefix}/v1/models": answered(b'{"data":[{"id":"m"}]}')}, base=base)
    assert discovery.model == "m"
    heads = [exchange.head.lower() for exchange in server.exchanges]
    assert all(b"authorization: bearer " + KEY.encode() in head for head in heads)
    assert all(b"accept-encoding: identity" in head for head in heads)


@pytest.mark.parametrize(
    ("paths", "says"),
    [
        ({}, "has no list of models (HTTP 404): correct the path of --target, or give --served-model NAME"),
        ({"/v1/models": [whole(b"", status="401 Unauthorized")]}, "wants a key (HTTP 401): give --key-env VARIABLE"),
        ({"/v1/models": answered(b"not json")}, "lists no model"),
        ({"/v1/models": answered(b"[" * 100_000)}, "lists no model"),
        ({"/v1/models": answered(b"3"), "/api/tags": answered(b'{"models":3}')}, "lists no model"),
        ({"/v1/models": answered(b'{"data":[{"id":"%s"}]}' % (b"x" * 600))}, "lists no model"),
        ({"/v1/models": answered(b'{"data":[{"id":"m"}]}' + b" " * 2_000_000)}, "lists no model"),
        ({"/v1/models": [whole(b"", status="302 Found", more="location: /v1/other\r\n")],
          "/v1/other": answered(b'{"data":[{"id":"elsewhere"}]}')}, "lists no model"),
        ({"/v1/models": [Act.RESET]}, "does not answer"),
    ],
)  # fmt: skip
def test_no_model_is_told_in_one_line(paths: Mapping[str, Script], says: str) -> None:
    """A server that names no model gets one line with the remedy, without the key; redirections are not followed."""
    with pytest.raises(ValueError) as refused:
        found(paths)
    line = str(refused.value)
    assert says in line and "--served-model NAME" in line
    assert "\n" not in line and KEY not in line and len(line) < 300


def test_nobody_there() -> None:
    """A port that refuses is said to, and is no obstacle where the model is given: its failures will be rows."""

    async def play(model: str | None) -> Discovery:
        async with misbehaving(NOT_FOUND) as server:
            url = server.url
        return await discover(parse_endpoint(url), make_api("openai-chat"), model)

    with pytest.raises(ValueError, match=r"does not answer \(.*refused.*\): start the server, or correct --target"):
        asyncio.run(play(None))
    facts = asyncio.run(play("m")).facts
    assert "refused" in facts["not_told"]["served_models"]


def test_a_unix_socket(tmp_path: Path) -> None:
    """A server behind a unix socket is asked there."""

    async def play() -> Discovery:
        path = str(tmp_path / "socket")
        async with misbehaving(answered(b'{"data":[{"id":"m"}]}'), unix_socket=path):
            return await discover(parse_endpoint("http://localhost/v1", unix_socket=path), make_api("openai-chat"))

    assert asyncio.run(play()).model == "m"


def test_a_key_that_comes_back_is_not_stamped() -> None:
    """What a server quotes of the key does not reach the stamp."""
    quoting = answered(b'{"data":[{"id":"m","owned_by":"bearer %s"}]}' % KEY.encode(), f"server: {KEY}\r\n")
    assert KEY not in json.dumps(found({"/v1/models": quoting})[0].facts)


def test_an_api_that_lists_its_models_elsewhere(tmp_path: Path) -> None:
    """A user's API may say where its models are listed in OpenAI's form; that list comes first."""
    (tmp_path / "mine.py").write_text(
        "from targets.apis.openai_chat import OpenAiChat\n\n\nclass Mine(OpenAiChat):\n    models_path = '/v2/models'\n"
    )
    paths = {"/v2/models": answered(b'{"data":[{"id":"mine"}]}'), "/v1/models": answered(VLLM_MODELS)}
    assert found(paths, f"{tmp_path / 'mine.py'}:Mine")[0].model == "mine"
