"""A long run without a row a token, against the same run with all its rows."""

import numpy as np
import pytest

from engines.policies import Policy, continuous, one_by_one, static, static_bucketed
from loadgen.clock import ModelledClock
from loadgen.drive import play_compact
from results import compact, metrics
from results.columns import Int64
from results.compact import Compact
from results.recording import Recording
from results.schedule import Schedule
from results.stats import ordered_quantile, quantile
from results.status import Status
from results.steps import step_ends_ns
from tests.engines.playing import Steering, engine_of, ignore, linear_ps, play, schedule_of

POLICIES = [one_by_one(), static(4), static(4, "full"), static(3, until=40), static_bucketed(4, 9), continuous(4)]
COST = linear_ps(9_000, 700, 5_000, 300)


def workload(seed: int) -> Schedule:
    """200 requests, some at once, some of one token."""
    generator = np.random.default_rng(seed)
    due = np.cumsum(generator.integers(0, [3, 120, 400][seed % 3], 200)).tolist()
    return schedule_of(generator.integers(1, 40, 200).tolist(), due, generator.integers(1, 20, 200).tolist())


def both(policy: Policy, seed: int, timeout_ns: int | None = None) -> tuple[Compact, Recording]:
    """The same run, twice."""
    schedule = workload(seed)
    short = play_compact(schedule, engine_of(policy, COST), ModelledClock(), ignore, Steering(timeout_ns=timeout_ns))
    return short, play(schedule, engine_of(policy, COST), Steering(timeout_ns=timeout_ns))


def token_times_ns(run: Compact, request_id: int) -> Int64:
    """When a request's tokens came: its first, and the decodes it took part in."""
    spans = run.tokens
    if not spans.seated[request_id]:
        return np.empty(0, np.int64)
    at = int(spans.seated[:request_id].sum())
    return np.concatenate([spans.first_ns[at : at + 1], spans.decode_ends_ns[spans.low[at] : spans.high[at]]])


@pytest.mark.parametrize("timeout_ns", [None, 600])
@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: f"{policy.name}-{policy.options}")
def test_every_figure_is_the_one_of_all_rows(policy: Policy, timeout_ns: int | None) -> None:
    """TTFT, E2E, TPOT, the longest gap, all gaps and each token's time are equal, whoever is aborted on the way."""
    for seed in range(3):
        short, full = both(policy, seed, timeout_ns)
        assert seed or (timeout_ns is None) == (full.requests["status"] == Status.OK).all()
        events = metrics.events_of(full)
        for name in ("ttft_ns", "e2e_ns", "tpot_ns", "stall_ns"):
            expected = getattr(metrics, name)(full, events)
            assert np.array_equal(getattr(compact, name)(short), expected, equal_nan=True), name
        for name in ("status", "due_ns", "handed_ns", "end_ns", "admitted_step", "slot"):
            assert short.requests[name].tolist() == full.requests[name].tolist(), name
        assert compact.output_tokens(short).tolist() == full.requests["output_tokens"].tolist()
        assert short.in_flight_request_ns == full.in_flight_request_ns
        gaps, _ = metrics.gaps_ns(full, events, ~metrics.failed(full))
        lengths, counts = short.tokens.gaps_ns(~metrics.failed(full))
        assert sorted(np.repeat(lengths, counts).tolist()) == sorted(gaps.tolist())
        half_ns = int(events.t_ns.max()) // 2
        assert short.tokens.tokens_until(half_ns) == int(events.tokens[events.t_ns <= half_ns].sum())
        times = step_ends_ns(full.steps, full.token_step if full.token_step is not None else np.empty(0, np.int64))
        for row in range(0, 200, 7):
            begin, end = full.token_offsets[row : row + 2]
            assert token_times_ns(short, row).tolist() == times[begin:end].tolist()


def test_a_stretch_is_one_row() -> None:
    """One request of 10,000 tokens: a prefill and a stretch."""
    run = play_compact(schedule_of([10_000]), engine_of(one_by_one(), COST), ModelledClock(), ignore, Steering())
    assert run.steps["n_steps"].tolist() == [1, 9_999]
    assert len(token_times_ns(run, 0)) == 10_000


@pytest.mark.parametrize("q", [0.5, 0.9, 0.99])
def test_a_quantile_of_counted_values_is_that_of_all_of_them(q: float) -> None:
    """Type 8, whether the values are counted or written out, and none of none."""
    generator = np.random.default_rng(5)
    values, counts = np.sort(generator.integers(0, 50, 80)), generator.integers(1, 9, 80)
    assert ordered_quantile(values, np.cumsum(counts), q) == quantile(np.repeat(values, counts).astype(float), q)[0]
    assert ordered_quantile(values[:0], counts[:0], q) is None


def test_answers_handed_back_at_the_end_are_refused() -> None:
    """Their tokens come when the batch ends, which a compact run does not know."""
    with pytest.raises(ValueError, match="streams its tokens"):
        play_compact(workload(0), engine_of(static(4, return_="end"), COST), ModelledClock(), ignore, Steering())
