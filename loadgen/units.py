"""Durations, ranges and counts as people write them: 50ms, 25m..35m, 32:96."""

import re
from decimal import Decimal, InvalidOperation
from fractions import Fraction

NS_PER_UNIT = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}
NS_PER_S = NS_PER_UNIT["s"]
PS_PER_NS = 1_000
PS_PER_HOUR = NS_PER_UNIT["h"] * PS_PER_NS
LONGEST_PS = 1_000 * PS_PER_HOUR
"""Of a duration; the time axis in int64 picoseconds ends at 2,562 hours."""
MOST_COUNTED = 100_000_000
SMALLEST, LARGEST = 1e-6, 1e9
BYTES_PER_UNIT = {"B": 1, "MB": 10**6, "GB": 10**9, "TB": 10**12, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
MOST_BYTES = 10**18
_SIZE = re.compile(r"([0-9]*\.?[0-9]+)\s*([A-Za-z]+)")
_DURATION = re.compile(r"([0-9]*\.?[0-9]+)\s*([a-z]+)")


def parse_duration_ps(text: str) -> int:
    """`50ms`, `0.205ms`, `2m`: picoseconds, exact. ValueError without a unit."""
    match = _DURATION.fullmatch(text.strip())
    if match is None or match[2] not in NS_PER_UNIT:
        raise ValueError(f"{text!r} is not a duration: write a number with ns, us, ms, s, m or h, as in 50ms")
    value_ps = round(Fraction(Decimal(match[1])) * NS_PER_UNIT[match[2]] * PS_PER_NS)
    if value_ps > LONGEST_PS:
        raise ValueError(f"{text!r} is too long: at most {LONGEST_PS // PS_PER_HOUR}h")
    return value_ps


def parse_duration_ns(text: str) -> int:
    """Nanoseconds, rounded to the nearest."""
    return round(Fraction(parse_duration_ps(text), PS_PER_NS))


def format_duration_ns(duration_ns: int) -> str:
    """The shortest exact writing that `parse_duration_ns` reads back: 90s, 1500us."""
    for unit in ("h", "m", "s", "ms", "us"):
        if duration_ns and duration_ns % NS_PER_UNIT[unit] == 0:
            return f"{duration_ns // NS_PER_UNIT[unit]}{unit}"
    return f"{duration_ns}ns" if duration_ns else "0s"


def parse_bytes(text: str) -> int:
    """`53GB`, `80GiB`: bytes. ValueError without a unit."""
    match = _SIZE.fullmatch(text.strip())
    if match is None or match[2] not in BYTES_PER_UNIT:
        raise ValueError(f"{text!r} is not a size: write a number with {', '.join(BYTES_PER_UNIT)}, as in 53GB")
    size_bytes = round(Fraction(Decimal(match[1])) * BYTES_PER_UNIT[match[2]])
    if not 1 <= size_bytes <= MOST_BYTES:
        raise ValueError(f"{text!r} must be a size from 1B to {MOST_BYTES // BYTES_PER_UNIT['TB']}TB")
    return size_bytes


def parse_span_ns(text: str) -> tuple[int, int]:
    """`25m..35m`: two durations, the second later."""
    parts = text.split("..")
    if len(parts) != 2:  # noqa: PLR2004 - two ends
        raise ValueError(f"{text!r} is not a window: write two durations, as in 25m..35m")
    begin_ns, end_ns = (0 if part.strip() == "0" else parse_duration_ns(part) for part in parts)
    if begin_ns >= end_ns:
        raise ValueError(f"window {text!r} ends before it begins: write the earlier time first")
    return begin_ns, end_ns


def parse_tokens(text: str) -> tuple[int, int]:
    """`64` or `32:96`: the smallest and the largest length, both included."""
    parts = text.split(":")
    if len(parts) > 2 or not all(part.strip().isdecimal() for part in parts):  # noqa: PLR2004 - two ends
        raise ValueError(f"{text!r} is not a length: write a count of tokens (64) or a range (32:96)")
    low, high = int(parts[0]), int(parts[-1])
    if low < 1 or low > high or high > MOST_COUNTED:
        raise ValueError(f"length {text!r} must begin at 1 or more, not fall, and end at {MOST_COUNTED} at most")
    return low, high


def parse_number(text: str) -> float:
    """A finite number above 0."""
    try:
        value = Decimal(text.strip())
    except InvalidOperation:
        raise ValueError(f"{text!r} is not a number") from None
    if not value.is_finite() or not SMALLEST <= value <= LARGEST:
        raise ValueError(f"{text!r} must be a number from {SMALLEST:g} to {LARGEST:g}")
    return float(value)


def parse_temperature(text: str) -> float:
    """0, or a finite number above."""
    try:
        return 0.0 if text.strip() in ("0", "0.0") else parse_number(text)
    except ValueError:
        raise ValueError(f"{text!r} must be 0, for greedy, or a number up to {LARGEST:g}") from None


def parse_count(text: str) -> int:
    """A whole number from 1."""
    return _parse_from(1, text)


def parse_whole(text: str) -> int:
    """A whole number from 0."""
    return _parse_from(0, text)


def _parse_from(least: int, text: str) -> int:
    if not text.strip().isdecimal() or not least <= int(text) <= MOST_COUNTED:
        raise ValueError(f"{text!r} is not a whole number from {least} to {MOST_COUNTED}")
    return int(text)


def parse_seed(text: str) -> int:
    """A whole number from 0."""
    if not text.strip().isdecimal():
        raise ValueError(f"{text!r} is not a whole number from 0")
    return int(text)
