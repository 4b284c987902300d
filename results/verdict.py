"""The verdict: whether a run may be believed, which of its metrics may not, and what to do about either.

A pure function of the rows and a few facts. To add a rule: one function `(Case) -> Ruling` beside its kin, and one
row in `RULES`. What applies to which kind of run stands in `results.applicability`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from results import client_rules, load_rules, row_rules
from results.applicability import CHARGED, CODES, INVALID, KINDS_OF_RUN, REAL, WITHHELD, Outcome, applies
from results.case import Case, Rule, Ruling, RunFacts, make_case
from results.overload import Load
from results.recording import Recording
from results.thresholds import Thresholds

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


@dataclass(frozen=True, slots=True)
class Judged:
    """A rule, and the kinds of run it can judge so far."""

    rule: Rule
    kinds_of_run: tuple[str, ...] = KINDS_OF_RUN


RULES = {
    "INCOMPLETE_FILE": Judged(row_rules.incomplete_file),
    "SCHEDULE_HASH_MISMATCH": Judged(row_rules.schedule_hash_mismatch),
    "LITTLE_MISMATCH": Judged(row_rules.little_mismatch),
    "SENDS_MISSING": Judged(row_rules.sends_missing),
    "UNFINISHED": Judged(row_rules.unfinished),
    "FAILURES": Judged(row_rules.failures),
    "WRONG_LENGTHS": Judged(row_rules.wrong_lengths),
    "CLIENT_LATE": Judged(client_rules.client_late, (REAL,)),
    "HOST_CONTENTION": Judged(client_rules.host_contention, (REAL, CHARGED)),
    "OVERLOADED": Judged(load_rules.overloaded),
    "N_TOO_SMALL": Judged(load_rules.n_too_small),
    "SUSPECT_TREND": Judged(load_rules.suspect_trend),
    "NON_STATIONARY": Judged(load_rules.non_stationary),
    "CAPPED": Judged(load_rules.capped),
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
        withheld={
            metric: Finding(code, text, ruling.remedy)
            for code, ruling in failed.items()
            if code in WITHHELD
            for metric, text in ruling.withheld.items()
        },
        warnings=tuple(_finding(code, ruling) for code, ruling in warned.items()),
        checks={code: ruling.outcome for code, ruling in rulings.items()},
        load=case.load,
        thresholds=facts.thresholds,
    )


def _ruling(code: str, case: Case) -> Ruling:
    kind = case.facts.kind_of_run
    if not applies(code, kind):
        return Ruling(Outcome.NOT_APPLICABLE)
    judged = RULES.get(code)
    if judged is None or kind not in judged.kinds_of_run:
        return Ruling(Outcome.NOT_YET)
    return judged.rule(case)


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
