"""What a server tells of itself while a run lasts: read as it grows, the newest figures, the slots of the run."""

from pathlib import Path

import pytest

from loadgen.config import from_texts
from loadgen.locust.live import LiveView
from loadgen.locust.watching import GrowingStream, ServerFigures, is_of_use
from results.server.names import FAILED, STREAM_ENDING
from targets.observe.rows import Row, RowStream, start_row
from tests.loadgen.locust.test_live import SERVER, in_time
from tests.results.streams import Stream, schedule_of

S = 10**9
URL = "http://127.0.0.1:8000/metrics"
T0_NS = 1_000 * S
STATES = ("prefilling", "decoding", "finished", "stalled", "empty_queued", "idle")


def a_round(number: int, at_s: float, **values: float) -> list[Row]:
    """What `serve` told in one: `waiting`, tokens, and slot-steps by state, all else left at 0."""
    told: list[tuple[str, str, float]] = [
        ("vllm:num_requests_waiting", "", values.get("waiting", 0)),
        ("vllm:num_requests_running", "", values.get("running", 0)),
        ("vllm:generation_tokens_total", "", values.get("tokens", 0)),
        ("vllm:iteration_tokens_total_bucket", '{le="1"}', 5),
        ("tokenload:slots", "", 8),
        ("tokenload:steps_total", "", sum(values.get(state, 0) for state in STATES) / 8),
        ("process_start_time_seconds", "", 77),
        *(("tokenload:slot_steps_total", f'{{state="{state}"}}', values.get(state, 0)) for state in STATES),
    ]
    return [(number, T0_NS + round(at_s * S), 1_000, URL, name, labels, value) for name, labels, value in told]


def stream(parts: Path) -> RowStream:
    """The scraper's, of a run in that folder."""
    parts.mkdir(exist_ok=True)
    made = RowStream(parts / f"0000{STREAM_ENDING}")
    made.load()
    return made


def test_a_stream_that_grows_is_read_once_and_whole(tmp_path: Path) -> None:
    """Wherever it was cut off at a look: each batch comes once, as soon as all of it is there."""
    source = tmp_path / "source"
    written = stream(source)
    for number in range(3):
        written.write(a_round(number, number))
    written.close()
    data = (source / f"0000{STREAM_ENDING}").read_bytes()
    grown = tmp_path / "grown"
    reading, found = GrowingStream(grown), []
    for end in [*range(0, len(data), 97), len(data)]:
        grown.write_bytes(data[:end])
        found += [batch.column("round")[0].as_py() for batch in reading.batches()]
    assert found == [0, 1, 2]


def test_nothing_is_told_before_time_0_or_twice(tmp_path: Path) -> None:
    """Rounds of the warm-up have no place on the run's axis; a look without news has none."""
    scraper, figures = stream(tmp_path / "parts"), ServerFigures(tmp_path / "parts", None)
    assert figures.look() is None
    scraper.write(a_round(0, -3, waiting=9))
    assert figures.look() is None
    scraper.write([start_row(1, T0_NS)])
    scraper.write(a_round(1, 0, waiting=1))
    told = figures.look()
    assert told is not None and (told["at_ns"], told["waiting_requests"]) == (0, 1)
    assert figures.look() is None


def test_gauges_are_the_newest_and_slots_of_the_whole_run(tmp_path: Path) -> None:
    """Rates between the last two rounds; fractions from the first round of the run on, not from before it."""
    figures, scraper = ServerFigures(tmp_path / "parts", None), stream(tmp_path / "parts")
    scraper.write(a_round(0, -3, decoding=200, tokens=200))
    scraper.write([start_row(1, T0_NS)])
    for at in range(6):
        scraper.write(a_round(1 + at, at, decoding=800 + 60 * at, finished=20 * at, idle=80 * at, waiting=at,
                              tokens=800 + 60 * at * at))  # fmt: skip
        told = figures.look()
    assert told is not None
    assert (told["at_ns"], told["waiting_requests"]) == (5 * S, 5)
    assert told["output_tokens_per_s"] == pytest.approx(60 * (25 - 16))
    assert told["wasted_slot_fraction"] == pytest.approx(20 / 80)
    assert told["unused_slot_fraction"] == pytest.approx(1 - 60 / 160)


def test_a_server_that_says_nothing_more_has_no_figures(tmp_path: Path) -> None:
    """A round without an answer shows no number of the round before."""
    figures, scraper = ServerFigures(tmp_path / "parts", None), stream(tmp_path / "parts")
    scraper.write([start_row(0, T0_NS)])
    scraper.write(a_round(0, 0, waiting=3))
    assert "waiting_requests" in (figures.look() or {})
    scraper.write([(1, T0_NS + S, 1_000, URL, FAILED, '{reason="no answer"}', 1.0)])
    assert figures.look() == {"at_ns": S}
    scraper.write(a_round(2, 2, waiting=4))
    assert (figures.look() or {})["waiting_requests"] == 4


@pytest.mark.parametrize(
    ("name", "used"),
    [("vllm:num_requests_waiting", True), ("vllm:e2e_request_latency_seconds_bucket", False), ("go_threads", False),
     ("process_start_time_seconds", True), (FAILED, False)],
)  # fmt: skip
def test_only_series_of_known_servers_are_kept(name: str, used: bool) -> None:
    """Histograms' buckets, by far the most, are of no use here."""
    assert is_of_use(name) is used


def test_the_page_shows_what_the_server_told() -> None:
    """Its queue now and over time, its slots; the requests' own figures come from rows alone."""
    live = LiveView()
    live.begin(schedule_of([]), from_texts(SERVER))
    for at in range(4):
        live.server({"at_ns": at * S, "waiting_requests": 2.0 * at, "unused_slot_fraction": 0.25})
    shown = live.snapshot()["now"]
    assert (shown["queue"], shown["unused_slot_fraction"], shown["wasted_slot_fraction"]) == (6.0, 0.25, None)
    live.server({"at_ns": 4 * S})
    assert live.snapshot()["now"]["queue"] is None


def test_the_queue_over_time_is_the_servers_where_no_step_tells() -> None:
    """Second by second, as it was told; nothing where it was not."""
    made = [Stream([at * S + S // 2], at * S, handed_ns=at * S) for at in range(8)]
    live = LiveView()
    live.begin(schedule_of(made), from_texts(SERVER))
    for part in in_time(made, 9 * S):
        live.add(part, 0)
    for at in (0, 1, 3):
        live.server({"at_ns": at * S + S // 4, "waiting_requests": 2.0 * at})
    assert live.snapshot()["series"]["queue"][:5] == [0.0, 2.0, None, 6.0, None]


def test_what_only_the_server_told_of_slots_stays_at_the_end() -> None:
    """A summary without it shows the last that was told; a summary's own figure comes before it."""
    live = LiveView()
    live.begin(schedule_of([]), from_texts(SERVER))
    live.server({"at_ns": S, "wasted_slot_fraction": 0.5, "unused_slot_fraction": 0.4})
    live.end(None, {"rates": {}, "slots": {"wasted_slot_fraction": None}, "server": {"unused_slot_fraction": 0.3}}, {})
    shown = live.snapshot()["now"]
    assert (shown["wasted_slot_fraction"], shown["unused_slot_fraction"]) == (0.5, 0.3)
