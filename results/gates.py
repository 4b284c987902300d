"""Gates: what fails a run, a sweep or a comparison, as written on the command line.

`ttft_p99>500ms` and `attainment<99%` are absolute; `ttft_p99>+10%` is relative to a baseline: the sign makes it
so. Gates fail closed: a figure that is withheld or missing, and a difference that the runs cannot resolve, do not
pass. A gate names what must not be.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from results.figures import FIGURES, FRACTION, MS, read, shown
from results.intervals import LEAST_RUNS, student_t
from results.paired import runs_needed

Json = dict[str, Any]
LEAST_REQUESTS = 100
TOO_FEW_REQUESTS = "TOO_FEW_REQUESTS"
_GATE = re.compile(r"([a-z][a-z0-9_]*)(<=|>=|<|>)([+-]?)([0-9]{0,12}\.?[0-9]{1,12})([%a-z/]*)")
_MS_PER_UNIT = {"ns": 1e-6, "us": 1e-3, "ms": 1.0, "s": 1e3}
_PER_S = ("", "/s", "rps", "req/s", "tok/s")
PERCENT = 100.0
TIE = 1e-9
"""Below it a value is at the limit, whichever side rounding put it on."""


@dataclass(frozen=True, slots=True)
class Gate:
    """One condition under which a command fails."""

    text: str
    figure: str
    """A name in `results.figures.FIGURES`."""
    above: bool
    """Whether it is missed above the limit, or below it."""
    inclusive: bool
    """Whether the limit itself misses it."""
    limit: float
    """In the figure's unit; of a relative gate a ratio less 1, 0.1 for +10%."""
    relative: bool

    def missed_at(self, value: float, limit: float) -> bool:
        """Whether a value of that unit fails."""
        if math.isclose(value, limit, rel_tol=TIE, abs_tol=TIE):
            return self.inclusive
        return value > limit if self.above else value < limit


@dataclass(frozen=True, slots=True)
class GateResult:
    """What became of a gate."""

    gate: Gate
    passed: bool
    text: str
    """With the numbers, in one line."""
    value: float | None = None
    """In the figure's unit; of a relative gate the ratio."""
    needed: int | None = None
    """Runs (pairs) that would resolve it, as far as that can be told."""

    def to_json(self) -> Json:
        """By name."""
        told = {"gate": self.gate.text, "passed": self.passed, "text": self.text, "value": self.value}
        return {**told, "needed": self.needed} if self.needed is not None else told


def parse_gates(text: str) -> tuple[Gate, ...]:
    """`ttft_p99>500ms,attainment<99%`. ValueError names the part that cannot be read, and how to write it."""
    return tuple(parse_gate(part) for part in text.split(","))


def parse_gate(text: str) -> Gate:
    """One of them."""
    bare = text.replace(" ", "")
    match = _GATE.fullmatch(bare)
    if match is None:
        raise ValueError(f"{text.strip()!r} is not a gate: write what must not be, as in ttft_p99>500ms or e2e_p50>+5%")
    name, comparison, sign, number, unit = match.groups()
    if name not in FIGURES:
        raise ValueError(f"gate {bare!r}: no figure {name!r}: known are {', '.join(FIGURES)}")
    limit = float(number) / PERCENT if sign else _absolute(bare, name, float(number), unit)
    if sign and unit != "%":
        raise ValueError(f"gate {bare!r}: a change against the baseline is written in percent, as in {name}>+10%")
    limit = -limit if sign == "-" else limit
    if sign and limit <= -1:
        raise ValueError(f"gate {bare!r}: nothing falls by 100 % or more: write a smaller change")
    return Gate(bare, name, comparison[0] == ">", comparison.endswith("="), limit, bool(sign))


def judge_absolute(gate: Gate, summaries: Sequence[Mapping[str, Any]]) -> GateResult:
    """Against the mean over the runs: what one run of this length gives on average."""
    fewest = min((_scheduled(summary) for summary in summaries), default=0)
    if fewest < LEAST_REQUESTS:
        return GateResult(gate, False, f"{TOO_FEW_REQUESTS}: {fewest} requests, a gate needs {LEAST_REQUESTS}")
    found = [read(summary, gate.figure) for summary in summaries]
    for _, reason in found:
        if reason is not None:
            return GateResult(gate, False, f"{FIGURES[gate.figure].title} is not known: {reason}")
    value = float(np.mean([value for value, _ in found]))
    passed = not gate.missed_at(value, gate.limit)
    over = f", mean of {len(found)} runs" if len(found) > 1 else ""
    return GateResult(gate, passed, f"{FIGURES[gate.figure].title} is {shown(gate.figure, value)}{over}", value)


def judge_relative(gate: Gate, log_ratios: Sequence[float] | None, reason: str = "") -> GateResult:
    """Passed once the 95 % bound of the ratio lies on the right side of the limit; what cannot tell, fails.

    `log_ratios`: ln(new / baseline), one a pair of runs on the same schedule; None with the reason.
    """
    title = FIGURES[gate.figure].title
    if log_ratios is None:
        return GateResult(gate, False, f"{title} has no ratio: {reason}")
    values, limit = np.array(log_ratios, dtype=np.float64), math.log1p(gate.limit)
    ratio = math.exp(float(values.mean())) if len(values) else None
    if len(values) < LEAST_RUNS:
        text = f"{title}: {len(values)} pair(s) of runs cannot resolve a change; at least {LEAST_RUNS} are needed"
        return GateResult(gate, False, text, ratio, LEAST_RUNS)
    centre, spread = float(values.mean()), float(values.std(ddof=1))
    half = student_t(0.95, len(values) - 1) * spread / math.sqrt(len(values))
    far = centre + half if gate.above else centre - half
    near = centre - half if gate.above else centre + half
    told = f"{title} changed by {_percent(centre)} ({_percent(centre - half)} to {_percent(centre + half)})"
    if not gate.missed_at(far, limit):
        return GateResult(gate, True, told, ratio)
    if gate.missed_at(near, limit):
        return GateResult(gate, False, told, ratio)
    needed = runs_needed(limit - centre, spread, sides=1)
    more = f"about {needed} pairs of runs would" if needed else "no number of runs would: it lies at the limit"
    return GateResult(gate, False, f"{told}: {len(values)} pairs do not resolve it, {more}", ratio, needed)


def refuse_relative(gates: Sequence[Gate]) -> None:
    """ValueError in one line for a gate that needs a baseline where there is none."""
    for gate in gates:
        if gate.relative:
            raise ValueError(f"gate {gate.text!r} is a change against a baseline: use tokenload compare or ab")


def judge_places(gates: Sequence[Gate], places: Mapping[str, Sequence[tuple[Json, Json]]]) -> list[Json]:
    """Absolute gates at each place, a name -> (summary, verdict) of its repeats; an INVALID run passes none."""
    return [
        {**_judge_believable(gate, runs).to_json(), "at": place} for place, runs in places.items() for gate in gates
    ]


def gate_line(told: Mapping[str, Any]) -> str:
    """`passed` or `MISSED`, the gate, where, and why."""
    where = f" ({told['at']})" if told.get("at") else ""
    return f"{'passed' if told['passed'] else 'MISSED'}: {told['gate']}{where}: {told['text']}"


def _judge_believable(gate: Gate, runs: Sequence[tuple[Json, Json]]) -> GateResult:
    for _, verdict in runs:
        if not verdict["valid"]:
            return GateResult(gate, False, f"INVALID: {', '.join(str(one['code']) for one in verdict['invalid'])}")
    return judge_absolute(gate, [summary for summary, _ in runs])


def _absolute(text: str, name: str, value: float, unit: str) -> float:
    """In the unit that the summary has."""
    kind = FIGURES[name].unit
    if kind == MS and unit in _MS_PER_UNIT:
        return value * _MS_PER_UNIT[unit]
    if kind == FRACTION and unit == "%":
        return value / PERCENT
    if kind not in (MS, FRACTION) and unit in _PER_S:
        return value
    if unit == "%":
        raise ValueError(f"gate {text!r}: {name} is no share: write +{value:g}% for a change against the baseline")
    example = {MS: "500ms", FRACTION: "99%"}.get(kind, "12.5")
    raise ValueError(f"gate {text!r}: {name} cannot be in {unit or 'a bare number'!r}: write it as {example}")


def _scheduled(summary: Mapping[str, Any]) -> int:
    counts = summary.get("requests")
    return int(counts.get("scheduled") or 0) if isinstance(counts, Mapping) else 0


def _percent(value: float) -> str:  # a log ratio
    return f"{PERCENT * math.expm1(value):+.2f} %"
