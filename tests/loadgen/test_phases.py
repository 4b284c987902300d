"""Phases: fill and cool-down come on top of what is measured, keep the load on, and stand in no figure."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from engines.cost import LinearCost
from engines.policies import continuous, one_by_one, static
from loadgen.config import RunConfig, from_texts
from loadgen.traces.neutral import write_neutral
from loadgen.workload import build_schedule
from results.columns import int64
from results.metrics import events_of
from results.schedule import COOLDOWN, FILL, MEASURE, Schedule
from results.slo import parse_slo
from results.status import Status
from results.summary import summarise
from results.verdicts.overload import judge_load
from results.verdicts.run_facts import RunFacts
from results.verdicts.thresholds import Thresholds
from results.verdicts.verdict import judge
from results.window import planned_window_ns
from tests.engines.playing import engine_of, play


def config_of(**texts: str) -> RunConfig:
    """Options as typed, poisson at 20/s unless told otherwise."""
    return from_texts({"rate": "20", **{name.replace("_", "-"): text for name, text in texts.items()}})


def counts_of(schedule: Schedule) -> tuple[int, int, int]:
    """Of fill, measured and cool-down requests, which must stand in that order."""
    phase = schedule.phase
    assert (np.diff(phase) >= 0).all()
    return tuple(int((phase == one).sum()) for one in (FILL, MEASURE, COOLDOWN))  # type: ignore[return-value]


def test_requests_counts_the_measured_ones() -> None:
    """The others come on top; all of them are one stream of arrivals, the one that more requests would have."""
    schedule = build_schedule(config_of(requests="100", fill="30", cooldown="20"))
    assert counts_of(schedule) == (30, 100, 20)
    plain = build_schedule(config_of(requests="150"))
    assert (schedule.due_ns == plain.due_ns).all() and (schedule.output_tokens == plain.output_tokens).all()
    assert schedule.sha256 != plain.sha256
    due = schedule.due_ns
    assert planned_window_ns(schedule) == (due[29], due[129])
    assert planned_window_ns(plain) == (0, due[149])


def test_a_duration_is_that_of_the_measured_window() -> None:
    """It begins with the last of the fill; every arrival within it is measured, and none after it."""
    schedule = build_schedule(config_of(duration="10s", fill="30", cooldown="20"))
    fill, measured, cooldown = counts_of(schedule)
    begin, end = planned_window_ns(schedule)
    assert end is not None
    assert (fill, cooldown, end) == (30, 20, begin + 10_000_000_000)
    assert begin == schedule.due_ns[29]
    inside = (schedule.due_ns > begin) & (schedule.due_ns < end)
    assert int(inside.sum()) == measured
    assert 140 < measured < 260


def test_only_the_measured_population_counts() -> None:
    """Counts, latencies, attainment, rates and the growth of the queue are of the window; Little's law is of all."""
    schedule = build_schedule(config_of(requests="400", fill="100", cooldown="50"))
    recording = play(schedule, engine_of(continuous(4), LinearCost()))
    summary = summarise(recording, parse_slo("ttft<=1s"))
    begin, end = int(schedule.due_ns[99]), int(schedule.due_ns[499])
    assert summary["requests_by_phase"] == {"fill": 100, "measure": 400, "cooldown": 50}
    assert summary["window_ns"] == [begin, end]
    assert summary["requests"]["scheduled"] == summary["ttft_ms"]["n"] == 400
    assert summary["rates"]["realised_rps"] == pytest.approx(399e9 / (end - int(schedule.due_ns[100])))
    ends = int64(recording.requests["end_ns"])
    inside = int(((ends >= begin) & (ends <= end)).sum())
    assert summary["rates"]["completed_rps"] == pytest.approx(inside * 1e9 / (end - begin))
    assert summary["slo"]["goodput_rps"] == pytest.approx(400e9 / (end - begin))
    assert judge_load(recording, Thresholds()).arrivals_requests == 400
    assert summary["little_error_ns"] == 0


def test_what_the_window_served_of_the_fill_counts_as_throughput() -> None:
    """Whoever's first token falls into the window, its prompt was read there; its answer's tokens count so too.

    One by one, 64 tokens of prompt: of 30 that fill a queue some are served in the window.
    """
    config = config_of(requests="40", fill="30", cooldown="20", arrival="constant", rate="20")
    plain = build_schedule(config)
    due = plain.due_ns.copy()
    due[:29] = due[0]
    schedule = replace(plain, due_ns=due, prompt_tokens=np.full(90, 64, dtype=np.int64))
    recording = play(schedule, engine_of(one_by_one(), LinearCost()))
    summary = summarise(recording)
    begin, end = summary["window_ns"]
    events = events_of(recording)
    inside = (events.firsts_ns >= begin) & (events.firsts_ns <= end)
    assert 0 < inside[:30].sum() < 30 and inside.sum() > inside[30:70].sum()
    rates = summary["rates"]
    prompts_per_s = rates["total_tokens_per_s"] - rates["output_tokens_per_s"]
    assert prompts_per_s == pytest.approx(64 * inside.sum() * 1e9 / (end - begin))


def test_slots_are_those_of_the_measured_window() -> None:
    """A fill that wastes nothing and a window that does: the fractions are the window's, as counted step by step."""
    plain = build_schedule(config_of(requests="40", fill="20", cooldown="10", arrival="constant", rate="1"))
    even = replace(plain, output_tokens=np.full(70, 9, dtype=np.int64))
    lone = summarise(play(even, engine_of(static(4), LinearCost())))["slots"]
    assert (lone["span"], lone["wasted_slot_fraction"]) == ("measured window", 0.0)
    due = even.due_ns.copy()
    due[:19], due[60:] = due[18], due[60]  # fill and cool-down in full batches; between them one request a second
    crowded = summarise(play(replace(even, due_ns=due), engine_of(static(4), LinearCost())))["slots"]
    assert crowded["unused_slot_fraction"] == lone["unused_slot_fraction"] == pytest.approx(3 / 4)
    assert crowded["steps"] == lone["steps"]
    whole = summarise(play(build_schedule(config_of(requests="40")), engine_of(static(4), LinearCost())))["slots"]
    assert whole["span"] == "whole run"


def test_a_queue_that_fills_before_the_window_is_no_overload() -> None:
    """From empty to a deep queue that then stands still: growth is judged from the fill's end on."""
    burst_then_even = np.concatenate([np.zeros(200), np.arange(1, 1_001) * 100_000_000]).astype(np.int64)
    config = config_of(requests="1000", fill="200", arrival="constant")
    plain = build_schedule(config)
    origin = {**plain.origin, "window": {"kind": "schedule"}}
    fields = ("after_offsets", "after_ids", "think_ns", "session", "turn", "request_class", "phase",
              "prompt_tokens", "output_tokens")  # fmt: skip
    schedule = Schedule(
        due_ns=burst_then_even, origin=origin, recipe=plain.recipe,
        **{name: getattr(plain, name).copy() for name in fields},
    )  # fmt: skip
    recording = play(schedule, engine_of(one_by_one(), LinearCost()))
    load = judge_load(recording, Thresholds())
    assert load.arrivals_requests == 1_000
    assert load.growth_ratio is not None and load.growth_ratio <= 0


def test_failures_of_the_fill_do_not_count() -> None:
    """Half of all requests time out, all of them in the fill: the verdict is about the measured ones."""
    schedule = build_schedule(config_of(requests="200", fill="100"))
    recording = play(schedule, engine_of(continuous(4), LinearCost()))
    status = recording.requests["status"].copy()
    status[:100] = int(Status.ENGINE_ERROR)
    broken = replace(recording, requests={**recording.requests, "status": status})
    facts = RunFacts("modelled", schedule.sha256)
    assert judge(broken, facts).checks["FAILURES"] == "passed"
    status[150:] = int(Status.ENGINE_ERROR)
    assert judge(broken, facts).checks["FAILURES"] == "failed"


def test_a_closed_loop_is_measured_after_every_user_has_been_served_once() -> None:
    """A fill of one request a user: the window runs from the first measured request to the last, before cool-down."""
    config = from_texts({"arrival": "closed", "users": "4", "requests": "40", "fill": "4", "cooldown": "4"})
    schedule = build_schedule(config)
    assert counts_of(schedule) == (4, 40, 4)
    recording = play(schedule, engine_of(continuous(4), LinearCost()))
    due = recording.requests["due_ns"]
    assert summarise(recording)["window_ns"] == [int(due[4:44].min()), int(due[4:44].max())]
    assert summarise(recording)["ttft_ms"]["n"] == 40


def test_a_closed_loop_fills_with_one_request_a_user_unless_told_otherwise() -> None:
    """The users' first requests come on top, stand in no figure, and end one after another: no second burst follows."""
    texts = {"arrival": "closed", "users": "4", "requests": "40", "output-tokens": "40"}
    schedule = build_schedule(from_texts(texts))
    assert counts_of(schedule) == (4, 40, 0)
    assert schedule.output_tokens[:5].tolist() == [5, 15, 25, 35, 40]
    assert counts_of(build_schedule(from_texts({**texts, "fill": "8"}))) == (8, 40, 0)
    recording = play(schedule, engine_of(continuous(4), LinearCost()))
    seconds = np.sort(recording.requests["due_ns"][4:8])
    assert (np.diff(seconds) > 0).all()
    (first,) = summarise(recording)["by_phase"].values()
    assert (first["requests"], first["ttft_ms"]["n"]) == (4, 4)
    assert summarise(recording)["requests"]["scheduled"] == 40


def test_a_closed_loop_without_a_fill_says_that_its_burst_is_measured() -> None:
    """--fill 0: nothing is cut, and the verdict names how many began at once."""
    texts = {"arrival": "closed", "users": "4", "requests": "40"}
    for fill, said in (("0", True), ("4", False)):
        schedule = build_schedule(from_texts({**texts, "fill": fill}))
        verdict = judge(play(schedule, engine_of(continuous(4), LinearCost())), RunFacts("modelled", schedule.sha256))
        (capped,) = [found for found in verdict.warnings if found.code == "CAPPED"]
        assert ("4 of them began at once" in capped.text) is said
    assert build_schedule(from_texts({**texts, "fill": "0"})).sha256 != schedule.sha256


def trace_of(tmp_path: Path, rows: int = 40) -> dict[str, str]:
    """Options that replay a recording of one request every half second."""
    path = tmp_path / "trace.csv"
    path.write_text("\n".join(["time,prompt,output", *(f"{0.5 * at},20,8" for at in range(rows))]) + "\n")
    return {"trace": str(path), "columns": "time=time,prompt=prompt,output=output", "time-unit": "s"}


def test_a_trace_gives_its_first_and_last_requests(tmp_path: Path) -> None:
    """Fill and cool-down are its own; the window is what lies between them, and offered is the rate in it."""
    schedule = build_schedule(from_texts({**trace_of(tmp_path), "fill": "10", "cooldown": "6"}))
    plain = build_schedule(from_texts(trace_of(tmp_path)))
    assert counts_of(schedule) == (10, 24, 6)
    assert (schedule.due_ns == plain.due_ns).all() and schedule.sha256 != plain.sha256
    assert planned_window_ns(schedule) == (4_500_000_000, 17_000_000_000)
    assert schedule.origin["rate_rps"] == pytest.approx(24 / 12.5)
    assert schedule.origin["parameters"]["fill_requests"] == 10
    summary = summarise(play(schedule, engine_of(continuous(4), LinearCost())))
    assert summary["requests"]["scheduled"] == summary["ttft_ms"]["n"] == 24
    assert summary["window_ns"] == [4_500_000_000, 17_000_000_000]


def test_a_trace_that_has_phases_or_too_few_requests_is_refused(tmp_path: Path) -> None:
    """One line with the remedy; a saved schedule keeps the phases that it was saved with."""
    with pytest.raises(ValueError, match="none of the trace's 40") as caught:
        build_schedule(from_texts({**trace_of(tmp_path), "fill": "30", "cooldown": "10"}))
    assert "\n" not in str(caught.value)
    phased = build_schedule(config_of(requests="30", fill="5"))
    saved = tmp_path / "saved.jsonl"
    write_neutral(phased, saved)
    assert build_schedule(from_texts({"trace": str(saved)})).sha256 == phased.sha256
    with pytest.raises(ValueError, match="leave --fill and --cooldown out"):
        build_schedule(from_texts({"trace": str(saved), "fill": "5"}))


def test_a_run_stopped_in_its_fill_has_measured_nothing() -> None:
    """The window is empty, rates are null with their reason, and nothing breaks."""
    schedule = build_schedule(config_of(requests="50", fill="50"))
    recording = play(schedule, engine_of(continuous(4), LinearCost()))
    summary = summarise(replace(recording, stopped_ns=1_000_000_000))
    begin, end = summary["window_ns"]
    assert begin == end
    assert summary["rates"]["completed_rps"] is None


@pytest.mark.parametrize(
    ("texts", "word"),
    [
        ({"arrival": "burst", "fill": "3"}, "burst"),
        ({"arrival": "conditioned", "rate": "5", "duration": "9s", "cooldown": "3"}, "--requests"),
        ({"preset": "seed1", "rate": "5", "fill": "3"}, "--fill"),
        ({"rate": "5", "fill": "-1"}, "--fill"),
    ],
)
def test_phases_that_cannot_be_are_refused(texts: dict[str, str], word: str) -> None:
    """One line names the option or what stands against it."""
    with pytest.raises(ValueError, match=word) as caught:
        from_texts(texts)
    assert "\n" not in str(caught.value)
