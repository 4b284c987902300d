"""Searches for a capacity in modelled time: what they find, keep, resume and refuse."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from loadgen.capacity import load_capacity, plan_capacity, run_capacity
from loadgen.capacity_options import CapacityOptions, parse_share
from loadgen.config import RunConfig, from_texts
from loadgen.stopped import StoppedError
from results.store import load_run
from tests.loadgen.served import serving

SLO = "ttft<=300ms"


def config(out: Path, **texts: str) -> RunConfig:
    """One request after another, in modelled time."""
    given = {"engine": "one-by-one", "clock": "modelled", "slo": SLO, "out": str(out)}
    return from_texts({**given, **{key.replace("_", "-"): text for key, text in texts.items()}}, complete=False)


def silent(text: str, ended_requests: int, requests: int) -> None:
    """Shows nothing."""


def searched(out: Path, chosen: CapacityOptions, **texts: str) -> tuple[Path, dict[str, Any]]:
    """Its folder and document."""
    search = plan_capacity(config(out, **texts), chosen, quick=False)
    return search.folder, run_capacity(search, silent)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """Three seeds of 120 requests."""
    return searched(tmp_path_factory.mktemp("capacity"), CapacityOptions(0.9, 120, 6.0, 3))


def test_a_capacity_lies_below_what_the_engine_can_serve(small: tuple[Path, dict[str, Any]]) -> None:
    """One-by-one serves 12.0 requests a second at the default cost; 90 % within 300 ms takes some room."""
    _, found = small
    assert 5 < found["capacity"]["value"] < 12
    assert found["capacity"]["low"] <= found["capacity"]["value"] <= found["capacity"]["high"]
    assert "EXPLORATORY" in found["label"]


def test_every_rate_that_was_tried_is_a_run_folder(small: tuple[Path, dict[str, Any]]) -> None:
    """With the rate, seed and length that it says, and a verdict; all seeds' workloads are their own."""
    folder, found = small
    for one in found["probes"]:
        run = load_run(folder / one["folder"])
        assert run.recording.schedule.origin["rate_rps"] == one["rate_rps"]
        assert len(run.recording.schedule) == one["requests"]
        assert run.info["config_effective"]["seed"] == str(one["seed"])
    assert json.loads((folder / "capacity.json").read_text())["probes"] == found["probes"]
    assert {one["seed"] for one in found["probes"]} == {7, 8, 9, 10}


def test_a_workload_is_only_stretched(small: tuple[Path, dict[str, Any]]) -> None:
    """Two rates of one seed: the same lengths, due times in proportion to the nanosecond's rounding."""
    folder, found = small
    probes = [one for one in found["probes"] if one["seed"] == 8]
    a, b = (load_run(folder / one["folder"]).recording.schedule for one in probes[:2])
    assert (a.output_tokens == b.output_tokens).all()
    ratio = probes[0]["rate_rps"] / probes[1]["rate_rps"]
    assert abs(b.due_ns - a.due_ns * ratio).max() < 3


def test_the_confirmation_has_a_fresh_seed_and_twice_the_length(small: tuple[Path, dict[str, Any]]) -> None:
    """At the interval's low end."""
    _, found = small
    sure = found["confirmation"]
    assert (sure["seed"], sure["requests"]) == (10, 240)
    assert sure["rate_rps"] == pytest.approx(found["capacity"]["low"], rel=1e-5)
    assert sure["passed"] is found["probes"][-1]["passed"]
    assert (sure["text"], sure["worthless"]) == (found["probes"][-1]["text"], [])


def test_slow_engines_have_a_capacity_below_one_a_second(tmp_path: Path) -> None:
    """Outputs of 700 tokens take 1.5 s each."""
    texts = {"output_tokens": "700", "slo": "e2e<=4s"}
    _, found = searched(tmp_path, CapacityOptions(0.9, 100, 0.25, 1), **texts)
    assert 0.1 < found["capacity"]["value"] < 0.66


class StopsAt:
    """A progress that is interrupted in the middle of the n-th run."""

    def __init__(self, run: int) -> None:
        self._left = run
        self._last = ""

    def __call__(self, text: str, ended_requests: int, requests: int) -> None:
        if text != self._last:
            self._last, self._left = text, self._left - 1
        if not self._left:
            raise KeyboardInterrupt


def test_a_stopped_search_goes_on_to_the_same_answer(tmp_path: Path, small: tuple[Path, dict[str, Any]]) -> None:
    """Interrupted in its fifth run: what was asked is kept, and the answer is that of a search in one go."""
    search = plan_capacity(config(tmp_path), CapacityOptions(0.9, 120, 6.0, 3), quick=False)
    with pytest.raises(StoppedError):
        run_capacity(search, StopsAt(5))
    stopped = json.loads((search.folder / "capacity.json").read_text())
    assert (stopped["status"], len(stopped["probes"])) == ("stopped", 4)
    again = load_capacity(search.folder)
    found = run_capacity(again, silent)
    _, whole = small
    assert found["capacity"] == whole["capacity"]
    kept = [(one["rate_rps"], one["seed"], one["requests"], one["passed"]) for one in found["probes"]]
    assert kept == [(one["rate_rps"], one["seed"], one["requests"], one["passed"]) for one in whole["probes"]]


@pytest.mark.parametrize(("worthless", "again"), [(["CLIENT_LATE"], 1), ([], 0)])
def test_a_probe_that_says_nothing_is_run_once_more(
    tmp_path: Path, small: tuple[Path, dict[str, Any]], worthless: list[str], again: int
) -> None:
    """A client that was late is no slow engine: the second run of that rate counts. A plain failure is believed."""
    folder, whole = small
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    told = json.loads((copy / "capacity.json").read_text())
    probes = told["probes"][:-1]
    at = max(place for place, one in enumerate(probes) if one["passed"])
    probes[at] |= {"worthless": worthless} if worthless else {}
    (copy / "capacity.json").write_text(json.dumps({**told, "probes": probes}))
    found = run_capacity(load_capacity(copy), silent)
    assert len(found["probes"]) == len(whole["probes"]) + again
    assert found["capacity"] == whole["capacity"]
    assert found["worthless"] == []


def test_a_trace_is_one_workload(tmp_path: Path) -> None:
    """Stretched to each rate, searched once, without an interval and without another seed to confirm it."""
    rows = [f"{0.7 * at + 0.3 * (at % 3):.1f},20,{5 + at % 9}" for at in range(150)]
    (tmp_path / "trace.csv").write_text("\n".join(["time,prompt,output", *rows]) + "\n")
    texts = {"trace": str(tmp_path / "trace.csv"), "columns": "time=time,prompt=prompt,output=output"}
    given = {"engine": "one-by-one", "clock": "modelled", "slo": "ttft<=60ms", "out": str(tmp_path / "out")}
    whole = from_texts({**given, **texts, "time-unit": "s"}, complete=False)
    search = plan_capacity(whole, CapacityOptions(0.9, None, 8.0), quick=False)
    found = run_capacity(search, silent)
    assert {one["seed"] for one in found["probes"]} == {7}
    assert {one["scheduled"] for one in found["probes"]} == {150}
    assert (found["capacity"]["low"], found["confirmation"]) == (None, None)
    assert found["capacity"]["value"] > 8
    assert "this trace alone" in found["label"]


def test_a_fill_is_not_counted_among_a_probes_requests(tmp_path: Path) -> None:
    """What a probe shows as n is what its attainment is of."""
    _, found = searched(tmp_path, CapacityOptions(0.9, 100, 6.0, 1), fill="30", cooldown="10")
    assert {(one["requests"], one["scheduled"]) for one in found["probes"]} == {(100, 100), (200, 200)}


@pytest.mark.parametrize(
    ("passed", "worthless", "says"),
    [
        (False, [], "no rate passed, down to 3.57"),
        (True, [], "every rate passed, up to 1.006"),
        (False, ["CLIENT_LATE"], "no rate passed"),
    ],
)
def test_a_search_without_a_bracket_says_where_to_look(
    tmp_path: Path, passed: bool, worthless: list[str], says: str
) -> None:
    """The last rate that was tried and what to give; and INVALID where it was the client that failed."""
    search = plan_capacity(config(tmp_path), CapacityOptions(0.9, 100, 6.0, 1), quick=False)
    factor = 2.0 if passed else 0.5
    told = {"seed": 7, "requests": 100, "passed": passed, "worthless": worthless, "hopeless": None, "text": ""}
    rates = [6.0]
    while len(rates) < 25:
        rates.append(float(f"{rates[-1] * factor:.6g}"))
    search.probes.extend({**told, "rate_rps": rate_rps} for rate_rps in rates for _ in range(2))
    found = run_capacity(search, silent)
    assert found["capacity"] is None and found["reason"].startswith(says)
    assert found["worthless"] == worthless


def test_a_quick_search_says_what_it_is_worth(tmp_path: Path) -> None:
    """Two seeds of 300, no interval, the bias in words."""
    search = plan_capacity(config(tmp_path), CapacityOptions(), quick=True)
    assert (search.effort.seeds, search.effort.requests) == ((7, 8), 300)
    found = run_capacity(plan_capacity(config(tmp_path), CapacityOptions(0.9, 100, 6.0), quick=True), silent)
    assert found["capacity"]["low"] is None
    assert "+7 %" in found["label"]


def test_an_slo_that_nothing_meets_has_no_capacity(tmp_path: Path) -> None:
    """A prefill alone takes longer: the search ends where nobody waits for anybody, with the reason."""
    texts = {"slo": "ttft<=1ms"}
    _, found = searched(tmp_path, CapacityOptions(0.9, 100, 4.0, 1), **texts)
    assert found["capacity"] is None
    assert "served alone" in found["reason"]
    assert not any(one["passed"] for one in found["probes"])
    assert len(found["probes"]) < 6


def test_an_engine_that_serves_nothing_ends_the_search(tmp_path: Path) -> None:
    """Every request times out: one probe is enough to know."""
    _, found = searched(tmp_path, CapacityOptions(0.9, 100, 4.0, 1), timeout="1ms")
    assert (found["capacity"], len(found["probes"])) == (None, 1)
    assert "no request was served" in found["reason"]


@pytest.mark.parametrize(
    ("texts", "says"), [({"arrival": "burst"}, "burst has no rate"), ({"arrival": "closed", "users": "3"}, "closed")]
)
def test_loads_without_a_rate_are_refused(tmp_path: Path, texts: dict[str, str], says: str) -> None:
    """In one line, before anything runs."""
    with pytest.raises(ValueError, match=says):
        plan_capacity(config(tmp_path, **texts), CapacityOptions(), quick=False)


def test_probes_are_long_enough_to_show_something(tmp_path: Path) -> None:
    """Below 100 requests nothing is concluded."""
    with pytest.raises(ValueError, match="fewer than 100"):
        plan_capacity(config(tmp_path), CapacityOptions(0.9, 99), quick=False)


@pytest.mark.parametrize("content", ["", "{}", '{"probes": 3}', None])
def test_a_folder_without_a_search_is_named(tmp_path: Path, content: str | None) -> None:
    """Missing, empty or foreign: one line."""
    if content is not None:
        (tmp_path / "capacity.json").write_text(content)
    with pytest.raises(ValueError, match="holds no search"):
        load_capacity(tmp_path)


@pytest.mark.parametrize("text", ["0.9", "0%", "101%", "x%", "-5%"])
def test_a_share_is_written_in_percent(text: str) -> None:
    """0.9 could be either: refused."""
    with pytest.raises(ValueError):
        parse_share(text)
    assert parse_share("99.9%") == pytest.approx(0.999)


def test_a_killed_run_of_a_search_is_set_beside(tmp_path: Path, small: tuple[Path, dict[str, Any]]) -> None:
    """A folder that no probe in capacity.json speaks of is left alone, and the run made anew under another name."""
    folder, whole = small
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    told = json.loads((copy / "capacity.json").read_text())
    last: Sequence[Any] = told["probes"]
    (copy / "capacity.json").write_text(json.dumps({**told, "probes": last[:-1], "status": "running"}))
    found = run_capacity(load_capacity(copy), silent)
    assert found["capacity"] == whole["capacity"]
    assert found["probes"][-1]["folder"] != whole["probes"][-1]["folder"]
    assert (copy / whole["probes"][-1]["folder"]).is_dir()


@pytest.mark.slow
def test_a_server_is_searched_as_an_engine_is(tmp_path: Path) -> None:
    """Over HTTP: one request at a time, 16.5 ms each, serves 60 a second. What this client is late is allowed."""
    engine = "one-by-one,executor=cost,decode-base=2ms,decode-row=0ms,prefill-base=2.5ms,prefill-token=0ms"
    waits = {"own_wait_fraction=1", "lag_sum_fraction=1", "lag_p99_ns=1e9", "lag_max_ns=1e10", "drift_ns=1e9"}
    with serving(engine=engine) as (url, _):
        given = {"target": f"{url}/v1", "slo": SLO, "out": str(tmp_path), "output-tokens": "8", "prompt-tokens": "8"}
        one = from_texts({**given, "threshold": sorted(waits), "no-calibrate": "true"}, complete=False)
        search = plan_capacity(one, CapacityOptions(0.9, 100, 30.0, 1), quick=False)
        found = run_capacity(search, silent)
    assert 10 < found["capacity"]["value"] < 85  # a tenth may wait 300 ms, so that 100 requests fit above 60 a second
    assert found["confirmation"]["requests"] == 200
    for probe in found["probes"]:
        run = load_run(search.folder / probe["folder"])
        assert (run.info["target"], len(run.recording.schedule)) == ("http", probe["requests"])
    assert {probe["passed"] for probe in found["probes"]} == {True, False}
