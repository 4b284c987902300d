"""Service level objectives: limits that a request meets all of, or misses."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from results.fluidity import Deadlines
from results.slo import LIMITED, Slo, parse_slo

UNITS = {"us": 10**3, "ms": 10**6, "s": 10**9}


@settings(deadline=None)
@given(
    st.dictionaries(st.sampled_from(LIMITED), st.tuples(st.integers(0, 10**6), st.sampled_from([*UNITS])), min_size=1)
)
def test_limits_are_read_with_their_units(limits: dict[str, tuple[int, str]]) -> None:
    """`ttft<=1s,tpot<=50ms` is a limit in nanoseconds for each name."""
    text = ",".join(f"{name}<={number}{unit}" for name, (number, unit) in limits.items())
    assert dict(parse_slo(text).limits_ns) == {name: number * UNITS[unit] for name, (number, unit) in limits.items()}


def test_fractions_and_spaces_are_read() -> None:
    """A number may have a fraction, and spaces mean nothing."""
    assert dict(parse_slo(" ttft <= 0.5 s , e2e<=.25ms").limits_ns) == {"ttft": 5 * 10**8, "e2e": 250_000}


@pytest.mark.parametrize(
    "limit_ns", [0, 1_000, 1_500, 50 * 10**6, 10**9, 1_500 * 10**6, 1_234_567, 12_345_678_901, 3_600 * 10**9 + 1]
)
def test_an_slo_is_written_as_it_is_read(limit_ns: int) -> None:
    """What is written is read back as the same limits: nothing is rounded on the way into a saved config."""
    slo = Slo({"ttft": limit_ns, "tpot": 50_000_000})
    assert dict(parse_slo(str(slo)).limits_ns) == dict(slo.limits_ns)


@pytest.mark.parametrize(
    "text",
    ["", "ttft", "ttft<1s", "ttft<=1", "ttft<=1m", "ttft<=-1s", "speed<=1s", "ttft<=1s,", "ttft<=1s;tpot<=1s",
     "TTFT<=1s", "ttft<=1e3s", "ttft<=nan", "ttft<=1..2s", "ttft>=1s"],
)  # fmt: skip
def test_what_is_no_limit_is_refused_by_name(text: str) -> None:
    """A limit that cannot be read is named, in one line, with an example of one that can."""
    with pytest.raises(ValueError, match="is not a limit: write one of ttft, tpot, e2e, stall") as caught:
        parse_slo(text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["ttft<=" + "9" * 400 + "s", "ttft<=" + "9" * 50 + "s"])
def test_a_limit_beyond_all_time_is_refused_or_kept(text: str) -> None:
    """A limit of any number of digits is refused in one line or kept exactly, never an arithmetic error."""
    try:
        slo = parse_slo(text)
    except ValueError as error:
        assert "\n" not in str(error)
    else:
        assert dict(parse_slo(str(slo)).limits_ns) == dict(slo.limits_ns)


@pytest.mark.parametrize("text", ["ttft<=1s,ttft<=2s", "ttft<=2s,ttft<=1s"])
def test_two_limits_of_one_metric_are_both_met_or_refused(text: str) -> None:
    """A request meets every limit that was written: a later, looser one does not silently replace the first."""
    try:
        slo = parse_slo(text)
    except ValueError as error:
        assert "ttft" in str(error)
    else:
        assert slo.attained({"ttft": np.array([0.9e9, 1.5e9])}).tolist() == [True, False]


@pytest.mark.parametrize(
    ("text", "least", "deadlines"),
    [
        ("ttft<=1s,tpot<=50ms,fluidity>=0.9", 0.9, Deadlines(10**9, 50 * 10**6)),
        ("fluidity@1s/25ms>=.95", 0.95, Deadlines(10**9, 25 * 10**6)),
        ("ttft<=2s,tpot<=9ms,fluidity@0s/1ns>=1", 1.0, Deadlines(0, 1)),
    ],
)
def test_fluidity_is_asked_for_with_its_deadlines(text: str, least: float, deadlines: Deadlines) -> None:
    """Its own after @, else the limits of TTFT and TPOT; written as it is read."""
    slo = parse_slo(text)
    assert (slo.least_fluidity_fraction, slo.deadlines) == (least, deadlines)
    assert parse_slo(str(slo)) == slo
    assert slo.metrics[-1] == "fluidity"


@pytest.mark.parametrize(
    "text",
    ["fluidity>=0.9", "ttft<=1s,fluidity>=0.9", "ttft<=1s,tpot<=0ms,fluidity>=0.9", "fluidity@1s/1ms>=0",
     "fluidity@1s/1ms>=1.1", "fluidity@1s/0ns>=0.5", "fluidity@1s>=0.9", "fluidity<=0.9", "fluidity>=90%",
     "ttft<=1s,tpot<=1s,fluidity>=.9,fluidity>=.8"],
)  # fmt: skip
def test_fluidity_that_cannot_be_measured_is_refused(text: str) -> None:
    """No deadlines, a share that is none, two of them: one line that names it."""
    with pytest.raises(ValueError, match="fluidity") as caught:
        parse_slo(text)
    assert "\n" not in str(caught.value)


def test_fluidity_attains_from_its_limit_on() -> None:
    """At the limit it is met; a failed request (-inf) misses; one without a token passes vacuously."""
    values = {"ttft": np.zeros(4), "fluidity": np.array([0.9, 0.8999, -np.inf, np.nan])}
    assert parse_slo("fluidity@1s/1ms>=0.9").attained(values).tolist() == [True, False, False, True]


def test_a_request_attains_an_slo_when_it_meets_every_limit() -> None:
    """The limit itself is met; above it, failed (+inf) or beyond one of several limits is a miss."""
    values = {
        "ttft": np.array([10.0, 10.0, 11.0, np.inf, 10.0]),
        "tpot": np.array([5.0, 6.0, 5.0, np.inf, np.nan]),
    }
    assert Slo({"ttft": 10}).attained(values).tolist() == [True, True, False, False, True]
    assert Slo({"ttft": 10, "tpot": 5}).attained(values).tolist() == [True, False, False, False, True]


def test_an_undefined_metric_passes_vacuously() -> None:
    """One token has no TPOT, and a TPOT limit does not count against it."""
    values = {"ttft": np.array([1.0]), "tpot": np.array([np.nan]), "stall": np.array([np.nan])}
    assert Slo({"tpot": 1, "stall": 1}).attained(values).tolist() == [True]


@pytest.mark.parametrize(
    ("slo", "timeout_ns", "first_ns", "ratio"),
    [
        ("ttft<=1s,tpot<=50ms", None, None, None),
        ("tpot<=50ms", 10**9, 10**9, None),
        ("ttft<=1s", 30 * 10**9, None, 30.0),
        ("ttft<=1s", 30 * 10**9, 5 * 10**9, 5.0),
        ("ttft<=1s,e2e<=20s", 30 * 10**9, None, 1.5),
    ],
)
def test_how_near_a_time_limit_cuts(
    slo: str, timeout_ns: int | None, first_ns: int | None, ratio: float | None
) -> None:
    """The tightest of the limits that abort a request, in units of what the SLO allows."""
    assert parse_slo(slo).cut_ratio(timeout_ns, first_ns) == ratio
