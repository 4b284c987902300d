"""The server's own steps, fetched: from the real application, from servers that have none, and from liars."""

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest
from aiohttp import web

from engines.policies import continuous
from results.columns import int64
from results.server.step_table import ServerSteps, read_told_steps
from results.steps import durations
from targets.observe.asking import Asker, RefusedError
from targets.observe.order import Order
from targets.observe.places import steps_url_of
from targets.observe.scrape import ServerScrape
from targets.observe.step_records import FAR_STEP, MOST_PAGE_STEPS, StepRecords, read_steps_page
from targets.serve.app import Server
from targets.serve.journal import Journal
from tests.engines.playing import engine_of
from tests.targets.observe import pages
from tests.targets.observe.pages import site
from tests.targets.serve.conversing import play, speaking

KEY = "tk-verysecretvalue"
PATH = "/tokenload/steps"
ENOUGH_S = 30


class Watched(Journal):
    """A journal that remembers from where it was asked."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.asked: list[int] = []

    def work(self, steps: int) -> None:
        """So many steps of an engine with two slots, now."""
        engine = engine_of(continuous(2))
        for _ in range(steps):
            begun_ns = time.perf_counter_ns()
            self.stepped(engine.step(0), begun_ns, time.perf_counter_ns())

    def document(self, first_step: int) -> dict[str, Any]:
        self.asked.append(first_step)
        return super().document(first_step)


@asynccontextmanager
async def serving(journal: Journal) -> AsyncIterator[str]:
    """The application of `tokenload serve` on loopback, of which only the journal is asked."""
    nobody = cast(Any, None)
    app = Server(nobody, {"slots": 2}, nobody, nobody, journal, 5).application()
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield "http://{}:{}".format(*runner.addresses[0])
    finally:
        await runner.cleanup()


@asynccontextmanager
async def asking(url: str, parts: Path) -> AsyncIterator[StepRecords]:
    """Records of a server, and the connections closed at the end."""
    order = Order((), "", 0, steps_url=steps_url_of(url), steps_file=str(parts / "0000-journal.arrows"), timeout_s=10)
    asker = Asker(order)
    try:
        yield StepRecords(order, asker)
    finally:
        await asker.close()


def told_in(parts: Path) -> ServerSteps:
    """What has been fetched, of a run whose time 0 is now."""
    return read_told_steps(parts, time.perf_counter_ns(), same_host=True)


def fetched(journal: Watched, parts: Path, *, before: int = 5, warming: int = 3, after: int = 20) -> ServerSteps:
    """Of a run in which the server made so many steps, so many in its warm-up, and so many before anybody asked."""

    async def scenario() -> None:
        journal.work(before)
        async with serving(journal) as url, asking(f"{url}/v1", parts) as records:
            await records.stand()
            journal.work(warming)
            await records.begin()
            journal.work(after)
            await records.fetch()

    asyncio.run(asyncio.wait_for(scenario(), ENOUGH_S))
    return told_in(parts)


def test_every_step_since_the_first_question_comes_page_by_page(tmp_path: Path) -> None:
    """Asked where the journal stands, then for 10,000 at a time up to where it stood when the run was over."""
    journal = Watched()
    told = fetched(journal, tmp_path, after=2 * MOST_PAGE_STEPS)
    assert journal.asked == [FAR_STEP, FAR_STEP, 5, 10_005, 20_005]
    expected = journal.since(5)
    assert (told.reason, told.missed_steps, told.begin_step) == ("", 0, 8)
    assert told.same_clock and (int64(told.steps["end_ns"]) < 0).all()
    for name in expected.keys() - {"start_ns", "end_ns"}:
        assert told.steps[name].tolist() == expected[name].tolist(), name
    assert durations(told.steps).tolist() == durations(expected).tolist()


def test_what_the_ring_has_dropped_is_counted(tmp_path: Path) -> None:
    """The newest steps are there, and how many are not."""
    told = fetched(Watched(kept_steps=8), tmp_path, after=40)
    assert told.missed_steps == 35 and told.steps["step"].tolist() == list(range(40, 48))


def test_a_server_that_made_no_step_tells_none(tmp_path: Path) -> None:
    """No page is wrong for being empty."""
    told = fetched(Watched(), tmp_path, before=0, warming=0, after=0)
    assert (told.reason, told.begin_step, len(told.steps["step"])) == ("", 0, 0)


def test_a_real_server_tells_the_steps_of_its_requests(tmp_path: Path) -> None:
    """Through the whole of `tokenload serve`: one step a token, on this host's clock."""

    async def scenario(client: Any) -> None:
        async with asking(f"{client.url}/v1", tmp_path) as records:
            await records.stand()
            await records.begin()
            begun_ns.append(time.perf_counter_ns())
            await client.ask(prompt="x", max_tokens=7)
            await records.fetch()

    begun_ns: list[int] = []
    play(speaking(), scenario)
    told = read_told_steps(tmp_path, begun_ns[0], same_host=True)
    assert told.steps["kind"].tolist() == [0] + [1] * 6
    assert told.same_clock and (int64(told.steps["start_ns"]) > 0).all()
    assert not read_told_steps(tmp_path, begun_ns[0], same_host=False).same_clock


def test_a_run_that_never_began_fetches_nothing(tmp_path: Path) -> None:
    """Stopped in its warm-up: one question, and no file."""
    journal = Watched()

    async def scenario() -> None:
        async with serving(journal) as url, asking(url, tmp_path) as records:
            await records.stand()
            await records.fetch()

    asyncio.run(asyncio.wait_for(scenario(), ENOUGH_S))
    assert journal.asked == [FAR_STEP] and not list(tmp_path.iterdir())


def scraped(url: str, parts: Path, **options: Any) -> None:
    """A scraper process from its start to its end, with a run of no length between."""
    scrape = ServerScrape([f"{url}/metrics"], parts, steps_url=steps_url_of(f"{url}/v1"), **options)
    scrape.start()
    try:
        scrape.wait_for_first(20)
        scrape.start_run(time.perf_counter_ns())
    finally:
        scrape.stop()


def test_a_server_without_such_a_path_costs_one_404(tmp_path: Path) -> None:
    """Nothing else is asked, and only the reason is kept."""
    with site() as server:
        server.text("/metrics", pages.vllm_page(1, 1))
        scraped(server.url, tmp_path)
        asked = [path for path in server.paths() if path.startswith(PATH)]
    told = told_in(tmp_path)
    assert len(asked) == 1
    assert (told.begin_step, told.reason, len(told.steps["step"])) == (None, "HTTP 404", 0)


def page(since: int, rows: int = 0, made: Any = 0, **changes: Any) -> dict[str, Any]:
    """What `serve` would tell of so many steps of one slot."""
    numbers = range(since, since + rows)
    ones = dict.fromkeys(("n_steps", "told", "decoding_slots"), [1] * rows)
    columns = {name: [0] * rows for name in Journal().since(0)}
    times = {name: [1_000 * number + at for number in numbers] for at, name in enumerate(("start_ns", "end_ns"))}
    steps = {**columns, **ones, **times, "step": list(numbers)}
    kinds = ["prefill", "decode", "mixed"]
    told = {"next": since + rows, "missed": 0, "made": made, "kinds": kinds, "started_s": 5, "steps": steps}
    return {**told, **changes}


def test_the_key_goes_along_and_into_no_file(tmp_path: Path) -> None:
    """The steps are asked as the target is; what a server sends back of the key is not written down."""
    with site() as server:
        server.text("/metrics", "a 1\n")
        reply = page(FAR_STEP, made=4, kinds=[KEY])
        server.replies[f"{PATH}?since={FAR_STEP}"] = (200, "application/json", json.dumps(reply).encode())
        last = page(4, rows=2, made=6, kinds=[KEY])
        server.replies[f"{PATH}?since=4"] = (200, "application/json", json.dumps(last).encode())
        headers = {"Authorization": f"Bearer {KEY}"}
        scraped(server.url, tmp_path, headers=headers, origin_url=f"{server.url}/v1")
        sent = {name.get("Authorization") for path, name in server.asked if path.startswith(PATH)}
    assert sent == {f"Bearer {KEY}"}
    assert told_in(tmp_path).reason == "its steps are of a kind that is not known"
    assert all(KEY.encode() not in path.read_bytes() for path in tmp_path.iterdir())


LIES: dict[str, tuple[Any, str]] = {
    "no JSON": (b"<html>", "not JSON"),
    "deeply nested": (b"[" * 100_000, "not JSON"),
    "another document": ([1, 2], "no steps"),
    "steps that are no columns": (page(4, steps=[1]), "no steps"),
    "columns that are no lists": (page(4, steps={"step": "abc"}), "no steps"),
    "many columns": (page(4, steps={str(at): [] for at in range(99)}), "no steps"),
    "no count": (page(4, made=None), "how many steps"),
    "a negative count": (page(4, missed=-1), "how many steps"),
    "a count too large": (page(4, made=10**19), "how many steps"),
    "a count that is a truth": (page(4, made=True), "how many steps"),
    "unlike columns": (page(4, steps={"step": [1], "told": []}), "unlike"),
    "long columns": (page(4, steps={"step": [1] * 10_001}, next=10_005), "unlike"),
    "steps that were not asked for": (page(5, rows=1), "not those that were asked for"),
}


@pytest.mark.parametrize(("body", "reason"), LIES.values(), ids=LIES.keys())
def test_a_page_that_is_none_is_refused(body: Any, reason: str) -> None:
    """Why, in words of our own."""
    with pytest.raises(RefusedError, match=reason):
        read_steps_page(body if isinstance(body, bytes) else json.dumps(body).encode(), 4)


async def fetched_from(answer: Callable[[int], dict[str, Any]], parts: Path, within_s: float = 20) -> None:
    """From a server whose pages a test writes; told from which step it is asked."""

    async def reply(request: web.Request) -> web.Response:
        return web.json_response(answer(int(request.query["since"])))

    app = web.Application()
    app.add_routes([web.get(PATH, reply)])
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    async with asking("http://{}:{}".format(*runner.addresses[0]), parts) as records:
        await records.stand()
        await records.begin()
        await records.fetch(within_s)
    await runner.cleanup()


def from_step_4(change: Callable[[int], dict[str, Any]]) -> Callable[[int], dict[str, Any]]:
    """Pages of a journal that stood at 4 before the run."""
    return lambda since: page(since, made=4) if since == FAR_STEP else change(since)


FAULTS: dict[str, tuple[Callable[[int], dict[str, Any]], str]] = {
    "stops short": (lambda since: page(since, made=9), "fewer steps"),
    "is another process": (lambda since: page(since, rows=1, made=5, started_s=6), "restarted"),
    "has fewer than before": (lambda since: page(since, made=3), "restarted"),
    "knows other kinds": (lambda since: page(since, rows=1, made=9, kinds=["decode"]), "kinds"),
    "tells fractions": (lambda since: page(since, 1, 5, steps={"step": [4.5]}), "whole numbers"),
    "tells words": (lambda since: page(since, 1, 5, steps={"step": ["x"]}), "whole numbers"),
    "tells more than a number holds": (lambda since: page(since, 1, 5, steps={"step": [2**70]}), "whole numbers"),
    "tells other columns later": (
        lambda since: page(since, 1, 6) if since == 4 else page(since, 1, 6, steps={"step": [5]}), "columns"),
    "lacks a column": (lambda since: page(since, 1, 5, steps={"step": [4]}), "have no"),
}  # fmt: skip


@pytest.mark.parametrize(("answer", "reason"), FAULTS.values(), ids=FAULTS.keys())
def test_what_does_not_go_on_is_said(answer: Callable[[int], dict[str, Any]], reason: str, tmp_path: Path) -> None:
    """The end comes all the same, with the reason in the place of the steps."""
    asyncio.run(asyncio.wait_for(fetched_from(from_step_4(answer), tmp_path), ENOUGH_S))
    told = told_in(tmp_path)
    assert reason in told.reason and told.begin_step == 4


def test_a_server_that_never_comes_to_its_end_is_given_up(tmp_path: Path) -> None:
    """One step a page, and always more to come: what has come by the limit is kept, and that it is not all."""
    endless = from_step_4(lambda since: page(since, rows=1, made=10**12))
    asyncio.run(asyncio.wait_for(fetched_from(endless, tmp_path, within_s=0.3), ENOUGH_S))
    told = told_in(tmp_path)
    assert told.reason == "not all of its steps came within 0.3 s" and len(told.steps["step"]) > 0


def test_a_server_that_does_not_answer_is_given_up(tmp_path: Path) -> None:
    """The limit holds for the page that is waited for."""
    ending = threading.Event()

    def stuck() -> pages.Reply:
        ending.wait(ENOUGH_S)
        return 200, "application/json", b"{}"

    async def scenario(url: str) -> None:
        async with asking(url, tmp_path) as records:
            await records.stand()
            await records.begin()
            await records.fetch(0.2)

    with site() as server:
        reply = json.dumps(page(FAR_STEP, made=4)).encode()
        server.replies[f"{PATH}?since={FAR_STEP}"] = (200, "application/json", reply)
        server.replies[f"{PATH}?since=4"] = stuck
        try:
            asyncio.run(asyncio.wait_for(scenario(server.url), ENOUGH_S))
        finally:
            ending.set()
    assert told_in(tmp_path).reason == "not all of its steps came within 0.2 s"


def test_the_place_is_beside_the_api() -> None:
    """Under the base path, with or without /v1, and through a unix socket; the query of a target stays out."""
    assert steps_url_of("http://h:8/a/v1/?token=x") == steps_url_of("http://h:8/a") == f"http://h:8/a{PATH}"
    assert steps_url_of("unix:///run/server.sock") == f"http://localhost{PATH}"


def test_a_unix_socket_reaches_the_steps(tmp_path: Path) -> None:
    """As it reaches the target."""
    journal, path = Watched(), tmp_path / "socket"

    async def scenario() -> None:
        nobody = cast(Any, None)
        runner = web.AppRunner(Server(nobody, {}, nobody, nobody, journal, 5).application())
        await runner.setup()
        await web.UnixSite(runner, str(path)).start()
        target, file = f"unix://{path}", str(tmp_path / "0000-journal.arrows")
        place: Any = {"origin_url": target, "unix_socket": str(path)}
        asker = Asker(order := Order((), "", 0, **place, steps_url=steps_url_of(target), steps_file=file))
        records = StepRecords(order, asker)
        await records.stand()
        await records.begin()
        journal.work(2)
        await records.fetch()
        await asker.close()
        await runner.cleanup()

    asyncio.run(asyncio.wait_for(scenario(), ENOUGH_S))
    assert len(told_in(tmp_path).steps["step"]) == 2
