"""The verdict: whether a run may be believed, which of its metrics may not, and what to do about either.

A pure function of the rows and a few facts. To add a rule: one function `(Case) -> Ruling` beside its kin, and one
row in `RULES`. What applies to which kind of run stands in `results.verdicts.applicability`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from results.recording import Recording
from results.verdicts import (
    client_rules,
    host_rules,
    load_rules,
    repeat_rules,
    row_rules,
    sending_rules,
    server_rules,
    stream_rules,
)
from results.verdicts.applicability import CODES, INVALID, KINDS_OF_RUN, WITHHELD, Outcome, applies
from results.verdicts.case import Case, Rule, Ruling, RunFacts, make_case
from results.verdicts.overload import Load
from results.verdicts.thresholds import Thresholds

__all__ = ["Finding", "RunFacts", "Verdict", "judge"]

EXPLORATORY, STANDARD, PUBLISHABLE = "EXPLORATORY", "STANDARD", "PUBLISHABLE"
SUFFICES_FOR = {
    EXPLORATORY: "enough for a look",
    STANDARD: "enough for a CI gate",
    PUBLISHABLE: "enough to be published",
}
NO_USE = "enough for nothing before what is INVALID has been mended"
OF_THE_HOST = ("HOST_CONTENTION", "CONTENDED_HOST", "GOVERNOR", "THROTTLED")
"""Warnings that stand against publishing."""
Json = dict[str, Any]


RULES: dict[str, Rule] = {
    "INCOMPLETE_FILE": row_rules.incomplete_file,
    "SCHEDULE_HASH_MISMATCH": row_rules.schedule_hash_mismatch,
    "LITTLE_MISMATCH": row_rules.little_mismatch,
    "SENDS_MISSING": row_rules.sends_missing,
    "UNFINISHED": row_rules.unfinished,
    "FAILURES": row_rules.failures,
    "RATE_LIMITED": server_rules.rate_limited,
    "AUTH_EXPIRED": server_rules.auth_expired,
    "PORTS_EXHAUSTED": sending_rules.ports_exhausted,
    "WRONG_LENGTHS": row_rules.wrong_lengths,
    "WARMUP_LEAK": repeat_rules.warmup_leak,
    "CLOCK_SKEW": host_rules.clock_skew,
    "CLIENT_LATE": client_rules.client_late,
    "SCHEDULE_DRIFT": sending_rules.schedule_drift,
    "CLIENT_SATURATED": sending_rules.client_saturated,
    "HOST_CONTENTION": client_rules.host_contention,
    "OVERLOADED": load_rules.overloaded,
    "NOT_STREAMING": stream_rules.not_streaming,
    "BUFFERED": stream_rules.buffered,
    "CHUNKED": stream_rules.chunked,
    "N_TOO_SMALL": load_rules.n_too_small,
    "NO_CI": repeat_rules.no_ci,
    "NOT_OBSERVABLE": server_rules.not_observable,
    "SUSPECT_TREND": load_rules.suspect_trend,
    "NON_STATIONARY": load_rules.non_stationary,
    "CAPPED": load_rules.capped,
    "BURSTED": sending_rules.bursted,
    "AUTOCORRELATED": load_rules.autocorrelated,
    "UNSTABLE": repeat_rules.unstable,
    "WARMUP_NOT_CONVERGED": repeat_rules.warmup_not_converged,
    "CLOCK_UNCERTAIN": host_rules.clock_uncertain,
    "TOKEN_COUNT_MISMATCH": stream_rules.token_count_mismatch,
    "HIDDEN_TOKENS": stream_rules.hidden_reasoning,
    "SPECULATION_ON_RANDOM_TEXT": server_rules.speculation_on_random_text,
    "CACHE_UNEXPECTED": server_rules.cache_unexpected,
    "DIRTY_TREE": host_rules.dirty_tree,
    "GOVERNOR": host_rules.governor,
    "THROTTLED": host_rules.throttled,
    "CONTENDED_HOST": host_rules.contended_host,
}
"""Code -> rule, in the order in which people should read what they find."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was found."""

    code: str
    text: str
    """What was seen, with its numbers."""
    remedy: str
    """What to do about it."""

    def to_json(self) -> dict[str, str]:
        """By name."""
        return {"code": self.code, "text": self.text, "remedy": self.remedy}


@dataclass(frozen=True, slots=True)
class Verdict:
    """What may be believed of a run."""

    label: str
    """EXPLORATORY, STANDARD or PUBLISHABLE: what its size suffices for."""
    invalid: tuple[Finding, ...]
    withheld: Mapping[str, Finding]
    """Metric of the summary (`ttft_ms`) or one quantile of it (`ttft_ms.p99`) -> why it is not given."""
    warnings: tuple[Finding, ...]
    checks: Mapping[str, Outcome]
    """Every code there is -> what became of it."""
    load: Load
    thresholds: Thresholds = field(default_factory=Thresholds)

    @property
    def valid(self) -> bool:
        """Whether nothing makes the run unbelievable."""
        return not self.invalid

    @property
    def suffices_for(self) -> str:
        """In words."""
        return SUFFICES_FOR[self.label] if self.valid else NO_USE

    def to_json(self) -> Json:
        """One document: no NaN, no infinity, codes from the one list."""
        return {
            "valid": self.valid,
            "label": self.label,
            "suffices_for": self.suffices_for,
            "invalid": [finding.to_json() for finding in self.invalid],
            "withheld": {name: {"code": why.code, "text": why.text} for name, why in self.withheld.items()},
            "warnings": [finding.to_json() for finding in self.warnings],
            "checks": {code: str(outcome) for code, outcome in self.checks.items()},
            "load": self.load.to_json(),
            "thresholds": self.thresholds.to_json(),
        }


def judge(recording: Recording, facts: RunFacts) -> Verdict:
    """Apply every rule that applies. ValueError for a kind of run that does not exist.

    The same rows and facts give the same verdict.
    """
    if facts.kind_of_run not in KINDS_OF_RUN:
        raise ValueError(f"no clock or target {facts.kind_of_run!r}: known are {', '.join(KINDS_OF_RUN)}")
    case = make_case(recording, facts)
    rulings = {code: _ruling(code, case) for code in (*RULES, *(code for code in CODES if code not in RULES))}
    failed = {code: ruling for code, ruling in rulings.items() if ruling.outcome is Outcome.FAILED}
    warned = {code: ruling for code, ruling in rulings.items() if ruling.outcome is Outcome.WARNED}
    return Verdict(
        label=_label(case, warned),
        invalid=tuple(_finding(code, ruling) for code, ruling in failed.items() if code in INVALID),
        withheld=_withheld({code: ruling for code, ruling in failed.items() if code in WITHHELD}),
        warnings=tuple(_finding(code, ruling) for code, ruling in warned.items()),
        checks={code: ruling.outcome for code, ruling in rulings.items()},
        load=case.load,
        thresholds=facts.thresholds,
    )


def _ruling(code: str, case: Case) -> Ruling:
    kind = case.facts.kind_of_run
    if not applies(code, kind):
        return Ruling(Outcome.NOT_APPLICABLE)
    rule = RULES.get(code)
    return rule(case) if rule is not None else Ruling(Outcome.NOT_YET)


def _withheld(rulings: Mapping[str, Ruling]) -> dict[str, Finding]:
    """Of several reasons to withhold a metric the first one counts."""
    found: dict[str, Finding] = {}
    for code, ruling in rulings.items():
        for metric, text in ruling.withheld.items():
            found.setdefault(metric, Finding(code, text, ruling.remedy))
    return found


def _finding(code: str, ruling: Ruling) -> Finding:
    return Finding(code, ruling.text, ruling.remedy)


def _label(case: Case, warned: Mapping[str, Ruling]) -> str:
    """By measured requests and independent runs; to be published, also by what surrounds them."""
    lines, facts = case.thresholds, case.facts
    requests = int(case.counted.sum())
    if requests < lines.standard_requests or facts.repeats < lines.repeats:
        return EXPLORATORY
    quiet = not any(code in warned for code in OF_THE_HOST)
    if requests >= lines.publishable_requests and facts.clean_tree and facts.calibrated and quiet:
        return PUBLISHABLE
    return STANDARD
