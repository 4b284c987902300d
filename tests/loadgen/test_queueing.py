"""Queueing theory and accounting: Pollaczek-Khinchine, Little's law, and what each wait is made of."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.cost import LinearCost
from engines.policies import DurationNs, continuous, one_by_one, static, static_bucketed
from engines.slots import Batch, SlotEngine
from loadgen.arrivals import due_times_ns
from loadgen.drive import Decision
from loadgen.lengths import draw_lengths
from results.columns import NULL
from results.metrics import little_error_ns
from results.recording import Recording
from results.schedule import Schedule, make_schedule
from results.waits import admission_waits, held_back_fraction
from tests.engines.playing import Steering, column, engine_of, in_flight_request_ns, linear_ps, play, schedule_of

POLICIES = {
    "one-by-one": one_by_one(),
    "static": static(3),
    "static-full": static(3, "full"),
    "static-patient": static(3, "full", DurationNs(12_000)),
    "static-end": static(3, return_="end"),
    "static-bucketed": static_bucketed(2, 5),
    "continuous": continuous(3),
}
DECODE_NS, PREFILL_BASE_NS, PREFILL_TOKEN_NS = 2_155_000, 2_000_000, 128_000
"""One row's decode and prefill at the default cost."""


def pollaczek_khinchine(
    rho: float, prompts: tuple[int, int], requests: int, seeds: int = 10
) -> tuple[float, float, float]:
    """(theory, mean, standard error) of the mean admission wait in ns, over runs of independent seeds."""
    prompt_values = np.arange(prompts[0], prompts[1] + 1)
    service_ns = PREFILL_BASE_NS + PREFILL_TOKEN_NS * prompt_values[:, None] + DECODE_NS * np.arange(1, 6)[None, :]
    rate_per_ns = rho / service_ns.mean()
    theory_ns = rate_per_ns * (service_ns.astype(float) ** 2).mean() / (2 * (1 - rho))
    means = []
    for seed in range(seeds):
        schedule = make_schedule(
            due_times_ns("poisson", requests, rate_per_ns * 1e9, seed),
            draw_lengths(requests, seed, "prompt", prompts),
            draw_lengths(requests, seed, "output", (2, 6)),
        )
        recording = play(schedule, engine_of(one_by_one(), LinearCost()))
        assert little_error_ns(recording) == 0
        waits = admission_waits(recording)
        assert waits is not None and len(waits.all_ns) == requests
        assert (waits.step_ns + waits.collect_ns + waits.slot_ns == waits.all_ns).all()
        assert not waits.collect_ns.any()
        means.append(float(waits.all_ns.mean()))
    mean_ns, error_ns = float(np.mean(means)), float(np.std(means, ddof=1) / np.sqrt(seeds))
    print(
        f"P-K rho {rho} prompts {prompts} n {requests}: theory {theory_ns / 1e6:.4f} ms, measured {mean_ns / 1e6:.4f}, "
        f"se {error_ns / theory_ns:.2%}, off by {(mean_ns - theory_ns) / error_ns:+.2f} se"
    )
    return theory_ns, mean_ns, error_ns


@pytest.mark.slow
@pytest.mark.parametrize("prompts", [(64, 64), (32, 96)])
@pytest.mark.parametrize(("rho", "largest_error"), [(0.2, 0.016), (0.5, 0.016), (0.8, 0.035)])
def test_waits_one_by_one_are_those_of_an_m_g_1_queue(
    rho: float, largest_error: float, prompts: tuple[int, int]
) -> None:
    """Mean of slot start - due over ten runs of 20,000 within 4.8 standard errors of Pollaczek-Khinchine's mean."""
    theory_ns, mean_ns, error_ns = pollaczek_khinchine(rho, prompts, 20_000)
    assert error_ns <= largest_error * theory_ns
    assert abs(mean_ns - theory_ns) <= 4.8 * error_ns


@pytest.mark.parametrize(("rho", "largest_error"), [(0.2, 0.016), (0.5, 0.016), (0.8, 0.035)])
def test_waits_one_by_one_are_about_those_of_an_m_g_1_queue(rho: float, largest_error: float) -> None:
    """The same at 2,500 requests a run, an eighth: the error may be sqrt 8 times as large."""
    theory_ns, mean_ns, error_ns = pollaczek_khinchine(rho, (32, 96), 2_500)
    assert error_ns <= 8**0.5 * largest_error * theory_ns
    assert abs(mean_ns - theory_ns) <= 4.8 * error_ns


@st.composite
def schedules(draw: st.DrawFn, followers: bool = False) -> Schedule:
    """Up to 14 requests within some 40 us, some of which wait for earlier ones."""
    rows = draw(st.integers(1, 14))
    gaps = draw(st.lists(st.sampled_from([0, 1, 700, 3_000, 9_000]), min_size=rows, max_size=rows))
    lengths = st.lists(st.integers(1, 5), min_size=rows, max_size=rows)
    after, think = {}, {}
    for row in range(1, rows if followers else 1):
        if draw(st.integers(0, 2)) == 0:
            after[row] = draw(st.lists(st.integers(0, row - 1), min_size=1, max_size=2))
            think[row] = draw(st.sampled_from([0, 1, 2_500]))
    due = np.cumsum(gaps).tolist()
    return schedule_of(draw(lengths), due, draw(lengths), after, think)


def cost(seed: int) -> LinearCost:
    """Steps of 0.3 to 4 us that are no whole number of ns."""
    return linear_ps(300_007 + 1_000_003 * (seed % 3), 100_001, 500_011, 200_003)


def assert_little(recording: Recording) -> None:
    """Three ways to the same integral: the rows' sum, the driver's counter, a sweep over arrivals and ends."""
    assert little_error_ns(recording) == 0
    due, end = column(recording, "due_ns"), column(recording, "end_ns")
    ended = [row for row in range(len(due)) if end[row] is not None]
    assert recording.in_flight_request_ns == sum(end[row] - due[row] for row in ended)
    assert in_flight_request_ns(recording) == recording.in_flight_request_ns


@pytest.mark.parametrize("name", POLICIES)
@settings(max_examples=15, deadline=None, derandomize=True)
@given(
    schedule=schedules(followers=True),
    timeout_ns=st.sampled_from([None, 1, 6_000]),
    drain_ns=st.sampled_from([None, 0, 8_000]),
    decision=st.sampled_from(list(Decision)),
)
def test_littles_law_holds_to_the_nanosecond(
    name: str, schedule: Schedule, timeout_ns: int | None, drain_ns: int | None, decision: Decision
) -> None:
    """Empty to empty, whatever ends requests: their own end, time limits, the drain's limit, a stop, a cancel."""
    control = Steering(timeout_ns, drain_ns, [decision])
    recording = play(schedule, engine_of(POLICIES[name], cost(len(schedule))), control)
    assert_little(recording)
    ended = recording.requests["end_ns"] != NULL
    assert (recording.requests["end_ns"][ended] >= recording.requests["due_ns"][ended]).all()


class Collapsing:
    """An executor that fails after so many steps."""

    context_tokens = None
    eos_token_id = None

    def __init__(self, steps: int) -> None:
        self._steps = steps

    def run(self, batch: Batch) -> list[int]:
        self._steps -= 1
        if self._steps < 0:
            raise RuntimeError("out of memory")
        return [1] * len(batch.rows)

    def describe(self) -> dict[str, bool]:
        return {"reads_prompts": False}


@pytest.mark.parametrize("steps", [0, 1, 7])
def test_littles_law_survives_an_engine_that_does_not(steps: int) -> None:
    """Whoever was in the engine has ended when it broke."""
    recording = play(
        schedule_of([3] * 9, range(0, 9_000, 1_000)), SlotEngine(continuous(2), Collapsing(steps), cost(0))
    )
    assert_little(recording)


def test_requests_in_flight_counted_nanosecond_by_nanosecond() -> None:
    """The identity against the slowest count there is."""
    recording = play(schedule_of([3, 1, 2, 5], [0, 2, 2, 11]), engine_of(one_by_one()))
    spans = list(zip(column(recording, "due_ns"), column(recording, "end_ns"), strict=True))
    assert spans == [(0, 3), (2, 4), (2, 6), (11, 16)]
    slowly = sum(sum(due <= t < end for due, end in spans) for t in range(20))
    assert recording.in_flight_request_ns == slowly == 3 + 2 + 4 + 5


def spans_of_steps(recording: Recording) -> list[tuple[int, int]]:
    """(start, end) of each step in ns."""
    starts, costs = recording.steps["start_ps"].tolist(), recording.steps["cost_ps"].tolist()
    return [(start // 1_000, (start + cost) // 1_000) for start, cost in zip(starts, costs, strict=True)]


def slow_waits(recording: Recording) -> list[tuple[int, int, int, int, int]]:
    """(request, all, step, collect, slot) by looking at every nanosecond of every wait."""
    spans = spans_of_steps(recording)
    waits = []
    for row, (due, step) in enumerate(
        zip(column(recording, "due_ns"), column(recording, "admitted_step"), strict=True)
    ):
        if step is None:
            continue
        begin = spans[step][0]
        running = next((span for span in spans if span[0] < due < span[1]), (due, due))
        step_ns = running[1] - due
        collect_ns = sum(not any(start <= t < end for start, end in spans) for t in range(due, begin))
        waits.append((row, begin - due, step_ns, collect_ns, begin - due - step_ns - collect_ns))
    return waits


def slow_held_back(recording: Recording) -> float | None:
    """The share of nanoseconds in which somebody waits for a slot and no step runs."""
    spans, waiting = spans_of_steps(recording), []
    rows = zip(
        column(recording, "due_ns"), column(recording, "end_ns"), column(recording, "admitted_step"), strict=True
    )
    for due, end, step in rows:
        if end is not None:
            waiting.append((due, end if step is None else spans[step][0]))
    run_ns = max(spans[-1][1], max(left for _, left in waiting))
    held = (
        any(due <= t < left for due, left in waiting) and not any(start <= t < end for start, end in spans)
        for t in range(run_ns)
    )
    return sum(held) / run_ns


@pytest.mark.parametrize("name", POLICIES)
@settings(max_examples=12, deadline=None, derandomize=True)
@given(data=st.data())
def test_admission_waits_add_up_and_each_part_is_what_it_says(name: str, data: st.DataObject) -> None:
    """Step, collect and slot wait, and the time held back, against a look at every nanosecond; aborts included."""
    rows = data.draw(st.integers(1, 9))
    gaps = data.draw(st.lists(st.sampled_from([0, 1, 3, 8, 40]), min_size=rows, max_size=rows))
    lengths = st.lists(st.integers(1, 4), min_size=rows, max_size=rows)
    schedule = schedule_of(data.draw(lengths), np.cumsum(gaps).tolist(), data.draw(lengths))
    policy = static(3, "full", DurationNs(12)) if name == "static-patient" else POLICIES[name]
    engine = engine_of(policy, linear_ps(2_300, 400, 1_900, 700))
    recording = play(schedule, engine, Steering(timeout_ns=data.draw(st.sampled_from([None, 17, 60]))))
    waits = admission_waits(recording)
    if waits is None:
        assert slow_waits(recording) == []
        return
    columns = (waits.request_id, waits.all_ns, waits.step_ns, waits.collect_ns, waits.slot_ns)
    assert list(zip(*(values.tolist() for values in columns), strict=True)) == slow_waits(recording)
    assert (waits.step_ns + waits.collect_ns + waits.slot_ns == waits.all_ns).all()
    assert min(waits.step_ns.min(), waits.collect_ns.min(), waits.slot_ns.min()) >= 0
    assert held_back_fraction(recording) == slow_held_back(recording)


def test_a_step_that_starts_when_a_request_becomes_due_is_not_waited_for() -> None:
    """Due in the middle of a step: its rest is step wait. Due at a step's start: the whole step is slot wait."""
    outputs, due = [1, 1, 1, 1], [0, 0, 1, 2]
    recording = play(schedule_of(outputs, due), engine_of(one_by_one(), linear_ps(4_000, 0, 4_000, 0)))
    waits = admission_waits(recording)
    assert waits is not None
    assert waits.all_ns.tolist() == [0, 4, 7, 10]
    assert waits.step_ns.tolist() == [0, 0, 3, 2]
    assert waits.slot_ns.tolist() == [0, 4, 4, 8]


def test_a_batch_that_waits_to_be_full_is_held_back() -> None:
    """Two of two due at 0 and 6: 6 ns of collecting, of the 8 ns that the run takes."""
    recording = play(schedule_of([2, 2], [0, 6]), engine_of(static(2, "full")))
    waits = admission_waits(recording)
    assert waits is not None
    assert waits.collect_ns.tolist() == [6, 0]
    assert not waits.step_ns.any() and not waits.slot_ns.any()
    assert held_back_fraction(recording) == 6 / 8


def test_nothing_is_held_back_by_an_engine_that_never_waits() -> None:
    """Idle time with nobody waiting is no hold-back."""
    recording = play(schedule_of([2, 2], [0, 60]), engine_of(continuous(2)))
    assert held_back_fraction(recording) == 0
