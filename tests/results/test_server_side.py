"""The server's side: from scraped series to panels, slots over HTTP and a summary."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from results.columns import int64
from results.schedule import FILL, MEASURE, make_schedule
from results.server.known import PANELS, PREFIXES, TOLD, UNKNOWN
from results.server.of_run import server_of_run
from results.server.panels import panels
from results.server.rounds import Rounds, server_of
from results.server.summary import NOT_OBSERVABLE, kind_of, server_summary
from results.server.table import ServerTable, empty_table, make_table, read_scrapes, read_server, write_server

URL = "http://one:8000/metrics"
OTHER = "http://two:8000/metrics"
Page = dict[str, float | None]


def scrapes(*rounds: tuple[float, dict[str, Page]]) -> ServerTable:
    """A table of rounds: at a second of the run, what each URL told, by series."""
    rows: list[dict[str, Any]] = []
    for number, (t_s, pages) in enumerate(rounds):
        for url, page in pages.items():
            for key, value in page.items():
                name, brace, labels = key.partition("{")
                rows.append({
                    "round": number, "t_ns": round(t_s * 1e9), "request_ns": 1_000_000, "url": url,
                    "name": name, "labels": brace + labels, "value": value,
                })  # fmt: skip
    return make_table(rows)


def between(first: Page, last: Page, url: str = URL) -> ServerTable:
    """Scraped at 0 and at 10 s."""
    return scrapes((0, {url: first}), (10, {url: last}))


def vllm(steps: float, tokens: float, accepted: float | None = None, engine: str = "0") -> Page:
    """The counters of one vLLM engine."""
    labels = f'{{engine="{engine}",model_name="m"}}'
    told: Page = {
        f"vllm:iteration_tokens_total_count{labels}": steps,
        f"vllm:generation_tokens_total{labels}": tokens,
    }
    return told if accepted is None else {**told, f"vllm:spec_decode_num_accepted_tokens_total{labels}": accepted}


def llamacpp(steps: float, busy: float) -> Page:
    """The counters of a llama.cpp server."""
    return {"llamacpp:n_decode_total": steps, "llamacpp:n_busy_slots_per_decode": busy}


def figures(table: ServerTable, **options: Any) -> dict[str, Any]:
    """The summary's one document."""
    document: dict[str, Any] = server_summary(table, **options)["server"]
    return document


# slots over HTTP


@pytest.mark.parametrize(
    ("first", "last", "slots", "unused"),
    [
        (llamacpp(129, 2.48062), llamacpp(257, 3.23735), 4, 0.0),
        (llamacpp(1, 1), llamacpp(401, 1), 4, 0.75),
        (llamacpp(0, 0), llamacpp(1200, 16), 16, 0.0),
        (vllm(71, 300), vllm(200, 812), 4, 1 - 512 / 516),
        (vllm(0, 0), vllm(802, 12_800), 16, 1 - 12_800 / (802 * 16)),
        (vllm(10, 10), vllm(410, 410), 16, 0.9375),
        (vllm(0, 0, 0), vllm(100, 1000, 600), 4, 0.0),
        (vllm(0, 0, 100), vllm(100, 500, 400), 4, 0.5),
    ],
)
def test_unused_slots_are_as_on_real_servers(first: Page, last: Page, slots: int, unused: float) -> None:
    """unused = 1 - sequence-steps / (steps x slots), with the tokens of accepted drafts taken out."""
    told = figures(between(first, last), slots=slots)
    assert told["unused_slot_fraction"] == pytest.approx(unused, abs=1e-12)
    assert told["slots"] == slots
    assert "unused_slot_fraction" not in told["reasons"]


def test_serve_counts_its_slots_exactly() -> None:
    """Slot-steps by state decide where they are told: finished and idle slots are unused, whatever the tokens say."""
    states = ("prefilling", "decoding", "finished", "stalled", "empty_queued", "idle")
    spent = (10, 50, 20, 5, 5, 30)
    label = 'tokenload:slot_steps_total{{engine="0",model_name="m",state="{}"}}'
    slots = {'tokenload:slots{engine="0",model_name="m"}': 4.0}
    steps = 'tokenload:steps_total{engine="0",model_name="m"}'
    first: Page = {**vllm(7, 9), **slots, steps: 7, **{label.format(state): 100.0 for state in states}}
    last: Page = {
        **vllm(37, 9), **slots, steps: 37,
        **{label.format(state): 100.0 + count for state, count in zip(states, spent, strict=True)},
    }  # fmt: skip
    told = figures(between(first, last))
    assert (told["kind"], told["unused_slot_fraction"], told["slots"], told["steps"]) == ("tokenload", 0.5, 4, 30)


def test_serve_without_slot_states_goes_by_tokens() -> None:
    """It tells vLLM's counters and its slots, and that is enough."""
    table = between({**vllm(0, 0), "tokenload:slots": 8}, {**vllm(10, 20), "tokenload:slots": 8})
    assert figures(table)["unused_slot_fraction"] == pytest.approx(0.75)
    assert figures(between(vllm(0, 0), vllm(10, 20)))["unused_slot_fraction"] is None


def test_engines_are_summed() -> None:
    """Two engines behind one page: their steps and tokens add up, each with its own slots."""
    first = {**vllm(0, 0, engine="0"), **vllm(50, 50, engine="1")}
    last = {**vllm(100, 400, engine="0"), **vllm(350, 350, engine="1")}
    told = figures(between(first, last), slots=4)
    assert told["unused_slot_fraction"] == pytest.approx(1 - (400 + 300) / (400 * 4))
    assert (told["slots"], told["steps"]) == (8, 400)


def test_servers_are_summed_each_with_its_own_slots() -> None:
    """Over all metrics URLs; a server of 2 slots and one of 8 weigh as their slot-steps do."""
    props = {URL.replace("metrics", "props"): 2, OTHER.replace("metrics", "props"): 8}
    told = {url: {"llamacpp_props:total_slots": float(slots)} for url, slots in props.items()}
    table = scrapes(
        (0, {URL: llamacpp(0, 0), OTHER: llamacpp(0, 0), **told}),
        (10, {URL: llamacpp(100, 2), OTHER: llamacpp(50, 4), **told}),
    )
    both = figures(table)
    assert both["unused_slot_fraction"] == pytest.approx(1 - (200 + 200) / (200 + 400))
    assert (both["slots"], both["steps"], both["servers"]) == (10, 150, 2)


@pytest.mark.parametrize(
    ("extra", "given", "slots"),
    [
        ({"llamacpp_props:total_slots": 8}, 2, 8),
        ({'llamacpp_slots:processing{slot="0"}': 1, 'llamacpp_slots:processing{slot="1"}': 0}, 5, 2),
        ({"llamacpp_props:total_slots": 8, 'llamacpp_slots:processing{slot="0"}': 1}, None, 8),
        ({}, 4, 4),
        ({}, None, None),
    ],
)
def test_slots_are_the_servers_own_word_first(extra: Page, given: int | None, slots: int | None) -> None:
    """/props, else the length of /slots, else what the user says, else nothing."""
    told = figures(between({**llamacpp(0, 0), **extra}, {**llamacpp(100, 1), **extra}), slots=given)
    assert told["slots"] == slots
    assert told["unused_slot_fraction"] == (None if slots is None else pytest.approx(1 - 1 / slots))
    assert ("--slots N" in told["advice"].get("slots", "")) == (slots is None)


def test_settings_asked_at_the_start_alone_count() -> None:
    """/props is asked before the run: it holds for the whole of it."""
    table = scrapes(
        (-1, {URL: llamacpp(5, 1), URL.replace("metrics", "props"): {"llamacpp_props:total_slots": 4}}),
        (0, {URL: llamacpp(5, 1)}),
        (1, {URL: llamacpp(105, 1)}),
    )
    assert figures(table)["unused_slot_fraction"] == 0.75


STARTED = "process_start_time_seconds"


@pytest.mark.parametrize(
    ("middle", "last", "word"),
    [
        (vllm(5, 50), vllm(20, 80), "fell"),
        (vllm(15, 50), vllm(20, 40), "fell"),
        ({**vllm(15, 50), STARTED: 2}, {**vllm(20, 80), STARTED: 2}, STARTED),
        (vllm(15, 50), {**vllm(20, 80), STARTED: 2}, STARTED),
        (vllm(15, 50), vllm(20, 80, engine="1"), "not there any more"),
        (vllm(15, 50), {**vllm(20, 80), **vllm(3, 9, engine="1")}, "not there from the start"),
        (vllm(15, 50), {"vllm:generation_tokens_total": 90}, "not there any more"),
    ],
)
def test_a_restart_makes_slots_not_observable(middle: Page, last: Page, word: str) -> None:
    """A counter that falls, comes late or goes, and a process of another start: the difference means nothing."""
    start = {STARTED: 1.0} if STARTED in {**middle, **last} else {}
    if start:
        middle = {**start, **middle}
    table = scrapes((0, {URL: {**vllm(10, 30), **start}}), (1, {URL: middle}), (2, {URL: last}))
    told = figures(table, slots=4)
    assert told["unused_slot_fraction"] is None
    assert told["reasons"]["unused_slot_fraction"] == NOT_OBSERVABLE
    assert word in told["advice"]["unused_slot_fraction"]


def test_a_counter_of_the_same_process_may_come_late() -> None:
    """Where the process is known to be the same, a counter that was not there was 0."""
    late = vllm(10, 10, engine="1")
    first, last = {**vllm(0, 0), STARTED: 1.0}, {**vllm(10, 30), **late, STARTED: 1.0}
    assert figures(between(first, last), slots=4)["unused_slot_fraction"] == pytest.approx(0.5)


@pytest.mark.parametrize(("last", "slots"), [(vllm(100, 401), 4), (llamacpp(100, 4.5), 4), (vllm(10, -5), 4)])
def test_a_fraction_outside_its_range_is_never_told(last: Page, slots: int) -> None:
    """More sequences than slots is a wrong number of slots: null, with what to pass."""
    first = {**last, **dict.fromkeys(last, 0.0)}
    told = figures(between(first, last), slots=slots)
    assert told["unused_slot_fraction"] is None
    assert told["reasons"]["unused_slot_fraction"] == NOT_OBSERVABLE


def test_what_a_server_prints_rounded_is_not_held_against_it() -> None:
    """llama.cpp prints six digits: a full server after millions of steps is full, not impossible."""
    for steps in range(1_234_560, 1_234_570):
        busy = round(3.33333 * steps)
        ends = [
            llamacpp(*(float(f"{number:.6g}") for number in (count, used / count)))
            for count, used in ((steps, busy), (steps + 40_000, busy + 160_000))
        ]
        assert figures(between(*ends), slots=4)["unused_slot_fraction"] == pytest.approx(0.0, abs=1e-3)
        assert figures(between(*ends), slots=3)["unused_slot_fraction"] is None


def test_nothing_computed_is_no_fraction() -> None:
    """An idle server has used none of no slot-steps."""
    told = figures(between(vllm(10, 10), vllm(10, 10)), slots=4)
    assert (told["unused_slot_fraction"], told["steps"]) == (None, 0)


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(0, 300), st.integers(0, 50)), min_size=2, max_size=5),
    st.integers(1, 8),
)
def test_a_fraction_is_in_its_range_or_null(rounds: list[tuple[int, int, int]], slots: int) -> None:
    """Whatever a server counts, the fraction is between 0 and 1 or there is none, with the reason beside it."""
    for page in (lambda steps, tokens, accepted: vllm(steps, tokens, accepted),
                 lambda steps, tokens, _: llamacpp(steps, tokens / 10)):  # fmt: skip
        told = figures(scrapes(*((at, {URL: page(*one)}) for at, one in enumerate(rounds))), slots=slots)
        fraction = told["unused_slot_fraction"]
        assert (fraction is None) == ("unused_slot_fraction" in told["reasons"])
        assert fraction is None or 0 <= fraction <= 1


def test_the_window_is_that_of_the_run() -> None:
    """From the first scrape at or after its start to the last one up to its end; warm-up before it does not count."""
    table = scrapes(*((t_s, {URL: vllm(steps, tokens)}) for t_s, steps, tokens in
                      ((-5, 0, 0), (-1, 100, 100), (0, 100, 100), (1, 110, 140), (2, 120, 140))))  # fmt: skip
    assert figures(table, slots=4)["unused_slot_fraction"] == pytest.approx(0.5)
    assert figures(table, slots=4, end_ns=1_000_000_000)["unused_slot_fraction"] == 0.0
    assert figures(table, slots=4, end_ns=1_000_000_000)["scrapes"] == 2
    once = figures(table, slots=4, start_ns=2_000_000_000)
    assert (once["unused_slot_fraction"], once["reasons"]["steps"]) == (None, NOT_OBSERVABLE)


# panels

PAGES: dict[str, tuple[Page, Page]] = {
    "vllm": (
        {'vllm:num_requests_running{engine="0"}': 3, 'vllm:num_requests_running{engine="1"}': 4,
         'vllm:num_requests_waiting{engine="0"}': 1, 'vllm:num_requests_waiting{engine="1"}': 2,
         'vllm:kv_cache_usage_perc{engine="0"}': 0.25, 'vllm:kv_cache_usage_perc{engine="1"}': 0.5,
         "vllm:num_preemptions_total": 2, "vllm:generation_tokens_total": 100,
         "vllm:request_queue_time_seconds_sum": 1, "vllm:request_queue_time_seconds_count": 10},
        {'vllm:num_requests_running{engine="0"}': 1, 'vllm:num_requests_running{engine="1"}': 2,
         'vllm:num_requests_waiting{engine="0"}': 5, 'vllm:num_requests_waiting{engine="1"}': 0,
         'vllm:kv_cache_usage_perc{engine="0"}': 0.75, 'vllm:kv_cache_usage_perc{engine="1"}': 0.5,
         "vllm:num_preemptions_total": 5, "vllm:generation_tokens_total": 300,
         "vllm:request_queue_time_seconds_sum": 3, "vllm:request_queue_time_seconds_count": 18},
    ),
    "sglang": (
        {"sglang:num_running_reqs": 7, "sglang:num_queue_reqs": 3, "sglang:token_usage": 0.5,
         "sglang:num_retracted_requests_total": 1, "sglang:generation_tokens_total": 100,
         "sglang:queue_time_seconds_sum": 1, "sglang:queue_time_seconds_count": 10},
        {"sglang:num_running_reqs": 3, "sglang:num_queue_reqs": 5, "sglang:token_usage": 0.75,
         "sglang:num_retracted_requests_total": 4, "sglang:generation_tokens_total": 300,
         "sglang:queue_time_seconds_sum": 3, "sglang:queue_time_seconds_count": 18},
    ),
    "llamacpp": (
        {"llamacpp:requests_processing": 7, "llamacpp:requests_deferred": 3, "llamacpp:kv_cache_usage_ratio": 0.5,
         "llamacpp:n_decode_total": 50, "llamacpp:n_busy_slots_per_decode": 2},
        {"llamacpp:requests_processing": 3, "llamacpp:requests_deferred": 5, "llamacpp:kv_cache_usage_ratio": 0.75,
         "llamacpp:n_decode_total": 100, "llamacpp:n_busy_slots_per_decode": 3},
    ),
    "tgi": (
        {"tgi_batch_current_size": 7, "tgi_queue_size": 3, "tgi_request_generated_tokens_sum": 100,
         "tgi_request_queue_duration_sum": 1, "tgi_request_queue_duration_count": 10},
        {"tgi_batch_current_size": 3, "tgi_queue_size": 5, "tgi_request_generated_tokens_sum": 300,
         "tgi_request_queue_duration_sum": 3, "tgi_request_queue_duration_count": 18},
    ),
}  # fmt: skip
PAGES["tokenload"] = tuple({**page, "tokenload:slots": 4.0} for page in PAGES["vllm"])  # type: ignore[assignment]
NAN = math.nan
EXPECTED = {
    "running_requests": [7, 3],
    "waiting_requests": [3, 5],
    "kv_used_fraction": [0.5, 0.75],
    "preempted_requests": [0, 3],
    "queue_time_ms": [NAN, 250],
    "output_tokens_per_s": [NAN, 100],
}


@pytest.mark.parametrize("kind", PAGES)
def test_every_kind_of_server_fills_the_same_panels(kind: str) -> None:
    """Under whatever names: gauges summed over engines (fractions: the largest), counters as growth."""
    first, last = PAGES[kind]
    made = panels(scrapes((0, {URL: first}), (2, {URL: last})))
    told = {one.panel for one in TOLD if one.kind == ("vllm" if kind == "tokenload" else kind)}
    assert set(made) == told
    for name, panel in made.items():
        np.testing.assert_allclose(panel.value, EXPECTED[name], err_msg=name)
        assert panel.t_ns.tolist() == [0, 2_000_000_000]
    assert kind_of(Rounds(scrapes((0, {URL: first})))) == kind


def test_every_kind_and_panel_is_in_the_golden_pages() -> None:
    """A new row of the tables is tested at once."""
    assert set(PAGES) == set(PREFIXES.values())
    assert set(EXPECTED) == set(PANELS)


def test_the_summary_has_the_extremes_and_the_means() -> None:
    """The largest of running, waiting and KV use; preemptions and queue time over the whole window."""
    told = figures(between(*PAGES["vllm"]))
    assert [told[name] for name in ("running_max", "waiting_max", "kv_max_fraction", "preemptions",
                                    "queue_time_ms_mean")] == [7, 5, 0.75, 3, 250]  # fmt: skip


def test_a_restart_makes_growth_not_observable() -> None:
    """Preemptions and queue times of two lives of a server are no figure of the run, even where the sum grew."""
    counts = ("vllm:num_preemptions_total", "vllm:request_queue_time_seconds_sum",
              "vllm:request_queue_time_seconds_count")  # fmt: skip
    table = scrapes(*((at, {URL: dict.fromkeys(counts, value)}) for at, value in enumerate((5.0, 0.0, 9.0))))
    told = figures(table)
    for name in ("preemptions", "queue_time_ms_mean"):
        assert told[name] is None
        assert "fell" in told["advice"][name]


def test_servers_are_summed_in_panels() -> None:
    """Running and waiting add up over URLs, KV use is the fullest server's, mean times are pooled by count."""
    first, last = PAGES["sglang"]
    slow = {**last, "sglang:queue_time_seconds_sum": 19.0, "sglang:queue_time_seconds_count": 12.0}
    table = scrapes((0, {URL: first, OTHER: first}), (2, {URL: last, OTHER: slow}))
    made = panels(table)
    assert made["running_requests"].value.tolist() == [14, 6]
    assert made["kv_used_fraction"].value.tolist() == [0.5, 0.75]
    assert made["output_tokens_per_s"].value[1] == 200
    assert made["queue_time_ms"].value[1] == figures(table)["queue_time_ms_mean"] == (2 + 18) / (8 + 2) * 1000


def test_a_server_that_did_not_answer_leaves_a_gap() -> None:
    """A sum without one of its terms is another number: the round has none."""
    page: Page = {"vllm:num_requests_running": 2}
    failed: Page = {'scrape_failed{reason="no answer within 1 s"}': 1}
    table = scrapes((0, {URL: page, OTHER: page}), (1, {URL: page, OTHER: failed}), (2, {URL: page, OTHER: page}))
    np.testing.assert_array_equal(panels(table)["running_requests"].value, [4, NAN, 4])
    assert figures(table)["running_max"] == 4


def test_a_counter_that_fell_leaves_a_gap() -> None:
    """After a restart the rate goes on from the new count."""
    table = scrapes(*((at, {URL: {"vllm:generation_tokens_total": count}}) for at, count in enumerate((5, 9, 2, 4))))
    np.testing.assert_array_equal(panels(table)["output_tokens_per_s"].value, [NAN, 4, NAN, 2])


def test_ranks_of_one_engine_count_once() -> None:
    """Tensor-parallel processes tell the same batch; data-parallel ones each their own."""
    labels = '{{dp_rank="{}",tp_rank="{}"}}'
    page: Page = {f"sglang:num_running_reqs{labels.format(dp, tp)}": 3.0 + dp for dp in range(2) for tp in range(2)}
    assert panels(scrapes((0, {URL: page})))["running_requests"].value.tolist() == [7]


def test_a_panel_needs_every_server() -> None:
    """Where one of two servers does not tell it, there is no sum."""
    table = scrapes((0, {URL: {"vllm:num_requests_running": 2}, OTHER: {"vllm:num_requests_waiting": 1}}))
    assert not panels(table)


# what cannot be seen


def test_without_metrics_the_summary_says_what_to_pass() -> None:
    """Every figure is null, not observable, and its line names the place, the reason and the remedy."""
    failed: Page = {'scrape_failed{reason="HTTP 404"}': 1}
    for table in (scrapes((0, {URL: failed}), (1, {URL: failed})), empty_table()):
        told = figures(table)
        nulls = {name for name, value in told.items() if value is None} - {"speculating"}
        assert nulls == set(told["reasons"]) == set(told["advice"]) >= {"unused_slot_fraction", "running_max", "slots"}
        assert set(told["reasons"].values()) == {NOT_OBSERVABLE}
        assert "--metrics-url" in told["advice"]["running_max"]
        assert told["kind"] == UNKNOWN
    assert "HTTP 404" in figures(scrapes((0, {URL: failed})))["advice"]["running_max"]


def test_llamacpp_without_metrics_is_known_by_its_slots() -> None:
    """Started without --metrics it tells its slots alone: who runs is seen, and what to do for the rest is said."""
    slots = {f'llamacpp_slots:processing{{slot="{number}"}}': float(number < 3) for number in range(4)}
    table = between(slots, slots, URL.replace("metrics", "slots"))
    told = figures(table)
    assert (told["kind"], told["running_max"], told["unused_slot_fraction"]) == ("llamacpp", 3, None)
    assert "--metrics" in told["advice"]["unused_slot_fraction"]


def test_kinds_without_steps_say_so() -> None:
    """SGLang and TGI tell no steps: their slots cannot be had over HTTP."""
    for kind in ("sglang", "tgi"):
        told = figures(between(*PAGES[kind]), slots=4)
        assert told["unused_slot_fraction"] is None
        assert kind in told["advice"]["unused_slot_fraction"]


@pytest.mark.parametrize(
    ("first", "last", "speculating"),
    [
        (vllm(0, 0), vllm(9, 9), False),
        ({"vllm:spec_decode_num_draft_tokens_total": 5}, {"vllm:spec_decode_num_draft_tokens_total": 5}, False),
        ({"vllm:spec_decode_num_draft_tokens_total": 5}, {"vllm:spec_decode_num_draft_tokens_total": 6}, True),
        ({"llamacpp_slots:speculative": 1}, {"llamacpp_slots:speculative": 1}, True),
        ({"llamacpp_slots:speculative": 0}, {"llamacpp_slots:speculative": 0}, False),
        ({"sglang:spec_accept_length": 0}, {"sglang:spec_accept_length": 2.5}, True),
        ({"tgi_queue_size": 0}, {"tgi_queue_size": 0}, None),
    ],
)
def test_speculation_shows_in_the_counters_of_drafts(first: Page, last: Page, speculating: bool | None) -> None:
    """Draft counters that move in the window, or a gauge that says so; None where a server has neither."""
    assert figures(between(first, last))["speculating"] is speculating


# storage


def test_a_table_survives_its_file(tmp_path: Path) -> None:
    """Written and read it is the same, the same table gives the same bytes, and what is not finite is null."""
    table = scrapes((0, {URL: {'a{x="1"}': 1.5, "b": None, "c": math.inf}, OTHER: {"a": -2.0}}), (1, {URL: {"b": 3.0}}))
    path = write_server(table, tmp_path)
    first = path.read_bytes()
    read = read_server(tmp_path)
    assert read is not None
    assert read.series == table.series
    for name in ("round", "t_ns", "request_ns", "series_index", "value"):
        np.testing.assert_array_equal(getattr(read, name), getattr(table, name))
    assert write_server(read, tmp_path).read_bytes() == first
    column = pq.read_table(path).column("value").to_pylist()
    assert column == [1.5, None, None, -2.0, 3.0]


def test_a_run_without_scrapes_has_no_file(tmp_path: Path) -> None:
    """No file and no stream are no rows; an empty table can be written all the same."""
    assert read_server(tmp_path) is None
    assert not len(read_scrapes(tmp_path))
    write_server(empty_table(), tmp_path)
    read = read_server(tmp_path)
    assert read is not None
    assert not len(read)


def stream(path: Path, starts_ns: int | None) -> bytes:
    """A scraper's stream of three rounds a second apart, in the run from its second one on."""
    rows = [(at, 10**15 + at * 10**9, 5, URL, "m", "", float(at)) for at in range(3)]
    if starts_ns is not None:
        rows.insert(1, (0, starts_ns, 0, "", "run_start", "", 0.0))
    types = [pa.int64()] * 3 + [pa.string()] * 3 + [pa.float64()]
    names = ["round", "t_ns", "request_ns", "url", "name", "labels", "value"]
    schema = pa.schema(list(zip(names, types, strict=True)))
    with path.open("wb") as file, pa.ipc.new_stream(file, schema) as writer:
        for row in rows:
            writer.write_batch(pa.record_batch([pa.array([value]) for value in row], schema=schema))
    return path.read_bytes()


def test_counters_of_a_filled_run_are_those_of_its_window(tmp_path: Path) -> None:
    """10 steps a second with 8 of 8 slots in the fill, 2 of 8 after it: told is what the window was, and named."""
    rounds = [(t, {URL: vllm(10 * t, 80 * min(t, 5) + 20 * max(t - 5, 0))}) for t in range(11)]
    write_server(scrapes(*rounds), tmp_path)
    info = {"config": {"slots": "8"}, "server": {"kind": "vllm"}}
    at = int64([0, 5_000_000_000, 10_000_000_000])
    filled = make_schedule(at, at + 1, at + 1, phase=[FILL, MEASURE, MEASURE])
    told = server_of_run(tmp_path, info, filled, (5_000_000_000, 10_000_000_000))
    assert (told["span"], told["steps"], told["unused_slot_fraction"]) == ("measured window", 50, pytest.approx(0.75))
    plain = server_of_run(tmp_path, info, make_schedule(at, at + 1, at + 1), (0, 10_000_000_000))
    assert (plain["span"], plain["steps"]) == ("whole run", 100)
    assert server_of_run(tmp_path / "none", info, filled, (0, 1)) == {"kind": "vllm"}


def test_rows_move_to_the_runs_axis(tmp_path: Path) -> None:
    """By time 0 as the stream tells it, or as the caller does; where nobody tells it no row can be placed."""
    stream(tmp_path / "0000-server.arrows", 10**15 + 10**9)
    assert read_scrapes(tmp_path).t_ns.tolist() == [-(10**9), 0, 10**9]
    assert read_scrapes(tmp_path, 10**15).t_ns.tolist() == [0, 10**9, 2 * 10**9]
    assert [one.name for one in read_scrapes(tmp_path).series] == ["m"]
    stream(tmp_path / "0000-server.arrows", None)
    assert not len(read_scrapes(tmp_path))


def test_a_stream_may_end_anywhere(tmp_path: Path) -> None:
    """Cut at any byte, the whole batches before the cut are there and nothing else."""
    path = tmp_path / "0000-server.arrows"
    whole = stream(path, 10**15)
    counts = []
    for end in (*range(0, len(whole), 16), len(whole)):
        path.write_bytes(whole[:end])
        values = read_scrapes(tmp_path, 10**15).value.tolist()
        assert values == [float(at) for at in range(len(values))]
        counts.append(len(values))
    assert sorted(set(counts)) == [0, 1, 2, 3]
    assert counts == sorted(counts)


def test_urls_that_differ_in_what_is_not_shown_are_two_servers() -> None:
    """The mark behind # keeps them apart; what lies beside a metrics URL belongs to it."""
    assert server_of("http://h/metrics") == server_of("http://h/slots") != server_of("http://h/metrics#2")
