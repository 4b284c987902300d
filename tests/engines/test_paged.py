"""A budget of tokens a step, prompts in chunks, a cache in blocks, and rows that are preempted."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from engines.cost import HashExecutor
from engines.engine import Request, SamplingParams
from engines.executor import Mixture
from engines.hardware import HARDWARE
from engines.paged import PagedEngine
from engines.policies import Policy, chunked, decode_only, paged
from engines.roofline import Roofline
from engines.shapes import SHAPES
from results.slots import SLOT_STATES
from tests.engines.playing import (
    EVERY_STEP_1_NS,
    Numbering,
    Steering,
    column,
    deliveries,
    in_flight_request_ns,
    linear_ps,
    paged_engine_of,
    play,
    schedule_of,
    statuses,
)
from tests.engines.test_cost import work

TINY = Roofline(HARDWARE["cpu-core"], SHAPES["tinygpt"])


def request(request_id: int, max_tokens: int = 3, prompt_tokens: int = 10, arrival_ns: int = 0) -> Request:
    return Request(request_id, range(prompt_tokens), SamplingParams(max_tokens), arrival_ns)


def counts(engine: PagedEngine, *names: str) -> list[tuple[Any, ...]]:
    """These counts of every step to the end."""
    told = []
    while engine.has_work():
        step = engine.step(0)
        assert step.work is not None
        told.append(tuple(getattr(step.work, name) for name in names))
    return told


def test_a_long_prompt_is_computed_in_chunks_and_its_first_token_comes_with_the_last() -> None:
    """10 tokens under a budget of 4: 4, 4 and 2, then two decodes."""
    recording = play(schedule_of([3], prompts=10), paged_engine_of(chunked(2, budget_tokens=4)))
    assert recording.steps["prefill_tokens"].tolist() == [4, 4, 2, 0, 0]
    assert recording.steps["kv_tokens"].tolist() == [4, 8, 10, 11, 12]
    assert deliveries(recording, 0) == [(2, 1), (3, 1), (4, 1)]
    assert column(recording, "admitted_step") == [0] and column(recording, "ended_step") == [4]


def test_decodes_come_first_and_a_newcomer_gets_what_is_left() -> None:
    """One decodes in every step while another's 10 tokens go 3 at a time."""
    engine = paged_engine_of(chunked(2, budget_tokens=4))
    engine.add_request(request(0, 7, 4))
    engine.step(0)
    engine.add_request(request(1, 2, 10))
    told = counts(engine, "kind", "decoding_slots", "prefilling_slots", "prefill_tokens")
    assert told[:4] == [("mixed", 1, 1, 3)] * 3 + [("mixed", 1, 1, 1)]
    assert told[4:] == [("decode", 2, 0, 0), ("decode", 1, 0, 0)]


def test_several_prompts_share_a_step() -> None:
    """Two of 3 tokens and a part of the third fit into a budget of 8; nothing is padded."""
    engine = paged_engine_of(chunked(8, budget_tokens=8))
    for one in range(3):
        engine.add_request(request(one, 1, 3))
    told = counts(engine, "prefilling_slots", "prefill_tokens", "padding_tokens", "decoding_slots")
    assert told == [(3, 8, 0, 0), (1, 1, 0, 0)]


def test_rows_beyond_the_budget_are_stalled() -> None:
    """Four rows, a budget of three: the last to join waits for the others' ends."""
    engine = paged_engine_of(chunked(4, budget_tokens=3))
    for one in range(4):
        engine.add_request(request(one, 4, 1))
    told = counts(engine, "decoding_slots", "prefilling_slots", "stalled_slots")
    assert told[:4] == [(0, 3, 0), (3, 0, 0), (3, 0, 0), (3, 0, 0)]


def test_whole_answers_are_reserved_without_blocks() -> None:
    """A cache of 24 has room for one of 10 + 3 tokens and not for a second: 12 are kept of each."""
    engine = paged_engine_of(chunked(4, 100, cache_tokens=23))
    for one in range(2):
        engine.add_request(request(one))
    assert counts(engine, "kv_tokens") == [(10,), (11,), (12,)] * 2


def test_with_blocks_the_last_to_join_gives_its_room_back_and_computes_its_text_anew() -> None:
    """Two of 4 + 8 tokens in 4 blocks of 4: when the first needs a third block, the second goes and comes back."""
    engine = paged_engine_of(paged(2, 100, block_tokens=4, cache_tokens=16))
    for one in range(2):
        engine.add_request(request(one, 8, 4))
    told = counts(engine, "preempted_requests", "recomputed_tokens", "kv_tokens", "waiting_requests")
    preempted = [at for at, step in enumerate(told) if step[0]]
    assert preempted == [5]
    assert told[5] == (1, 0, 9, 1)
    assert sum(step[1] for step in told) == 8
    assert max(step[2] for step in told) <= 16


def test_a_preempted_request_loses_nothing_and_is_admitted_once() -> None:
    """It goes on where it was, with its tokens; its admission is the first."""
    recording = play(
        schedule_of([8, 8], prompts=4), paged_engine_of(paged(2, 100, block_tokens=4, cache_tokens=16))
    )
    assert statuses(recording) == ["ok", "ok"]
    assert column(recording, "output_tokens") == [8, 8]
    assert column(recording, "admitted_step") == [0, 0]
    assert [step for step, _ in deliveries(recording, 1)][:6] == [0, 1, 2, 3, 4, 8]


def test_a_prompt_that_comes_computed_costs_one_decode_for_its_last_token() -> None:
    """No prefill; two contexts of 4 after the first step, and who is preempted computes its 4 + 5 tokens anew."""
    engine = paged_engine_of(decode_only(2, 64, block_tokens=4, cache_tokens=16))
    for one in range(2):
        engine.add_request(request(one, 8, 4))
    told = counts(engine, "kind", "decoding_slots", "prefill_tokens", "kv_tokens", "preempted_requests")
    assert told[0] == ("decode", 2, 0, 8, 0)
    assert told[5][4] == 1 and told[5][:2] == ("decode", 1)
    assert [step[2] for step in told if step[2]] == [9]


def random_case(seed: int) -> tuple[Policy, Callable[[], object]]:
    generator = np.random.default_rng(seed)
    batch, budget = int(generator.integers(1, 9)), int(generator.integers(1, 40))
    cache = int(generator.integers(40, 120))
    policy = (
        paged(batch, budget, int(generator.integers(1, 9)), cache) if seed % 2 else chunked(batch, budget, cache)
    )
    due = np.cumsum(generator.integers(0, [1, 9_000, 30_000][seed % 3], 60)).tolist()
    prompts = generator.integers(1, 20, 60).tolist()
    schedule = schedule_of(generator.integers(1, 16, 60).tolist(), due, prompts)
    return policy, lambda: schedule


@pytest.mark.parametrize("timeout_ns", [None, 60_000])
def test_books_balance_over_random_workloads(timeout_ns: int | None) -> None:
    """All are served in full, states add up, the cache is never over-full, no step is above its budget."""
    preempted = 0
    for seed in range(60):
        policy, schedule = random_case(seed)
        engine = paged_engine_of(policy, linear_ps(3_000_000, 100_000, 2_000_000, 50_000))
        recording = play(schedule(), engine, Steering(timeout_ns=timeout_ns))  # type: ignore[arg-type]
        steps = recording.steps
        assert set(statuses(recording)) <= {"ok"} | ({"timeout_total"} if timeout_ns else set())
        states = np.stack([steps[state] for state in SLOT_STATES])
        assert (states >= 0).all() and (states.sum(axis=0) == policy.slots).all()
        assert policy.cache_tokens is not None and policy.budget_tokens is not None
        assert int(steps["kv_tokens"].max()) <= policy.cache_tokens
        assert int((steps["prefill_tokens"] + steps["decoding_slots"]).max()) <= policy.budget_tokens
        assert (steps["decoding_slots"] + steps["prefilling_slots"] > 0).all()
        if timeout_ns is None:
            prompts = int(recording.requests["prompt_tokens"].sum())
            anew = int(steps["recomputed_tokens"].sum())
            resumed = int(steps["preempted_requests"].sum())
            assert prompts + anew <= int(steps["prefill_tokens"].sum()) <= prompts + anew + resumed
            preempted += resumed
        assert in_flight_request_ns(recording) == recording.in_flight_request_ns
    assert preempted > 100 or timeout_ns


def test_chunks_of_a_prompt_cost_as_many_pairs_as_the_whole() -> None:
    """n (n + 1) / 2, whatever the budget; only reading the weights and the cache is repeated."""
    for budget in (1, 7, 50, 100):
        seen: list[Mixture] = []

        class Listening:
            def mixed_cost_ps(self, _: object, mixture: Mixture) -> int:
                seen.append(mixture)  # noqa: B023
                return 1

            def describe(self) -> dict[str, str]:
                return {}

        engine = paged_engine_of(chunked(1, budget), Listening())
        engine.add_request(request(0, 1, 50))
        counts(engine)
        assert sum(one.attended_tokens for one in seen) == 50 * 51 // 2


def test_a_mixed_step_reads_the_weights_once_and_does_the_maths_of_both() -> None:
    """Three decodes beside a chunk of 20 tokens of which 5 were there before."""
    step = work(decoding_slots=3, prefilling_slots=1, prefill_tokens=20)
    mixture = Mixture(decode_kv_tokens=90, prefill_kv_tokens=25, attended_tokens=20 * 5 + 210)
    read_ps = TINY.weights_ps(23) + 115 * TINY.kv_token_ps
    maths_ps = (
        3 * TINY.decode_row_maths_ps + 90 * TINY.decode_kv_maths_ps + 20 * TINY.prefill_token_maths_ps
        + 310 * TINY.prefill_pair_maths_ps
    )  # fmt: skip
    assert TINY.mixed_cost_ps(step, mixture) == max(read_ps, maths_ps)
    decode = work(decoding_slots=3, kv_tokens=90)
    assert TINY.mixed_cost_ps(decode, Mixture(decode_kv_tokens=90)) == TINY.cost_ps(decode)
    assert linear_ps(10, 3, 20, 1).mixed_cost_ps(step, mixture) == 20 + 20 + 9
    assert linear_ps(10, 3, 20, 1).mixed_cost_ps(decode, mixture) == 19


def test_chunks_shorten_the_pauses_of_those_who_decode() -> None:
    """A prompt of 4,000 tokens beside a decode: in one step it pauses for it, in chunks it does not."""
    schedule = schedule_of([200, 1], [0, 5_000_000], [8, 4_000])
    longest = {}
    for budget in (64, 100_000):
        recording = play(schedule, paged_engine_of(chunked(2, budget), linear_ps(1_000_000, 0, 1_000_000, 50_000)))
        longest[budget] = int(recording.steps["cost_ps"].max())
    assert longest[64] * 40 < longest[100_000]


def test_an_executor_that_computes_is_refused() -> None:
    """One line that names what will do."""
    with pytest.raises(ValueError, match="executor=cost or roofline") as caught:
        paged_engine_of(chunked(), executor=Numbering())
    assert "\n" not in str(caught.value)


def test_a_request_larger_than_the_blocks_is_refused() -> None:
    """18 tokens in blocks of 4 are four blocks: 16."""
    engine = paged_engine_of(paged(2, 100, block_tokens=4, cache_tokens=18))
    engine.add_request(request(0, 7, 10))
    with pytest.raises(ValueError, match="keeps 17 tokens in the cache, which holds 16"):
        engine.add_request(request(1, 8, 10))


def test_an_abort_frees_the_place_wherever_the_request_is() -> None:
    """Waiting, running, or preempted and waiting again."""
    engine = paged_engine_of(paged(2, 100, block_tokens=4, cache_tokens=16))
    for one in range(3):
        engine.add_request(request(one, 8, 4))
    for _ in range(6):
        engine.step(0)
    for one in (1, 2, 0):
        engine.abort(one)
    assert not engine.has_work()
    engine.add_request(request(9, 1, 4))
    assert engine.step(0).admitted == [(9, 0)]


def test_stop_tokens_end_a_request_before_its_time() -> None:
    """The cost-only executor's second token of request 0 is 1."""
    engine = PagedEngine(chunked(1), HashExecutor(), EVERY_STEP_1_NS)
    engine.add_request(Request(0, [1, 2], SamplingParams(9, stop_token_ids=(1,)), 0))
    engine.step(0)
    outputs = engine.step(1).outputs
    assert [(one.finished, one.finish_reason) for one in outputs] == [(True, "stop")]
