"""A pool that computes prompts and a pool that answers, in modelled time."""

import numpy as np
import pytest

from engines.hardware import HARDWARE
from engines.policies import chunked, continuous, decode_only, one_by_one
from engines.roofline import Roofline
from engines.shapes import SHAPES
from loadgen.engine_spec import make_engine
from loadgen.fleet import Served, play_fleet
from loadgen.pools import Link, Pool, play_pools
from results.columns import NULL
from results.schedule import Schedule, make_schedule
from tests.engines.playing import engine_of, linear_ps, paged_engine_of, schedule_of
from tests.engines.test_cost import work

COST = linear_ps(3_000_000, 100_000, 2_000_000, 50_000)
"""Decode 3 us + 0.1 us a row, prefill 2 us + 0.05 us a token."""
LINK = Link(token_kv_bytes=1_000, second_bytes=10**9)
"""1 us a token."""


def served(schedule: Schedule, prefills: int = 1, decodes: int = 1, link: Link = LINK, batch: int = 8) -> Served:
    prefill = Pool(lambda: engine_of(one_by_one(), COST), prefills)
    decode = Pool(lambda: paged_engine_of(decode_only(batch), COST), decodes)
    return play_pools(schedule, prefill, decode, link)


def figures(one: Served, name: str) -> list[float]:
    return [float(value) for value in one.values_ns[name]]


def test_one_request_is_its_prefill_its_transfer_and_its_decodes() -> None:
    """100 tokens: 2 + 5 us, 100 us on the link, then 9 decodes of 3.1 us."""
    one = served(schedule_of([10], 50, 100))
    assert figures(one, "ttft") == [107_000]
    assert figures(one, "e2e") == [107_000 + 9 * 3_100]
    assert figures(one, "tpot") == figures(one, "stall") == [3_100]
    assert one.output_tokens == 10
    assert one.busy_fraction == pytest.approx((7_000 + 9 * 3_100) / 2 / (50 + 107_000 + 9 * 3_100))


def test_one_request_on_a_roofline_sends_the_bytes_of_its_cache() -> None:
    """Llama 3.1 8B: 128 KiB a token; what the first decode reads is the prompt and the token itself."""
    shape, schedule = SHAPES["llama-3.1-8b"], schedule_of([2], 0, 1_000)
    model = Roofline(HARDWARE["h100-sxm"], shape)
    link = Link(round(shape.token_kv_bytes), 50 * 10**9)
    spec = ",executor=roofline,hardware=h100-sxm,model=llama-3.1-8b"
    prefill, decode = (
        Pool(lambda name=name: make_engine(name + spec, "modelled", schedule), 1)  # type: ignore[misc]
        for name in ("one-by-one", "decode-only")
    )
    one = play_pools(schedule, prefill, decode, link)
    prefill_ns = model.cost_ps(work(prefilling_slots=1, prefill_tokens=1_000)) // 1_000
    assert figures(one, "ttft") == pytest.approx([prefill_ns + 1_000 * 131_072 / 50], abs=1)
    decode_ps = model.cost_ps(work(decoding_slots=1, kv_tokens=1_001))
    assert figures(one, "tpot") == pytest.approx([decode_ps / 1_000], abs=1)


def test_caches_go_over_a_link_one_after_the_other() -> None:
    """Prefills of 7 us end at 7, 14 and 21 us; each cache takes 100 us, and two links take turns."""
    burst = schedule_of([2, 2, 2], 0, 100)
    assert figures(served(burst), "ttft") == [107_000, 207_000, 307_000]
    assert figures(served(burst, prefills=2), "ttft") == [107_000, 107_000, 207_000]
    fast = Link(1_000, 10**11)
    assert figures(served(burst, link=fast), "ttft") == [8_000, 15_000, 22_000]


def test_an_answer_of_one_token_is_never_sent() -> None:
    """It is there when its prompt has been computed, and holds no link up."""
    one = served(schedule_of([1, 2], 0, 100))
    assert figures(one, "ttft") == [7_000, 114_000] and figures(one, "e2e")[0] == 7_000
    assert np.isnan(one.values_ns["tpot"][0]) and one.output_tokens == 3
    assert figures(served(schedule_of([1], 0, 100)), "e2e") == [7_000]


def test_prompts_of_others_never_stall_an_answer() -> None:
    """No gap is longer than two decodes of a full batch, where one engine for both stalls for a whole prompt."""
    generator = np.random.default_rng(2)
    due = np.cumsum(generator.exponential(60_000, 200)).astype(int).tolist()
    schedule = schedule_of(generator.integers(2, 40, 200).tolist(), due, generator.integers(100, 900, 200).tolist())
    apart = served(schedule, 2, 1, Link(1, 10**12), batch=32)
    assert apart.values_ns["stall"].max() <= 2 * (3_000 + 32 * 100)
    both = play_fleet(schedule, lambda: engine_of(continuous(8), COST), 3)
    assert both.values_ns["stall"].max() > 20_000
    assert apart.output_tokens == both.output_tokens == int(schedule.output_tokens.sum())


def test_the_first_gap_holds_the_wait_for_a_place_in_the_second_pool() -> None:
    """One slot: the second's cache is there at 15 us and the first has the slot for 9 decodes from 8 us on."""
    one = served(schedule_of([10, 3], 0, 100), link=Link(1_000, 10**11), batch=1)
    assert figures(one, "stall") == [3_100, 8_000 + 9 * 3_100 + 3_100 - 15_000]
    assert figures(one, "e2e")[1] == 8_000 + 11 * 3_100


def test_a_request_that_one_of_the_pools_cannot_hold_has_failed() -> None:
    """Every latency of it is infinite, and nobody else's."""
    schedule = make_schedule([0, 1], [900, 10], [5, 5])
    for prefill_tokens, decode_tokens in ((None, 512), (512, None)):
        prefill = Pool(lambda limit=prefill_tokens: paged_engine_of(chunked(2, cache_tokens=limit), COST), 1)  # type: ignore[misc]
        decode = Pool(lambda limit=decode_tokens: paged_engine_of(decode_only(2, cache_tokens=limit), COST), 1)  # type: ignore[misc]
        one = play_pools(schedule, prefill, decode, LINK)
        assert all(np.isinf(values).tolist() == [True, False] for values in one.values_ns.values())


def test_requests_that_wait_for_answers_cannot_be_played() -> None:
    """One line that says what to do."""
    schedule = make_schedule([0, NULL], [1, 1], [1, 1], after=[(), (0,)], think_ns=[NULL, 5])
    with pytest.raises(ValueError, match="leave --pools out"):
        served(schedule)
