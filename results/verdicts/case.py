"""What a verdict is made from: the recording, the facts around it, and what a rule answers."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from results.columns import NULL, int64, is_null
from results.recording import Recording
from results.schedule import MEASURE
from results.status import Status
from results.store import INCOMPLETE
from results.verdicts.applicability import HTTP, Outcome
from results.verdicts.overload import Load, judge_load
from results.verdicts.run_facts import RunFacts
from results.verdicts.thresholds import Thresholds

Mask = NDArray[np.bool_]
BURST, CLOSED, CHANGING, ONE_RATE = "burst", "closed", "changing", "one rate"
__all__ = ["Case", "Rule", "Ruling", "RunFacts", "make_case"]


@dataclass(frozen=True, slots=True)
class Ruling:
    """What a rule says: in plain words, with the numbers, and what to do about it."""

    outcome: Outcome
    text: str = ""
    remedy: str = ""
    withheld: Mapping[str, str] = field(default_factory=dict)
    """Metric (`ttft_ms`) or quantile (`ttft_ms.p99`) -> why it is withheld."""


PASSED = Ruling(Outcome.PASSED)
NOT_APPLICABLE = Ruling(Outcome.NOT_APPLICABLE)
TOO_LITTLE = Ruling(Outcome.TOO_LITTLE)


@dataclass(frozen=True, slots=True)
class Case:
    """A run before its rules."""

    recording: Recording
    facts: RunFacts
    stop_ns: int | None
    """Until when requests were handed over, where that was cut short; None: to the end."""
    expected: Mask
    """Which scheduled requests should have been sent: all of them, or those up to the stop."""
    load: Load

    @property
    def counted(self) -> Mask:
        """The measured ones among the expected."""
        return np.asarray(self.expected & (self.recording.requests["phase"] == MEASURE))

    @property
    def thresholds(self) -> Thresholds:
        """Where the lines are."""
        return self.facts.thresholds

    @property
    def incomplete(self) -> bool:
        """Whether the process died before the run ended."""
        return self.facts.label == INCOMPLETE

    @property
    def over_wire(self) -> bool:
        """Whether a server was under load."""
        return self.facts.kind_of_run == HTTP

    @property
    def mode(self) -> str:
        """How the schedule offers its load: a burst, a closed loop, at a changing rate, or at one rate."""
        schedule = self.recording.schedule
        makespan = schedule.origin.get("window", {}).get("kind") == "makespan"
        if schedule.origin.get("process") == "closed" or (makespan and len(schedule.after_ids)):
            return CLOSED
        if makespan:
            return BURST
        return ONE_RATE if schedule.origin.get("stationary") else CHANGING


Rule = Callable[[Case], Ruling]


def make_case(recording: Recording, facts: RunFacts) -> Case:
    """A run that says it came to its end must have sent everything, whatever its rows say of a stop."""
    requests = recording.requests
    stop_ns = _stop_ns(recording) if facts.label is not None else None
    expected = np.ones(len(recording.schedule), dtype=np.bool_)
    if stop_ns is not None:
        due = int64(requests["due_ns"])
        after_stop = (due == NULL) | (due > stop_ns)
        expected = ~(after_stop & (requests["status"] == Status.NOT_DISPATCHED))
    return Case(recording, facts, stop_ns, np.asarray(expected), judge_load(recording, facts.thresholds, stop_ns))


def _stop_ns(recording: Recording) -> int:
    """As recorded, else the last hand-over: everything due by then was to be sent, nothing after it."""
    if recording.stopped_ns is not None:
        return recording.stopped_ns
    handed = int64(recording.requests["handed_ns"])
    return int(handed[~is_null(handed)].max(initial=0))
