"""Numbers and times as files write them, to integers, exactly: no float is made on the way.

A float64 of seconds since 1970 has steps of 238 ns, so times are read from their digits.
"""

import re
from collections.abc import Callable
from datetime import date
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, InvalidOperation
from functools import lru_cache

NS_DIGITS = {"ns": 0, "us": 3, "ms": 6, "s": 9}
"""How many decimal places of a unit make a nanosecond."""
TIME_UNITS = (*reversed(NS_DIGITS), "iso")
NAIVE = "naive"
MAX_TOKENS = 10**12
_NS_PER_S = 10**9
_S_PER_DAY = 86_400
_MAX_CHARS = 100
_MAX_EXPONENT = 40
_EXACT = Context(prec=2 * _MAX_CHARS, Emin=MIN_EMIN, Emax=MAX_EMAX)
_PLAIN = re.compile(r"([0-9]+)(?:\.([0-9]*))?")
_ISO = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[ Tt]([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]+))?"
    r"(?:([Zz])|([+-])([0-9]{2}):?([0-9]{2}))?"
)
ReadTime = Callable[[str], tuple[int, str | None]]


def count_tokens(text: str) -> int:
    """A whole number of tokens from 0: `374` or `374.0`. ValueError for everything else."""
    if text.isascii() and text.isdecimal() and len(text) < len(str(MAX_TOKENS)):
        return int(text)
    value = _decimal(text)
    if value is None or value < 0 or value > MAX_TOKENS or value != int(value):
        raise ValueError(f"{_shown(text)} is not a count of tokens")
    return int(value)


def decimal_ns(text: str, unit: str) -> int:
    """A number of a unit from 0, as nanoseconds; what is finer than these is rounded to the nearest, half even.

    ValueError when it is negative, not finite or not a number.
    """
    digits = NS_DIGITS[unit]
    plain = _PLAIN.fullmatch(text)
    if plain is not None and len(text) < _MAX_CHARS:
        fraction = plain[2] or ""
        if len(fraction) <= digits:
            return int(plain[1] + fraction.ljust(digits, "0"))
    value = _decimal(text)
    if value is None or value < 0:
        raise ValueError(f"{_shown(text)} is not a time in {unit} (a finite number from 0)")
    return int(_EXACT.to_integral_value(_EXACT.scaleb(value, digits)))


def iso_ns(text: str) -> tuple[int, str]:
    """`2024-05-12 00:00:00.001163+00:00`: nanoseconds since 1970, and the offset as written or `naive`.

    A time without an offset is taken as UTC, which changes no gap. ValueError for everything else.
    """
    match = _ISO.fullmatch(text)
    if match is None:
        raise ValueError(f"{_shown(text)} is not a date and time such as 2023-11-16 18:15:46.680")
    day, hour, minute, second, fraction, zulu, sign, offset_hours, offset_minutes = match.groups()
    seconds = int(hour) * 3_600 + int(minute) * 60 + int(second)
    if hour > "23" or minute > "59" or second > "59":
        raise ValueError(f"{_shown(text)} is not a time of day")
    ns = (_day_s(day) + seconds) * _NS_PER_S + (_fraction_ns(fraction) if fraction else 0)
    if sign is None:
        return ns, "+00:00" if zulu else NAIVE
    offset_s = int(offset_hours) * 3_600 + int(offset_minutes) * 60
    return ns - int(f"{sign}{offset_s}") * _NS_PER_S, f"{sign}{offset_hours}:{offset_minutes}"


def time_reader(unit: str) -> ReadTime:
    """What reads one text of a unit: nanoseconds, and the offset where there can be one."""
    if unit == "iso":
        return iso_ns
    return lambda text: (decimal_ns(text, unit), None)


def looks_iso(text: str) -> bool:
    """Whether the text is a date and time, which needs no unit to be named."""
    return _ISO.fullmatch(text) is not None


@lru_cache(maxsize=64)
def _day_s(day: str) -> int:
    try:
        return (date.fromisoformat(day).toordinal() - date(1970, 1, 1).toordinal()) * _S_PER_DAY
    except ValueError:
        raise ValueError(f"{day!r} is not a day of the calendar") from None


def _fraction_ns(digits: str) -> int:
    if len(digits) <= NS_DIGITS["s"]:
        return int(digits.ljust(NS_DIGITS["s"], "0"))
    return decimal_ns(f"0.{digits}", "s")


def _decimal(text: str) -> Decimal | None:
    """The number, exactly; None when it is none, is not finite, or is beyond all reason."""
    if len(text) >= _MAX_CHARS or not text.isascii() or "_" in text:
        return None
    try:
        value = Decimal(text)
    except InvalidOperation:
        return None
    if not value.is_finite() or value.adjusted() > _MAX_EXPONENT:
        return None
    return value


def _shown(text: str) -> str:
    return repr(text if len(text) <= _MAX_CHARS else text[:_MAX_CHARS] + "...")
