"""Figures that are known from elsewhere: what static batching wastes, from hand cases to a public trace."""

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from engines.policies import continuous, one_by_one, static, static_bucketed
from loadgen.config import RunConfig
from loadgen.traces.catalog import read_trace
from loadgen.workload import build_schedule
from results.metrics import e2e_ns, events_of, little_error_ns, ttft_ns
from results.recording import Recording
from results.slots import slot_steps, unused_slot_fraction, wasted_slot_fraction
from tests.engines.playing import column, deliveries, engine_of, play, schedule_of

Lengths = NDArray[np.int64]
TRACES = os.environ.get("TOKENLOAD_TRACES")
CONV = "azure-llm-2023/AzureLLMInferenceTrace_conv.csv"


def test_outputs_8_4_12_waste_12_of_36_slot_steps() -> None:
    """The first text's mix on static batching, by the engine's counters and by the step table."""
    for batch in (3, 8):
        engine = engine_of(static(batch))
        recording = play(schedule_of([8, 4, 12]), engine)
        assert (engine.wasted_slot_steps, engine.total_slot_steps) == (12, 36)
        assert len(recording.steps["step"]) == 12
        assert wasted_slot_fraction(recording.steps) == 1 / 3


def test_outputs_8_4_12_waste_nothing_in_a_continuous_batch() -> None:
    """24 useful slot-steps and none wasted, in 12 steps as well."""
    engine = engine_of(continuous(3))
    recording = play(schedule_of([8, 4, 12]), engine)
    assert (engine.wasted_slot_steps, engine.total_slot_steps) == (0, 24)
    assert len(recording.steps["step"]) == 12
    assert wasted_slot_fraction(recording.steps) == 0


def test_outputs_100_200_300_1000_waste_60_percent() -> None:
    """2,400 of 4,000 slot-steps: the second text's 40 % of useful work."""
    recording = play(schedule_of([100, 200, 300, 1_000]), engine_of(static(4)))
    spent = slot_steps(recording.steps)
    assert spent["finished_slots"] == 2_400
    assert sum(spent.values()) == 4_000
    assert wasted_slot_fraction(recording.steps) == 0.6


def test_a_short_answer_is_ready_after_100_steps_and_handed_back_after_1000() -> None:
    """With return=end the tokens come in the batch's last step, and the first is as late as the last."""
    recording = play(schedule_of([100, 200, 300, 1_000]), engine_of(static(4, return_="end")))
    assert column(recording, "ended_step") == [99, 199, 299, 999]
    assert column(recording, "released_step") == [999] * 4
    assert [deliveries(recording, row) for row in range(4)] == [[(999, n)] for n in (100, 200, 300, 1_000)]
    events = events_of(recording)
    assert e2e_ns(recording, events).tolist() == ttft_ns(recording, events).tolist() == [1_000.0] * 4


def test_three_requests_in_four_slots_by_hand() -> None:
    """Outputs 2, 4, 8 take 8 steps: prefilling 3, decoding 11, finished 10, idle 8."""
    recording = play(schedule_of([2, 4, 8]), engine_of(static(4)))
    assert len(recording.steps["step"]) == 8
    spent = slot_steps(recording.steps)
    assert {name: spent[f"{name}_slots"] for name in ("prefilling", "decoding", "finished", "idle")} == {
        "prefilling": 3, "decoding": 11, "finished": 10, "idle": 8,
    }  # fmt: skip
    assert spent["stalled_slots"] == spent["empty_queued_slots"] == 0
    assert wasted_slot_fraction(recording.steps) == 10 / 24
    assert unused_slot_fraction(recording.steps) == 1 - 14 / 32


def test_4_tokens_beside_40_sit_through_36_more_steps() -> None:
    """The short one has ended after 4 steps and its slot is free after 40."""
    recording = play(schedule_of([4, 40]), engine_of(static(2)))
    assert column(recording, "ended_step") == [3, 39]
    assert column(recording, "released_step") == [39, 39]
    assert slot_steps(recording.steps)["finished_slots"] == 36


def test_the_seed_7_preset_is_the_first_texts_schedule() -> None:
    """24 requests, 807 output and 1,574 prompt tokens, the last due 22.6585 mean gaps after the start."""
    schedule = build_schedule(RunConfig(preset="seed1", rate_rps=16.0))
    outputs = [37, 21, 33, 24, 47, 45, 22, 32, 47, 43, 39, 37, 17, 40, 31, 19, 24, 33, 39, 32, 36, 44, 38, 27]
    assert schedule.output_tokens.tolist() == outputs
    assert int(schedule.output_tokens.sum()) == 807
    assert schedule.prompt_tokens[:4].tolist() == [84, 91, 85, 72]
    assert int(schedule.prompt_tokens.sum()) == 1_574
    assert int(schedule.due_ns[-1]) * 16 / 1e9 == pytest.approx(22.6585, abs=5e-5)


def burst(outputs: Sequence[int] | Lengths, batch: int, window: int | None = None) -> Recording:
    """The outputs, all due at once, on static batching."""
    policy = static(batch) if window is None else static_bucketed(batch, window)
    return play(schedule_of(np.asarray(outputs).tolist()), engine_of(policy))


def wasted_and_error(outputs: Lengths, batch: int) -> tuple[float, float]:
    """The engine's wasted fraction, checked slot-step by slot-step against arithmetic, and its standard error.

    The error is that of a ratio of two means over independent batches: 1 - sum / (batch x longest).
    """
    batches = outputs.reshape(-1, batch)
    used, held = batches.sum(axis=1), batch * batches.max(axis=1)
    recording = burst(outputs, batch)
    spent = slot_steps(recording.steps)
    assert spent["finished_slots"] == int((held - used).sum())
    assert spent["prefilling_slots"] + spent["decoding_slots"] == int(used.sum())
    assert little_error_ns(recording) == 0
    wasted = wasted_slot_fraction(recording.steps)
    assert wasted is not None
    spread = (used - (1 - wasted) * held).std(ddof=1) / held.mean()
    return wasted, float(spread / np.sqrt(len(batches)))


@pytest.mark.parametrize("batch", [2, 4, 8, 16, 32, 64])
def test_uniform_lengths_use_half_and_a_bit_of_the_slots(batch: int) -> None:
    """U{1..L}: the useful share is (B + 1) / 2B, within sampling error and 1 / L for lengths being whole."""
    longest = 200
    outputs = np.random.default_rng(batch).integers(1, longest + 1, max(100, 800 // batch) * batch)
    wasted, error = wasted_and_error(outputs, batch)
    print(
        f"U{{1..{longest}}} B={batch}: wasted {wasted:.4f} +- {error:.4f}, theory {1 - (batch + 1) / (2 * batch):.4f}"
    )
    assert error < 0.02
    assert abs(1 - wasted - (batch + 1) / (2 * batch)) < 4.8 * error + 1 / longest


@pytest.mark.parametrize("batch", [2, 4, 8, 16, 32, 64])
def test_exponential_lengths_use_one_part_in_a_harmonic_number(batch: int) -> None:
    """Exponential, rounded up: the useful share is 1 / H_B, within sampling error and 1 / mean for whole lengths."""
    mean = 60
    drawn = np.random.default_rng(batch).exponential(mean, max(200, 1_600 // batch) * batch)
    wasted, error = wasted_and_error(np.ceil(drawn).astype(np.int64), batch)
    useful = 1 / sum(1 / k for k in range(1, batch + 1))
    print(f"exponential B={batch}: wasted {wasted:.4f} +- {error:.4f}, theory {1 - useful:.4f}")
    assert error < 0.02
    assert abs(1 - wasted - useful) < 4.8 * error + 1 / mean


@pytest.mark.parametrize(
    ("batch", "known"), [(2, 0.146), (4, 0.236), (8, 0.286), (16, 0.312), (32, 0.325), (64, 0.331)]
)
def test_the_default_lengths_waste_as_much_as_computed_elsewhere(batch: int, known: float) -> None:
    """U{16..48} against a table of 1e6 samples with three decimals."""
    outputs = np.random.default_rng(batch).integers(16, 49, max(150, 1_200 // batch) * batch)
    wasted, error = wasted_and_error(outputs, batch)
    print(f"U{{16..48}} B={batch}: wasted {wasted:.4f} +- {error:.4f}, known {known}")
    assert error < 0.01
    assert abs(wasted - known) < 4.8 * error + 0.0005


def test_sorting_by_length_inside_a_window_saves_most_of_it() -> None:
    """U{16..48}, B = 8: .286 in the order of arrival, .052 sorted inside windows of 64."""
    outputs = np.random.default_rng(0).integers(16, 49, 64 * 100)
    plain, sorted_first = (wasted_slot_fraction(burst(outputs, 8, window).steps) for window in (None, 64))
    print(f"U{{16..48}} B=8: static {plain:.4f}, static-bucketed {sorted_first:.4f}")
    assert plain == pytest.approx(0.286, abs=0.01)
    assert sorted_first == pytest.approx(0.052, abs=0.01)
    in_windows = np.sort(outputs.reshape(-1, 64), axis=1).reshape(-1, 8)
    held = int(8 * in_windows.max(axis=1).sum())
    assert sorted_first == (held - int(outputs.sum())) / held


@pytest.mark.parametrize("batch", [2, 8, 32])
def test_equal_lengths_waste_nothing(batch: int) -> None:
    """Static batching is fine with equal lengths."""
    assert wasted_slot_fraction(burst([32] * batch * 3, batch).steps) == 0


def test_one_by_one_wastes_nothing_and_leaves_nothing_unused_in_a_burst() -> None:
    """One slot is always at work on the one request it holds."""
    recording = play(schedule_of([3, 1, 4, 1, 5]), engine_of(one_by_one()))
    assert wasted_slot_fraction(recording.steps) == unused_slot_fraction(recording.steps) == 0


@pytest.mark.skipif(not TRACES, reason="TOKENLOAD_TRACES names no folder with the public traces")
@pytest.mark.parametrize(
    ("batch", "whole_batches", "all_rows"),
    [
        pytest.param(4, 0.4293, 0.4293, marks=pytest.mark.slow),
        pytest.param(8, 0.5166, 0.5166, marks=pytest.mark.slow),
        pytest.param(16, 0.5716, 0.5715, marks=pytest.mark.slow),
        (32, 0.6157, None),
        pytest.param(32, 0.6157, 0.6156, marks=pytest.mark.slow),
    ],
)
def test_azure_conversations_waste_as_much_as_published(
    batch: int, whole_batches: float, all_rows: float | None
) -> None:
    """Outputs of the 2023 conversation trace in a burst, over whole batches (and over all rows), to four decimals."""
    path = Path(TRACES or "") / CONV
    if not path.exists():
        pytest.skip(f"{CONV} is not in the folder of public traces")
    outputs = read_trace(path).output_tokens
    whole = outputs[: len(outputs) // batch * batch]
    wasted = wasted_slot_fraction(burst(whole, batch).steps)
    print(f"Azure conv B={batch}: wasted {wasted:.6f}, known {whole_batches}")
    assert wasted is not None and round(wasted, 4) == whole_batches
    if all_rows is not None:
        wasted = wasted_slot_fraction(burst(outputs, batch).steps)
        print(f"Azure conv B={batch}, all rows: wasted {wasted:.6f}, known {all_rows}")
        assert wasted is not None and round(wasted, 4) == all_rows
