"""Units: what people write, exactly, and one line for what cannot be read."""

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from loadgen.units import (
    LONGEST_PS,
    MOST_COUNTED,
    NS_PER_UNIT,
    format_duration_ns,
    parse_count,
    parse_duration_ns,
    parse_duration_ps,
    parse_number,
    parse_seed,
    parse_span_ns,
    parse_temperature,
    parse_tokens,
    parse_whole,
)

UNITS = st.sampled_from([*NS_PER_UNIT])


def refusal(parse: Callable[[str], Any], text: str) -> str:
    """Why a text is refused."""
    with pytest.raises(ValueError) as caught:
        parse(text)
    message = str(caught.value)
    assert "\n" not in message
    return message


@pytest.mark.parametrize(
    ("text", "ns"),
    [("1ns", 1), ("1us", 10**3), ("1ms", 10**6), ("1s", 10**9), ("1m", 60 * 10**9), ("1h", 3_600 * 10**9),
     ("50ms", 50_000_000), (".5s", 500_000_000), ("0.205ms", 205_000), ("1.5h", 5_400 * 10**9), (" 2 m ", 120 * 10**9),
     ("0s", 0), ("0.1s", 100_000_000), ("0.3ms", 300_000)],
)  # fmt: skip
def test_a_duration_is_a_number_with_a_unit(text: str, ns: int) -> None:
    """ns, us, ms, s, m and h; decimal fractions are exact."""
    assert parse_duration_ns(text) == ns
    assert parse_duration_ps(text) == ns * 1000


def test_picoseconds_are_exact_and_nanoseconds_rounded_once() -> None:
    """A tenth of a nanosecond is 100 ps; halves of a nanosecond go to the even one."""
    assert parse_duration_ps("0.1ns") == 100
    assert parse_duration_ps("1.2345us") == 1_234_500
    assert [parse_duration_ns(f"{tenths / 10}ns") for tenths in (4, 5, 6, 14, 15, 16)] == [0, 0, 1, 1, 2, 2]


@settings(deadline=None)
@given(st.integers(0, 3_600 * 10**12))
def test_a_duration_written_is_read_back(duration_ns: int) -> None:
    """Every number of nanoseconds has a writing that is read as the same number, in the largest unit that is whole."""
    text = format_duration_ns(duration_ns)
    assert parse_duration_ns(text) == duration_ns
    number, unit = int(text.rstrip("numsh")), text.lstrip("0123456789")
    larger = {"ns": 1_000, "us": 1_000, "ms": 1_000, "s": 60, "m": 60}.get(unit)
    assert duration_ns == 0 or larger is None or number % larger


@settings(deadline=None)
@given(st.integers(0, 10**6), st.integers(0, 999), UNITS)
def test_any_decimal_is_scaled_exactly(whole: int, thousandths: int, unit: str) -> None:
    """No binary fraction comes between the text and its nanoseconds."""
    text = f"{whole}.{thousandths:03d}{unit}"
    exact_ps = Decimal(f"{whole}.{thousandths:03d}") * NS_PER_UNIT[unit] * 1000
    assume(exact_ps <= LONGEST_PS)
    assert parse_duration_ps(text) == int(exact_ps.to_integral_value(rounding="ROUND_HALF_EVEN"))


@pytest.mark.parametrize(
    "text", ["", "5", "s", "-1s", "1 day", "1d", "1e3s", "1,5s", "50 MS", "nans", "infs", "1s 2ms", "1.s"]
)
def test_what_is_no_duration_is_named(text: str) -> None:
    """A number without a unit, and anything else, is refused with the units there are."""
    assert refusal(parse_duration_ns, text) == (
        f"{text!r} is not a duration: write a number with ns, us, ms, s, m or h, as in 50ms"
    )


def test_a_span_is_two_durations() -> None:
    """`25m..35m`; a bare 0 needs no unit."""
    assert parse_span_ns("25m..35m") == (25 * 60 * 10**9, 35 * 60 * 10**9)
    assert parse_span_ns("0..90s") == (0, 90 * 10**9)
    assert parse_span_ns("0.5s..1500ms") == (500_000_000, 1_500_000_000)


@pytest.mark.parametrize(
    "text", ["", "5m", "5m..", "..", "5m..4m", "5m..5m", "0..0", "1..2", "1m..2m..3m", "a..b", "-1s..2s"]
)
def test_what_is_no_span_is_named(text: str) -> None:
    """One end, no unit, a third part or an end that is not later."""
    assert text in refusal(parse_span_ns, text) or "duration" in refusal(parse_span_ns, text)


def test_a_span_has_two_ends() -> None:
    """A window whose first end was left out is refused like one whose last was."""
    refusal(parse_span_ns, "..5m")


@pytest.mark.parametrize(
    ("text", "pair"), [("64", (64, 64)), ("32:96", (32, 96)), ("1:1", (1, 1)), (" 2 : 3 ", (2, 3))]
)
def test_a_length_is_a_count_or_a_range(text: str, pair: tuple[int, int]) -> None:
    """Both ends are included; one number is both."""
    assert parse_tokens(text) == pair


@pytest.mark.parametrize("text", ["", ":", "0", "0:5", "5:", ":5", "9:5", "1:2:3", "-1:5", "1.5", "x", "1e3", "32-96"])
def test_what_is_no_length_is_named(text: str) -> None:
    """Below 1, falling, open or not a count."""
    assert repr(text) in refusal(parse_tokens, text)


@settings(deadline=None)
@given(st.floats(min_value=1e-6, max_value=1e9))
def test_a_number_is_read_as_python_writes_it(value: float) -> None:
    """Every float within the bounds comes back from its own writing."""
    assert parse_number(repr(value)) == value


@pytest.mark.parametrize("text", ["", "x", "0", "-1", "nan", "inf", "-inf", "sNaN", "0x10", "1/2", "1 2", "4,8"])
def test_what_is_no_number_above_0_is_named(text: str) -> None:
    """Nothing, zero, negative, not finite, not a number."""
    assert repr(text) in refusal(parse_number, text)


@pytest.mark.parametrize("text", ["1e400", "1e-400", "9" * 400])
def test_a_number_that_no_float_holds_is_refused(text: str) -> None:
    """What would become infinite, or 0, is not a finite number above 0."""
    refusal(parse_number, text)


@settings(deadline=None)
@given(st.integers(1, MOST_COUNTED))
def test_a_count_is_any_whole_number_from_1(value: int) -> None:
    """Counts are exact; a seed may be 0."""
    assert parse_count(str(value)) == value
    assert parse_seed(str(value - 1)) == value - 1


@pytest.mark.parametrize("text", ["", "0", "-1", "1.0", "1e3", "x", "+1", "1_000"])
def test_what_is_no_count_is_named(text: str) -> None:
    """Below 1 or not a whole number."""
    assert refusal(parse_count, text) == f"{text!r} is not a whole number from 1 to {MOST_COUNTED}"


@pytest.mark.parametrize("text", ["", "-1", "1.0", "x"])
def test_what_is_no_seed_is_named(text: str) -> None:
    """Below 0 or not a whole number."""
    assert refusal(parse_seed, text) == f"{text!r} is not a whole number from 0"


def test_a_refusal_names_the_whole_range() -> None:
    """0 is greedy, and nobody in the fill."""
    assert "0, for greedy, or a number up to" in refusal(parse_temperature, "-1")
    assert refusal(parse_whole, "-1") == f"'-1' is not a whole number from 0 to {MOST_COUNTED}"
    assert (parse_temperature("0"), parse_whole("0"), parse_whole("12")) == (0.0, 0, 12)
