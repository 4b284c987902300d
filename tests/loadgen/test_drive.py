"""The stepping driver: who is handed over when, how requests end, what is emitted, and what a bad engine does to it."""

import gc
import hashlib
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from engines.engine import JSON, Request, Step
from engines.policies import DurationNs, Policy, continuous, one_by_one, static, static_bucketed
from engines.slots import Batch
from loadgen.clock import ChargedClock, Clock, ModelledClock, RealClock
from loadgen.drive import EMIT_EVERY_ROWS, Decision
from results.columns import NULL, Table
from results.metrics import events_of, little_error_ns, ttft_ns
from results.recording import Recording, RecordingPart, merge
from results.schedule import Schedule
from results.slots import wasted_slot_fraction
from tests.engines.playing import (
    Numbering,
    Runaway,
    Steering,
    assert_identical,
    column,
    deliveries,
    engine_of,
    linear_ps,
    play,
    schedule_of,
    statuses,
)

POLICIES = [one_by_one(), static(3), static(3, "full"), static(3, return_="end"), static_bucketed(2, 6), continuous(3)]
ROOT = Path(__file__).parents[2]


class Listening:
    """A slot engine that writes down what the driver asks of it, and may break in one of its methods."""

    def __init__(self, policy: Policy, breaks: str = "", at_call: int = 1) -> None:
        self.calls: list[tuple[str, int]] = []
        self._engine = engine_of(policy)
        self._breaks = breaks
        self._at_call = at_call

    def called(self, name: str) -> list[int]:
        """The arguments of every call of a method, in order."""
        return [argument for method, argument in self.calls if method == name]

    def _note(self, name: str, argument: int = 0) -> None:
        self.calls.append((name, argument))
        if len(self.calls) > 10_000:
            raise Runaway
        if name == self._breaks and len(self.called(name)) >= self._at_call:
            raise RuntimeError(f"{name} is broken")

    def add_request(self, request: Request) -> None:
        self._note("add_request", request.request_id)
        self._engine.add_request(request)

    def has_work(self) -> bool:
        self._note("has_work")
        return self._engine.has_work()

    def ready_ns(self, now_ns: int) -> int | None:
        self._note("ready_ns", now_ns)
        return self._engine.ready_ns(now_ns)

    def step(self, now_ns: int) -> Step:
        self._note("step", now_ns)
        return self._engine.step(now_ns)

    def flush(self) -> None:
        self._note("flush")
        self._engine.flush()

    def abort(self, request_id: int) -> None:
        self._note("abort", request_id)
        self._engine.abort(request_id)

    def describe(self) -> Mapping[str, JSON]:
        return self._engine.describe()


# Hand-over


def test_requests_are_handed_over_in_the_order_of_due_time_and_id() -> None:
    """Followers that become due take their place among the others."""
    engine = Listening(one_by_one())
    schedule = schedule_of([4, 1, 1, 1, 1], [0, None, 4, 4, None], after={1: [0], 4: [0]})
    recording = play(schedule, engine)
    assert engine.called("add_request") == [0, 1, 2, 3, 4]
    assert column(recording, "due_ns") == [0, 4, 4, 4, 4]


def test_an_arrival_at_exactly_now_comes_before_the_step() -> None:
    """Due at 3, when a step ends and the next begins: it is there for that next one."""
    recording = play(schedule_of([6, 1], [0, 3]), engine_of(continuous(2)))
    assert column(recording, "admitted_step") == [0, 3]
    assert column(recording, "handed_ns") == [0, 3]
    assert recording.steps["start_ps"].tolist()[3] == 3_000


def test_an_arrival_during_a_step_waits_for_its_end() -> None:
    """Steps of 10 ns: due at 11, handed over at 20; latency counts from 11."""
    recording = play(schedule_of([3, 1], [0, 11]), engine_of(continuous(2), linear_ps(10_000, 0, 10_000, 0)))
    assert column(recording, "handed_ns") == [0, 20]
    assert ttft_ns(recording, events_of(recording)).tolist() == [10.0, 19.0]


def test_idle_time_passes_at_once_to_the_next_due_time() -> None:
    """The clock stands at each due time, and no step is made in between."""
    engine = Listening(one_by_one())
    recording = play(schedule_of([1, 1, 1], [5, 100, 10**15]), engine)
    assert engine.called("step") == [5, 100, 10**15]
    assert column(recording, "end_ns") == [6, 101, 10**15 + 1]


def test_the_engine_is_asked_again_no_later_than_it_wishes_and_the_next_arrival_allows() -> None:
    """wait=full, max-wait 50: asked at 0, at 20 when one more comes, and at 50."""
    engine = Listening(static(4, "full", DurationNs(50)))
    play(schedule_of([1, 1], [0, 20]), engine)
    assert [t for t in engine.called("ready_ns") if t <= 50] == [0, 20, 50]
    assert engine.called("step") == [50]
    assert not engine.called("flush")


def test_the_tail_is_flushed_only_when_nobody_else_is_due() -> None:
    """Two of four at 0 wait for the third at 30, and then, at once, for nobody."""
    engine = Listening(static(4, "full"))
    recording = play(schedule_of([1, 1, 1], [0, 0, 30]), engine)
    assert engine.called("step") == [30]
    assert len(engine.called("flush")) == 1
    assert column(recording, "end_ns") == [31] * 3


def test_flush_comes_as_often_as_it_is_needed() -> None:
    """Followers are held back again, and served by a flush of their own."""
    engine = Listening(static(4, "full"))
    recording = play(schedule_of([1, 1, 1], after={1: [0], 2: [1]}, think_ns={1: 10, 2: 10}), engine)
    assert engine.called("step") == [0, 11, 22]
    assert len(engine.called("flush")) == 3
    assert statuses(recording) == ["ok"] * 3


def test_an_empty_schedule_is_played_to_its_end() -> None:
    """Nothing happens, and nothing is missing."""
    recording = play(schedule_of([]), engine_of(continuous(2)))
    assert len(recording.requests["request_id"]) == len(recording.steps["step"]) == 0
    assert recording.in_flight_request_ns == 0


# Followers


def test_a_follower_is_due_after_the_latest_end_of_all_it_waits_for_and_its_think_time() -> None:
    """0 and 1 end at 3 and 8; their follower thinks 5 ns and is due at 13; the schedule's own due time stays null."""
    schedule = schedule_of([3, 8, 1], after={2: [0, 1]}, think_ns={2: 5})
    recording = play(schedule, engine_of(continuous(2)))
    assert column(recording, "end_ns") == [3, 8, 14]
    assert column(recording, "due_ns") == [0, 0, 13]
    assert schedule.due_ns.tolist() == [0, 0, NULL]


def test_a_refused_request_makes_its_followers_due() -> None:
    """The context of 10 cannot hold 4 + 50: refused when due, with the engine's words, and life goes on after it."""
    schedule = schedule_of([2, 50, 3], [0, 7, None], after={2: [1]}, think_ns={2: 3})
    recording = play(schedule, engine_of(continuous(2), executor=Numbering(context_tokens=10)))
    assert statuses(recording) == ["ok", "engine_error", "ok"]
    assert column(recording, "error") == [None, "request 1 needs 54 tokens, the context holds 10", None]
    assert column(recording, "due_ns") == [0, 7, 10]
    assert column(recording, "end_ns") == [2, 7, 13]
    assert column(recording, "handed_ns") == [0, 7, 10]
    assert column(recording, "admitted_step")[1] is None


def test_a_request_that_ran_out_of_time_makes_its_followers_due() -> None:
    """Due 0, aborted at 4: its follower is due at 4 + 2."""
    schedule = schedule_of([9, 2], after={1: [0]}, think_ns={1: 2})
    recording = play(schedule, engine_of(one_by_one()), Steering(timeout_ns=4))
    assert statuses(recording) == ["timeout_total", "ok"]
    assert column(recording, "due_ns") == [0, 6]
    assert column(recording, "end_ns") == [4, 8]


def test_a_chain_of_refused_requests_ends() -> None:
    """All at one moment, each after the one before."""
    schedule = schedule_of([50] * 5, [3], after={row: [row - 1] for row in range(1, 5)})
    recording = play(schedule, engine_of(continuous(2), executor=Numbering(context_tokens=10)))
    assert statuses(recording) == ["engine_error"] * 5
    assert column(recording, "due_ns") == column(recording, "end_ns") == [3] * 5


# Time limits


def test_a_request_over_its_time_limit_leaves_an_empty_slot() -> None:
    """Aborted at exactly due + limit; its slot is empty from the next step on, and it is never told as released."""
    recording = play(schedule_of([9, 9, 2], [0, 2, 3]), engine_of(continuous(2)), Steering(timeout_ns=5))
    assert statuses(recording) == ["timeout_total", "timeout_total", "ok"]
    assert column(recording, "end_ns") == [5, 7, 7]
    assert column(recording, "released_step") == [None, None, 6]
    assert column(recording, "admitted_step") == [0, 2, 5]
    assert column(recording, "slot") == [0, 1, 0]
    assert [tokens for _, tokens in deliveries(recording, 0)] == [1] * 4
    assert recording.steps["empty_queued_slots"].tolist() == [0] * 7
    assert recording.steps["idle_slots"].tolist() == [1, 1, 0, 0, 0, 0, 0]


def test_a_request_may_run_out_of_time_in_the_queue() -> None:
    """It never had a slot, and nobody is told that it left one."""
    recording = play(schedule_of([9, 1, 1], [0, 0, 8]), engine_of(one_by_one()), Steering(timeout_ns=4))
    assert statuses(recording) == ["timeout_total", "timeout_total", "ok"]
    assert column(recording, "end_ns") == [4, 4, 9]
    assert column(recording, "admitted_step") == [0, None, 4]


def test_what_is_delivered_by_the_limit_counts() -> None:
    """A request that ends in the very step that passes its limit is ok."""
    recording = play(schedule_of([4]), engine_of(one_by_one()), Steering(timeout_ns=4))
    assert statuses(recording) == ["ok"]
    recording = play(schedule_of([5]), engine_of(one_by_one()), Steering(timeout_ns=4))
    assert statuses(recording) == ["timeout_total"]


@pytest.mark.parametrize(
    "policy", [*POLICIES, static(3, "full", DurationNs(9))], ids=lambda policy: f"{policy.name} {policy.options}"
)
def test_limits_that_nobody_exceeds_change_nothing(policy: Policy) -> None:
    """Not a step more or less, whenever the driver looks at them."""
    schedule = schedule_of([1, 3, 2, 2, 1], [0, 0, 40, 80, 81], after={3: [1]}, think_ns={3: 50})
    without = play(schedule, engine_of(policy))
    assert statuses(without) == ["ok"] * 5
    for limits in ({"timeout_ns": 25}, {"drain_ns": 30}, {"timeout_ns": 25, "drain_ns": 30}):
        if policy.options.get("wait") != "full" or policy.options.get("max_wait_ns"):
            assert_identical(play(schedule, engine_of(policy), Steering(**limits)), without)


def test_a_limit_that_nobody_exceeds_lets_a_batch_run_on_past_its_last_end() -> None:
    """until=20: both have ended after 3 steps, the batch has not, whatever the limit of 5 says."""
    schedule = schedule_of([1, 3])
    without = play(schedule, engine_of(static(2, until=20)))
    assert column(without, "released_step") == [19, 19]
    assert_identical(play(schedule, engine_of(static(2, until=20)), Steering(timeout_ns=5)), without)


def test_nobody_joins_a_static_batch_for_one_that_ran_out_of_time() -> None:
    """Of the batch of 1 and 2, 1 is aborted at 11; its slot is empty and queued for until 2 ends at 12."""
    schedule = schedule_of([3, 30, 9, 1], [0, 1, 2, 5])
    recording = play(schedule, engine_of(static(2)), Steering(timeout_ns=10))
    assert statuses(recording) == ["ok", "timeout_total", "ok", "ok"]
    assert column(recording, "admitted_step") == [0, 3, 3, 12]
    assert column(recording, "released_step") == [2, None, 11, 12]
    assert recording.steps["empty_queued_slots"].tolist() == [0, 1, 1, *[0] * 8, 1, 0]
    assert recording.steps["decoding_slots"].tolist() == [0, 1, 1, 0, *[2] * 7, 1, 0]
    assert recording.steps["finished_slots"].tolist() == [0] * 13


def test_tokens_held_for_a_request_that_ran_out_of_time_are_dropped() -> None:
    """return=end: the first ended at 2, and was to be handed back at 9; at 5 its time is up."""
    recording = play(schedule_of([2, 9], [0, 0]), engine_of(static(2, return_="end")), Steering(timeout_ns=5))
    assert statuses(recording) == ["timeout_total"] * 2
    assert column(recording, "output_tokens") == [0, 0]
    assert column(recording, "ended_step") == [1, None]
    recording = play(schedule_of([2, 4], [0, 0]), engine_of(static(2, return_="end")), Steering(timeout_ns=5))
    assert statuses(recording) == ["ok"] * 2


def test_a_held_back_request_runs_out_of_time_when_it_should() -> None:
    """wait=full with others far away: the driver wakes for the limit, not only for arrivals."""
    recording = play(schedule_of([1, 1], [0, 1_000]), engine_of(static(4, "full")), Steering(timeout_ns=30))
    assert statuses(recording) == ["timeout_total", "ok"]
    assert column(recording, "end_ns") == [30, 1_001]


def test_the_drain_limit_aborts_what_is_left_after_the_last_was_due() -> None:
    """The last is due at 10; at 10 + 5 the rest is unfinished, right-censored there."""
    recording = play(schedule_of([3, 50, 50], [0, 9, 10]), engine_of(continuous(2)), Steering(drain_ns=5))
    assert statuses(recording) == ["ok", "unfinished", "unfinished"]
    assert column(recording, "end_ns") == [3, 15, 15]
    assert column(recording, "released_step") == [2, None, None]
    assert little_error_ns(recording) == 0


def test_the_drain_limit_waits_for_the_last_follower() -> None:
    """It counts from when the last of all was due, not from the last due time of the schedule."""
    schedule = schedule_of([3, 3, 50], [0], after={1: [0], 2: [1]}, think_ns={1: 20, 2: 20})
    recording = play(schedule, engine_of(one_by_one()), Steering(drain_ns=5))
    assert column(recording, "due_ns") == [0, 23, 46]
    assert statuses(recording) == ["ok", "ok", "unfinished"]
    assert column(recording, "end_ns") == [3, 26, 51]


# Stop, cancel, control


def test_a_stop_hands_over_nothing_more_and_drains() -> None:
    """Told to stop at 0: who is in the engine is served, the rest is not dispatched, followers included."""
    schedule = schedule_of([3, 4, 5, 6], [0, 0, 1, None], after={3: [0]})
    recording = play(schedule, engine_of(continuous(2)), Steering(decisions=[Decision.STOP]))
    assert statuses(recording) == ["ok", "ok", "not_dispatched", "not_dispatched"]
    assert column(recording, "end_ns") == [3, 4, None, None]
    assert column(recording, "handed_ns") == [0, 0, None, None]
    assert column(recording, "due_ns") == [0, 0, 1, None]


def test_a_stop_serves_what_is_held_back() -> None:
    """Nobody else is due any more: the partial batch is flushed at once."""
    schedule = schedule_of([3, 4, 5], [0, 0, 90])
    recording = play(schedule, engine_of(static(4, "full")), Steering(decisions=[Decision.STOP]))
    assert statuses(recording) == ["ok", "ok", "not_dispatched"]
    assert column(recording, "end_ns") == [3, 4, None]


def test_the_drain_limit_counts_from_a_stop() -> None:
    """Stopped at 0 with 10 ns to drain: the longer one is unfinished at 10."""
    control = Steering(drain_ns=10, decisions=[Decision.STOP])
    recording = play(schedule_of([3, 40, 5], [0, 0, 500]), engine_of(continuous(2)), control)
    assert statuses(recording) == ["ok", "unfinished", "not_dispatched"]
    assert column(recording, "end_ns") == [3, 10, None]


def test_a_cancel_aborts_everything_now() -> None:
    """Who is in the engine is cancelled, who is not yet due is not dispatched, and nothing is computed."""
    engine = Listening(continuous(2))
    schedule = schedule_of([3, 4, 5, 6], [0, 0, 0, 9])
    recording = play(schedule, engine, Steering(decisions=[Decision.CANCEL]))
    assert statuses(recording) == ["cancelled"] * 3 + ["not_dispatched"]
    assert engine.called("abort") == [0, 1, 2]
    assert not engine.called("step")


class Slow(Numbering):
    """Numbers tokens, and in its n-th step lets more than 0.1 s of wall time pass."""

    def __init__(self, at_step: int) -> None:
        super().__init__()
        self._steps_left = at_step

    def run(self, batch: Batch) -> Sequence[int]:
        import time

        self._steps_left -= 1
        if not self._steps_left:
            time.sleep(0.11)
        return super().run(batch)


class From(Steering):
    """Decides so from a time on."""

    def __init__(self, at_ns: int, decision: Decision) -> None:
        super().__init__(decisions=[decision])
        self._at_ns = at_ns

    def __call__(self, now_ns: int, newest: RecordingPart | None) -> Decision:
        decision = super().__call__(now_ns, newest)
        return decision if now_ns >= self._at_ns else Decision.GO


class OftenLooking(ModelledClock):
    """Modelled time in which the driver looks around at every step."""

    steps_per_poll = 1


@pytest.mark.realtime
@pytest.mark.parametrize(
    ("decision", "expected"),
    [
        (Decision.STOP, ["ok", "ok", "not_dispatched", "not_dispatched"]),
        (Decision.CANCEL, ["ok", "cancelled", "not_dispatched", "not_dispatched"]),
    ],
)
def test_a_decision_in_mid_run_takes_effect_at_the_next_step(decision: Decision, expected: list[str]) -> None:
    """Six steps into the run: one has ended, one is running, the third is due later and the fourth after the first."""
    control = From(6, decision)
    engine = engine_of(continuous(2), executor=Slow(6))
    schedule = schedule_of([3, 9, 1, 1], [0, 0, 500, None], after={3: [1]})
    recording = play(schedule, engine, control, OftenLooking())
    assert statuses(recording) == expected
    assert control.seen[0] == (0, None)
    assert column(recording, "end_ns") == [3, 9 if decision is Decision.STOP else 6, None, None]
    assert little_error_ns(recording) == 0


def test_the_control_is_asked_at_most_ten_times_a_second() -> None:
    """However many steps a second there are; first at once, with nothing emitted yet."""
    import time

    control, begin_s = Steering(), time.perf_counter()
    play(schedule_of([30_000]), engine_of(one_by_one()), control, OftenLooking())
    assert len(control.seen) <= 1 + 10 * (time.perf_counter() - begin_s)
    assert control.seen[0] == (0, None)


def test_a_control_or_an_emit_that_raises_is_not_the_engines_fault() -> None:
    """Whoever steers or writes hears of its own error; no request is blamed on the engine for it."""

    class Wrong(Steering):
        def __call__(self, now_ns: int, newest: RecordingPart | None) -> Decision:
            raise ZeroDivisionError

    def emit(part: RecordingPart) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        play(schedule_of([1]), engine_of(one_by_one()), Wrong())
    with pytest.raises(ZeroDivisionError):
        play(schedule_of([1]), engine_of(one_by_one()), emit=emit)


# Parts and merge


def test_parts_are_emitted_every_100000_rows_and_are_the_recording() -> None:
    """No part is much larger (a part is cut at a look around), and merging what was emitted gives the recording."""
    parts: list[RecordingPart] = []
    control = Steering()
    schedule = schedule_of([45] * 6_000)
    recording = play(schedule, engine_of(continuous(8), executor=Numbering()), control, emit=parts.append)
    rows = [len(part.tables["steps"]["step"]) + len(part.tables["tokens"]["step"]) for part in parts]
    longest_step_rows, steps_between_looks = 9, 256 + 1_000
    assert max(rows) <= EMIT_EVERY_ROWS + longest_step_rows * steps_between_looks
    assert len(parts) >= 3
    assert sum(rows) == len(recording.steps["step"]) + 45 * 6_000
    assert_identical(merge(schedule, parts), recording)
    assert_identical(merge(schedule, reversed(parts)), recording)
    assert_identical(merge(schedule, [together(parts)]), recording)
    assert together(parts).tables["steps"]["step"].tolist() == list(range(len(recording.steps["step"])))


def together(parts: Sequence[RecordingPart]) -> RecordingPart:
    """One part with the rows of all."""
    return RecordingPart(
        {
            name: {key: np.concatenate([part.tables[name][key] for part in parts]) for key in table}
            for name, table in parts[0].tables.items()
        }
    )


def cut(part: RecordingPart, pieces: int) -> list[RecordingPart]:
    """The part's rows as if emitted in pieces: at steps, with each request in the piece in which it ended."""
    steps = part.tables["steps"]
    bounds = np.linspace(0, len(steps["step"]), pieces + 1).astype(int)
    cuts = steps["start_ps"][bounds[1:-1]] // 1_000
    until_token = np.concatenate([[0], np.cumsum(part.tables["tokens"]["tokens"])])
    made = []
    for piece in range(pieces):
        tables: dict[str, Table] = {}
        for name, table in part.tables.items():
            if "step" in table:
                chosen = (table["step"] >= bounds[piece]) & (table["step"] < bounds[piece + 1])
            elif name == "requests":
                chosen = np.searchsorted(cuts, table["end_ns"], side="left") == piece
            elif name == "token_ids":
                first, last = np.searchsorted(part.tables["tokens"]["step"], bounds[piece : piece + 2])
                chosen = np.zeros(len(table["token_id"]), dtype=bool)
                chosen[until_token[first] : until_token[last]] = True
            else:
                chosen = np.full(len(next(iter(table.values()))), piece == pieces - 1)
            tables[name] = {key: values[chosen] for key, values in table.items()}
        made.append(RecordingPart(tables))
    return made


def one_part(policy: Policy, schedule: Schedule, **limits: int) -> RecordingPart:
    """What a short run emits."""
    parts: list[RecordingPart] = []
    play(schedule, engine_of(policy, executor=Numbering()), Steering(**limits), emit=parts.append)
    return together(parts)


def mixed_schedule(seed: int = 5) -> Schedule:
    """30 requests, some of which wait for others."""
    generator = np.random.default_rng(seed)
    after = {row: [row - 3] for row in range(3, 30, 4)}
    return schedule_of(
        generator.integers(1, 9, 30).tolist(), np.cumsum(generator.integers(0, 5, 30)).tolist(),
        generator.integers(1, 9, 30).tolist(), after, dict.fromkeys(after, 2),
    )  # fmt: skip


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: f"{policy.name}-{policy.deliver}")
def test_merging_1_2_or_4_parts_in_any_order_is_the_same(policy: Policy) -> None:
    """Bit for bit, timeouts and held answers included."""
    schedule = mixed_schedule()
    part = one_part(policy, schedule, timeout_ns=40)
    whole = merge(schedule, [part])
    assert whole.token_ids.tolist() == [
        100 * row + at for row in range(30) for at in range(int(whole.requests["output_tokens"][row]))
    ]
    for pieces in (2, 4, 7):
        parts = cut(part, pieces)
        assert_identical(merge(schedule, parts), whole)
        for seed in range(3):
            shuffled = [parts[at] for at in np.random.default_rng(seed).permutation(pieces)]
            assert_identical(merge(schedule, shuffled), whole)


def test_a_request_told_of_twice_counts_as_first_told() -> None:
    """A second row with another end and status changes nothing, whether in the same part or in a later one."""
    schedule = mixed_schedule()
    part = one_part(continuous(3), schedule)
    whole = merge(schedule, [part])
    twice = {key: np.concatenate([values, values]) for key, values in part.tables["requests"].items()}
    rows = len(part.tables["requests"]["request_id"])
    twice["end_ns"][rows:] += 1_000
    twice["status"][rows:] = 13
    assert_identical(merge(schedule, [RecordingPart({**part.tables, "requests": twice})]), whole)
    first, second = cut(part, 2)
    again = {key: np.concatenate([second.tables["requests"][key], values]) for key, values in
             first.tables["requests"].items()}  # fmt: skip
    later = RecordingPart({**second.tables, "requests": again})
    for parts in ([first, later], [later, first]):
        assert_identical(merge(schedule, parts), whole)


def test_samples_of_the_host_are_in_the_order_of_time_whatever_part_they_come_in() -> None:
    """A part may have no steps at all (half a second in which nobody came): merging is the same for it."""
    schedule = mixed_schedule()
    parts = cut(one_part(continuous(3), schedule), 2)
    no_rows = {name: {key: values[:0] for key, values in table.items()} for name, table in parts[0].tables.items()}
    idle = RecordingPart(no_rows)
    pieces = []
    for t_ns, part in enumerate((parts[0], idle, parts[1], idle)):
        sample = {key: np.array([t_ns], dtype=np.int64) for key in part.tables["host"]}
        pieces.append(RecordingPart({**part.tables, "host": sample}))
    for order in ((0, 1, 2, 3), (3, 2, 1, 0), (1, 3, 0, 2)):
        merged = merge(schedule, [pieces[at] for at in order])
        assert merged.host["t_ns"].tolist() == [0, 1, 2, 3]


def test_a_request_that_no_part_knows_is_not_dispatched() -> None:
    """Without any part at all, too: every scheduled request has its row."""
    schedule = schedule_of([1, 1], [4, 9])
    recording = merge(schedule, [])
    assert statuses(recording) == ["not_dispatched"] * 2
    assert column(recording, "due_ns") == [4, 9]
    assert column(recording, "end_ns") == [None, None]


# Determinism


def digest(recording: Recording) -> str:
    """Of all columns that a modelled run decides."""
    sha = hashlib.sha256()
    for table in (recording.requests, recording.steps):
        for name in sorted(table):
            sha.update(f"{name}{table[name].dtype}{table[name].tolist()}".encode())
    for values in (recording.token_offsets, recording.token_step, recording.token_count, recording.token_ids):
        sha.update(str(None if values is None else values.tolist()).encode())
    return sha.hexdigest()


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: f"{policy.name}-{policy.deliver}")
def test_two_modelled_runs_are_identical(policy: Policy) -> None:
    """Same schedule, same engine: the same columns."""
    runs = [play(mixed_schedule(), engine_of(policy, executor=Numbering()), Steering(timeout_ns=60)) for _ in range(2)]
    assert_identical(*runs)
    assert digest(runs[0]) == digest(runs[1])


SCRIPT = """
from loadgen.config import from_texts
from loadgen.engine_spec import make_engine
from loadgen.workload import build_schedule
from tests.engines.playing import play
from tests.loadgen.test_drive import digest
config = from_texts({"arrival": "gamma", "cv": "2", "rate": "25", "requests": "60", "seed": "3", "clock": "modelled"})
for engine in ("one-by-one", "static,wait=full,max-wait=80ms", "static-bucketed,window=16", "continuous"):
    schedule = build_schedule(config)
    print(schedule.sha256, digest(play(schedule, make_engine(engine, "modelled", schedule))))
"""


def test_processes_with_different_hash_seeds_make_the_same_run() -> None:
    """Nothing depends on the order of a set or on hash()."""
    printed = set()
    for seed in ("0", "1", "4242"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
        )
        printed.add(done.stdout)
    assert len(printed) == 1
    assert len(printed.pop().splitlines()) == 4


# Clocks


def ticking(step_ns: int = 7) -> Clock:
    """Charged time in which every step costs the same."""
    readings = iter(range(0, 10**12, step_ns))
    return ChargedClock(lambda: next(readings))


def test_the_same_loop_runs_in_charged_time() -> None:
    """Steps of 7 ns: the step table is in ns, and its times follow from the timer alone."""
    recording = play(schedule_of([2, 2], [0, 100]), engine_of(one_by_one(), cost=None), clock=ticking())
    assert recording.steps["start_ns"].tolist() == [0, 7, 100, 107]
    assert recording.steps["end_ns"].tolist() == [7, 14, 107, 114]
    assert "start_ps" not in recording.steps
    assert column(recording, "end_ns") == [14, 114]
    assert little_error_ns(recording) == 0


@pytest.mark.realtime
def test_the_same_loop_runs_in_real_time() -> None:
    """Nothing happens before it is due, things follow each other, and everything ends."""
    schedule = schedule_of([3] * 8, range(0, 16_000_000, 2_000_000))
    recording = play(schedule, engine_of(static(4, "full", DurationNs(3_000_000)), cost=None), clock=RealClock())
    assert statuses(recording) == ["ok"] * 8
    due, handed, ended = (np.array(column(recording, name)) for name in ("due_ns", "handed_ns", "end_ns"))
    starts, ends = recording.steps["start_ns"], recording.steps["end_ns"]
    assert (due <= handed).all() and (handed <= starts[column(recording, "admitted_step")]).all()
    assert (ends[column(recording, "released_step")] <= ended).all()
    assert (starts <= ends).all() and (ends[:-1] <= starts[1:]).all()
    assert wasted_slot_fraction(recording.steps) == 0
    assert little_error_ns(recording) == 0


def test_collecting_garbage_is_as_it_was_after_a_run() -> None:
    """On again, and nothing stays frozen; off where it was off."""
    play(schedule_of([1]), engine_of(one_by_one()))
    assert gc.isenabled() and gc.get_freeze_count() == 0
    gc.disable()
    try:
        play(schedule_of([1]), engine_of(one_by_one()))
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_no_garbage_is_collected_during_a_run() -> None:
    """A pause of the collector would be billed to a step."""
    seen = []

    class Watching(Numbering):
        def run(self, batch: Batch) -> Sequence[int]:
            seen.append(gc.isenabled())
            return super().run(batch)

    play(schedule_of([2, 2]), engine_of(static(2), executor=Watching()))
    assert seen == [False, False]


# Engines that are not well


@pytest.mark.parametrize("method", ["add_request", "ready_ns", "has_work", "step", "flush"])
def test_an_engine_that_raises_ends_the_run_and_loses_no_row(method: str) -> None:
    """Whichever method: its requests are rows with status engine_error and its words; what ended before stays ok."""
    engine = Listening(static(4, "full", None), breaks=method, at_call=2 if method == "add_request" else 1)
    schedule = schedule_of([1, 1, 1], after={1: [0], 2: [1]}, think_ns={1: 5, 2: 5})
    recording = play(schedule, engine)
    broken = [row for row, status in enumerate(statuses(recording)) if status == "engine_error"]
    assert broken == ([1] if method == "add_request" else [0])
    assert column(recording, "error")[broken[0]] == f"RuntimeError: {method} is broken"
    assert statuses(recording)[broken[0] + 1 :] == ["not_dispatched"] * (2 - broken[0])
    assert little_error_ns(recording) == 0


def test_an_engine_that_cannot_abort_ends_the_run_and_loses_no_row() -> None:
    """The request it was to abort has run out of time all the same, and the run has an end."""
    recording = play(schedule_of([9, 1], [0, 100]), Listening(one_by_one(), breaks="abort"), Steering(timeout_ns=3))
    assert statuses(recording)[0] in ("timeout_total", "engine_error")
    assert statuses(recording)[1] in ("not_dispatched", "engine_error", "ok")
    assert little_error_ns(recording) == 0


def test_a_step_that_raises_keeps_what_came_before() -> None:
    """Three steps, then it breaks: who had ended is ok, who was in it is not, who was to come is not dispatched."""
    engine = Listening(continuous(2), breaks="step", at_call=4)
    recording = play(schedule_of([2, 9, 5, 1], [0, 0, 1, 50]), engine)
    assert statuses(recording) == ["ok", "engine_error", "engine_error", "not_dispatched"]
    assert column(recording, "error")[1] == "RuntimeError: step is broken"
    assert column(recording, "end_ns") == [2, 3, 3, None]
    assert column(recording, "output_tokens") == [2, 2, 1, 0]
    assert len(recording.steps["step"]) == 3
    assert little_error_ns(recording) == 0


class Odd(Listening):
    """A slot engine that is not quite right in one way or other."""

    def __init__(self, fault: str) -> None:
        super().__init__(one_by_one())
        self._fault = fault

    def ready_ns(self, now_ns: int) -> int | None:
        ready_ns = super().ready_ns(now_ns)
        if self._fault == "holds back":
            return None
        return max(ready_ns - 1, 0) if self._fault == "ready before now" and ready_ns else ready_ns

    def step(self, now_ns: int) -> Step:
        step = super().step(now_ns)
        if self._fault == "loses":
            self.abort(0)
            return Step([], work=step.work, modelled_cost_ps=step.modelled_cost_ps)
        if self._fault == "free of charge":
            step.modelled_cost_ps = 0
        if self._fault == "silent about costs":
            step.modelled_cost_ps = None
        return step


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("holds back", "holds the request back even after flush()"),
        ("loses", "no work left and never finished the request"),
        ("free of charge", "modelled cost of 0"),
        ("silent about costs", "modelled cost of None"),
    ],
)
def test_an_engine_at_fault_makes_rows_that_say_so(fault: str, words: str) -> None:
    """Status engine_error with the reason, an end, and never a loop without end."""
    recording = play(schedule_of([4]), Odd(fault))
    assert statuses(recording) == ["engine_error"]
    assert words in column(recording, "error")[0]
    assert column(recording, "end_ns")[0] is not None
    assert little_error_ns(recording) == 0


def test_an_engine_that_is_stuck_still_ends_all_the_followers() -> None:
    """Each of the chain is held back, given up, and followed by the next."""
    schedule = schedule_of([4] * 4, after={row: [row - 1] for row in range(1, 4)}, think_ns={1: 1, 2: 1, 3: 1})
    recording = play(schedule, Odd("holds back"))
    assert statuses(recording) == ["engine_error"] * 4
    assert column(recording, "due_ns") == [0, 1, 2, 3]


def test_an_engine_that_was_ready_a_while_ago_is_ready() -> None:
    """A time before now means now: waiting for the past would take for ever."""
    recording = play(schedule_of([2, 2], [5, 5]), Odd("ready before now"))
    assert statuses(recording) == ["ok"] * 2


class Stuck:
    """Always at work, never with a result, deaf to aborts."""

    def __init__(self) -> None:
        self._steps = 0

    def add_request(self, request: Request) -> None: ...
    def has_work(self) -> bool:
        return True

    def ready_ns(self, now_ns: int) -> int | None:
        return now_ns

    def step(self, now_ns: int) -> Step:
        self._steps += 1
        if self._steps > 1_000:
            raise Runaway
        return Step([], modelled_cost_ps=1_000)

    def flush(self) -> None: ...
    def abort(self, request_id: int) -> None: ...
    def describe(self) -> Mapping[str, JSON]:
        return {}


@pytest.mark.parametrize("limits", [{"timeout_ns": 10}, {"drain_ns": 10}, {"timeout_ns": 10, "drain_ns": 50}])
def test_a_run_ends_when_all_its_requests_have(limits: dict[str, int]) -> None:
    """An engine that never comes to an end cannot keep a run going in which nobody is left."""
    recording = play(schedule_of([4, 4]), Stuck(), Steering(**limits))
    assert set(statuses(recording)) <= {"timeout_total", "unfinished"}
    assert column(recording, "end_ns") == [10, 10]
