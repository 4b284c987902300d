"""Speculative decoding: several tokens a step, as often as chance has it."""

import numpy as np
import pytest

from engines.drafts import right_tokens
from engines.engine import Request, SamplingParams
from engines.executor import Mixture
from engines.hardware import HARDWARE
from engines.policies import paged, speculative
from engines.roofline import Roofline
from engines.shapes import SHAPES
from results.metrics import events_of, tpot_ns
from results.slots import SLOT_STATES
from tests.engines.playing import (
    EVERY_STEP_1_NS,
    Steering,
    assert_identical,
    column,
    deliveries,
    linear_ps,
    paged_engine_of,
    play,
    schedule_of,
    statuses,
)
from tests.engines.test_cost import work

H100 = Roofline(HARDWARE["h100-sxm"], SHAPES["llama-3.1-8b"])


def tokens_per_step(drafts: int, share: float) -> float:
    """(1 - a^(k + 1)) / (1 - a)."""
    return (1 - share ** (drafts + 1)) / (1 - share)


def test_drafts_that_are_always_right_come_all_at_once() -> None:
    """A first token of the prefill, then 4 a step, and no draft beyond the answer's end."""
    recording = play(schedule_of([12]), paged_engine_of(speculative(2, 3, 1.0)))
    assert deliveries(recording, 0) == [(0, 1), (1, 4), (2, 4), (3, 3)]
    assert recording.steps["kv_tokens"].tolist() == [4, 8, 12, 15]
    assert column(recording, "ended_step") == [3] and statuses(recording) == ["ok"]


def test_drafts_that_are_never_right_change_no_token() -> None:
    """One token a step, as without drafts, where drafts cost nothing."""
    schedule = schedule_of([9, 4, 12], [0, 2, 3])
    without = play(schedule, paged_engine_of(paged(2)))
    assert_identical(play(schedule, paged_engine_of(speculative(2, 3, 0.0))), without)


@pytest.mark.parametrize(("drafts", "share"), [(1, 0.5), (4, 0.7), (4, 0.9), (8, 0.6)])
def test_a_step_gives_as_many_tokens_as_the_geometric_series_has_it(drafts: int, share: float) -> None:
    """Of 40,000 draws; and the chance of j or more right drafts is a^j."""
    drawn = np.array([right_tokens(one, place, drafts, share) for one in range(40) for place in range(1_000)])
    error = drawn.std() / np.sqrt(len(drawn))
    assert abs(1 + drawn.mean() - tokens_per_step(drafts, share)) < 4 * error
    for right in range(1, drafts + 1):
        chance = share**right
        assert abs((drawn >= right).mean() - chance) < 4 * np.sqrt(chance * (1 - chance) / len(drawn))


def test_one_request_takes_a_step_of_all_drafts_for_each_of_its_average_tokens() -> None:
    """TPOT is the cost of looking at k + 1 tokens over (1 - a^(k + 1)) / (1 - a)."""
    drafts, share = 4, 0.8
    cost = linear_ps(3_000_000, 100_000, 2_000_000, 50_000)
    schedule = schedule_of([8_000] * 20, [at * 10**8 for at in range(20)])
    recording = play(schedule, paged_engine_of(speculative(1, drafts, share), cost))
    expected_ns = (3_000 + (1 + drafts) * 100) / tokens_per_step(drafts, share)
    assert float(tpot_ns(recording, events_of(recording)).mean()) == pytest.approx(expected_ns, rel=0.01)


def test_drafts_are_multiplied_and_their_keys_read_and_the_weights_read_once() -> None:
    """3 rows of 90 tokens in all with 4 drafts each."""
    step, mixture = work(decoding_slots=3, kv_tokens=90), Mixture(90, drafted_tokens=12, draft_attended_tokens=390)
    read_ps = H100.weights_ps(15) + (90 + 12) * H100.kv_token_ps
    maths_ps = 15 * H100.decode_row_maths_ps + (90 + 390) * H100.decode_kv_maths_ps
    assert H100.mixed_cost_ps(step, mixture) == max(read_ps, maths_ps) == read_ps
    many = Mixture(90_000, drafted_tokens=4_000, draft_attended_tokens=390_000)
    maths_ps = 5_000 * H100.decode_row_maths_ps + 480_000 * H100.decode_kv_maths_ps
    assert H100.mixed_cost_ps(work(decoding_slots=1_000), many) == maths_ps
    assert linear_ps(10, 3, 20, 1).mixed_cost_ps(step, mixture) == 10 + 15 * 3


def test_what_a_draft_looks_at_is_counted() -> None:
    """10 tokens in the cache: the next looks at 11, the drafts at 12 and 13."""
    seen: list[Mixture] = []

    class Listening:
        def mixed_cost_ps(self, _: object, mixture: Mixture) -> int:
            seen.append(mixture)
            return 1

        def describe(self) -> dict[str, str]:
            return {}

    engine = paged_engine_of(speculative(1, 2, 0.0), Listening())
    engine.add_request(Request(0, range(10), SamplingParams(5), 0))
    engine.step(0)
    engine.step(1)
    assert seen[1] == Mixture(decode_kv_tokens=11, drafted_tokens=2, draft_attended_tokens=12 + 13)


def test_drafts_pay_while_the_weights_are_what_a_step_waits_for() -> None:
    """On an H100 they more than double the speed of one row, and slow 512 rows of short contexts down."""
    spent = {}
    for rows in (1, 512):
        for policy in (paged(rows, 4_096), speculative(rows, 4, 0.7, 4_096)):
            recording = play(schedule_of([200] * rows, prompts=4), paged_engine_of(policy, H100))
            spent[rows, policy.name] = int(recording.requests["end_ns"].max())
    assert spent[1, "speculative"] * 2 < spent[1, "paged"]
    assert spent[512, "speculative"] > spent[512, "paged"]


def test_nobody_gives_room_back_for_a_draft() -> None:
    """A cache of 8 blocks of 4 that two rows without drafts share without a preemption, they share with them too."""
    for policy in (paged(2, 64, 4, 32), speculative(2, 8, 0.5, 64, 4, 32)):
        recording = play(schedule_of([13, 13]), paged_engine_of(policy))
        assert int(recording.steps["preempted_requests"].sum()) == 0
    assert statuses(recording) == ["ok", "ok"]


def test_drafts_stay_within_the_budget() -> None:
    """Of 8 tokens a step with 4 drafts: 5 for the first row, 3 for the second, none for the third."""
    engine = paged_engine_of(speculative(3, 4, 0.0, 8))
    for one in range(3):
        engine.add_request(Request(one, range(2), SamplingParams(50), 0))
    engine.step(0)
    step = engine.step(1)
    assert step.work is not None and (step.work.decoding_slots, step.work.stalled_slots) == (2, 1)


@pytest.mark.parametrize("timeout_ns", [None, 60_000])
def test_books_balance_over_random_workloads(timeout_ns: int | None) -> None:
    """All are served in full and not beyond, states add up, the cache is never over-full, runs repeat to the bit."""
    for seed in range(30):
        generator = np.random.default_rng(seed)
        slots, drafts, share = int(generator.integers(1, 9)), int(generator.integers(1, 6)), float(generator.random())
        cache, budget = int(generator.integers(40, 120)), int(generator.integers(1, 40))
        policy = speculative(slots, drafts, share, budget, int(generator.integers(1, 9)), cache)
        outputs = generator.integers(1, 16, 60)
        due = np.cumsum(generator.integers(0, 9_000, 60)).tolist()
        schedule = schedule_of(outputs.tolist(), due, generator.integers(1, 20, 60).tolist())
        cost = linear_ps(3_000_000, 100_000, 2_000_000, 50_000)
        recording, again = (
            play(schedule, paged_engine_of(policy, cost), Steering(timeout_ns=timeout_ns)) for _ in range(2)
        )
        assert_identical(recording, again)
        served = np.array([status == "ok" for status in statuses(recording)])
        assert (np.array(column(recording, "output_tokens"))[served] == outputs[served]).all()
        assert served.all() or timeout_ns
        states = np.stack([recording.steps[state] for state in SLOT_STATES])
        assert int(states.min()) >= 0 and (states.sum(axis=0) == slots).all()
        assert int(recording.steps["kv_tokens"].max()) <= cache


def test_a_stop_token_among_the_drafts_ends_the_answer_there() -> None:
    """The cost-only executor's third token of request 0 is 2: what was drafted after it is not delivered."""
    engine = paged_engine_of(speculative(1, 4, 1.0), EVERY_STEP_1_NS)
    engine.add_request(Request(0, [1, 2], SamplingParams(9, stop_token_ids=(2,)), 0))
    engine.step(0)
    (output,) = engine.step(1).outputs
    assert (list(output.token_ids), output.finished, output.finish_reason) == ([1, 2], True, "stop")
    assert not engine.has_work()


@pytest.mark.parametrize("share", [-0.1, 1.5, float("nan")])
def test_a_share_of_right_drafts_is_one(share: float) -> None:
    """One line that names the option."""
    with pytest.raises(ValueError, match="accepted-fraction="):
        speculative(2, 3, share)
