"""Phases: fill and cool-down come on top of what is measured, keep the load on, and stand in no figure."""

import numpy as np
import pytest

from engines.cost import LinearCost
from engines.policies import continuous, one_by_one
from loadgen.config import RunConfig, from_texts
from loadgen.workload import build_schedule
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
    ends = recording.requests["end_ns"]
    inside = int(((ends >= begin) & (ends <= end)).sum())
    assert summary["rates"]["completed_rps"] == pytest.approx(inside * 1e9 / (end - begin))
    assert summary["slo"]["goodput_rps"] == pytest.approx(400e9 / (end - begin))
    assert judge_load(recording, Thresholds()).arrivals_requests == 400
    assert summary["little_error_ns"] == 0


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
    broken = type(recording)(**{
        name: ({**recording.requests, "status": status} if name == "requests" else getattr(recording, name))
        for name in recording.__slots__
    })  # fmt: skip
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


def test_a_run_stopped_in_its_fill_has_measured_nothing() -> None:
    """The window is empty, rates are null with their reason, and nothing breaks."""
    schedule = build_schedule(config_of(requests="50", fill="50"))
    recording = play(schedule, engine_of(continuous(4), LinearCost()))
    stopped = type(recording)(**{
        name: (1_000_000_000 if name == "stopped_ns" else getattr(recording, name)) for name in recording.__slots__
    })  # fmt: skip
    summary = summarise(stopped)
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
