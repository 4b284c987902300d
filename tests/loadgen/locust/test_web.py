"""Our part of locust's web UI: its routes behind base path and login, and a real browser that goes through it."""

import io
import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest

from loadgen.locust.downloads import DOWNLOADS, available, csv_lines
from tests.loadgen.locust.browsing import Browser, browse, free_port, get, locust_ui
from tests.loadgen.locust.running import locust, post, state_of, until
from tests.results.report.browser import CHROMIUM

LOCAL = ("http://127.0.0.1", "data:", "about:", "blob:")


def test_routes_answer_under_a_base_path_and_before_any_run(tmp_path: Path) -> None:
    """Everything is relative to the page: the script in it, the figures, our own page, plotly from the wheel."""
    with locust_ui(tmp_path, "--web-base-path", "/load") as address:
        status, _, page = get(address)
        assert status == 200
        assert b"./llm/llm.js" in page
        assert b'"key": "llm"' in page.replace(b"\\u0022", b'"')
        assert json.loads(get(address + "llm/live.json")[2])["state"] == "idle"
        assert b"./llm.js" in get(address + "llm/")[2]
        for name, kind in (("llm.js", "javascript"), ("charts.js", "javascript"), ("llm.css", "css")):
            status, headers, _ = get(address + f"llm/{name}")
            assert (status, kind in headers["Content-Type"]) == (200, True)
        assert b"Plotly" in get(address + "llm/plotly.js")[2]
        assert get(address + "llm/report")[0] == 404
        assert get(address + "llm/rows/requests.csv")[0] == 404
        assert get(address + "llm/rows/..%2Flocust.log")[0] == 404
        assert get(address + "llm/page.html")[0] == 404
        root = address.removesuffix("load/")
        assert get(root + "llm/live.json")[0] == 404


def test_a_run_that_is_prepared_is_no_readiness(tmp_path: Path) -> None:
    """Locust's page is told that it spawns, so that it does not go back to its form; and ready when that is over."""
    with locust_ui(tmp_path, STUB_PREPARES="yes") as address:
        assert state_of(address.rstrip("/")) == "spawning"
        assert json.loads(get(address + "llm/live.json")[2])["preparing"] is True
        get(address + "stub/on")
        until(lambda: state_of(address.rstrip("/")) == "ready", "locust's own word")


def test_nothing_is_shown_without_the_login(tmp_path: Path) -> None:
    """With --web-login each of our routes leads to locust's login, as its own do."""
    with locust_ui(tmp_path, "--web-login", STUB_LOGIN="yes") as address:
        for name in ("", "live.json", "report", "plotly.js", "llm.js", *(f"rows/{file}" for file in DOWNLOADS)):
            status, headers, body = get(address + f"llm/{name}")
            assert (status, "login" in headers.get("Location", "")) == (302, True), name
            assert b"latency" not in body


def test_cells_that_a_spreadsheet_would_run_are_quoted(tmp_path: Path) -> None:
    """A server's words are data; numbers keep their minus, missing stays empty, every row is there."""
    words = ["=HYPERLINK(1)", "+1", "-1", "@a", "fine", None]
    table = pa.table({"error": words, "lag_ns": [-5, 1, 2, 3, 4, None]})
    pq.write_table(table, tmp_path / "requests.parquet", row_group_size=2)
    text = b"".join(csv_lines(tmp_path, "requests.csv"))
    read = pc.read_csv(io.BytesIO(text), convert_options=pc.ConvertOptions(strings_can_be_null=True))
    assert read.column("error").to_pylist() == ["'=HYPERLINK(1)", "'+1", "'-1", "'@a", "fine", None]
    assert read.column("lag_ns").to_pylist() == [-5, 1, 2, 3, 4, None]
    assert available(tmp_path) == ["requests.parquet", "requests.csv"]
    assert available(None) == []


def test_a_file_without_rows_is_a_head(tmp_path: Path) -> None:
    """A run that sent nothing has its columns."""
    pq.write_table(pa.table({"error": pa.array([], pa.string())}), tmp_path / "requests.parquet")
    assert b"".join(csv_lines(tmp_path, "requests.csv")) == b'"error"\n'


@pytest.fixture
def idle_ui(tmp_path: Path) -> Iterator[str]:
    """The real thing over a target where nobody is; its address without a slash."""
    target, web = f"http://127.0.0.1:{free_port()}/v1", str(free_port())
    options = ["--target", target, "--requests", "40", "--rate", "20", "--out", str(tmp_path / "out"), "--no-calibrate"]
    with locust(tmp_path / "spool", options, ["--web-host", "127.0.0.1", "--web-port", web]):
        address = f"http://127.0.0.1:{web}"
        until(lambda: state_of(address) == "ready", "the UI")
        yield address


def failure_of(address: str) -> str:
    """What the page says of the newest run that did not come about."""
    return json.loads(get(f"{address}/llm/live.json")[2])["failure"] or ""


NEW = "[...document.querySelectorAll('header button')].some((one) => /^new$/i.test(one.textContent.trim()))"
IN_PROCESS = {"target": "", "no_calibrate": ""}


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"rate": "fast"}, "--rate: 'fast'"),
        ({"rate": "8,fast"}, "--rate: 'fast'"),
        ({"slo": "ttft<1"}, "--slo"),
        ({**IN_PROCESS, "engine": "perpetual"}, "perpetual"),
        ({**IN_PROCESS, "engine": "static,batch=many"}, "many"),
    ],
)
def test_a_start_that_cannot_be_is_told_on_the_page(idle_ui: str, fields: dict[str, str], told: str) -> None:
    """A bad value of the form, and an engine that cannot be built: one line with what is wrong, and no run."""
    post(f"{idle_ui}/swarm", **fields)
    failure = until(lambda: failure_of(idle_ui), "the reason")
    assert told in failure and "\n" not in failure
    until(lambda: state_of(idle_ui) in ("ready", "stopped"), "the end")


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")
def test_a_failed_start_is_a_banner_until_the_next(idle_ui: str) -> None:
    """Nobody at the target: said above all else, with a way to the next start, which takes the banner away."""

    async def visit(browser: Browser) -> None:
        await browser.open(idle_ui)
        await browser.click("form button", "Start")
        await browser.until("document.querySelector('.llm-failure')?.textContent.includes('does not answer')")
        await browser.until(f"Boolean(document.querySelector('form button')) || {NEW}")
        await browser.shoot("failure")
        until(lambda: state_of(idle_ui) in ("ready", "stopped"), "the end")
        post(f"{idle_ui}/swarm", **IN_PROCESS, engine="one-by-one", clock="modelled")
        await browser.until("!document.querySelector('.llm-failure')")
        assert browser.complaints == []

    browse(visit)


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")
def test_the_tab_lives_through_two_runs(tmp_path: Path) -> None:
    """Start, watch figures and a banner, read the report, start again: light and dark, offline, no complaint."""
    with locust_ui(tmp_path, STUB_ALARMS="yes", STUB_WAITS="yes", STUB_EVERY_S="0.05") as address:

        async def visit(browser: Browser) -> None:
            await browser.open(address)
            await _start_from_form(browser)
            await _watch(browser, address)
            await _read_report(browser)
            status, _, rows = get(address + "llm/rows/requests.csv")
            assert (status, rows.count(b"\n")) == (200, 151)
            await _start_again(browser)
            assert browser.complaints == []
            assert [asked for asked in browser.requests if not asked.startswith(LOCAL)] == []

        browse(visit)


async def _start_from_form(browser: Browser) -> None:
    """The fields that do nothing say so, and ours are open."""
    for name in ("userCount", "spawnRate", "host"):
        await browser.until(f"Boolean(document.querySelector('[data-llm-note={name}]'))")
    await browser.until("document.querySelector('[name=rate]')?.closest('.MuiCollapse-root').clientHeight > 0")
    top = "document.querySelector('form [name={}]').getBoundingClientRect().top"
    await browser.until(f"{top.format('target')} < {top.format('arrival')}")
    await browser.shoot("form")
    await browser.click("button", "Start")


async def _watch(browser: Browser, address: str) -> None:
    """Rows, charts and the banner of a lost worker, kept when locust draws its page anew, in both themes."""
    await browser.click(".MuiTab-root", "LLM")
    await browser.until("document.querySelectorAll('#llm-panel [data-row] td').length === 35")
    await browser.until("document.documentElement.dataset.llmCharts === 'drawn'")
    await browser.until("document.querySelector('.llm-error')?.textContent.includes('<img src=x')")
    await browser.until("Boolean(document.querySelector('.llm-alarms [data-kind=worker]'))")
    assert await browser.ask("document.querySelector('#llm-panel').dataset.theme") == "light"
    await browser.shoot("during-light")
    await browser.ask("[...document.querySelectorAll('header button')].at(-1).click()")
    await browser.until("document.querySelector('#llm-panel').dataset.theme === 'dark'")
    await browser.click(".MuiTab-root", "Statistics")
    await browser.until("!document.querySelector('#llm-panel')")
    await browser.click(".MuiTab-root", "LLM")
    await browser.until("document.querySelectorAll('#llm-panel .js-plotly-plot').length >= 6")
    get(address + "stub/on")
    await browser.until("Boolean(document.querySelector('.llm-verdict'))")
    await browser.until("document.querySelector('#llm-panel tbody tr td').textContent === '150'")
    await browser.shoot("after")


async def _read_report(browser: Browser) -> None:
    """The run's own page, in a frame that can reach nothing of locust's."""
    await browser.click(".MuiTab-root", "LLM report")
    await browser.until("Boolean(document.querySelector('#llm-report iframe'))")
    frame = "document.querySelector('#llm-report iframe')"
    assert await browser.ask(f"{frame}.sandbox.contains('allow-same-origin')") is False
    await browser.shoot("report")


async def _start_again(browser: Browser) -> None:
    """Locust's page comes out of its clean-up by itself, and the second run begins with nothing of the first."""
    await browser.click("header button", "New")
    await browser.click("form button", "Start")
    await browser.click(".MuiTab-root", "LLM")
    await browser.until("Boolean(document.querySelector('.llm-state.llm-running'))")
    await browser.until("Boolean(document.querySelector('.llm-alarms [data-kind=worker]'))")
    assert await browser.ask("document.querySelector('.llm-verdict')") is None
    assert await browser.ask("Boolean(document.querySelector('#llm-panel [data-row=ttft]'))") is True
