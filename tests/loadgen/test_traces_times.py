"""Times and counts are read from their digits, exactly."""

from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadgen.traces.times import NS_DIGITS, count_tokens, decimal_ns, iso_ns


@pytest.mark.parametrize(
    ("text", "unit", "ns"),
    [
        ("61.114", "s", 61_114_000_000),
        ("1700158546.680590123", "s", 1_700_158_546_680_590_123),
        ("27482", "ms", 27_482_000_000),
        ("0.5", "ns", 0),
        ("1.5", "ns", 2),
        ("0.30000000000000004", "s", 300_000_000),
        ("1.7e3", "us", 1_700_000),
        ("19440110.0", "s", 19_440_110_000_000_000),
        ("5.", "s", 5_000_000_000),
        ("1e-9999", "s", 0),
    ],
)
def test_a_decimal_time_is_exact_to_the_nanosecond(text: str, unit: str, ns: int) -> None:
    """A decimal time is exact to the nanosecond, and rounded half to even beyond it."""
    assert decimal_ns(text, unit) == ns


@given(value=st.decimals(0, 10**10, allow_nan=False, allow_infinity=False), unit=st.sampled_from(sorted(NS_DIGITS)))
def test_decimal_times_agree_with_rational_arithmetic(value: Decimal, unit: str) -> None:
    """Any finite decimal gives what rational arithmetic gives."""
    assert decimal_ns(str(abs(value)), unit) == round(abs(Fraction(value)) * 10 ** NS_DIGITS[unit])


@pytest.mark.parametrize("text", ["-1", "nan", "inf", "Infinity", "1e999", "12_000", "", "abc", "٣", "1" * 200])
def test_what_is_no_finite_time_from_zero_is_refused(text: str) -> None:
    """Negative, non-finite, absurd and non-numeric times raise in one line that names the value."""
    with pytest.raises(ValueError, match="is not a time in ms") as caught:
        decimal_ns(text, "ms")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "ns", "offset"),
    [
        ("2023-11-16 18:15:46.6805900", 1_700_158_546_680_590_000, "naive"),
        ("2024-05-12 00:00:00.001163+00:00", 1_715_472_000_001_163_000, "+00:00"),
        ("2024-05-12 00:00:00+00:00", 1_715_472_000_000_000_000, "+00:00"),
        ("2024-05-12 02:00:00+02:00", 1_715_472_000_000_000_000, "+02:00"),
        ("2024-05-11T21:30:00-0230", 1_715_472_000_000_000_000, "-02:30"),
        ("2024-10-15T12:00:00.269Z", 1_728_993_600_269_000_000, "+00:00"),
        ("2024-02-29 23:59:59.9999999996", 1_709_251_200_000_000_000, "naive"),
    ],
)
def test_a_date_and_time_is_exact_to_the_nanosecond(text: str, ns: int, offset: str) -> None:
    """Dates are read with any number of decimals, with an offset or without."""
    assert iso_ns(text) == (ns, offset)


@given(
    moment=st.datetimes(datetime(1980, 1, 1), datetime(2200, 1, 1)),
    minutes=st.integers(-14 * 60, 14 * 60),
)
def test_dates_agree_with_the_calendar(moment: datetime, minutes: int) -> None:
    """Any date with an offset gives what the calendar of the standard library gives."""
    aware = moment.replace(tzinfo=timezone(timedelta(minutes=minutes)))
    since = aware - datetime(1970, 1, 1, tzinfo=UTC)
    assert iso_ns(aware.isoformat())[0] == (since // timedelta(microseconds=1)) * 1_000


@pytest.mark.parametrize(
    "text", ["2023-02-29 00:00:00", "2023-11-16", "2023-11-16 24:00:00", "2023-11-16 00:60:00", "1700158546.7", ""]
)
def test_what_is_no_date_and_time_is_refused(text: str) -> None:
    """A day or an hour that does not exist is refused, not carried over."""
    with pytest.raises(ValueError, match="is not a"):
        iso_ns(text)


@pytest.mark.parametrize(("text", "tokens"), [("374", 374), ("374.0", 374), ("0", 0), ("1e3", 1_000)])
def test_a_count_may_be_written_as_a_decimal(text: str, tokens: int) -> None:
    """A whole number is a count, however its writer spelled it."""
    assert count_tokens(text) == tokens


@pytest.mark.parametrize("text", ["-3", "1.5", "", "nan", "inf", "many", "1e40", "9" * 30, "٣"])
def test_what_is_no_whole_number_from_zero_is_no_count(text: str) -> None:
    """Fractions, negative and endless numbers are no counts of tokens."""
    with pytest.raises(ValueError, match="is not a count of tokens"):
        count_tokens(text)
