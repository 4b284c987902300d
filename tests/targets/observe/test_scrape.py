"""The scraper as a process, against servers on loopback."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path

import pytest

from results.server.panels import panels
from results.server.summary import server_summary
from results.server.table import Series, ServerTable, read_scrapes
from targets.observe.asking import LARGEST_BYTES
from targets.observe.places import metrics_urls_of
from targets.observe.scrape import ServerScrape
from tests.targets.observe import pages
from tests.targets.observe.pages import Site, site, wait_until
from tests.targets.ssemock_process import ssemock

KEY = "tk-verysecretvalue"


@contextmanager
def scraping(scrape: ServerScrape) -> Iterator[ServerScrape]:
    """Started, its first round done, the run begun; stopped whatever happens."""
    scrape.period_s = 0.1
    scrape.start()
    try:
        scrape.wait_for_first(20)
        scrape.start_run(time.perf_counter_ns())
        yield scrape
    finally:
        scrape.stop()


def scraped(scrape: ServerScrape, server: Site, page_of: str, times: int = 3) -> ServerTable:
    """The table of a run in which a page was asked so many times and once more at the end."""
    with scraping(scrape):
        wait_until(lambda: server.paths().count(page_of) >= times)
    return read_scrapes(scrape.parts)


def told(table: ServerTable, name: str) -> dict[str, list[float]]:
    """Values of a name, by URL's end and labels."""
    found: dict[str, list[float]] = {}
    for index, value in zip(table.series_index, table.value, strict=True):
        one: Series = table.series[index]
        if one.name == name:
            found.setdefault(one.url.rpartition("/")[2] + one.labels, []).append(float(value))
    return found


def document(value: object) -> pages.Reply:
    """As a JSON reply."""
    return 200, "application/json", json.dumps(value).encode()


def test_llamacpp_tells_its_slots(tmp_path: Path) -> None:
    """Metrics at every round, slots beside them, settings at both ends: at concurrency 1 on 4 slots 0.75."""
    steps = count(400, 100)
    with site() as server:
        server.text("/metrics", lambda: pages.llamacpp_page(next(steps), 1, processing=1))
        server.replies["/slots"] = document(pages.LLAMACPP_SLOTS)
        server.replies["/props"] = document(pages.LLAMACPP_PROPS)
        table = scraped(ServerScrape(metrics_urls_of(f"{server.url}/v1"), tmp_path), server, "/metrics")
        asked = server.paths()
    assert asked.count("/props") == 2
    assert asked.count("/slots") == asked.count("/metrics") >= 4
    summary = server_summary(table)["server"]
    assert (summary["kind"], summary["slots"], summary["unused_slot_fraction"]) == ("llamacpp", 4, 0.75)
    assert summary["running_max"] == 1
    assert told(table, "llamacpp_slots:processing")['slots{slot="0"}'][0] == 1


def test_rows_are_on_the_runs_axis(tmp_path: Path) -> None:
    """The first round lies before time 0, the second at it, and each request ends after it began."""
    with site() as server:
        server.text("/metrics", pages.vllm_page(1, 1))
        table = scraped(ServerScrape([f"{server.url}/metrics"], tmp_path), server, "/metrics")
    times = [int(table.t_ns[table.round == number].min()) for number in range(int(table.round.max()) + 1)]
    assert times[0] < 0 <= times[1] < times[2]
    assert times == sorted(times)
    assert (table.request_ns > 0).all()


@pytest.mark.parametrize(
    ("page", "place", "reply", "name"),
    [
        (pages.vllm_page(1, 1), "/load", {"server_load": 2}, "vllm_load:server_load"),
        (pages.SGLANG_PAGE, "/get_server_info", pages.SGLANG_INFO, "sglang_info:max_running_requests"),
        (pages.llamacpp_page(1, 1), "/props", pages.LLAMACPP_PROPS, "llamacpp_props:total_slots"),
    ],
)
def test_what_lies_beside_is_asked_too(page: str, place: str, reply: object, name: str, tmp_path: Path) -> None:
    """A page's names show the kind of server, and what else it tells; a prefix of the path is kept."""
    with site() as server:
        server.text("/a/metrics", page)
        server.replies[f"/a{place}"] = document(reply)
        table = scraped(ServerScrape([f"{server.url}/a/metrics"], tmp_path), server, f"/a{place}", 1)
    assert told(table, name)


def test_failures_are_rows(tmp_path: Path) -> None:
    """Why a place told nothing is written down; what will not change is not asked again, what may is."""
    with site() as server:
        server.replies["/down/metrics"] = (503, "text/plain", b"loading")
        server.replies["/page/metrics"] = (200, "text/html", b"<html>\n<body>Hello</body>\n")
        server.replies["/away/metrics"] = (302, "text/plain", f"{server.url}/elsewhere".encode())
        server.replies["/large/metrics"] = (200, pages.TEXT, b"#" * (LARGEST_BYTES + 1))
        server.text("/partly/metrics", "a 1\n}{\nb 2\n")
        names = ("down", "gone", "page", "away", "large", "partly")
        urls = [f"{server.url}/{name}/metrics" for name in names]
        with closing(socket.socket()) as unused:
            unused.bind(("127.0.0.1", 0))
            urls.append(f"http://127.0.0.1:{unused.getsockname()[1]}/metrics")
            table = scraped(scrape := ServerScrape(urls, tmp_path), server, "/down/metrics")
        asked = server.paths()
    reasons = [one.labels for one in table.series if one.name == "scrape_failed"]
    expected = ("HTTP 503", "HTTP 404", "not Prometheus text", "HTTP 302", "larger than", "refused")
    assert len(reasons) == len(expected)
    for word, labels in zip(expected, reasons, strict=True):
        assert word in labels
    assert len(scrape.silent) == len(expected)
    assert asked.count("/gone/metrics") == asked.count("/page/metrics") == asked.count("/large/metrics") == 1
    assert "/elsewhere" not in asked
    assert told(table, "scrape_skipped")["metrics"][0] == 1


def test_a_slow_server_costs_a_row(tmp_path: Path) -> None:
    """A page that takes longer than a second is given up; others are read, and the end is not held up."""
    ending = threading.Event()

    def slow() -> pages.Reply:
        ending.wait(20)
        return 200, pages.TEXT, b"a 1\n"

    with site() as server:
        server.replies["/slow/metrics"] = slow
        server.text("/quick/metrics", "tgi_queue_size 1\n")
        urls = [f"{server.url}/{name}/metrics" for name in ("slow", "quick")]
        table = scraped(ServerScrape(urls, tmp_path), server, "/quick/metrics")
        ending.set()
    assert '{reason="no answer within 1 s"}' in {one.labels for one in table.series}
    assert len(told(table, "tgi_queue_size")["metrics"]) >= 3


def test_keys_go_to_the_targets_own_origin_alone(tmp_path: Path) -> None:
    """Another host's metrics are asked without the target's key; a login of a URL replaces it; no row has either."""
    with site() as home, site() as abroad:
        for server in (home, abroad):
            server.text("/metrics", f'a{{said="{KEY}"}} 1\n')
            server.text("/login/metrics", 'a{said="hunter2-pw"} 1\n')
        login = home.url.replace("//", "//user:hunter2-pw@") + "/login/metrics"
        urls = [f"{home.url}/metrics", f"{abroad.url}/metrics", login]
        scrape = ServerScrape(urls, tmp_path, {"Authorization": f"Bearer {KEY}"}, f"{home.url}/v1")
        scraped(scrape, home, "/metrics", 1)
        seen = {(name, path): headers.get("Authorization") for name, server in (("home", home), ("abroad", abroad))
                for path, headers in server.asked}  # fmt: skip
    assert seen[("home", "/metrics")] == f"Bearer {KEY}"
    assert seen[("abroad", "/metrics")] is None
    assert (seen[("home", "/login/metrics")] or "").startswith("Basic ")
    table = read_scrapes(tmp_path)
    assert all(KEY not in str(one) and "hunter2" not in str(one) for one in table.series)
    assert told(table, "a")


def test_the_key_is_in_no_argument_and_no_environment(tmp_path: Path) -> None:
    """Who lists processes sees the module's name and nothing else."""
    with site() as server:
        server.text("/metrics", "a 1\n")
        scrape = ServerScrape([f"{server.url}/metrics"], tmp_path, {"X-Key": KEY}, server.url)
        with scraping(scrape):
            number = child_of(os.getpid())
            for name in ("cmdline", "environ"):
                assert KEY.encode() not in Path(f"/proc/{number}/{name}").read_bytes()


def test_a_unix_socket_reaches_the_target(tmp_path: Path) -> None:
    """Where the target is behind one, its metrics are asked through it."""
    path = tmp_path / "socket"
    page = b"tgi_queue_size 7\n"
    with closing(socket.socket(socket.AF_UNIX)) as listener:
        listener.bind(str(path))
        listener.listen()

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    connection.recv(65536)
                    connection.sendall(
                        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(page) + page
                    )

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        target = f"unix://{path}"
        scrape = ServerScrape(metrics_urls_of(target)[:1], tmp_path, origin_url=target, unix_socket=path)
        with scraping(scrape):
            assert scrape.silent == ()
        listener.shutdown(socket.SHUT_RDWR)
    thread.join()
    assert told(read_scrapes(tmp_path), "tgi_queue_size")["metrics"][0] == 7


def test_nothing_to_ask_starts_nothing(tmp_path: Path) -> None:
    """Without a URL there is no process, no file and no failure."""
    scrape = ServerScrape([], tmp_path)
    scrape.start()
    assert asyncio.run(scrape.first_scrape()) == ()
    scrape.start_run(0)
    assert scrape.stop() is None
    assert list(tmp_path.iterdir()) == []


def child_of(parent: int) -> int:
    """The scraper that a process has started."""
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            command = status.with_name("cmdline").read_bytes()
            if f"PPid:\t{parent}\n" in status.read_text() and b"targets.observe.scraper" in command:
                return int(status.parent.name)
        except OSError:
            continue
    raise AssertionError("it has none")


def is_running(number: int) -> bool:
    """Whether a process is there and no zombie."""
    try:
        return "State:\tZ" not in Path(f"/proc/{number}/status").read_text()
    except OSError:
        return False


def test_a_killed_scraper_leaves_its_rows(tmp_path: Path) -> None:
    """kill -9: what was flushed is read, and the run goes on without it."""
    with site() as server:
        server.text("/metrics", "tgi_queue_size 1\n")
        scrape = ServerScrape([f"{server.url}/metrics"], tmp_path)
        with scraping(scrape):
            wait_until(lambda: len(read_scrapes(tmp_path)) >= 2)
            os.kill(child_of(os.getpid()), signal.SIGKILL)
            scrape.start_run(time.perf_counter_ns())
            scrape.start_run(time.perf_counter_ns())
            path = scrape.stop()
    assert path == tmp_path / "0000-server.arrows"
    assert len(told(read_scrapes(tmp_path), "tgi_queue_size")["metrics"]) >= 2


PARENT = """
import sys, time
from pathlib import Path
from targets.observe.scrape import ServerScrape
scrape = ServerScrape([sys.argv[1]], Path(sys.argv[2]))
scrape.start()
scrape.wait_for_first(20)
scrape.start_run(time.perf_counter_ns())
print("begun", flush=True)
time.sleep(60)
"""


def test_a_scraper_ends_with_its_parent(tmp_path: Path) -> None:
    """kill -9 of the run: the scraper asks a last time, closes its stream and ends."""
    with site() as server:
        server.text("/metrics", "tgi_queue_size 1\n")
        command = [sys.executable, "-c", PARENT, f"{server.url}/metrics", str(tmp_path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as parent:
            assert parent.stdout is not None
            assert parent.stdout.readline() == b"begun\n"
            number = child_of(parent.pid)
            wait_until(lambda: len(read_scrapes(tmp_path)) >= 2)
            before = len(server.paths())
            parent.kill()
        wait_until(lambda: not is_running(number))
        assert len(server.paths()) > before
    rows = told(read_scrapes(tmp_path), "tgi_queue_size")["metrics"]
    assert len(rows) == len(server.paths())


def test_a_mock_under_load_is_seen_from_inside(tmp_path: Path) -> None:
    """Against ssemock: running requests at most its slots, waiting ones beyond, and all its tokens counted."""
    with ssemock("--slots", "4", "--ttft-us", "5000", "--itl-us", "3000") as port:
        url = f"http://127.0.0.1:{port}"
        scrape = ServerScrape(metrics_urls_of(f"{url}/v1"), tmp_path, origin_url=url)
        with scraping(scrape):
            threads = [threading.Thread(target=complete, args=(url, 400)) for _ in range(6)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        table = read_scrapes(tmp_path)
    summary = server_summary(table, slots=4)["server"]
    assert (summary["kind"], summary["running_max"], summary["waiting_max"]) == ("vllm", 4, 2)
    assert "iteration_tokens_total_count" in summary["advice"]["unused_slot_fraction"]
    rates = panels(table)["output_tokens_per_s"]
    passed_s = [0.0, *[float(after - before) / 1e9 for before, after in zip(rates.t_ns, rates.t_ns[1:], strict=False)]]
    tokens = sum(rate * time_s for rate, time_s in zip(rates.value[1:], passed_s[1:], strict=True))
    assert tokens == pytest.approx(6 * 400)


def complete(url: str, max_tokens: int) -> None:
    """One request, read to its end."""
    body = json.dumps({"prompt": "a b", "max_tokens": max_tokens}).encode()
    request = urllib.request.Request(f"{url}/v1/completions", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as reply:
        reply.read()
