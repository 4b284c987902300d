"""Locust's own statistics with our rows in them: exact, E2E alone in the aggregate, and made anew after a reset."""

import csv
import io
import json
import time
from collections.abc import Sequence
from types import SimpleNamespace

import numpy as np
import pytest

from loadgen.config import from_texts
from loadgen.locust.histogram import EXACT_FRACTION
from loadgen.locust.live import SUMMARY_ROWS, TITLES, LiveView
from results.recording import RecordingPart, merge
from results.schedule import Schedule
from results.slo import parse_slo
from results.status import Status
from results.summary import summarise
from tests.loadgen.locust.unpatched import Environment, ExactEntry, get_html_report, install_exact, locust_stats
from tests.results.streams import Stream, part_of, schedule_of

S, MS = 10**9, 10**6
HALF_A_DIGIT = 5e-5
"""Percentiles are given with five digits."""
SERVER = {"target": "http://127.0.0.1:8000/v1", "rate": "10", "clock": "real", "served-model": "small"}


def made(count: int = 200, seed: int = 3) -> list[Stream]:
    """Requests whose gaps are of fractions of a millisecond, as those of small models are."""
    draw = np.random.default_rng(seed)
    streams = []
    for at in range(count):
        due_ns = at * 20 * MS
        events = np.cumsum([due_ns + 5 * MS, *draw.integers(200_000, 700_000, 8)]).tolist()
        streams.append(Stream(events, due_ns, handed_ns=due_ns + int(draw.integers(10_000, 90_000))))
    return streams


def told(streams: Sequence[Stream], parts: int = 4) -> tuple[Environment, LiveView, Schedule, list[RecordingPart]]:
    """An environment that was told of these."""
    environment = Environment()
    environment.create_local_runner()
    live = LiveView()
    install_exact(environment, live)
    schedule = schedule_of(streams)
    live.begin(schedule, from_texts(SERVER))
    cut = [part_of({row: one for row, one in enumerate(streams) if row % parts == at}) for at in range(parts)]
    for part in cut:
        live.add(part, 0)
    return environment, live, schedule, cut


def test_every_row_is_exact() -> None:
    """Quantiles, mean and extremes of each row are those of the run's summary, of gaps below a millisecond too."""
    environment, _, schedule, parts = told(made())
    summary = summarise(merge(schedule, parts), parse_slo("ttft<=1s"))
    for key, title in TITLES.items():
        entry, exact = environment.stats.entries[("small", title)], summary[SUMMARY_ROWS[key]]
        assert entry.num_requests == exact["n"]
        for name, percent in (("p50", 0.5), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99)):
            found = entry.get_response_time_percentile(percent)
            assert found == pytest.approx(exact[name], rel=EXACT_FRACTION + HALF_A_DIGIT)
        assert entry.avg_response_time == pytest.approx(exact["mean"])
        assert entry.median_response_time == entry.get_response_time_percentile(0.5)
        assert entry.max_response_time == pytest.approx(exact["max"])
        assert entry.get_response_time_percentile(1.0) == pytest.approx(exact["max"], rel=HALF_A_DIGIT)
    assert 0.2 < environment.stats.entries[("small", "ITL")].median_response_time < 0.7


def test_aggregated_is_e2e_alone() -> None:
    """Gaps are no requests: the aggregate counts each request once, with its E2E."""
    environment, *_ = told(made())
    total, e2e = environment.stats.total, environment.stats.entries[("small", "E2E")]
    assert total.num_requests == e2e.num_requests == 200
    assert total.response_times == e2e.response_times
    assert total.max_response_time == e2e.max_response_time
    assert environment.stats.entries[("small", "ITL")].num_requests == 200 * 8


def test_rows_are_made_anew_after_locust_has_cleared_them() -> None:
    """A second run starts at nothing, exact again; a reset from the page keeps the rows and empties them."""
    environment, live, schedule, parts = told(made())
    environment.stats.reset_all()
    assert environment.stats.total.num_requests == 0
    environment.stats.clear_all()
    assert not environment.stats.entries
    live.begin(schedule, from_texts(SERVER))
    live.add(parts[0], 0)
    assert isinstance(environment.stats.total, ExactEntry)
    assert environment.stats.total.num_requests == environment.stats.entries[("small", "TTFT")].num_requests == 50


def test_failures_have_no_response_time_and_are_counted_by_kind() -> None:
    """Locust's failures table says how requests ended; their times are in no quantile."""
    streams = made(40)
    streams[3] = Stream([], 60 * MS, 8, Status.SHED, error="HTTP 503", end_ns=61 * MS)
    streams[7] = Stream([], 140 * MS, 8, Status.TRANSPORT_ERROR, error="refused", end_ns=141 * MS)
    environment, *_ = told(streams)
    total = environment.stats.total
    assert (total.num_requests, total.num_failures, total.num_none_requests) == (40, 2, 2)
    assert sorted((error.error, error.occurrences) for error in environment.stats.errors.values()) == [
        ("shed", 1), ("transport_error", 1)
    ]  # fmt: skip
    assert sum(total.response_times.values()) == 38


def test_requests_count_in_the_second_they_ended_in() -> None:
    """Rates of locust's charts follow the rows, not the arrival of the parts."""
    environment, *_ = told(made())
    by_second = environment.stats.total.num_reqs_per_sec
    assert sum(by_second.values()) == 200
    assert max(by_second.values()) <= 55
    assert 4 <= len(by_second) <= 6


def test_an_ordinary_users_requests_stay_in_the_aggregate() -> None:
    """A locustfile that mixes ours with ordinary users has both, the ordinary ones within the same error."""
    environment, *_ = told(made(20))
    environment.stats.log_request("GET", "/", 12.345, 10)
    assert environment.stats.total.num_requests == 21
    assert environment.stats.total.get_response_time_percentile(1.0) == pytest.approx(12.345)
    assert environment.stats.entries[("/", "GET")].num_requests == 1
    worker = locust_stats.StatsEntry(environment.stats, "/", "GET")
    worker.log(50, 1)
    environment.stats.total.extend(worker)
    assert environment.stats.total.get_response_time_percentile(1.0) == pytest.approx(50.0)


def test_csv_json_and_html_show_the_same_numbers() -> None:
    """Nothing that locust writes cuts a gap to whole milliseconds."""
    environment, *_ = told(made())
    entry = environment.stats.entries[("small", "ITL")]
    written = io.StringIO()
    locust_stats.StatsCSV(environment, [0.5, 0.99]).requests_csv(csv.writer(written))
    rows = {row["Type"]: row for row in csv.DictReader(io.StringIO(written.getvalue()))}
    assert float(rows["ITL"]["50%"]) == entry.get_response_time_percentile(0.5)
    assert float(rows["ITL"]["99%"]) == entry.get_response_time_percentile(0.99)
    serialized = json.loads(json.dumps(environment.stats.serialize_stats()))
    gaps = next(row for row in serialized if row["method"] == "ITL")
    assert sum(gaps["response_times"].values()) == 1600
    assert all(0.19 < float(key) < 0.71 for key in gaps["response_times"])


def test_html_report_of_locust_has_our_rows() -> None:
    """`--html` takes percentiles from the rows themselves."""
    environment, *_ = told(made())
    environment.locustfile = "locustfile.py"
    text = get_html_report(environment)
    value = environment.stats.entries[("small", "ITL")].get_response_time_percentile(0.99)
    assert f'"0.99": {value}' in text


def test_current_percentiles_are_of_the_last_ten_seconds() -> None:
    """The chart of response times shows what has changed since locust's copy of ten seconds ago."""
    entry = ExactEntry(locust_stats.RequestStats(), "small", "E2E", use_response_times_cache=True)
    now_s = time.time()
    entry.feed(np.full(100, 5.0), np.full(100, now_s))
    entry.response_times_cache.clear()
    entry._cache_response_times(int(now_s) - 10)
    entry.feed(np.full(10, 80.0), np.full(10, now_s))
    assert entry.get_current_response_time_percentile(0.5) == pytest.approx(80.0, rel=EXACT_FRACTION)
    assert entry.get_response_time_percentile(0.5) == pytest.approx(5.0, rel=EXACT_FRACTION)


def test_the_console_shows_decimals() -> None:
    """Gaps below a millisecond are not 0 in locust's own tables."""
    environment, *_ = told(made())
    entry = environment.stats.entries[("small", "ITL")]
    median, largest = f"{entry.median_response_time:.3f}", f"{entry.max_response_time:.3f}"
    assert 0 < entry.max_response_time < 1
    assert f" {median} |" in entry.to_string(current=False)
    assert f" {median} " in entry.percentile()
    assert f" {largest} " in entry.percentile()


def test_what_we_touch_of_locust_is_there() -> None:
    """Each name that locust does not promise: a release without it breaks this test first."""
    for name in ("StatsCSV", "StatsEntry", "StatsError", "diff_response_time_dicts", "STATS_NAME_WIDTH",
                 "STATS_TYPE_WIDTH", "PERCENTILES_TO_REPORT"):  # fmt: skip
        assert hasattr(locust_stats, name), name
    writer = locust_stats.StatsCSV(SimpleNamespace(), [0.5])
    assert hasattr(writer, "_percentile_fields")
    assert hasattr(writer, "percentiles_na")
    stats = locust_stats.RequestStats()
    assert isinstance(stats.entries, dict)
    for name in ("num_none_requests", "response_times", "response_times_cache", "num_reqs_per_sec", "num_fail_per_sec",
                 "use_response_times_cache", "_cache_response_times", "_log_response_time", "extend"):  # fmt: skip
        assert hasattr(stats.total, name), name
