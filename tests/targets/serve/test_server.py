"""What a server does when things go wrong, and what it tells about its engine."""

import asyncio
import gzip
import json
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import aiohttp
import pyarrow as pa
import pytest

from engines.engine import Request
from engines.policies import DurationNs, continuous, static
from results.slots import SLOT_STATES, unused_slot_fraction
from targets.inprocess import InProcessEngine
from targets.serve.app import MOST_BODY_BYTES
from targets.serve.journal import COLUMNS, Journal, JournalFile
from targets.serve.running import ServeOptions, serving
from tests.engines.playing import engine_of
from tests.targets.serve.conversing import Client, Gated, client_of, play, speaking


def raw_request(url: str, body: dict[str, Any], path: str = "/v1/completions") -> socket.socket:
    """A request on a socket of its own, sent."""
    host, port = url.removeprefix("http://").split(":")
    connection = socket.create_connection((host, int(port)), timeout=30)
    data = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: {len(data)}\r\n\r\n"
    connection.sendall(head.encode() + data)
    return connection


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_goes_away_frees_its_slot_within_a_step(stream: bool) -> None:
    """Streaming or not, in the slot or waiting for it: at most one more step is computed for nobody."""
    engine = Gated(speaking(policy=continuous(1)))

    async def scenario(client: Client) -> None:
        body = {"prompt": "x", "max_tokens": 1_000, "stream": stream}
        running = raw_request(client.url, body)
        engine.let(3)
        await client.until("vllm:generation_tokens_total", 3)
        waiting = raw_request(client.url, body)
        last = await client.begin(prompt="x", max_tokens=2)
        engine.let(1)
        await client.until("vllm:num_requests_waiting", 2)
        running.close()
        waiting.close()
        await client.until_load(1)
        engine.let(1)
        await client.until("vllm:request_success_total", 2, finished_reason="abort")
        assert await client.metric("vllm:num_requests_running") == 0
        assert await client.metric("vllm:num_requests_waiting") == 1
        engine.let(2)
        assert len((await client.finish(last)).token_ids) == 2
        assert engine.steps == 7

    play(engine, scenario)


def test_a_full_queue_turns_away() -> None:
    """503 with Retry-After for whoever is one too many; with room again there is service again."""
    engine = Gated(speaking(policy=continuous(1)))

    async def scenario(client: Client) -> None:
        first = await client.begin(prompt="x", max_tokens=3)
        engine.let(1)
        await first.content.readany()
        others = [await client.begin(prompt="x", max_tokens=1) for _ in range(2)]
        refused = await client.ask(prompt="x", stream=True)
        assert (refused.status, refused.headers["Retry-After"]) == (503, "1")
        assert (refused.error["type"], refused.error["code"]) == ("overloaded_error", "queue_full")
        others[1].close()
        await client.until_load(2)
        another = await client.begin(prompt="x", max_tokens=1)
        assert another.status == 200
        engine.let(100)
        assert [len((await client.finish(one)).token_ids) for one in (others[0], another)] == [1, 1]

    play(engine, scenario, most_waiting_requests=2)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/nothing", 404), ("GET", "/v1/completions", 405), ("POST", "/metrics", 405)],
)
def test_what_is_not_there_is_told_in_the_same_form(method: str, path: str, status: int) -> None:
    """Also the errors of HTTP itself are JSON with a message."""

    async def scenario(client: Client) -> None:
        async with client.session.request(method, client.url + path) as response:
            assert response.status == status
            assert (await response.json())["error"]["type"] == "invalid_request_error"

    play(speaking(), scenario)


def test_bad_input_is_told_by_its_field() -> None:
    """400 with OpenAI's error object, on both endpoints, streamed or not."""

    async def scenario(client: Client) -> None:
        for path in ("/v1/completions", "/v1/chat/completions"):
            for stream in (False, True):
                reply = await client.ask(path, prompt="x", max_tokens=0, stream=stream,
                                         messages=[{"role": "user", "content": "x"}])  # fmt: skip
                assert (reply.status, reply.error["param"]) == (400, "max_tokens")
                assert sorted(reply.error) == ["code", "message", "param", "type"]

    play(speaking(), scenario)


def test_a_body_has_a_limit() -> None:
    """8 MiB are read, one byte more is 413, also where compression hides it; the server goes on."""

    async def scenario(client: Client) -> None:
        whole = b'{"prompt": "x", "max_tokens": 1, "pad": "' + b"x" * (MOST_BODY_BYTES - 43) + b'"}'
        assert len(whole) == MOST_BODY_BYTES
        assert (await client.post("/v1/completions", whole)).status == 200
        assert (await client.post("/v1/completions", whole + b" ")).status == 413
        packed = gzip.compress(b" " * MOST_BODY_BYTES * 4)
        async with client.session.post(
            f"{client.url}/v1/completions", data=packed, headers={"Content-Encoding": "gzip"}
        ) as reply:
            assert reply.status == 413
        assert (await client.ask(prompt="x")).status == 200

    play(speaking(), scenario)


class Breaks:
    """Somebody else's engine that gives one token and then breaks."""

    def __init__(self) -> None:
        self.open: list[Request] = []
        self.broken = False

    def add_request(self, request: Request) -> None:
        self.open.append(request)

    def has_work(self) -> bool:
        return bool(self.open)

    def step(self) -> Any:
        if self.broken:
            raise RuntimeError("out of memory")
        self.broken = True
        return [(self.open[0].request_id, [97], False, None)]


def test_an_engine_that_breaks_is_told_inside_the_stream() -> None:
    """What came stays, an error event follows, no end marker; whoever comes then gets 503, and so does /health."""

    async def scenario(client: Client) -> None:
        assert (await client.get("/health")).status == 200
        reply = await client.finish(await client.begin(prompt="x", max_tokens=5))
        assert reply.choices[0]["text"] == "a"
        assert reply.events[-1]["error"]["type"] == "engine_error"
        assert reply.events[-1]["error"]["message"] == "RuntimeError: out of memory"
        assert not reply.ends
        later = await client.ask(prompt="x")
        assert (later.status, later.error["message"]) == (503, "the engine has failed: RuntimeError: out of memory")
        assert (await client.get("/health")).status == 503

    play(InProcessEngine(Breaks()), scenario)


def test_an_engine_that_breaks_is_a_500_where_nothing_was_said() -> None:
    """Without a stream the status says it."""

    async def scenario(client: Client) -> None:
        reply = await client.ask(prompt="x")
        assert (reply.status, reply.error["message"]) == (500, "RuntimeError: out of memory")

    play(InProcessEngine(Breaks()), scenario)


class Refuses(Breaks):
    """Somebody else's engine that takes no such request."""

    def add_request(self, request: Request) -> None:
        raise ValueError("too long for me")


def test_an_engine_that_refuses_a_request_makes_it_a_400() -> None:
    """The engine's own line, and the prompt as the field at fault."""

    async def scenario(client: Client) -> None:
        reply = await client.ask(prompt="x")
        assert (reply.status, reply.error["param"], reply.error["message"]) == (400, "prompt", "too long for me")

    play(InProcessEngine(Refuses()), scenario)


async def slot_steps(client: Client) -> dict[str, float | None]:
    """/metrics' slot counters by state."""
    states = [name.removesuffix("_slots") for name in SLOT_STATES]
    return {state: await client.metric("tokenload:slot_steps_total", state=state) for state in states}


POLICIES = [continuous(4), static(4), static(4, "full", DurationNs(5_000_000)), static(4, return_="end")]


@pytest.mark.parametrize("policy", POLICIES, ids=["continuous", "static", "full", "end"])
def test_metrics_and_step_records_agree(policy: Any) -> None:
    """unused_slot_fraction comes out the same from the step table, our counters and vLLM's names."""

    async def scenario(client: Client) -> None:
        assert set((await slot_steps(client)).values()) == {0.0}
        lengths = [1, 9, 4, 17, 2, 8]
        begun = [await client.begin(prompt="abc", max_tokens=tokens) for tokens in lengths]
        for response in begun:
            await client.finish(response)
        document = (await client.get("/tokenload/steps")).json
        steps = {name: pa.array(values).to_numpy() for name, values in document["steps"].items()}
        unused = unused_slot_fraction(steps)
        spent = await slot_steps(client)
        total = sum(value or 0 for value in spent.values())
        count = await client.metric("vllm:iteration_tokens_total_count")
        tokens = await client.metric("vllm:generation_tokens_total")
        assert count and tokens and unused
        assert unused == pytest.approx(1 - ((spent["prefilling"] or 0) + (spent["decoding"] or 0)) / total, abs=1e-12)
        assert unused == pytest.approx(1 - tokens / (count * 4), abs=1e-12)
        assert (tokens, await client.metric("vllm:prompt_tokens_total")) == (sum(lengths), 3 * len(lengths))
        assert await client.metric("vllm:request_success_total", finished_reason="length") == len(lengths)
        assert await client.metric("tokenload:slots") == document["slots"] == 4
        assert await client.metric("tokenload:steps_total") == count == len(steps["step"])

    play(engine_of(policy), scenario)


def test_gauges_follow_the_queue() -> None:
    """Running, waiting and the share of the cache as they are between two steps; all gone when idle."""
    engine = Gated(speaking(policy=continuous(2), context_tokens=50))

    async def scenario(client: Client) -> None:
        begun = [await client.begin(prompt="abc", max_tokens=9)]
        engine.let(1)
        await client.until("tokenload:steps_total", 1)
        begun += [await client.begin(prompt="abc", max_tokens=9) for _ in range(4)]
        engine.let(1)
        await client.until("vllm:num_requests_waiting", 4)
        assert await client.metric("vllm:num_requests_running") == 1
        engine.let(1)
        await client.until("vllm:num_requests_waiting", 3)
        assert await client.metric("vllm:num_requests_running") == 2
        assert await client.metric("vllm:kv_cache_usage_perc") == pytest.approx((3 + 1 + 3) / 100)
        engine.let(100)
        for response in begun:
            await client.finish(response)
        for gauge in ("vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc"):
            assert await client.metric(gauge) == 0

    play(engine, scenario)


def test_an_engine_that_tells_nothing_has_no_slots() -> None:
    """What is not told is not exposed: no slot counters, and null in the step records."""

    class Plain(Breaks):
        def step(self) -> Any:
            request = self.open.pop(0)
            return [(request.request_id, [97] * request.params.max_tokens, True, "length")]

    async def scenario(client: Client) -> None:
        assert (await client.ask(prompt="x", max_tokens=3)).text == "aaa"
        assert await client.metric("tokenload:slots") is None
        assert await client.metric("tokenload:slot_steps_total") is None
        assert await client.metric("vllm:generation_tokens_total") == 3
        assert await client.metric("vllm:prompt_tokens_total") == 1
        document = (await client.get("/tokenload/steps")).json
        assert document["slots"] is None
        assert document["steps"]["decoding_slots"] == [None]
        assert document["steps"]["told"] == [0]

    play(InProcessEngine(Plain()), scenario)


def test_steps_are_fetched_from_where_one_left_off() -> None:
    """`next` is what to ask for then; what is not there yet is no step."""

    async def scenario(client: Client) -> None:
        empty = (await client.get("/tokenload/steps?since=0")).json
        assert (empty["next"], empty["missed"], empty["steps"]["step"]) == (0, 0, [])
        await client.ask(prompt="x", max_tokens=5)
        first = (await client.get("/tokenload/steps?since=0")).json
        assert (first["next"], first["steps"]["step"]) == (5, [0, 1, 2, 3, 4])
        assert [first["kinds"][kind] for kind in first["steps"]["kind"]] == ["prefill"] + ["decode"] * 4
        await client.ask(prompt="x", max_tokens=2)
        rest = (await client.get("/tokenload/steps?since=5")).json
        assert (rest["next"], rest["missed"], rest["steps"]["step"]) == (7, 0, [5, 6])
        times = [*first["steps"]["start_ns"], *rest["steps"]["start_ns"]]
        assert times == sorted(times)
        for wrong in ("-1", "x", "1.5", "9" * 19):
            assert (await client.get(f"/tokenload/steps?since={wrong}")).error["param"] == "since"

    play(speaking(), scenario)


def filled(journal: Journal, steps: int) -> None:
    """So many steps of an engine, 10 ns apart."""
    engine = engine_of(continuous(1))
    for number in range(steps):
        journal.stepped(engine.step(0), number * 10, number * 10 + 7)


def test_the_journal_keeps_the_newest_steps() -> None:
    """Memory is bounded: what has been dropped is counted as missed."""
    journal = Journal(kept_steps=8)
    filled(journal, 20)
    document = journal.document(5)
    assert (document["missed"], document["next"], document["made"]) == (7, 20, 20)
    assert document["steps"]["step"].tolist() == list(range(12, 20))
    assert document["steps"]["start_ns"].tolist() == [number * 10 for number in range(12, 20)]
    assert journal.since(3, most_steps=2)["step"].tolist() == [12, 13]
    assert journal.document(20)["next"] == 20
    assert (journal.document(99)["next"], journal.document(99)["made"]) == (99, 20)


def read_back(folder: Path) -> dict[str, Sequence[int | None]]:
    """The recorded steps."""
    with (folder / "0000-steps.arrows").open("rb") as file:
        table: dict[str, Sequence[int | None]] = pa.ipc.open_stream(file).read_all().to_pydict()
    return table


def test_a_record_grows_by_what_is_new(tmp_path: Path) -> None:
    """Each append adds the steps since the last one, readable at once; nothing new adds nothing."""
    journal = Journal()
    file = JournalFile(journal, tmp_path / "new" / "folder")
    for steps in (3, 0, 4):
        filled(journal, steps)
        file.append()
    assert read_back(tmp_path / "new" / "folder")["step"] == list(range(7))
    filled(journal, 1)
    file.close()
    table = read_back(tmp_path / "new" / "folder")
    assert list(table) == list(COLUMNS)
    assert table["step"] == list(range(8))
    with pytest.raises(FileExistsError, match="name another folder"):
        JournalFile(journal, tmp_path / "new" / "folder")


def test_a_server_records_its_steps(tmp_path: Path) -> None:
    """--record: what /tokenload/steps tells is in the file when the server has ended, beside what engine it was."""
    told: dict[str, Any] = {}

    async def scenario() -> None:
        async with client_of(engine_of(continuous(2)), record=tmp_path / "steps") as client:
            await client.ask(prompt="abc", max_tokens=9)
            told.update((await client.get("/tokenload/steps")).json["steps"])

    asyncio.run(scenario())
    assert read_back(tmp_path / "steps") == told
    beside = json.loads((tmp_path / "steps" / "serve.json").read_text())
    assert (beside["engine"]["slots"], beside["clock"]) == (2, "CLOCK_MONOTONIC")


def test_the_engine_describes_itself_over_http() -> None:
    """/tokenload/engine is its own description; /version is the package's."""

    async def scenario(client: Client) -> None:
        assert (await client.get("/tokenload/engine")).json["policy"] == "continuous"
        assert (await client.get("/version")).json["version"].count(".") == 2

    play(speaking(), scenario)


def test_a_drain_turns_newcomers_away_and_ends_with_the_last() -> None:
    """Running and waiting requests are finished, new ones get 503, /health says so."""
    engine = Gated(speaking(policy=continuous(1)))

    async def scenario() -> None:
        async with serving(engine, ServeOptions()) as server, aiohttp.ClientSession() as session:
            client = Client(server.url, session)
            begun = [await client.begin(prompt="x", max_tokens=3) for _ in range(2)]
            drain = asyncio.ensure_future(server.under_way.drain())
            await asyncio.sleep(0)
            refused = await client.ask(prompt="x")
            assert (refused.status, refused.error["message"]) == (503, "the server is closing")
            assert (await client.get("/health")).status == 503
            assert not drain.done()
            engine.let(100)
            assert [len((await client.finish(one)).token_ids) for one in begun] == [3, 3]
            await asyncio.wait_for(drain, 30)

    asyncio.run(scenario())


def test_who_is_given_up_is_told() -> None:
    """When the drain's time is over: an error event in the stream, 500 without one, and the engine is free."""
    engine = Gated(speaking(policy=continuous(1)))

    async def scenario() -> None:
        async with serving(engine, ServeOptions()) as server, aiohttp.ClientSession() as session:
            client = Client(server.url, session)
            streamed = await client.begin(prompt="x", max_tokens=3)
            whole = asyncio.ensure_future(client.ask(prompt="x"))
            await client.until_load(2)
            await asyncio.wait_for(server.under_way.give_up(), 30)
            reply = await client.finish(streamed)
            assert reply.events[-1]["error"]["message"] == "the server is closing"
            assert not reply.ends
            assert (await whole).status == 503
            engine.let(100)
            await client.until("vllm:request_success_total", 2, finished_reason="abort")

    asyncio.run(scenario())
    assert sorted(engine.calls) == ["abort 0", "abort 1", "add 0", "add 1"]
