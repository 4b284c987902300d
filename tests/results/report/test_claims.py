"""The texts' claims are judged by rules on computed figures: each outcome can happen, and says why."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from results.report.claim_rows import block_medians_ms, decode_step_ms, most_rows, short_answers
from results.report.claim_rules import (
    a_third_wasted,
    eight_for_free,
    gap_tail,
    gives_back,
    itl_slightly_worse,
    largest_improvement,
    newcomers_wait,
    short_answers_wait,
    throughput_rises,
    ttft_improves,
    twenty_four_requests,
)
from results.report.claim_table import CLAIMS, judged_claims
from results.report.claims import FAILS, HOLDS, UNJUDGED, Outcome
from results.report.differences import unwrapped
from results.report.evidence import ALIKE, BETTER, MIXED, WORSE, Evidence, Pair
from results.report.folder import read_folder
from results.store import load_run
from tests.results.report.folders import make_run, make_sweep, point_of

FREE_STEPS = ",decode-row=0us"
"""An engine whose step costs the same whatever is in it."""


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_sweep(tmp_path_factory.mktemp("claims"), requests="200", loads=("4", "8", "24", "burst"))


@pytest.fixture(scope="module")
def evidence(sweep: Path) -> Evidence:
    return Evidence(read_folder(sweep))


@pytest.mark.parametrize(
    ("rule", "answer", "why"),
    [
        (ttft_improves, FAILS, "no improvement seen (within 3 %) at 4/s"),
        (throughput_rises, HOLDS, "by 1.20x or more at 24/s and burst; not at 4/s and 8/s"),
        (itl_slightly_worse, FAILS, "far more than slightly (10 %) at 24/s and burst"),
        (a_third_wasted, FAILS, "it is set by the spread of lengths and B"),
        (eight_for_free, FAILS, "below 90 % of 4x"),
        (gives_back, HOLDS, "at least a quarter of the gain"),
        (short_answers_wait, FAILS, "tokens are streamed as they are computed"),
        (newcomers_wait, HOLDS, "longer than where slots come free after any step"),
        (largest_improvement, FAILS, "the smaller step in throughput"),
        (gap_tail, HOLDS, "running requests stall for others' prefill"),
        (twenty_four_requests, HOLDS, "disagree on which engine is better at"),
    ],
)
def test_each_claim_is_judged_on_this_sweep(
    evidence: Evidence, rule: Callable[[Evidence], Outcome], answer: str, why: str
) -> None:
    """The outcomes that the cost model gives."""
    outcome = rule(evidence)
    assert outcome.answer == answer and why in outcome.why, outcome


def test_every_row_of_the_table_has_its_outcome(sweep: Path) -> None:
    """In the table's order, with something computed in it."""
    claims = judged_claims(read_folder(sweep))
    assert [claim.quote for claim in claims] == [row.quote for row in CLAIMS]
    assert all(any(character.isdigit() for character in claim.outcome.here) for claim in claims)


@pytest.mark.parametrize("row", CLAIMS, ids=lambda row: row.rule.__name__)
def test_without_the_engines_nothing_is_judged(tmp_path: Path, row: object) -> None:
    """And the reason names who is missing."""
    evidence = Evidence(read_folder(make_sweep(tmp_path, engines=("naive",), loads=("2",), requests="10")))
    outcome = row.rule(evidence)  # type: ignore[attr-defined]
    assert outcome.answer == UNJUDGED and "engine in this folder" in outcome.why


def test_where_a_step_costs_the_same_eight_are_free(tmp_path: Path) -> None:
    """The second text's ideal machine: B tokens in the time of one."""
    engines = (f"one-by-one{FREE_STEPS}", f"static,batch=4{FREE_STEPS}")
    found = eight_for_free(Evidence(read_folder(make_sweep(tmp_path, engines, ("burst",)))))
    assert found.answer == HOLDS and "4.00x the tokens" in found.here and "(+0 %)" in found.here


def test_answers_handed_back_at_the_batchs_end_do_wait(tmp_path: Path) -> None:
    """The second text's engine: return=end."""
    sweep = make_sweep(tmp_path, ("static,batch=4,return=end",), ("16",))
    assert short_answers_wait(Evidence(read_folder(sweep))).answer == HOLDS


def test_a_third_is_a_third(tmp_path: Path) -> None:
    """Batches of 8 outputs between 16 and 48 waste somewhat less; the closed form stands beside it."""
    sweep = make_sweep(tmp_path, ("static,batch=8",), ("burst",), requests="200")
    found = a_third_wasted(Evidence(read_folder(sweep)))
    assert found.answer == HOLDS and "1 - E[n] / E[max of 8] of these lengths: 0.28" in found.here


@pytest.mark.parametrize(
    ("ratios", "change"),
    [((0.9, 0.95), BETTER), ((1.1, 1.04), WORSE), ((1.0, 1.01), ALIKE), ((0.8, 1.1), MIXED), ((0.98,), ALIKE)],
)
def test_a_difference_is_one_on_which_all_repeats_agree(ratios: tuple[float, ...], change: str) -> None:
    """And above 3 %."""
    assert Pair("4", 1.0, float(np.mean(ratios)), ratios).change() == change


def test_blocks_and_steps_are_those_of_the_rows(tmp_path: Path) -> None:
    """Medians of blocks, the duration of a full batch's step, what a short answer waits for."""
    recording = load_run(make_run(tmp_path, "static,batch=4", "burst")).recording
    assert len(block_medians_ms(recording, 24)) == 2 and most_rows(recording) == 4
    assert decode_step_ms(recording, 4) == pytest.approx(1.95 + 4 * 0.205)
    assert decode_step_ms(recording, 9) is None
    found = short_answers(recording)
    assert found is not None and found.answer_wait_ms == 0 and found.slot_held_ms > 0


def test_the_ratio_is_that_of_the_points(evidence: Evidence, sweep: Path) -> None:
    """From the summaries that were stored."""
    names = ("one-by-one", "static,batch=4")
    one, static = (unwrapped(json.loads((point_of(sweep, name, "24") / "summary.json").read_text())) for name in names)
    pair = evidence.pair("one", "static", "24", "ttft_ms", "p50")
    assert pair is not None and pair.ratio == pytest.approx(static["ttft_ms"]["p50"] / one["ttft_ms"]["p50"])
