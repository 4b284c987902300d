"""Workloads: from a config to a schedule, in which each choice changes only what it is about."""

from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from loadgen.arrivals import due_times_ns
from loadgen.config import from_texts
from loadgen.config_table import ARRIVALS
from loadgen.schedule_shape import shape_of
from loadgen.workload import as_burst, build_schedule
from results.columns import NULL
from results.schedule import HASHED_COLUMNS, Schedule, make_schedule

S = 10**9


def made(**texts: str) -> Schedule:
    """The schedule of these options, at 10 requests a second unless they say otherwise."""
    needs_none = {"rate", "users", "preset", "trace"} & texts.keys() or texts.get("arrival") == "burst"
    rate = {} if needs_none else {"rate": "10"}
    return build_schedule(from_texts({key.replace("_", "-"): text for key, text in {**rate, **texts}.items()}))


def same(one: Schedule, other: Schedule, *names: str) -> bool:
    """Whether these columns are equal."""
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in names)


def test_this_workload_never_changes() -> None:
    """Golden hashes: the default workload at 10 requests a second, and one of each kind."""
    assert made().sha256 == "50a096eb624fafc415012c29bf608416820bff9521b711f4026a090a2b038b7a"
    assert (
        made(arrival="closed", users="4", think="1s", fill="0").sha256
        == "796e1adf59d9b7c83b1415b2c52aca6dc378ebc78ea6d6c079fdfda0f44a5b3d"
    )
    assert (
        made(arrival="gamma", cv="2", seed="1", requests="50").sha256
        == "5ef8da9e86f2073db87351199f8cbe1a034422718f2fb9a8138bf607862f3ae1"
    )
    assert made(preset="seed1", rate="1").sha256 == "4f6be26ef7af97564132f692870170339f9ecabe5a3ca2796a68a480bd083dc2"


def test_the_default_workload() -> None:
    """200 requests, prompts of 32 to 96 tokens, outputs of 16 to 48, Poisson at the asked rate, seed 7."""
    schedule = made()
    assert len(schedule) == 200
    assert np.array_equal(schedule.due_ns, due_times_ns("poisson", 200, 10.0, 7))
    assert (schedule.prompt_tokens.min(), schedule.prompt_tokens.max()) == (32, 96)
    assert schedule.output_tokens.min() >= 16
    assert schedule.output_tokens.max() <= 48
    assert schedule.origin["rate_rps"] == 10.0
    assert schedule.origin["window"] == {"kind": "schedule", "end_ns": None}
    assert schedule.origin["stationary"] is True
    assert schedule.recipe["sampling"]["ignore_eos"] is True


def test_lengths_are_uniform_over_their_range_and_independent() -> None:
    """Every length between the bounds is about equally frequent; prompts and outputs are uncorrelated."""
    schedule = made(requests="20000", prompt_tokens="1:8", output_tokens="3:7")
    for tokens, low, high in ((schedule.prompt_tokens, 1, 8), (schedule.output_tokens, 3, 7)):
        counts = np.bincount(tokens, minlength=high + 1)[low:]
        assert len(counts) == high - low + 1
        assert stats.chisquare(counts).pvalue > 0.01
    together = np.corrcoef(schedule.prompt_tokens, schedule.output_tokens)[0, 1]
    assert abs(float(together)) < 4 / 20_000**0.5


def test_one_number_is_a_fixed_length() -> None:
    """All requests alike."""
    schedule = made(prompt_tokens="64", output_tokens="1")
    assert set(schedule.prompt_tokens.tolist()) == {64}
    assert set(schedule.output_tokens.tolist()) == {1}


@pytest.mark.parametrize("change", [{"prompt_tokens": "5"}, {"output_tokens": "100:200"}, {"prompt_tokens": "1:1000"}])
def test_other_lengths_never_change_the_arrivals(change: dict[str, str]) -> None:
    """Each use of randomness has its own stream: what is drawn for one does not move the others."""
    base, other = made(), made(**change)
    assert same(base, other, "due_ns")
    untouched = "output_tokens" if "prompt_tokens" in change else "prompt_tokens"
    assert same(base, other, untouched)
    assert base.sha256 != other.sha256


def test_another_process_keeps_the_lengths() -> None:
    """Whatever the arrivals, request i asks for the same tokens."""
    base = made(requests="50")
    for texts in ({"arrival": "constant"}, {"arrival": "gamma", "cv": "2"}, {"arrival": "burst"},
                  {"arrival": "closed", "users": "5", "fill": "0"}, {"arrival": "conditioned"}):  # fmt: skip
        assert same(base, made(requests="50", **texts), "prompt_tokens", "output_tokens"), texts


def test_another_rate_keeps_lengths_prompts_and_gap_pattern() -> None:
    """The same seed at twice the rate: the same requests in the same pattern, in half the time."""
    slow, fast = made(rate="5"), made(rate="10")
    assert same(slow, fast, "prompt_tokens", "output_tokens")
    assert slow.recipe == fast.recipe
    assert np.abs(slow.due_ns - 2 * fast.due_ns).max() <= 2


@pytest.mark.parametrize("texts", [{}, {"arrival": "constant"}, {"arrival": "gamma", "cv": "0.5"}])
def test_more_requests_keep_those_before(texts: dict[str, str]) -> None:
    """A longer schedule begins with the shorter one, lengths included."""
    short, long = made(requests="100", **texts), made(requests="1000", **texts)
    for name in ("due_ns", "prompt_tokens", "output_tokens"):
        assert np.array_equal(getattr(short, name), getattr(long, name)[:100])


def test_another_seed_changes_everything() -> None:
    """Arrivals, lengths and prompts all follow the seed."""
    one, other = made(seed="7"), made(seed="8")
    for name in ("due_ns", "prompt_tokens", "output_tokens"):
        assert not np.array_equal(getattr(one, name), getattr(other, name))
    assert one.recipe["prompt"] != other.recipe["prompt"]
    assert made(seed="99999999999999999999999").sha256 != one.sha256


def test_by_duration_all_is_due_within_it() -> None:
    """--duration fills the time with as many requests as the process has; the window is the duration."""
    schedule = made(duration="30s", rate="20")
    assert (schedule.due_ns < 30 * S).all()
    assert 500 < len(schedule) < 700
    assert schedule.origin["window"]["end_ns"] == 30 * S
    longer = made(duration="60s", rate="20")
    for name in ("due_ns", "prompt_tokens", "output_tokens"):
        assert np.array_equal(getattr(schedule, name), getattr(longer, name)[: len(schedule)])


def test_a_duration_without_a_request_is_refused() -> None:
    """Nothing to send is an input error in one line."""
    with pytest.raises(ValueError, match=r"no request is due in --duration at --rate 0\.001") as caught:
        made(duration="1ms", rate="0.001")
    assert "\n" not in str(caught.value)


def test_a_burst_is_due_at_once() -> None:
    """All at 0: makespan mode, no rate, not stationary, and labelled."""
    schedule = made(arrival="burst", requests="30")
    assert set(schedule.due_ns.tolist()) == {0}
    assert len(schedule) == 30
    assert schedule.origin["window"] == {"kind": "makespan"}
    assert schedule.origin["rate_rps"] is None
    assert schedule.origin["stationary"] is False
    assert schedule.origin["label"] == "burst"


def test_a_closed_loop_is_users_that_wait_for_their_answers() -> None:
    """Request i belongs to user i mod users; its first is due at 0, each other one after the user's last."""
    schedule = made(arrival="closed", users="3", think="2s", requests="8", fill="0")
    assert schedule.due_ns.tolist() == [0, 0, 0, *[NULL] * 5]
    assert [schedule.after(row).tolist() for row in range(8)] == [[], [], [], [0], [1], [2], [3], [4]]
    assert schedule.think_ns.tolist() == [NULL] * 3 + [2 * S] * 5
    assert schedule.session.tolist() == [0, 1, 2, 0, 1, 2, 0, 1]
    assert schedule.turn.tolist() == [0, 0, 0, 1, 1, 1, 2, 2]
    assert schedule.origin["label"] == "closed loop of 3 users"
    assert schedule.origin["rate_rps"] is None
    assert schedule.origin["window"] == {"kind": "makespan"}
    assert made(arrival="closed", users="3", requests="8", fill="0").think_ns.tolist()[3:] == [0] * 5


def test_empty_answers_are_allowed_by_the_workload() -> None:
    """--allow-empty stands in the recipe, with what else is content: the shape's hash stays."""
    plain, allowing = made(), made(allow_empty="true")
    assert (plain.recipe.get("allow_empty"), allowing.recipe["allow_empty"]) == (None, True)
    assert plain.sha256 == allowing.sha256 and plain.content_sha256 != allowing.content_sha256


def test_users_without_a_request_are_refused() -> None:
    """Fewer requests than users is no closed loop of that many."""
    with pytest.raises(ValueError, match="--requests 2 leaves users without any: ask for at least --users 3"):
        made(arrival="closed", users="3", requests="2")
    assert len(made(arrival="closed", users="3", requests="3", fill="0")) == 3


def test_the_preset_seed1_is_the_first_texts_schedule() -> None:
    """24 requests of seed 7: 807 output and 1,574 prompt tokens, the published lengths, gaps drawn first."""
    schedule = made(preset="seed1", rate="4")
    outputs = "37 21 33 24 47 45 22 32 47 43 39 37 17 40 31 19 24 33 39 32 36 44 38 27"
    assert schedule.output_tokens.tolist() == [int(tokens) for tokens in outputs.split()]
    assert schedule.prompt_tokens.tolist()[:4] == [84, 91, 85, 72]
    assert (int(schedule.output_tokens.sum()), int(schedule.prompt_tokens.sum())) == (807, 1574)
    assert schedule.due_ns[-1] / S * 4 == pytest.approx(22.6585, abs=5e-5)
    generator = np.random.default_rng(7)
    gaps = generator.exponential(1 / 4, 24)
    assert np.abs(schedule.due_ns - np.cumsum(gaps) * S).max() <= 1
    assert np.array_equal(schedule.prompt_tokens, generator.integers(32, 97, 24))
    assert np.array_equal(schedule.output_tokens, generator.integers(16, 49, 24))


def test_the_preset_at_another_rate_and_in_a_burst() -> None:
    """The same requests in the same pattern; in a burst all at 0."""
    base, fast = made(preset="seed1", rate="4"), made(preset="seed1", rate="16")
    assert same(base, fast, "prompt_tokens", "output_tokens")
    assert np.abs(base.due_ns - 4 * fast.due_ns).max() <= 4
    burst = made(preset="seed1", arrival="burst")
    assert same(base, burst, "prompt_tokens", "output_tokens")
    assert set(burst.due_ns.tolist()) == {0}
    assert burst.origin["window"] == {"kind": "makespan"}
    assert burst.origin["rate_rps"] is None
    assert len(made(preset="seed1", rate="4", requests="100")) == 100


def test_a_burst_of_followers_is_closed() -> None:
    """Every due time becomes 0, who waits still waits, and the label says so; the shape keeps all else."""
    schedule = make_schedule([5, 9, NULL], [1, 2, 3], [4, 5, 6], after=[(), (), (0,)], think_ns=[NULL, NULL, 7],
                             session=[0, 1, 0], origin={"process": "trace", "rate_rps": 3.0})  # fmt: skip
    burst = as_burst(schedule)
    assert burst.due_ns.tolist() == [0, 0, NULL]
    assert same(schedule, burst, *(name for name in HASHED_COLUMNS if name != "due_ns"))
    assert burst.origin["label"] == "burst of sessions (closed)"
    assert burst.origin["rate_rps"] is None
    assert burst.origin["window"] == {"kind": "makespan"}
    assert burst.origin["process"] == "trace"
    assert as_burst(make_schedule([5], [1], [1])).origin["label"] == "burst"


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """A plain trace: five requests, one a second."""
    path = tmp_path / "trace.csv"
    path.write_text("t,in,out\n" + "".join(f"{at}.5,{10 + at},{2 + at}\n" for at in range(5)))
    return path


def test_a_trace_is_replayed_through_the_config(trace: Path) -> None:
    """Columns and unit by name; window, limit, speed and loop as options; the window in the origin."""
    plain = {"trace": str(trace), "columns": "time=t,prompt=in,output=out", "time_unit": "s"}
    whole = made(**plain)
    assert whole.due_ns.tolist() == [0, S, 2 * S, 3 * S, 4 * S]
    assert whole.prompt_tokens.tolist() == [10, 11, 12, 13, 14]
    assert whole.origin["window"] == {"kind": "trace", "end_ns": 4 * S}
    assert made(**plain, speed="2").due_ns.tolist() == [0, S // 2, S, 3 * S // 2, 2 * S]
    assert len(made(**plain, limit="3")) == 3
    assert len(made(**plain, loop="2")) == 10
    assert made(**plain, window="1s..3s").prompt_tokens.tolist() == [11, 12]
    assert made(**plain, context="13:clip-prompt").prompt_tokens.tolist() == [10, 10, 9, 8, 7]
    assert set(made(**plain, arrival="burst").due_ns.tolist()) == {0}


def test_a_trace_that_is_not_there_is_named(tmp_path: Path) -> None:
    """One line with the file's name."""
    with pytest.raises(ValueError, match=r"nothing\.csv cannot be read") as caught:
        made(trace=str(tmp_path / "nothing.csv"))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("arrival", ARRIVALS)
def test_every_arrival_makes_a_schedule(arrival: str) -> None:
    """Whatever is in the table can be chosen; its origin says what it was and how it was made."""
    more = {"closed": {"users": "2", "fill": "0"}, "gamma": {"cv": "2"}}.get(arrival, {})
    schedule = made(arrival=arrival, requests="20", **more)
    assert len(schedule) == 20
    assert schedule.origin["process"] == arrival
    assert schedule.origin["parameters"]["seed"] == 7
    if arrival in ("conditioned", "burst", "closed"):
        assert schedule.origin["label"]


def test_the_shape_of_a_schedule_in_figures() -> None:
    """Counts, rates, spread and lengths of a schedule made by hand."""
    shape = shape_of(make_schedule([0, S, 3 * S, 6 * S], [1, 2, 3, 4], [5, 5, 5, 9], origin={"rate_rps": 0.5}))
    assert shape["requests"] == 4
    assert shape["waiting_for_others"] == 0
    assert (shape["first_due_s"], shape["last_due_s"]) == (0, 6)
    assert shape["offered_rps"] == 0.5
    assert shape["realised_rps"] == pytest.approx(3 / 6)
    assert shape["gap_cv"] == pytest.approx(np.std([1, 2, 3]) / 2)
    assert shape["prompt_tokens"]["sum"] == 10
    assert shape["prompt_tokens"]["mean"] == 2.5
    assert (shape["output_tokens"]["min"], shape["output_tokens"]["max"]) == (5, 9)
    assert shape["output_tokens"]["p99"] is None
    assert sum(shape["arrivals_histogram"]) == 4
    assert len(shape["arrivals_histogram"]) == 60


def test_the_shape_of_a_poisson_schedule() -> None:
    """CV and dispersion near 1, no correlation, the realised rate near the asked one."""
    shape = shape_of(made(requests="20000", rate="50"))
    assert shape["realised_rps"] == pytest.approx(50, rel=0.03)
    assert shape["gap_cv"] == pytest.approx(1, abs=0.03)
    assert shape["dispersion_1s"] == pytest.approx(1, abs=0.3)
    assert abs(shape["lag1_correlation"]) < 0.03
    assert shape["prompt_tokens"]["p99"] >= 95


def test_the_shape_of_a_burst_and_of_a_closed_loop() -> None:
    """What cannot be computed is null: no rate without a span, no spread without gaps."""
    burst = shape_of(made(arrival="burst", requests="5"))
    assert (burst["realised_rps"], burst["gap_cv"], burst["lag1_correlation"]) == (None, None, None)
    assert burst["arrivals_histogram"] == [5]
    closed = shape_of(made(arrival="closed", users="2", requests="6", fill="0"))
    assert (closed["requests"], closed["waiting_for_others"]) == (6, 4)
