"""Stretches taken apart: steps and deliveries as single steps would have told them."""

import numpy as np

from engines.engine import Step, Stretch
from engines.policies import continuous
from loadgen.clock import ModelledClock
from loadgen.drive import CONDENSE_EVERY_STEPS
from loadgen.recorder import Recorder
from results.columns import NULL, Table, int64
from results.recording import RecordingPart, SlotEvent, merge
from results.slots import StepWork
from results.status import Status
from results.unroll import IMPLIED, seat_spans, single_steps, unrolled
from tests.engines.playing import engine_of, linear_ps, play, schedule_of


def work(kind: str, **counts: int) -> StepWork:
    """All counts 0 but those given."""
    names = ("prefilling_slots", "decoding_slots", "finished_slots", "stalled_slots", "empty_queued_slots",
             "idle_slots", "waiting_requests", "prefill_tokens", "padding_tokens", "kv_tokens")  # fmt: skip
    return StepWork(kind, **{name: counts.get(name, 0) for name in names})


def recorded(cuts: tuple[int, ...]) -> list[RecordingPart]:
    """Request 0 gets 1 + 4 + 3 tokens, request 1 joins after 5 steps and gets 1 + 2 before it is aborted.

    `cuts`: after which rows a part is taken, beside the end.
    """
    clock = ModelledClock()
    recorder = Recorder(clock, keeps_token_ids=False, takes_stretches=True)
    rows: list[Step | Stretch] = [
        Step([], [(0, 0)], work=work("prefill", prefilling_slots=1), modelled_cost_ps=5_000),
        Stretch(4, 1_000, 10, work("decode", decoding_slots=1, kv_tokens=7)),
        Step([], [(1, 1)], work=work("prefill", prefilling_slots=1, stalled_slots=1), modelled_cost_ps=5_000),
        Stretch(2, 2_000, 20, work("decode", decoding_slots=2, kv_tokens=20)),
        Stretch(1, 1_000, 10, work("decode", decoding_slots=1, kv_tokens=14), ended=[0], released=[0]),
    ]
    parts = []
    for at, row in enumerate(rows):
        clock.step_start = clock.step_end
        if isinstance(row, Stretch):
            clock.step_end += row.first_cost_ps * row.steps + row.cost_slope_ps * (row.steps * (row.steps - 1) // 2)
            recorder.stretch(row)
        else:
            clock.step_end += row.modelled_cost_ps or 0
            recorder.log.append((row, clock.step_start, clock.step_end, 0))
        recorder.membership(row)
        if at == 3:
            recorder.dropped(1)
            recorder.request(1, 0, 0, 9, Status.TIMEOUT_TOTAL)
        if at in cuts:
            parts.append(recorder.part(at, 0))
    recorder.request(0, 0, 0, 99, Status.OK, "length")
    return [*parts, recorder.part(99, 0)]


def test_steps_costs_and_deliveries_follow_wherever_parts_are_cut() -> None:
    """Costs grow by the slope, the cache by the decoding slots; tokens come from the steps in which one sat unended."""
    for cuts in ((), (0,), (1,), (0, 1, 2, 3), (2, 3)):
        recording = merge(schedule_of([8, 8]), recorded(cuts))
        steps = recording.steps
        assert IMPLIED not in steps
        assert steps["step"].tolist() == list(range(9)) and set(steps["n_steps"].tolist()) == {1}
        assert steps["cost_ps"].tolist() == [5_000, 1_000, 1_010, 1_020, 1_030, 5_000, 2_000, 2_020, 1_000]
        ends = np.cumsum(steps["cost_ps"])
        assert steps["start_ps"].tolist() == [0, *ends[:-1].tolist()]
        assert steps["cost_slope_ps"].tolist() == [0] * 9
        assert steps["kv_tokens"].tolist() == [0, 7, 8, 9, 10, 0, 20, 22, 14]
        assert recording.requests["admitted_step"].tolist() == [0, 5]
        assert recording.requests["ended_step"].tolist() == [8, NULL]
        offsets, told = recording.token_offsets, recording.token_step
        assert told is not None
        assert told[: offsets[1]].tolist() == [1, 2, 3, 4, 6, 7, 8]
        assert told[offsets[1] :].tolist() == [6, 7]


def test_the_parts_of_a_run_that_was_cut_off_tell_what_had_come_by_then() -> None:
    """Whoever has neither end nor abort has got a token in every decode there is."""
    whole, half = merge(schedule_of([8, 8]), recorded((1,))), merge(schedule_of([8, 8]), recorded((1,))[:1])
    assert half.token_step is not None and whole.token_step is not None
    assert half.token_step.tolist() == [1, 2, 3, 4]
    assert half.steps["step"].tolist() == [0, 1, 2, 3, 4]


def test_a_long_run_is_the_same_in_one_part_and_in_many() -> None:
    """More rows than the recorder keeps uncondensed: step numbers go on across the seams."""
    rows = 2 * CONDENSE_EVERY_STEPS
    generator = np.random.default_rng(1)
    due = np.cumsum(generator.integers(0, 90_000, rows)).tolist()
    schedule = schedule_of(generator.integers(1, 9, rows).tolist(), due)
    recording = play(schedule, engine_of(continuous(4), linear_ps(9_000_000, 1_000_000, 9_000_000, 1_000)))
    assert recording.steps["step"].tolist() == list(range(len(recording.steps["step"])))
    ends = recording.steps["start_ps"] + recording.steps["cost_ps"]
    assert (recording.steps["start_ps"][1:] >= ends[:-1]).all()
    assert recording.requests["output_tokens"].tolist() == schedule.output_tokens.tolist()


def test_tables_without_stretches_stay_as_they_are() -> None:
    """Of another clock, or of an engine that is stepped."""
    tables: dict[str, Table] = {"steps": {"step": int64([0])}, "tokens": {}, "slot_events": {}}
    assert unrolled(tables) == tables


def test_a_slope_means_nothing_in_a_row_of_one_step() -> None:
    """It becomes 0, as a single step has it."""
    steps: Table = {name: int64([3]) for name in ("step", "cost_ps", "cost_slope_ps", "start_ps", "kv_tokens")}
    steps.update(n_steps=int64([1]), decoding_slots=int64([2]))
    assert single_steps(steps)["cost_slope_ps"].tolist() == [0]


def test_a_seat_is_held_from_admission_to_end_or_abort() -> None:
    """Ends count before aborts; without either, to the last step there is."""
    rows = [(0, SlotEvent.ADMITTED, 2), (1, SlotEvent.ADMITTED, 2), (2, SlotEvent.ADMITTED, 3), (0, SlotEvent.ENDED, 9),
            (1, SlotEvent.DROPPED, 5), (0, SlotEvent.RELEASED, 12)]  # fmt: skip
    columns = (int64(list(one)) for one in zip(*rows, strict=True))
    events: Table = dict(zip(("request_id", "event", "step"), columns, strict=True))
    ids, begin, last = seat_spans(events)
    assert (ids.tolist(), begin.tolist()) == ([0, 1, 2], [2, 2, 3])
    assert last.tolist() == [9, 5, np.iinfo(np.int64).max]
