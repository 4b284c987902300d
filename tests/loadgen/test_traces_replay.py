"""Replay: a fixed order of steps, none of which loses, alters or invents a row without saying so."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadgen.option import parse_context
from loadgen.traces.context import CONTEXT_POLICIES
from loadgen.traces.pace import dispersion, gap_cv, rate_rps
from loadgen.traces.replay import Replay, replay
from loadgen.traces.rows import Trace, count_rows
from results.columns import NULL, int64
from results.schedule import Schedule

S = 10**9


def trace_of(
    at_ns: Sequence[int],
    prompt: Sequence[int] | None = None,
    output: Sequence[int] | None = None,
    **columns: Any,
) -> Trace:
    """A trace of small requests, at these times."""
    rows = len(at_ns)
    columns_in = int64(at_ns), int64(prompt or [10] * rows), int64(output or [5] * rows)
    header = {"format": "hand", "rows": count_rows(*columns_in), "warnings": []}
    return Trace(np.arange(rows, dtype=np.int64), *columns_in, header, **columns)


def step(schedule: Schedule, name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(entry for entry in schedule.origin["steps"] if entry["step"] == name)
    return found


def refusal(trace: Trace, **options: Any) -> str:
    with pytest.raises(ValueError) as caught:
        replay(trace, Replay(**options), {})
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_nothing_asked_for_changes_nothing() -> None:
    """Without options every row is sent at its time, with its lengths, from the recording's first moment."""
    schedule = replay(trace_of([0, 3, 3, 8], [1, 2, 3, 4], [5, 6, 7, 8]), Replay(seed=7), {"prompt": "any"})
    assert schedule.due_ns.tolist() == [0, 3, 3, 8]
    assert schedule.prompt_tokens.tolist() == [1, 2, 3, 4]
    assert schedule.output_tokens.tolist() == [5, 6, 7, 8]
    assert schedule.recipe == {"prompt": "any"}
    assert [entry["step"] for entry in schedule.origin["steps"]] == ["select", "origin"]
    assert schedule.origin["process"] == "trace"
    assert schedule.origin["parameters"]["seed"] == 7
    assert schedule.origin["window"] == {"kind": "trace", "end_ns": 8}
    assert schedule.origin["stationary"] is False
    assert schedule.origin["rate_rps"] == 4 * S / 8
    assert schedule.origin["trace"]["format"] == "hand"


def test_rows_are_sorted_stably() -> None:
    """Rows are sent in the order of their times, ties in the order of the source; an early row begins the window."""
    schedule = replay(trace_of([0, 9, 5, 5, -2], [1, 2, 3, 4, 5]), Replay(), {})
    assert schedule.due_ns.tolist() == [0, 2, 7, 7, 11]
    assert schedule.prompt_tokens.tolist() == [5, 1, 3, 4, 2]
    assert (step(schedule, "select")["ties"], step(schedule, "select")["backward"]) == (1, 2)
    assert step(schedule, "origin")["shift_ns"] == -2


def test_what_cannot_be_sent_is_excluded_by_name() -> None:
    """Failed, zero and unknown rows are left out and counted once each; none is sent as 0 or 1."""
    trace = trace_of(range(7), [1, 0, 1, NULL, 1, 0, 1], [1, 1, 0, 1, NULL, 0, 1], ok=int64([1, 1, 1, 1, 1, 1, 0]))
    schedule = replay(trace, Replay(), {})
    assert len(schedule) == 1
    excluded = {"failed": 3, "zero_prompt": 1, "unknown_prompt": 1, "unknown_output": 1}
    assert step(schedule, "select")["excluded"] == excluded
    assert schedule.origin["rows"] == {"source": 7, "excluded": excluded, "copies": 1, "sent": 1, "waiting": 0}
    assert "step select leaves no rows (1 failed)" in refusal(trace_of([0], [1], [0]))


def test_a_window_is_half_open_and_begins_at_zero() -> None:
    """[from, to) of the source's time; its start, not its first arrival, becomes 0."""
    schedule = replay(trace_of([0, 10, 15, 20, 30]), Replay(window_ns=(8, 20)), {})
    assert schedule.due_ns.tolist() == [2, 7]
    assert schedule.origin["window"]["end_ns"] == 12
    assert step(schedule, "window")["excluded"] == {"before_window": 1, "after_window": 2}
    assert schedule.origin["warnings"] == []


def test_a_window_past_the_end_is_cut_and_warned_of() -> None:
    """Silence after the last arrival was not recorded: the window ends there, the last row is kept, and it is said."""
    schedule = replay(trace_of([0, 10 * S, 20 * S]), Replay(window_ns=(5 * S, 60 * S)), {})
    assert schedule.due_ns.tolist() == [5 * S, 15 * S]
    assert schedule.origin["window"]["end_ns"] == 15 * S
    assert schedule.origin["warnings"] == ["the window reaches past the end of the trace and is cut there, at 20s"]


def test_a_window_outside_or_in_silence_prints_the_span() -> None:
    """A window with nothing in it is refused, with the trace's span."""
    trace = trace_of([0, 90 * S, 120 * S])
    assert "lies outside the trace, which spans 0s..120s (2.0m)" in refusal(trace, window_ns=(200 * S, 300 * S))
    assert "leaves no rows (1 before_window, 2 after_window)" in refusal(trace, window_ns=(10 * S, 20 * S))


def test_a_limit_ends_the_window_where_the_next_row_was_due() -> None:
    """The first rows are kept with their own pace: the window does not keep the silence of those left out."""
    schedule = replay(trace_of([0, 10, 15, 20, 30]), Replay(window_ns=(8, 30), limit=2), {})
    assert schedule.due_ns.tolist() == [2, 7]
    assert schedule.origin["window"]["end_ns"] == 12
    assert step(schedule, "limit")["excluded"] == {"over_limit": 1}
    assert replay(trace_of([0, 10]), Replay(limit=9), {}).origin["window"]["end_ns"] == 10


def test_speed_divides_every_time() -> None:
    """Speed 2 sends in half the time, rounded once to nanoseconds; the gaps' spread stays."""
    schedule = replay(trace_of([0, 5, 20, 100]), Replay(speed=2), {})
    assert schedule.due_ns.tolist() == [0, 3, 10, 50]
    assert schedule.origin["window"]["end_ns"] == 50
    assert step(schedule, "time")["source_length_ns"] == 100


def test_times_stay_exact_beyond_float64() -> None:
    """Times above 2^53 ns (104 days) are scaled in integers."""
    at_ns = [0, 2**60 + 1, 2**60 + 3]
    assert replay(trace_of(at_ns), Replay(speed=0.5), {}).due_ns.tolist() == [2 * at for at in at_ns]


def test_a_rate_is_the_windows_mean_rate() -> None:
    """One factor makes rows by window length the rate asked for, after limit and context, and never both ways."""
    trace = trace_of([0, S, 3 * S, 10 * S], [10, 10, 99, 10])
    schedule = replay(trace, Replay(rate_rps=2.5, context_tokens=50, context_policy="drop"), {})
    assert schedule.origin["rate_rps"] == 2.5
    assert schedule.origin["window"]["end_ns"] == 1_200_000_000
    assert schedule.due_ns.tolist() == [0, 120_000_000, 1_200_000_000]
    assert step(schedule, "time")["speed"] == pytest.approx(10 / 1.2)
    assert "no time passes among these 2 rows" in refusal(trace_of([0, 0]), rate_rps=1)
    assert "over a century" in refusal(trace_of([0, S]), speed=1e-12)


def test_a_loop_begins_where_the_window_ended() -> None:
    """Each copy is the window again, after its scaled length; sessions are the copy's own."""
    trace = trace_of([0, 10, 15, 40], session=int64([7, 8, NULL, 7]), turn=int64([0, 0, 0, 1]))
    schedule = replay(trace, Replay(window_ns=(10, 30), speed=0.5, loop=3), {})
    assert schedule.due_ns.tolist() == [0, 10, 40, 50, 80, 90]
    assert schedule.session.tolist()[1::2] == [NULL] * 3
    assert len(set(schedule.session.tolist()[::2])) == 3
    assert schedule.origin["window"]["end_ns"] == 120
    assert step(schedule, "loop")["repeated_rows"] == 4
    assert schedule.origin["rate_rps"] == step(schedule, "time")["rate_rps"]
    assert "at most 100,000,000" in refusal(trace, loop=10**9)


@pytest.mark.parametrize(
    ("policy", "prompt", "output", "excluded", "clipped"),
    [
        ("drop", [5], [5], {"over_context": 3}, {}),
        ("clip-prompt", [5, 4], [5, 6], {"output_fills_context": 2}, {"clipped_rows": 1, "clipped_tokens": 3}),
        ("clip-output", [5, 7, 1], [5, 3, 9], {"prompt_fills_context": 1}, {"clipped_rows": 2, "clipped_tokens": 12}),
    ],
)
def test_a_context_policy_keeps_its_word(
    policy: str, prompt: list[int], output: list[int], excluded: dict[str, int], clipped: dict[str, int]
) -> None:
    """Prompt and output together fit; what is cut is cut at one of them only; what cannot be kept is counted."""
    trace = trace_of([0, 1, 2, 3], [5, 7, 1, 10], [5, 6, 18, 10])
    schedule = replay(trace, Replay(context_tokens=10, context_policy=policy), {})
    assert schedule.prompt_tokens.tolist() == prompt
    assert schedule.output_tokens.tolist() == output
    entry = step(schedule, "context")
    assert entry["excluded"] == excluded
    assert entry["over_context_rows"] == 3
    assert {name: entry[name] for name in clipped} == clipped


def test_too_long_rows_are_an_error_unless_told_otherwise() -> None:
    """The default says what share does not fit and what can be done; where all fit, it changes nothing."""
    trace = trace_of([0, 1, 2], [1, 1, 1_100], [1, 1, 1])
    assert "33.3% of the rows (1 of 3) do not fit a context of 1,024 tokens: say 1024:drop, 1024:clip-prompt" in (
        refusal(trace, context_tokens=1024)
    )
    assert len(replay(trace, Replay(context_tokens=1_101), {})) == 3


def test_who_waits_follows_the_rows_it_waits_for() -> None:
    """Followers keep their place behind all they wait for, and name them by request id, in each copy anew."""
    trace = trace_of(
        [4, NULL, 9, NULL, 2], after=((), (0,), (), (1, 2), ()), think_ns=int64([NULL, 3, NULL, NULL, NULL])
    )
    schedule = replay(trace, Replay(loop=2), {})
    assert schedule.due_ns.tolist() == [2, 4, NULL, 9, NULL, 11, 13, NULL, 18, NULL]
    assert [schedule.after(i).tolist() for i in range(10)] == [
        [], [], [1], [], [2, 3], [], [], [6], [], [7, 8]
    ]  # fmt: skip
    assert schedule.think_ns.tolist()[:5] == [NULL, NULL, 3, NULL, 0]
    assert step(schedule, "select")["think_taken_as_0_rows"] == 1
    assert schedule.origin["rows"]["waiting"] == 4


def test_who_waits_for_an_excluded_row_is_excluded() -> None:
    """A follower of a row that is left out is never due: it is left out too, and so are its own, by name."""
    trace = trace_of([0, NULL, NULL, 9], [99, 1, 1, 1], after=((), (0,), (1,), ()), think_ns=int64([NULL, 0, 0, NULL]))
    schedule = replay(trace, Replay(context_tokens=50, context_policy="drop"), {})
    assert schedule.due_ns.tolist() == [9]
    assert step(schedule, "context")["excluded"] == {"over_context": 1, "waits_for_excluded": 2}


def test_a_row_with_a_time_of_its_own_is_sent_at_it() -> None:
    """A recorded time comes before the rows it could wait for; how many did is recorded."""
    schedule = replay(trace_of([0, 5], after=((), (0,)), think_ns=int64([NULL, 3])), Replay(), {})
    assert schedule.due_ns.tolist() == [0, 5]
    assert step(schedule, "select")["after_unused_rows"] == 1


def test_warnings_of_the_import_reach_the_schedule() -> None:
    """What the import warned of stands in the schedule's origin."""
    trace = trace_of([0, 1])
    trace.header["warnings"].append("time unit looks wrong")
    assert replay(trace, Replay(), {}).origin["warnings"] == ["time unit looks wrong"]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"limit": 0}, "limit 0 must be 1 or more"),
        ({"loop": 0}, "loop 0 must be 1 or more"),
        ({"speed": -1.0}, "speed -1.0 must be a finite number above 0"),
        ({"rate_rps": float("nan")}, "rate nan must be"),
        ({"speed": float("inf")}, "speed inf must be"),
        ({"speed": 2, "rate_rps": 3}, "give one of them"),
        ({"window_ns": (5, 5)}, "ends before it begins"),
        ({"window_ns": (-5, 5)}, "name a time from 0"),
        ({"context_tokens": 1}, "name 2 or more"),
        ({"context_tokens": 9, "context_policy": "squeeze"}, "name error, drop, clip-prompt, clip-output"),
        ({"context_policy": "drop"}, "needs a context length, as in 1024:drop"),
    ],
)
def test_an_option_that_makes_no_sense_is_refused(options: dict[str, Any], reason: str) -> None:
    """Each option is checked before a trace is touched."""
    with pytest.raises(ValueError, match=reason):
        Replay(**options)


def test_a_context_is_read_with_its_policy() -> None:
    """Tokens alone mean policy error; a policy stands behind a colon."""
    assert parse_context("1024") == (1024, "error")
    assert parse_context("1024:clip-prompt") == (1024, "clip-prompt")
    for text, named in (("", "''"), ("drop", "drop"), ("-5", "-5"), ("1k:drop", "1k"), ("1024:squeeze", "squeeze")):
        with pytest.raises(ValueError, match=named):
            parse_context(text)


def test_a_trace_checks_its_columns() -> None:
    """Columns of different lengths, and row numbers that do not rise, are refused."""
    with pytest.raises(ValueError, match="column session has 1 rows, source_row has 2"):
        trace_of([0, 1], session=int64([1]))
    with pytest.raises(ValueError, match="source rows must rise"):
        Trace(int64([1, 1]), int64([1, 1]), int64([1, 1]), int64([1, 1]), {})


def test_pace_is_null_where_it_is_undefined() -> None:
    """No rate without a length, no spread without two gaps, no dispersion without two whole seconds."""
    assert rate_rps(int64([0, 0]), 0) is None
    assert gap_cv(int64([0, 1])) is None
    assert gap_cv(int64([0, 0, 0])) is None
    assert dispersion(int64([0]), 0, 2 * S - 1) is None
    assert dispersion(int64([]), 0, 5 * S) is None


def test_pace_agrees_with_its_definition() -> None:
    """CV and dispersion are those of the gaps and of the counts in whole seconds, empty ones included."""
    at_ns = int64([0, S // 2, 2 * S, 5 * S])
    gaps = [0.5, 1.5, 3.0]
    assert gap_cv(at_ns) == pytest.approx(np.std(gaps) / np.mean(gaps))
    counts = [2, 0, 1, 0, 0]
    assert dispersion(at_ns, 0, 5 * S) == pytest.approx(np.var(counts) / np.mean(counts))


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    rows = draw(st.integers(1, 15))
    waits = [row > 0 and draw(st.integers(0, 3)) == 0 for row in range(rows)]
    column = st.lists(st.integers(0, 40), min_size=rows, max_size=rows)
    at_ns = draw(st.lists(st.integers(-50, 1_000), min_size=rows, max_size=rows))
    after = tuple(
        tuple(draw(st.lists(st.integers(0, row - 1), min_size=1, max_size=2, unique=True))) if waits[row] else ()
        for row in range(rows)
    )
    times = [NULL if wait else at - at_ns[0] for wait, at in zip(waits, at_ns, strict=True)]
    return trace_of(times, draw(column), draw(column), after=after, session=int64(draw(column)))


@st.composite
def replays(draw: st.DrawFn) -> Replay:
    begin, length = draw(st.integers(0, 400)), draw(st.integers(1, 2_000))
    pace: dict[str, float] = draw(
        st.sampled_from([{}, {"speed": 0.3}, {"speed": 7}, {"rate_rps": 1e6}, {"rate_rps": 3.3}])
    )
    tokens = draw(st.sampled_from([None, 30, 60]))
    return Replay(
        window_ns=draw(st.sampled_from([None, (begin, begin + length)])),
        limit=draw(st.sampled_from([None, 1, 5, 100])),
        loop=draw(st.integers(1, 3)),
        context_tokens=tokens,
        context_policy=draw(st.sampled_from(sorted(CONTEXT_POLICIES))) if tokens else "error",
        speed=pace.get("speed"),
        rate_rps=pace.get("rate_rps"),
    )


@settings(deadline=None)
@given(trace=traces(), options=replays())
def test_no_replay_loses_a_row_in_silence(trace: Trace, options: Replay) -> None:
    """Whatever the options: rows in are rows out and rows excluded by reason, and all that is sent fits."""
    try:
        schedule = replay(trace, options, {})
    except ValueError as problem:
        assert "\n" not in str(problem)
        return
    steps = schedule.origin["steps"]
    for entry in steps:
        assert entry["rows_in"] + entry.get("repeated_rows", 0) == entry["rows_out"] + sum(entry["excluded"].values())
    assert all(before["rows_out"] == after["rows_in"] for before, after in pairwise(steps))
    assert steps[0]["rows_in"] == len(trace)
    assert steps[-1]["rows_out"] == len(schedule) == schedule.origin["rows"]["sent"]
    timed = schedule.due_ns[schedule.due_ns != NULL]
    assert timed.max() <= schedule.origin["window"]["end_ns"]
    if options.context_tokens:
        assert (schedule.prompt_tokens + schedule.output_tokens).max() <= options.context_tokens
    if options.rate_rps:
        assert schedule.origin["rate_rps"] == pytest.approx(options.rate_rps, rel=1e-2)
