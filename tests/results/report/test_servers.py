"""The page of servers: what carries which rate first, then their phases, replies, tokens, client and own metrics."""

import json
import re
import shutil
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from results.report import write_report
from results.report.servers import server_name, unlike_names
from tests.results.report.folders import make_run
from tests.results.report.reading import Reading, read
from tests.results.report.servers import (
    CALIBRATION,
    MS,
    URL,
    Served,
    answers,
    failing,
    make_killed,
    make_served,
    make_served_sweep,
    scrape_rows,
    scrapes,
)

NAME = "127.0.0.1:8000 · tiny-1b"
OTHER_URL = "http://127.0.0.1:9000/v1"
OF_ENGINES = ("Slot time", "The slot picture", "What the texts claim", "first text", "wasted_slot_fraction")


def page_of(folder: Path) -> Reading:
    """Written and read."""
    return read(write_report(folder).read_text())


def words(found: Reading) -> str:
    """All text, its spaces made single."""
    return " ".join(found.text.split())


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_served(tmp_path_factory.mktemp("run") / "run", Served(answers(), scrapes=scrapes(), slots=4))


@pytest.mark.parametrize(
    ("clocks", "says"),
    [
        ([{"offset_ns": 7 * MS, "uncertainty_ns": 310_000, "shared": False}, {"uncertainty_ns": 0, "shared": True}],
         "2 workers with clocks within 0.310 ms"),
        ([{"uncertainty_ns": 0, "shared": True}], "1 worker on one clock"),
        ([{}], "1 worker whose clocks are not all known"),
    ],
)  # fmt: skip
def test_the_clocks_of_workers_stand_in_the_conditions(
    tmp_path: Path, clocks: list[dict[str, object]], says: str
) -> None:
    """In the line, and each with its rank among the facts."""
    workers = [{"rank": rank, "clock": clock} for rank, clock in enumerate(clocks)]
    told = words(page_of(make_served(tmp_path / "run", Served(answers(), info={"workers": workers}))))
    assert says in told
    assert ("worker 0.clock.uncertainty_ns310000" in told) == ("0.310" in says)


def test_one_clock_is_not_worth_a_word(found: Reading) -> None:
    """Without workers there is none but the client's own."""
    assert "worker" not in words(found)


@pytest.fixture(scope="module")
def found(run: Path) -> Reading:
    return page_of(run)


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    points = [
        Served(answers(ttft_ms=ttft_ms), url=url, load=load)
        for load in ("10", "20")
        for url, ttft_ms in ((URL, 50), (OTHER_URL, 50 if load == "10" else 1200))
    ]
    return make_served_sweep(tmp_path_factory.mktemp("sweep"), *points)


def test_a_server_goes_by_host_port_and_model(found: Reading) -> None:
    """In the title, the tables and the sentences; never by its whole address."""
    assert f"{NAME} at 10 req/s" in found.text
    assert ("scorecard", f"{NAME} @ 10/s", "ttft_ms.p50") in found.values


def test_names_hide_user_path_and_query_and_stay_apart() -> None:
    """Nothing secret of an address is in a name; two servers never share one."""
    info = {"engine": {"served_model": "/models/org/Tiny-1B"}}
    assert server_name("https://me:secret@host:8443/v1?key=abc", info) == "host:8443 · Tiny-1B"
    assert server_name("http://localhost", {"engine": {"endpoint": {"unix_socket": "/run/s.sock"}}}) == "unix:s.sock"
    names = unlike_names(["http://h:1/a", "http://h:1/b", "http://h:2/a", "http://h:2/a?x=1"], {})
    assert len(set(names.values())) == 4 and names["http://h:1/a"] == "h:1 · /a"
    assert not any("x=1" in name for name in names.values())


def test_what_only_engines_tell_is_not_on_the_page_of_a_server(found: Reading) -> None:
    """No slot picture, no slot states, no claims of the texts."""
    assert not [text for text in OF_ENGINES if text in found.text]
    assert set(found.charts) == {"server-0"}


def test_the_phases_are_those_of_the_rows(run: Path, found: Reading) -> None:
    """p50 and p99 against pandas on the Parquet files; a phase that no request had is none."""
    requests = pd.read_parquet(run / "requests.parquet")
    first = pd.read_parquet(run / "tokens.parquet")["t_ns"].map(lambda times: times[0])
    wait = (first - requests["header_ns"]) / MS
    values = {metric: value for (_, _, metric), value in found.values.items()}
    for name, q in (("p50", 0.5), ("p99", 0.99)):
        expected = float(np.quantile(wait, q, method="median_unbiased"))
        assert values[f"wire.head_to_token_ms.{name}"] == pytest.approx(expected)
    assert (values["phases.upload_ms.p50"], values["wire.decode_ms.p50"], values["tail_ms.p50"]) == (1.0, 70.0, 4.0)
    assert values["phases.wait_ms.p50"] == 3.0
    assert values["phases.connect_ms.n"] == 1.0
    assert found.texts["phases", "TLS", "phases.tls_ms.n"] == "0"


def tiles(page: Path) -> dict[str, str]:
    """Metric -> text of the facts of a single run."""
    html = page.read_text()
    return dict(re.findall(r'<dd[^>]*data-metric="([^"]+)"[^>]*>([^<]*)', html))


def test_a_run_says_how_its_replies_came_and_what_the_client_adds(run: Path) -> None:
    """Connections, tokens and calibration, in full."""
    page = write_report(run)
    found = tiles(page)
    assert (found["wire.connections.opened_here"], found["wire.connections.reused"]) == ("1", "119")
    assert found["tokens.received"] == "960 of 960"
    assert found["calibration.ttft_error_us.p99"] == "0.210"
    assert found["ttft_ms.p50"] == "50.0" and found["ttft_net_ms.p50"] == "49.0"
    assert found["wire.lag_ms.p50"] == "1.00"
    assert found["wire.busiest_events_per_s"] == "80"
    assert found["client.ceiling_share"] == f"{100 * 80 / CALIBRATION['ceiling_events_per_s']:.1f} %"


def test_token_counts_by_chunks_are_called_approximate(tmp_path: Path) -> None:
    """On the first screen, with what to pass."""
    found = words(page_of(make_served(tmp_path / "run", Served(answers(told_output_tokens=None)))))
    assert "Tokens are approximate" in found and "--tokenizer FILE" in found
    assert "chunksapproximate" in found


def test_without_scrapes_the_page_says_what_to_pass(tmp_path: Path) -> None:
    """Not observable, and never 0."""
    found = page_of(make_served(tmp_path / "run", Served(answers())))
    assert found.texts["answer servers", NAME, "server.unused_slot_fraction"].startswith("not observable")
    assert "not observable. Pass --metrics-url URL (and --slots N" in words(found)
    assert [trace["name"] for trace in found.charts["server-0"]["data"]] == [
        "client: in flight", "TTFT", "client: tokens/s",
    ]  # fmt: skip


def test_without_slots_the_page_says_to_pass_them(tmp_path: Path) -> None:
    """vLLM tells everything but its slots."""
    found = page_of(make_served(tmp_path / "run", Served(answers(), scrapes=scrapes())))
    assert "pass --slots N (its --max-num-seqs)" in words(found)
    assert found.values["scorecard", f"{NAME} @ 10/s", "server.kv_max_fraction"] == pytest.approx(0.6)


def test_the_servers_panels_share_the_clients_time_axis(found: Reading) -> None:
    """One axis of time; every scrape at its time; unused slots from the counters."""
    chart = found.charts["server-0"]
    by_name = {trace["name"]: trace for trace in chart["data"]}
    assert {trace["xaxis"] for trace in chart["data"]} == {"x"} and "xaxis2" not in chart["layout"]
    assert by_name["server: running"]["x"] == [float(at) for at in range(13)]
    assert by_name["server: running"]["y"] == [float(at % 3) for at in range(13)]
    assert by_name["server: tokens/s"]["y"][1:] == [80.0] * 12
    domains = [axis["domain"] for name, axis in sorted(chart["layout"].items()) if name.startswith("yaxis")]
    assert len(domains) == 5 and all(low < high for low, high in domains)
    assert all(upper[0] >= lower[1] for upper, lower in pairwise(domains))
    assert found.values["answer servers", NAME, "server.unused_slot_fraction"] == pytest.approx(0.5)


def test_tokens_over_time_add_up_to_the_tokens_received(found: Reading) -> None:
    """The client's rate, times the width of its stretches."""
    trace = next(one for one in found.charts["server-0"]["data"] if one["name"] == "client: tokens/s")
    widths = np.diff(trace["x"])
    assert float((np.array(trace["y"][1:]) * widths).sum()) == pytest.approx(960, abs=0.1)


def test_a_damaged_server_table_leaves_the_page_standing(run: Path, tmp_path: Path) -> None:
    """It says so in place of the panels."""
    copy = shutil.copytree(run, tmp_path / "copy")
    (copy / "server.parquet").write_bytes(b"PAR1 no more")
    assert "server.parquet cannot be read" in page_of(copy).text


def test_a_closed_loop_is_labelled_wherever_a_figure_of_it_stands(tmp_path: Path) -> None:
    """In the title, the answer, the scorecard and the charts; no rate is said to be carried."""
    points = [Served(answers(), load=load) for load in ("closed:16", "closed:4")]
    found = page_of(make_served_sweep(tmp_path, *points))
    assert "In a closed loop (4 and 16 users) each request is due when an earlier one has ended" in words(found)
    assert "Carries up to" not in found.text and "○ 100 %" in found.text
    heads = {head for _, head, metric in found.values if metric in ("ttft_ms.p50", "wire.decode_ms.p50")}
    assert heads >= {f"{NAME} @ 4 users, closed", f"{NAME} @ 16 users, closed"}
    assert not [head for head in heads if head != NAME and "closed" not in head]
    assert found.charts["ttft"]["layout"]["xaxis"]["ticktext"] == ["4<br>users,<br>closed", "16<br>users,<br>closed"]


def test_a_capped_schedule_is_labelled_wherever_a_figure_of_it_stands(tmp_path: Path) -> None:
    """With the server's name; its latency still begins at the schedule."""
    found = page_of(make_served(tmp_path / "run", Served(answers(), config={"max-concurrency": "8"})))
    heads = {head for table, head, _ in found.values if table in ("scorecard", "answer servers")}
    assert heads and all(head.startswith(f"{NAME}, capped at 8 in flight") for head in heads)
    assert "this is no open loop" in found.text
    assert found.values["scorecard", f"{NAME}, capped at 8 in flight @ 10/s", "ttft_ms.p50"] == 50.0


def test_a_sweep_says_which_server_carries_which_rate(sweep: Path) -> None:
    """By name, within the SLO."""
    found = page_of(sweep)
    other = NAME.replace("8000", "9000")
    assert found.texts["answer servers", other, "slo.attainment"] == "✗ 0 %"
    assert f"At 20 req/s within ttft<=1s,tpot<=50ms (attainment ≥ 99 %): {NAME} (100 %)" in found.text
    assert f"{other} (0 %) does not." in found.text
    assert found.values["scorecard wire", f"{other} @ 20/s", "wire.head_to_token_ms.p50"] == pytest.approx(1195)
    assert {"throughput", "ttft", "tpot"} <= set(found.charts)
    assert not [text for text in OF_ENGINES if text in found.text]


def test_a_point_that_never_ran_is_missing_under_its_servers_name(sweep: Path, tmp_path: Path) -> None:
    """The sweep knows the address alone; the other points know the model."""
    copy = shutil.copytree(sweep, tmp_path / "copy")
    shutil.rmtree(copy / json.loads((copy / "sweep.json").read_text())["points"][0]["folder"])
    found = page_of(copy)
    assert found.texts["scorecard", f"{NAME} @ 10/s", "ttft_ms.p50"] == "missing"
    assert f"1 of 4 points is missing: {NAME} at 10." in found.text


def test_a_run_that_ended_early_says_why_first(tmp_path: Path) -> None:
    """The reason of the circuit breaker, before every figure."""
    served = Served(answers(), info={"ended_early": "20 requests in a row failed"}, status="stopped")
    found = page_of(make_served(tmp_path / "run", served))
    assert "Ended early: 20 requests in a row failed." in found.text.partition("Scorecard")[0]


def test_a_withheld_latency_is_no_figure_anywhere(tmp_path: Path) -> None:
    """Gaps of a buffered stream are not the server's."""
    folder = make_served(tmp_path / "run", Served(answers()))
    told = json.loads((folder / "run.json").read_text())
    why = {"code": "BUFFERED", "text": "one read a reply", "remedy": "no proxy"}
    told["verdict"]["withheld"] = {"itl_ms": why, "ttft_ms": why}
    (folder / "run.json").write_text(json.dumps(told))
    found = page_of(folder)
    assert found.texts["scorecard", f"{NAME} @ 10/s", "itl_ms.p99"] == "withheld: buffered"
    assert found.texts["phases", "wait to first token", "wire.head_to_token_ms.p50"] == "withheld: buffered"
    assert "TTFT" not in [trace["name"] for trace in found.charts["server-0"]["data"]]
    assert ("scorecard", f"{NAME} @ 10/s", "tpot_ms.p50") in found.values


def test_an_uncalibrated_client_is_said_to_be_one(tmp_path: Path) -> None:
    """Its own error is not known, and not 0."""
    served = Served(answers(), config={"no-calibrate": "true"}, info={"calibration": None, "facts": {}})
    folder = make_served(tmp_path / "run", served)
    said = "This client was not calibrated (leave out --no-calibrate): how much of each latency is its own"
    assert said in page_of(folder).text
    assert tiles(folder / "report.html")["client.ceiling_share"] == "not known"


def test_how_requests_ended_is_counted_by_status_and_words(tmp_path: Path) -> None:
    """Status, HTTP status, finish reason and what the server said, the most frequent first."""
    streams = failing(answers(), 3, "out of memory")
    found = page_of(make_served(tmp_path / "run", Served(streams)))
    assert found.values["ends", f"{NAME} @ 10/s", "ends.http_error"] == 3
    assert "3 http_error 500 – out of memory" in words(found)


def test_two_pages_of_one_folder_are_the_same_bytes(run: Path, sweep: Path) -> None:
    """Also with a server's panels."""
    for folder in (run, sweep):
        assert write_report(folder).read_bytes() == write_report(folder).read_bytes()


def test_the_command_repeats_lists_and_flags_as_they_are_typed(tmp_path: Path) -> None:
    """A flag has no value, and an option that may be given again is given again."""
    config = {"no-calibrate": "true", "metrics-url": ["http://127.0.0.1:1/metrics", "http://127.0.0.1:2/metrics"]}
    found = page_of(make_served(tmp_path / "run", Served(answers(), config=config)))
    urls = "--metrics-url http://127.0.0.1:1/metrics --metrics-url http://127.0.0.1:2/metrics"
    assert f"tokenload run {urls} --no-calibrate --rate 10 " in found.text


HOSTILE = "<script>alert(1)</script>\x1b[2J{{ 7*7 }}</td><img src=x onerror=alert(2)>"


def test_text_of_a_server_is_text(tmp_path: Path) -> None:
    """Error, model, version and finish reason: the same elements as with harmless ones, no control character."""
    pages = {}
    for name, text in (("harmless", "harmless"), ("hostile", HOSTILE)):
        streams = [replace(one, finish_reason=text) for one in failing(answers(), 3, text)]
        engine = {"policy": "server", "served_model": text, "server_version": text}
        told = {"engine": engine, "ended_early": text}
        served = Served(streams, model=text, info=told, scrapes=scrapes(), slots=4)
        folder = make_served(tmp_path / name, served)
        info = json.loads((folder / "run.json").read_text())
        info["server"]["advice"] = {"queue_time_ms_mean": text}
        (folder / "run.json").write_text(json.dumps(info))
        pages[name] = write_report(folder).read_text()
    found, usual = read(pages["hostile"]), read(pages["harmless"])
    strange = {"script", "img", "svg", "iframe", "a", "style", "td", "dd"}
    assert [tag for tag, _ in found.elements if tag in strange] == [tag for tag, _ in usual.elements if tag in strange]
    assert "alert(1)</script>" in found.text and "␛[2J{{ 7*7 }}" in found.text
    assert "\x1b" not in pages["hostile"] and "<script>alert" not in pages["hostile"]


def test_a_killed_run_shows_the_servers_side_from_its_parts(tmp_path: Path) -> None:
    """The panels and the summary as far as the scrapes reach; what was never sent was never in flight."""
    served = Served(answers(), config={"slots": "4"})
    folder = make_killed(tmp_path / "run", served, 60, scrape_rows(seconds=6))
    found = page_of(folder)
    assert "INCOMPLETE: this run did not come to its end" in found.text
    assert "the run did not come to its end): how much of each latency is its own is not known" in found.text
    assert found.values["answer servers", NAME, "server.unused_slot_fraction"] == pytest.approx(0.5)
    flight = next(one for one in found.charts["server-0"]["data"] if one["name"] == "client: in flight")
    assert max(flight["x"]) < 7 and max(flight["y"]) <= 2
    crosses = next(one for one in found.charts["server-0"]["data"] if one["name"] == "failed")
    assert crosses["x"] == [6.0], "the request that was open, and none of those that were never sent"


def test_an_engine_beside_a_server_keeps_what_only_it_can_tell(tmp_path: Path) -> None:
    """One page for both: slots of the engine, and the HTTP section of the server."""
    sweep = make_served_sweep(tmp_path, Served(answers(), scrapes=scrapes(), slots=4))
    make_run(tmp_path / "runs", "static,batch=4", "10").rename(sweep / "points/001")
    told = json.loads((sweep / "sweep.json").read_text())
    told["engines"].append("static,batch=4")
    told["points"].append({**told["points"][0], "folder": "points/001", "engine": "static,batch=4"})
    (sweep / "sweep.json").write_text(json.dumps(told))
    found = page_of(sweep)
    assert ("scorecard", "static,batch=4 @ 10/s", "slots.stalled") in found.values
    assert ("scorecard wire", f"{NAME} @ 10/s", "wire.decode_ms.p50") in found.values
    assert not [key for key in found.values if key[1] == f"{NAME} @ 10/s" and key[2].startswith("slots.")]
    assert {"shares-1", "server-0", "throughput"} <= set(found.charts) and "shares-0" not in found.charts
