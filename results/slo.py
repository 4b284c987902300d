"""Service level objectives: limits that a request meets all of, or misses."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
from numpy.typing import NDArray

LIMITED = ("ttft", "tpot", "e2e", "stall")
_LIMIT = re.compile(r"([a-z0-9]+)<=([0-9]{0,12}\.?[0-9]{1,12})(ns|us|ms|s)")
_NS_PER_UNIT = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9}


@dataclass(frozen=True, slots=True)
class Slo:
    """Upper limits in nanoseconds by metric name; a request attains it when it meets every one."""

    limits_ns: Mapping[str, int]

    def __str__(self) -> str:
        """As it is written on the command line."""
        return ",".join(f"{name}<={_written(limit_ns)}" for name, limit_ns in self.limits_ns.items())

    def attained(self, values_ns: Mapping[str, NDArray[np.float64]]) -> NDArray[np.bool_]:
        """Which requests meet all limits. `values_ns` has +inf where a request failed, NaN where a metric is
        undefined for it: an undefined TPOT or stall (one token) passes."""
        attained: NDArray[np.bool_] = np.ones(len(values_ns["ttft"]), dtype=np.bool_)
        for name, limit_ns in self.limits_ns.items():
            attained &= ~(values_ns[name] > limit_ns)
        return attained


def parse_slo(text: str) -> Slo:
    """`ttft<=1s,tpot<=50ms`. ValueError names what cannot be read."""
    limits_ns = {}
    for part in text.replace(" ", "").split(","):
        match = _LIMIT.fullmatch(part)
        if match is None or match[1] not in LIMITED:
            raise ValueError(f"{part!r} is not a limit: write one of {', '.join(LIMITED)} as in ttft<=1s,tpot<=50ms")
        if match[1] in limits_ns:
            raise ValueError(f"{match[1]} has two limits in {text!r}: keep one")
        limits_ns[match[1]] = round(Decimal(match[2]) * _NS_PER_UNIT[match[3]])
    return Slo(limits_ns)


def _written(limit_ns: int) -> str:
    for unit, ns in reversed(_NS_PER_UNIT.items()):
        if limit_ns % ns == 0:
            return f"{limit_ns // ns}{unit}"
    return f"{limit_ns}ns"
