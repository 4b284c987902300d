"""The page in a real browser: no request, no complaint, the figures where they belong, on wide and narrow screens."""

import json
from pathlib import Path

import pytest

from results.report import write_report
from tests.results.report.browser import CHROMIUM, Seen, look
from tests.results.report.folders import make_run, make_sweep
from tests.results.report.reading import read
from tests.results.report.servers import Served, answers, make_served, make_served_sweep, scrapes

needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine: the page was not opened")
WIDTH = "document.documentElement.scrollWidth"
DRAWN = "[...document.querySelectorAll('.plot')].filter(plot => plot.querySelector('svg.main-svg')).length"
COLOURS = (
    "[getComputedStyle(document.body).backgroundColor,"
    " document.querySelector('#chart-throughput').layout.font.color,"
    " getComputedStyle(document.querySelector('rect.s-idle')).fill]"
)
CELL = "document.querySelector('table.scorecard td[data-metric=\"ttft_ms.p50\"]').textContent"
HOVER = (
    "(() => { const rect = document.querySelector('svg.slots rect.s-decoding');"
    " rect.dispatchEvent(new PointerEvent('pointerover', {bubbles: true}));"
    " return rect.closest('.picture').querySelector('.readout').textContent; })()"
)
ASKED = (WIDTH, DRAWN, COLOURS, CELL, HOVER)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_report(make_sweep(tmp_path_factory.mktemp("sweep")))


@pytest.fixture(scope="module")
def views(page: Path) -> dict[tuple[int, bool], Seen]:
    """(width, dark) -> what was seen."""
    sizes = [(width, dark) for width in (1280, 400) for dark in (False, True)]
    return {(width, dark): look(page, *ASKED, width=width, dark=dark) for width, dark in sizes}


@needs_browser
@pytest.mark.parametrize("width", [1280, 400])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_it_opens_offline_without_a_request_or_a_complaint(
    page: Path, views: dict[tuple[int, bool], Seen], width: int, dark: bool
) -> None:
    """Only the file itself is read; every chart is drawn; nothing sticks out to the right."""
    seen = views[width, dark]
    assert seen.requests == [page.resolve().as_uri()]
    assert seen.complaints == []
    assert seen.found[WIDTH] <= width
    assert seen.found[DRAWN] == len(read(page.read_text()).charts)


@needs_browser
def test_colours_follow_the_persons_scheme(views: dict[tuple[int, bool], Seen]) -> None:
    """Background, chart text and slot colours differ between light and dark."""
    light, dark = views[1280, False].found[COLOURS], views[1280, True].found[COLOURS]
    assert all(one != other for one, other in zip(light, dark, strict=True))


@needs_browser
def test_tables_hold_their_figures_and_the_picture_says_who_sits_where(
    page: Path, views: dict[tuple[int, bool], Seen]
) -> None:
    """The first cell is what the file says; pointing at a slot names its request."""
    found = views[1280, False].found
    assert found[CELL] == read(page.read_text()).texts["scorecard", "one-by-one @ 4/s", "ttft_ms.p50"]
    assert found[HOVER].startswith("request ") and "decoding, slot" in found[HOVER]


@needs_browser
def test_a_single_run_opens_as_well(tmp_path: Path) -> None:
    """Also one whose engine's name is markup."""
    page = write_report(make_run(tmp_path, load="burst"))
    seen = look(page, DRAWN, width=400)
    assert (seen.requests, seen.complaints) == ([page.resolve().as_uri()], [])
    assert seen.found[DRAWN] == 2


@needs_browser
def test_hostile_names_do_nothing_in_a_browser(tmp_path: Path) -> None:
    """No script runs, no chart breaks, and the legend shows the name as it is."""
    sweep = make_sweep(tmp_path, engines=("one-by-one",), loads=("16", "burst"))
    told = json.loads((sweep / "sweep.json").read_text())
    name = "</script><script>window.evil=1</script><a href='https://example.org'>x</a>%{x}&lt;"
    told["engines"] = [name]
    for point in told["points"]:
        point["engine"] = name
    (sweep / "sweep.json").write_text(json.dumps(told))
    legend = "document.querySelector('#chart-throughput .legendtext:not(:empty)').textContent + '|' + "
    links = "[...document.querySelectorAll('#chart-throughput a')].length"
    names = "[...document.querySelectorAll('#chart-throughput .legendtext')].map(item => item.textContent).join('|')"
    seen = look(write_report(sweep), "typeof window.evil", links, names, legend + "''")
    assert seen.found["typeof window.evil"] == "undefined" and seen.found[links] == 0
    assert name in seen.found[names].replace("\u00a0", " ")
    assert (len(seen.requests), seen.complaints) == (1, [])


@needs_browser
@pytest.mark.parametrize(("width", "dark"), [(1280, False), (400, True)])
def test_a_servers_page_opens_with_its_panels_on_one_axis(tmp_path: Path, width: int, dark: bool) -> None:
    """No request, no complaint, nothing sticks out; one time axis under all panels; a model's name is only text."""
    model = "<script>window.evil=1</script>%{x}"
    served = Served(answers(), model=model, scrapes=scrapes(), slots=4)
    panels = "Object.keys(document.querySelector('#chart-server-0')._fullLayout._plots).sort().join()"
    for folder in (make_served(tmp_path / "run", served), make_served_sweep(tmp_path, served)):
        page = write_report(folder)
        seen = look(page, WIDTH, DRAWN, panels, "typeof window.evil", width=width, dark=dark)
        assert (seen.requests, seen.complaints) == ([page.resolve().as_uri()], [])
        assert seen.found[WIDTH] <= width and seen.found["typeof window.evil"] == "undefined"
        assert seen.found[DRAWN] == len(read(page.read_text()).charts)
        assert seen.found[panels] == "xy,xy2,xy3,xy4,xy5"
