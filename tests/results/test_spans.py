"""A run whose tokens are implied, against the same run with a row for each."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.cost import DurationPs, LinearCost
from engines.policies import Policy, continuous, one_by_one, static, static_bucketed
from loadgen.clock import ModelledClock
from loadgen.drive import play_compact
from loadgen.fused import play_fused
from results.compact import as_recording
from results.fluidity import Deadlines, deadlines_met
from results.metrics import events_of, tokens_within
from results.recording import Recording
from results.schedule import Schedule
from results.slo import parse_slo
from results.span_deadlines import missed_and_total
from results.spans import TokenSpans
from results.store import COMPLETE, RunFolder, digest, load_run
from results.summary import summarise
from results.verdicts.run_facts import RunFacts
from results.verdicts.verdict import judge
from tests.engines.playing import Steering, engine_of, ignore, play, schedule_of
from tests.results.test_fluidity import by_the_word

POLICIES = [one_by_one(), static(4), static(4, "full"), static(3, until=40), static_bucketed(4, 9), continuous(4)]
COST = LinearCost(*map(DurationPs, (9_000_000, 700_000, 5_000_000, 300_000, 11_000)))
"""Decodes that grow with the caches: 9.7 us and more."""
SLO = parse_slo("ttft<=90us,tpot<=12us")


def workload(seed: int, requests: int = 200) -> Schedule:
    """Some at once, some of one token."""
    generator = np.random.default_rng(seed)
    due = np.cumsum(generator.integers(0, [3_000, 120_000, 400_000][seed % 3], requests)).tolist()
    outputs, prompts = (generator.integers(1, longest, requests).tolist() for longest in (40, 20))
    return schedule_of(outputs, due, prompts)


def implied(policy: Policy, schedule: Schedule, timeout_ns: int | None = None) -> Recording:
    run = play_compact(schedule, engine_of(policy, COST), ModelledClock(), ignore, Steering(timeout_ns=timeout_ns))
    return as_recording(run)


def assert_alike(one: Any, other: Any, path: str = "") -> None:
    """Equal, up to the last digits of sums of floats."""
    if isinstance(one, dict):
        assert one.keys() == other.keys(), path
        for key in one:
            assert_alike(one[key], other[key], f"{path}/{key}")
    elif isinstance(one, float):
        assert one == pytest.approx(other, rel=1e-12), path
    else:
        assert one == other, path


@pytest.mark.parametrize("timeout_ns", [None, 600_000])
@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: f"{policy.name}-{policy.options}")
def test_summary_and_verdict_are_those_of_all_rows(policy: Policy, timeout_ns: int | None) -> None:
    """Every figure, goodput and fluidity too, whoever is aborted on the way."""
    for seed in range(3):
        schedule = workload(seed)
        full = play(schedule, engine_of(policy, COST), Steering(timeout_ns=timeout_ns))
        short = implied(policy, schedule, timeout_ns)
        assert short.spans is not None and not len(short.token_count)
        assert_alike(summarise(short, SLO), summarise(full, SLO))
        facts = RunFacts("modelled", schedule.sha256)
        assert judge(short, facts).to_json() == judge(full, facts).to_json()
        assert digest(short) == digest(full)


@pytest.mark.parametrize("timeout_ns", [None, 600_000])
@pytest.mark.parametrize("policy", [static(4), continuous(4)], ids=["static", "continuous"])
def test_the_requests_table_has_the_columns_of_any_run(policy: Policy, timeout_ns: int | None) -> None:
    """Names, order and values: reasons and errors, slots and steps, of the aborted too."""
    schedule = workload(0)
    full = play(schedule, engine_of(policy, COST), Steering(timeout_ns=timeout_ns))
    short = implied(policy, schedule, timeout_ns)
    assert list(short.requests) == list(full.requests)
    for name, values in full.requests.items():
        assert short.requests[name].tolist() == values.tolist(), name


@pytest.mark.parametrize("policy", [static(4), continuous(4)], ids=["static", "continuous"])
def test_what_is_written_is_read_again(policy: Policy, tmp_path: Path) -> None:
    """The folder of such a run gives the same figures, and is written to the same bytes."""
    schedule = workload(2)
    files = []
    for name in ("a", "b"):
        recording = implied(policy, schedule)
        folder = RunFolder(tmp_path / name, schedule, {"schedule_sha256": schedule.sha256, "clock": "modelled"})
        summary = summarise(recording, SLO)
        folder.finish(recording, summary, COMPLETE, "2026-01-01T00:00:00+00:00")
        read = load_run(tmp_path / name)
        assert summarise(read.recording, SLO) == summary
        assert digest(read.recording) == read.info["digest_sha256"]
        files.append({path.name: path.read_bytes() for path in sorted((tmp_path / name).iterdir())})
    assert files[0] == files[1]


def test_tokens_in_a_window_are_those_between_its_ends() -> None:
    """Both ends belong to it: windows that begin and end with a token."""
    schedule = workload(1)
    short, full = implied(continuous(4), schedule), play(schedule, engine_of(continuous(4), COST))
    times = np.sort(events_of(full).t_ns)
    for low, high in ((0, len(times) - 1), (10, 40), (333, 333), (1_000, 2_000)):
        window_ns = int(times[low]), int(times[high])
        expected = int(((times >= window_ns[0]) & (times <= window_ns[1])).sum())
        assert tokens_within(short, events_of(short), window_ns) == expected
        assert tokens_within(full, events_of(full), window_ns) == expected


@st.composite
def spans(draw: st.DrawFn) -> TokenSpans:
    """Any decodes, ties and equal gaps among them, and requests that begin and end anywhere."""
    ends = np.cumsum(draw(st.lists(st.integers(0, 4), min_size=1, max_size=30)))
    pairs = draw(st.lists(st.tuples(st.integers(0, len(ends)), st.integers(0, len(ends))), min_size=1, max_size=12))
    low, high = (np.array(side) for side in zip(*((min(pair), max(pair)) for pair in pairs), strict=True))
    first = np.array([draw(st.integers(-3, int(ends[at]) if at < len(ends) else int(ends[-1]))) for at in low])
    return TokenSpans(low, high, np.ones(len(low), dtype=np.bool_), first, low, high, ends)


@settings(max_examples=500, deadline=None, derandomize=True)
@given(spans=spans(), due_ns=st.integers(-5, 5), first_ns=st.integers(0, 6), further_ns=st.integers(1, 4))
def test_chains_of_late_tokens_are_counted_as_one_by_one(
    spans: TokenSpans, due_ns: int, first_ns: int, further_ns: int
) -> None:
    """Whatever the times: the definition, token by token."""
    missed, total = missed_and_total(spans, np.full(len(spans.low), due_ns), first_ns, further_ns)
    for row, (first, low, high) in enumerate(zip(spans.first_ns, spans.low, spans.high, strict=True)):
        tokens = [(int(t_ns), 1) for t_ns in (first, *spans.decode_ends_ns[low:high])]
        assert (missed[row], total[row]) == by_the_word(due_ns, tokens, Deadlines(first_ns, further_ns))


@settings(max_examples=200, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 10**6), requests=st.integers(1, 40), first_ns=st.integers(0, 200_000),
    further_ns=st.sampled_from([1, 700, 9_000, 10_400, 12_000, 60_000]), slots=st.integers(1, 5),
)  # fmt: skip
def test_missed_deadlines_are_those_of_token_by_token(
    seed: int, requests: int, first_ns: int, further_ns: int, slots: int
) -> None:
    """Counts of missed and of all deadlines are equal integers, request by request."""
    schedule = workload(seed, requests)
    short, full = implied(continuous(slots), schedule), play(schedule, engine_of(continuous(slots), COST))
    deadlines = Deadlines(first_ns, further_ns)
    one, other = (deadlines_met(run, events_of(run), deadlines) for run in (short, full))
    assert one.missed.tolist() == other.missed.tolist()
    assert one.total.tolist() == other.total.tolist()


def test_driver_and_engine_in_one_loop_give_the_same_recording() -> None:
    """Every column of requests and of steps."""
    schedule = workload(1)
    fused = as_recording(play_fused(schedule, engine_of(continuous(4), COST)))
    apart = implied(continuous(4), schedule)
    for one, other in ((fused.requests, apart.requests), (fused.steps, apart.steps)):
        assert one.keys() == other.keys()
        for name, values in one.items():
            assert values.tolist() == other[name].tolist(), name
