"""Builders and fakes: engines whose words and steps a test decides, a server on loopback, a client of it."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

from engines.engine import Engine, Request, Step
from engines.policies import Policy, continuous
from engines.slots import Batch, Executor, SlotEngine
from targets.serve.running import ServeOptions, serving
from tests.engines.playing import EVERY_STEP_1_NS

ENOUGH_S = 30
"""A scenario that takes longer is stuck."""


class Speaking:
    """An executor that says the same bytes to every request; token ids above 255 are no bytes."""

    eos_token_id: int | None = 257

    def __init__(self, words: bytes | Sequence[int] = b"abcdefghij", context_tokens: int | None = None) -> None:
        self.words, self.context_tokens = words, context_tokens

    def run(self, batch: Batch) -> Sequence[int]:
        return [self.words[row.output_tokens % len(self.words)] for row in batch.rows]

    def describe(self) -> Mapping[str, Any]:
        return {"name": "speaking", "vocabulary": 260, "eos_token_id": self.eos_token_id}


def speaking(words: bytes | Sequence[int] = b"abcdefghij", policy: Policy | None = None, **more: Any) -> SlotEngine:
    """An engine that says these words; its steps cost nothing to speak of."""
    return SlotEngine(policy or continuous(2), Speaking(words, **more), EVERY_STEP_1_NS)


def computing(executor: Executor, policy: Policy) -> SlotEngine:
    """An engine on this executor."""
    return SlotEngine(policy, executor, EVERY_STEP_1_NS)


class Gated:
    """An engine whose every step waits to be let through."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._gate = threading.Semaphore(0)
        self.calls: list[str] = []
        """What was asked of it, in order."""
        self.steps = 0

    def let(self, steps: int) -> None:
        self._gate.release(steps)

    def add_request(self, request: Request) -> None:
        self.calls.append(f"add {request.request_id}")
        self._engine.add_request(request)

    def has_work(self) -> bool:
        return self._engine.has_work()

    def ready_ns(self, now_ns: int) -> int | None:
        return self._engine.ready_ns(now_ns)

    def step(self, now_ns: int) -> Step:
        self._gate.acquire()
        self.steps += 1
        return self._engine.step(now_ns)

    def flush(self) -> None:
        self._engine.flush()

    def abort(self, request_id: int) -> None:
        self.calls.append(f"abort {request_id}")
        self._engine.abort(request_id)

    def describe(self) -> Mapping[str, Any]:
        return self._engine.describe()


@dataclass
class Answer:
    """A reply as it came."""

    status: int
    body: bytes
    headers: Mapping[str, str]

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> Any:
        return self.json["error"]

    @property
    def events(self) -> list[Any]:
        """The data of each SSE event, the end marker left out; each decodes by itself."""
        blocks = self.body.split(b"\n\n")
        assert blocks.pop() == b""
        assert all(block.startswith(b"data: ") for block in blocks)
        texts = [block.removeprefix(b"data: ").decode("utf-8") for block in blocks]
        return [json.loads(text) for text in texts if text != "[DONE]"]

    @property
    def ends(self) -> bool:
        return self.body.endswith(b"data: [DONE]\n\n")

    @property
    def choices(self) -> list[Any]:
        return [event["choices"][0] for event in self.events if event.get("choices")]

    @property
    def text(self) -> str:
        """Streamed or whole, of either endpoint."""
        if not self.body.startswith(b"data: "):
            choice = self.json["choices"][0]
            return str(choice["message"]["content"] if "message" in choice else choice["text"])
        return "".join(choice["delta"].get("content", "") if "delta" in choice else choice["text"]
                       for choice in self.choices)  # fmt: skip

    @property
    def token_ids(self) -> list[int]:
        if not self.body.startswith(b"data: "):
            return list(self.json["choices"][0]["token_ids"])
        return [token_id for choice in self.choices for token_id in choice.get("token_ids", ())]


@dataclass
class Client:
    """A client of one server."""

    url: str
    session: aiohttp.ClientSession
    open: list[aiohttp.ClientResponse] = field(default_factory=list)

    async def ask(self, path: str = "/v1/completions", **body: Any) -> Answer:
        return await self.post(path, json.dumps(body).encode())

    async def post(self, path: str, body: bytes) -> Answer:
        async with self.session.post(self.url + path, data=body) as response:
            return Answer(response.status, await response.read(), response.headers)

    async def get(self, path: str) -> Answer:
        async with self.session.get(self.url + path) as response:
            return Answer(response.status, await response.read(), response.headers)

    async def begin(self, path: str = "/v1/completions", **body: Any) -> aiohttp.ClientResponse:
        """Returns with the reply's head: by then the request has been submitted."""
        response = await self.session.post(self.url + path, json={"stream": True, "return_token_ids": True, **body})
        self.open.append(response)
        return response

    async def finish(self, response: aiohttp.ClientResponse) -> Answer:
        return Answer(response.status, await response.read(), response.headers)

    async def metric(self, name: str, **labels: str) -> float | None:
        """Of one series; None: it is not there."""
        page = (await self.get("/metrics")).body.decode()
        for family in text_string_to_metric_families(page):
            for sample in family.samples:
                if sample.name == name and labels.items() <= sample.labels.items():
                    return sample.value
        return None

    async def until(self, name: str, value: float, **labels: str) -> None:
        """Wait for a metric to have the value."""
        while await self.metric(name, **labels) != value:
            await asyncio.sleep(0.005)

    async def until_load(self, requests: int) -> None:
        """Wait until so many are under way."""
        while (await self.get("/load")).json["server_load"] != requests:
            await asyncio.sleep(0.005)


@asynccontextmanager
async def client_of(engine: Engine, **options: Any) -> AsyncIterator[Client]:
    """A server on loopback with this engine, and its client."""
    async with serving(engine, ServeOptions(**options)) as server:
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(connector=connector) as session:
            client = Client(server.url, session)
            try:
                yield client
            finally:
                for response in client.open:
                    response.close()
                if isinstance(engine, Gated):
                    engine.let(10_000)


def play(engine: Engine, scenario: Callable[[Client], Awaitable[None]], **options: Any) -> None:
    """A scenario against a server of its own."""

    async def played() -> None:
        async with client_of(engine, **options) as client:
            await asyncio.wait_for(scenario(client), ENOUGH_S)

    asyncio.run(played())


def token_ids_in_process(engine: Engine, requests: Sequence[Request]) -> list[list[int]]:
    """What an engine gives each request when all are there from the start."""
    given: list[list[int]] = [[] for _ in requests]
    for request in requests:
        engine.add_request(request)
    while engine.has_work():
        for output in engine.step(0).outputs:
            given[output.request_id] += output.token_ids
    return given
