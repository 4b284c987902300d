"""What the rows do not say about their run: told by the driver, the stamp and the calibration.

Everything but clock and schedule may be left untold, and a rule that needs it then says that it could not judge.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from results.verdicts.applicability import HTTP
from results.verdicts.thresholds import Thresholds

COLD, PRIMED, AS_IS = "cold", "primed", "as-is"
CACHE_STATES = (COLD, PRIMED, AS_IS)
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class RunFacts:
    """What the rows do not say about their run. None: nobody told."""

    clock: str
    """real, charged or modelled."""
    schedule_sha256: str
    """Of the schedule that was fixed before the run."""
    target: str = "engine"
    """engine (stepping, in this process) or http."""
    label: str | None = None
    """STOPPED or INCOMPLETE, as the run's folder says; None: it came to its end."""
    repeats: int = 1
    """Independent runs that this one is one of."""
    clean_tree: bool = False
    """The program ran from a commit without changes."""
    calibrated: bool = False
    """The client was measured against a target that does nothing."""
    thresholds: Thresholds = field(default_factory=Thresholds)
    ceiling_eps: float | None = None
    """Events a second that this client carried when it was calibrated."""
    cap_requests: int | None = None
    """At most so many in flight, by the user's wish (--max-concurrency)."""
    timeout_slo_ratio: float | None = None
    """Of the limits on a request's time that cut into the SLO: the smallest limit / limit of the SLO."""
    wall_over_monotonic_ratio: float | None = None
    """Time that passed on the wall clock / on the monotonic one, from start to end."""
    clock_uncertainty_ns: int | None = None
    """How far the clock of a worker may be off the master's, at most; 0 where there is one clock."""
    dirty_tree: bool | None = None
    """The program ran from a checkout with changes."""
    governors: tuple[str, ...] | None = None
    """How the kernel chooses the clock frequencies."""
    throttled_fraction: float | None = None
    """Of the run's time, held back by a control group."""
    pressure_fraction: float | None = None
    """Of the run's time, some task of the machine waited for a CPU."""
    steal_fraction: float | None = None
    """Of the CPUs' time, given to others by the hypervisor."""
    left_in_flight_requests: int | None = None
    """Still in the target when time 0 came, from the warm-up."""
    warmup_converged: bool | None = None
    """The warm-up's last service times agreed with those before them."""
    run_cv_ratio: float | None = None
    """Largest variation of a headline figure over the repeats: standard deviation / mean."""
    cache_state: str | None = None
    """cold, primed or as-is, as declared."""
    expected_hit_fraction: float | None = None
    """Share of prompt tokens that a primed cache should give."""
    synthetic_prompts: bool | None = None
    """Prompts are random text."""
    speculated: bool | None = None
    """The server's counters of drafted tokens moved."""
    slots_observed: bool | None = None
    """The server told what its slots did."""

    @property
    def kind_of_run(self) -> str:
        """Its column in the table of applicability."""
        return HTTP if self.target == HTTP else self.clock


STATED = tuple(
    row.name
    for row in fields(RunFacts)
    if row.default is None and row.name not in ("label", "clock_uncertainty_ns")
)  # fmt: skip
"""The facts that stand under `facts` in run.json."""
_OF_STAMP = {
    "wall_over_monotonic_ratio": ("during", "wall_over_monotonic_ratio"),
    "throttled_fraction": ("during", "throttled_fraction"),
    "pressure_fraction": ("during", "psi_cpu_some_fraction"),
    "steal_fraction": ("during", "steal_fraction"),
    "governors": ("hardware", "governor"),
}


def stamp_facts(document: Mapping[str, Any]) -> Json:
    """What a finished stamp says, for `facts` of run.json; only what it knows."""
    groups = document.get("groups", {})
    found = {name: groups.get(group, {}).get("fields", {}).get(key) for name, (group, key) in _OF_STAMP.items()}
    git = groups.get("identity", {}).get("fields", {}).get("git")
    found["dirty_tree"] = git.get("dirty") if isinstance(git, Mapping) else None
    return {name: value for name, value in found.items() if value is not None}


def clock_uncertainty_ns(workers: Any) -> int | None:
    """Of the worst of the workers that run.json tells of, what it has drifted since included; 0: there are none.

    None where one of them was never asked for its time, or what is told of it cannot be read.
    """
    worst_ns = 0
    for worker in workers or ():
        clock = worker.get("clock") if isinstance(worker, Mapping) else None
        told = clock if isinstance(clock, Mapping) else {}
        off_ns, drift_ns = told.get("uncertainty_ns"), told.get("drift_ns", 0)
        if not isinstance(off_ns, int) or not isinstance(drift_ns, int):
            return None
        worst_ns = max(worst_ns, off_ns + abs(drift_ns))
    return worst_ns


def facts_of(info: Mapping[str, Any], label: str | None, repeats: int | None = None) -> RunFacts:
    """What a run's run.json says beyond its rows. `repeats`: where it is known better than there.

    `facts` there holds STATED by name, `thresholds` those that were drawn elsewhere; what else it holds is left alone.
    TypeError or ValueError for a fact of
    another kind than it should be.
    """
    stated = {name: value for name, value in (info.get("facts") or {}).items() if name in STATED and value is not None}
    if "governors" in stated:
        told = stated["governors"]
        stated["governors"] = (told,) if isinstance(told, str) else tuple(str(one) for one in told)
    return RunFacts(
        clock=str(info["clock"]),
        schedule_sha256=str(info["schedule_sha256"]),
        target=str(info.get("target", "engine")),
        label=label,
        repeats=repeats if repeats is not None else int(info.get("repeats", 1)),
        clean_tree=bool(info.get("clean_tree", False)),
        thresholds=Thresholds().override(info.get("thresholds") or {}),
        calibrated="ceiling_eps" in stated,
        clock_uncertainty_ns=clock_uncertainty_ns(info.get("workers")),
        **stated,
    )
