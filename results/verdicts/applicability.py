"""Which verdict code can be raised where: the one list of codes, and the table code x kind of run.

A run is of one kind: a stepping engine in real, charged or modelled time, or a server behind HTTP. A code that
does not apply there says so; one that does, and that no rule judges yet, says that: nothing passes in silence.
"""

from enum import StrEnum

REAL, CHARGED, MODELLED, HTTP = "real", "charged", "modelled", "http"
KINDS_OF_RUN = (REAL, CHARGED, MODELLED, HTTP)


class Outcome(StrEnum):
    """What became of one check."""

    PASSED = "passed"
    FAILED = "failed"
    WARNED = "warned"
    NOT_APPLICABLE = "does not apply"
    TOO_LITTLE = "too little to judge"
    """The rule exists and applies, but these rows do not carry a judgement."""
    NOT_YET = "not judged yet"
    """No rule exists yet."""


_ALL = frozenset(KINDS_OF_RUN)
_MEASURED = _ALL - {MODELLED}
_LIVE = frozenset((REAL, HTTP))
"""Somebody waits on the wall clock for the moment to send."""
_SERVED = frozenset((HTTP,))
_NOWHERE: frozenset[str] = frozenset()

INVALID = {
    "SENDS_MISSING": _ALL,
    "CLIENT_LATE": _LIVE,
    "SCHEDULE_DRIFT": _LIVE,
    "CLIENT_SATURATED": _LIVE,
    "CLOCK_SKEW": _LIVE,
    "TOO_FEW_REQUESTS": _NOWHERE,  # for gates, capacity, ab and reproduce alone: they judge it
    "FAILURES": _ALL,
    "UNFINISHED": _ALL,
    "WRONG_LENGTHS": _ALL,
    "INCOMPLETE_FILE": _ALL,
    "LITTLE_MISMATCH": _ALL,
    "SCHEDULE_HASH_MISMATCH": _ALL,
    "HOST_CONTENTION": _MEASURED,
    "WARMUP_LEAK": _MEASURED,
    "RATE_LIMITED": _SERVED,
    "AUTH_EXPIRED": _SERVED,
    "PORTS_EXHAUSTED": _SERVED,
}
"""The run is not to be believed. Code -> the kinds of run it applies to."""

WITHHELD = {
    "OVERLOADED": _ALL,
    "NOT_STREAMING": _SERVED,
    "BUFFERED": _SERVED,
    "CHUNKED": _SERVED,
    "N_TOO_SMALL": _ALL,
    "NO_CI": _ALL,
    "NOT_OBSERVABLE": _ALL,
}
"""The run stands, a metric of it does not."""

WARN = {
    "SUSPECT_TREND": _ALL,
    "NON_STATIONARY": _ALL,
    "WARMUP_NOT_CONVERGED": _MEASURED,
    "UNSTABLE": _ALL,
    "AUTOCORRELATED": _ALL,
    "TOKEN_COUNT_MISMATCH": _SERVED,
    "HIDDEN_TOKENS": _SERVED,
    "SPECULATION_ON_RANDOM_TEXT": _SERVED,
    "CLOCK_UNCERTAIN": _LIVE,  # of workers on other hosts
    "CACHE_UNEXPECTED": _SERVED,  # engines in this process tell of no cache
    "DIRTY_TREE": _ALL,
    "GOVERNOR": _MEASURED,
    "THROTTLED": _MEASURED,
    "CONTENDED_HOST": _MEASURED,
    "BURSTED": _LIVE,
    "CAPPED": _ALL,
}
"""Read this before you use the figures."""

APPLIES = {**INVALID, **WITHHELD, **WARN}
CODES = tuple(APPLIES)


def applies(code: str, kind_of_run: str) -> bool:
    """Whether the code can be raised for such a run."""
    return kind_of_run in APPLIES[code]
