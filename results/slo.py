"""Service level objectives: limits that a request meets all of, or misses."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
from numpy.typing import NDArray

from results.fluidity import Deadlines

LIMITED = ("ttft", "tpot", "e2e", "stall", "norm")
FLUIDITY = "fluidity"
_TIME = r"([0-9]{0,12}\.?[0-9]{1,12})(ns|us|ms|s)"
_LIMIT = re.compile(rf"([a-z0-9]+)<={_TIME}")
_FLUIDITY = re.compile(rf"fluidity(?:@{_TIME}/{_TIME})?>=([01]?\.?[0-9]{{1,12}})")
_NS_PER_UNIT = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9}


@dataclass(frozen=True, slots=True)
class Slo:
    """Upper limits in nanoseconds by metric name; a request attains it when it meets every one."""

    limits_ns: Mapping[str, int]
    least_fluidity_fraction: float | None = None
    """So much of its deadlines a request meets; None: not asked for."""
    own_deadlines: Deadlines | None = None
    """Those of the fluidity; None: the limits of TTFT and TPOT serve, where both are there."""

    def __str__(self) -> str:
        """As it is written on the command line."""
        parts = [f"{name}<={_written(limit_ns)}" for name, limit_ns in self.limits_ns.items()]
        if self.least_fluidity_fraction is not None:
            own = self.own_deadlines
            at = f"@{_written(own.first_ns)}/{_written(own.further_ns)}" if own else ""
            parts.append(f"{FLUIDITY}{at}>={Decimal(repr(self.least_fluidity_fraction)):f}")
        return ",".join(parts)

    @property
    def deadlines(self) -> Deadlines | None:
        """What fluidity is measured against; None: nobody said."""
        if self.own_deadlines is not None:
            return self.own_deadlines
        first_ns, further_ns = self.limits_ns.get("ttft"), self.limits_ns.get("tpot")
        return Deadlines(first_ns, further_ns) if first_ns is not None and further_ns else None

    @property
    def metrics(self) -> tuple[str, ...]:
        """Names of what has a limit."""
        return (*self.limits_ns, *((FLUIDITY,) if self.least_fluidity_fraction is not None else ()))

    def cut_ratio(self, timeout_ns: int | None, first_timeout_ns: int | None) -> float | None:
        """Of limits after which a request is aborted, whole and before its first token: the smallest one / the limit
        here that it cuts short. None: none does."""
        pairs = [
            (timeout_ns, self.limits_ns.get("e2e")),
            (timeout_ns, self.limits_ns.get("ttft")),
            (first_timeout_ns, self.limits_ns.get("ttft")),
        ]
        return min((cut_ns / limit_ns for cut_ns, limit_ns in pairs if cut_ns is not None and limit_ns), default=None)

    def attained(self, values_ns: Mapping[str, NDArray[np.float64]]) -> NDArray[np.bool_]:
        """Which requests meet all limits. `values_ns` has +inf where a request failed, NaN where a metric is
        undefined for it: an undefined TPOT or stall (one token) passes. Fluidity is a fraction, -inf where failed."""
        attained: NDArray[np.bool_] = np.ones(len(values_ns["ttft"]), dtype=np.bool_)
        for name, limit_ns in self.limits_ns.items():
            attained &= ~(values_ns[name] > limit_ns)
        if self.least_fluidity_fraction is not None:
            attained &= ~(values_ns[FLUIDITY] < self.least_fluidity_fraction)
        return attained


def parse_slo(text: str) -> Slo:
    """`ttft<=1s,tpot<=50ms,fluidity>=0.9`. ValueError names what cannot be read."""
    limits_ns: dict[str, int] = {}
    fluid: list[tuple[float, Deadlines | None]] = []
    for part in text.replace(" ", "").split(","):
        name, read = part.partition("<=")[0], _FLUIDITY.fullmatch(part)
        if name in limits_ns or (read and fluid):
            raise ValueError(f"{FLUIDITY if read else name} has two limits in {text!r}: keep one")
        if read:
            fluid.append(_fluid(part, read))
        else:
            limits_ns[name] = _limit_ns(part)
    slo = Slo(limits_ns, *(fluid[0] if fluid else ()))
    if fluid and slo.deadlines is None:
        raise ValueError(f"{FLUIDITY} in {text!r} needs deadlines: add limits of ttft and tpot, or write "
                         f"{FLUIDITY}@1s/50ms>=0.9, first and further tokens")  # fmt: skip
    return slo


def _limit_ns(part: str) -> int:
    match = _LIMIT.fullmatch(part)
    if match is None or match[1] not in LIMITED:
        names = f"{', '.join(LIMITED)} as in ttft<=1s,tpot<=50ms"
        raise ValueError(f"{part!r} is not a limit: write one of {names}; or {FLUIDITY} as in {FLUIDITY}>=0.9")
    return round(Decimal(match[2]) * _NS_PER_UNIT[match[3]])


def _fluid(part: str, read: "re.Match[str]") -> tuple[float, Deadlines | None]:
    least = float(read[5])
    if not 0 < least <= 1:
        raise ValueError(f"{part!r}: {FLUIDITY} is a share of deadlines, from above 0 to 1")
    if read[1] is None:
        return least, None
    first_ns, further_ns = (round(Decimal(read[at]) * _NS_PER_UNIT[read[at + 1]]) for at in (1, 3))
    if not further_ns:
        raise ValueError(f"{part!r}: the deadline of further tokens is 0, write at least 1ns")
    return least, Deadlines(first_ns, further_ns)


def _written(limit_ns: int) -> str:
    for unit, ns in reversed(_NS_PER_UNIT.items()):
        if limit_ns % ns == 0:
            return f"{limit_ns // ns}{unit}"
    return f"{limit_ns}ns"
