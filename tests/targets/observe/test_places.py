"""Where servers tell about themselves, and when they are asked."""

import pytest

from targets.observe.order import Order, read_order
from targets.observe.places import (
    MOST_PLACES,
    beside,
    check_urls,
    metrics_urls_of,
    origin,
    places_of,
    shown,
)
from targets.observe.rows import MOST_ROWS
from targets.observe.scrape import ServerScrape
from targets.observe.scraper import Timetable

S = 1_000_000_000


@pytest.mark.parametrize(
    ("base_url", "root"),
    [
        ("http://h:8000", "http://h:8000"),
        ("http://h:8000/", "http://h:8000"),
        ("http://h:8000/v1", "http://h:8000"),
        ("http://h:8000/v1/", "http://h:8000"),
        ("https://h/llm/v1?key=x#y", "https://h/llm"),
        ("http://[::1]:80/v1", "http://[::1]:80"),
        ("unix:///run/server.sock", "http://localhost"),
    ],
)
def test_metrics_are_looked_for_beside_the_api(base_url: str, root: str) -> None:
    """The base URL without its /v1, and three places under it."""
    assert metrics_urls_of(base_url) == (f"{root}/metrics", f"{root}/slots", f"{root}/props")


def test_what_lies_beside_a_metrics_url() -> None:
    """By kind of server; its query is not taken along."""
    assert beside("http://h/a/metrics?x=1", "llamacpp") == ("http://h/a/slots", "http://h/a/props")
    assert beside("http://h/metrics", "sglang") == ("http://h/get_server_info",)
    assert beside("http://h/metrics", "tgi") == ()


@pytest.mark.parametrize(
    "url", ["h:8000/metrics", "ftp://h/metrics", "http:///metrics", "http://h:x/", "http://h:0/", ""]
)
def test_a_url_that_cannot_be_asked_is_named(url: str) -> None:
    """In one line, with the form it should have, before anything is started."""
    with pytest.raises(ValueError, match=r"^metrics URL .*http://HOST:PORT/metrics$"):
        check_urls([url])


def test_there_are_at_most_so_many_places() -> None:
    """More than a second would do to ask them all is an error."""
    urls = [f"http://h:{port}/metrics" for port in range(1, MOST_PLACES + 2)]
    check_urls(urls[:-1])
    with pytest.raises(ValueError, match="at most"):
        check_urls(urls)


def test_places_are_shown_without_secrets_and_told_apart() -> None:
    """Login and query are not shown; two that then look alike get a mark; the same URL is one place."""
    urls = ["http://u:pw@h/metrics?token=a", "http://h/metrics?token=b", "http://h/metrics?token=b", "http://h/slots"]
    places = places_of(urls)
    assert [place.shown for place in places] == ["http://h/metrics", "http://h/metrics#2", "http://h/slots"]
    assert [place.document for place in places] == [None, None, "slots"]
    assert shown("http://[bad") == "(no URL)"


def test_origins_are_scheme_host_and_port() -> None:
    """The usual port is the one that is not said."""
    assert origin("http://h/x") == origin("http://h:80/y") != origin("https://h/x")
    assert origin("unix:///run/server.sock") == origin(metrics_urls_of("unix:///run/server.sock")[0])
    assert origin("http://h:81/x") != origin("http://h:82/x")


def test_an_order_survives_its_line_and_shows_no_secret() -> None:
    """What the scraper reads is what it was sent; neither end's repr has a header or a login in it."""
    order = Order(
        ("http://u:pw@h/metrics",), "s", 1, {"Authorization": "Bearer abc"}, "http://u:pw@h", False, "ca", None
    )
    assert read_order(order.line()) == order
    assert order.line().count(b"\n") == 1
    scrape = ServerScrape(order.urls, "parts", order.headers, order.origin_url)  # type: ignore[arg-type]
    for text in (repr(order), repr(scrape)):
        assert "pw" not in text
        assert "abc" not in text


def test_rounds_are_on_the_seconds_of_the_run() -> None:
    """From time 0 on, by absolute times: a late round delays no other, and missed ones are left out."""
    timetable = Timetable(1.0)
    timetable.start_run(5 * S)
    due = [timetable.next_ns]
    for now_ns in (5 * S + 3, 6 * S + 900, 9 * S + 1, 10 * S - 1):
        timetable.done(now_ns, 0)
        due.append(timetable.next_ns)
    assert [at / S for at in due] == [5, 6, 7, 10, 11]


def test_a_long_run_is_asked_less_often() -> None:
    """At each further so many rows the period doubles: an hour of the largest pages stays within bounds."""
    timetable = Timetable(1.0)
    timetable.start_run(0)
    timetable.done(0, MOST_ROWS - 1)
    assert timetable.next_ns == S
    timetable.done(S, MOST_ROWS)
    assert timetable.next_ns == 3 * S
    timetable.done(3 * S, 3 * MOST_ROWS)
    assert timetable.next_ns == 11 * S
