"""The verdict: every code fires on a run with its fault, a clean run passes, and nothing passes in silence."""

import json
import time
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.cost import DurationPs, HashExecutor, LinearCost
from engines.engine import Step, StepOutput
from engines.policies import continuous
from engines.slots import SlotEngine
from loadgen.arrivals import due_times_ns
from loadgen.clock import ModelledClock
from loadgen.drive import Decision, play_engine
from results import summary
from results.columns import NULL, int64
from results.recording import PART_TABLES, Recording, RecordingPart, merge
from results.schedule import Schedule, make_schedule
from results.status import NAMES, Status
from results.store import RunFolder, load_run
from results.verdicts import client_waits
from results.verdicts.applicability import CODES, INVALID, KINDS_OF_RUN, WARN, WITHHELD, Outcome, applies
from results.verdicts.samples import QUANTILES, sample_counts
from results.verdicts.thresholds import Thresholds
from results.verdicts.verdict import RULES, RunFacts, Verdict, judge
from tests.results.streams import Stream, streamed

MS, S = 1_000_000, 1_000_000_000
STEADY = {"process": "poisson", "stationary": True, "window": {"kind": "schedule"}}
BURST = {"process": "burst", "stationary": False, "window": {"kind": "makespan"}, "label": "burst"}
SPECIFIED = {
    "INVALID": "SENDS_MISSING CLIENT_LATE SCHEDULE_DRIFT CLIENT_SATURATED CLOCK_SKEW TOO_FEW_REQUESTS FAILURES "
    "UNFINISHED WRONG_LENGTHS INCOMPLETE_FILE LITTLE_MISMATCH SCHEDULE_HASH_MISMATCH HOST_CONTENTION WARMUP_LEAK "
    "RATE_LIMITED AUTH_EXPIRED PORTS_EXHAUSTED",
    "WITHHELD": "OVERLOADED NOT_STREAMING BUFFERED CHUNKED N_TOO_SMALL NO_CI NOT_OBSERVABLE",
    "WARN": "SUSPECT_TREND NON_STATIONARY WARMUP_NOT_CONVERGED UNSTABLE AUTOCORRELATED TOKEN_COUNT_MISMATCH "
    "HIDDEN_TOKENS SPECULATION_ON_RANDOM_TEXT CLOCK_UNCERTAIN CACHE_UNEXPECTED DIRTY_TREE GOVERNOR THROTTLED "
    "CONTENDED_HOST BURSTED CAPPED",
}


class Steering:
    """A control with limits that says go, and from a run time on something else."""

    def __init__(self, then=Decision.GO, at_ns=0, timeout_ns=None, drain_ns=None):
        self.timeout_ns, self.drain_ns = timeout_ns, drain_ns
        self.then, self.at_ns = then, at_ns

    def __call__(self, now_ns, newest):
        return self.then if now_ns >= self.at_ns else Decision.GO


class Wall:
    """Wall time without waiting for it: steps take their modelled cost, a wait ends `oversleep_ns` too late.

    `wall_ratio`: wall time of a step / what is charged for it. `stutter`: (step, ns) of a pause after it.
    `rest`: (from when, s) of real sleep in one step, so that the driver looks around afterwards: it asks its
    control at most ten times a second.
    """

    name, unit, steps_per_poll = "real", "ns", 1

    def __init__(self, oversleep_ns=0, wall_ratio=1.0, stutter=(-1, 0), rest=(2**62, 0.0)):
        self.t = self.step_start = self.step_end = self.step_wall_ns = self.steps = 0
        self.oversleep_ns, self.wall_ratio, self.stutter, self.rest = oversleep_ns, wall_ratio, stutter, rest

    def now_ns(self):
        return self.t

    def wait_until(self, t_ns):
        if t_ns > self.t:
            self.t = t_ns + self.oversleep_ns

    def bill(self, engine):
        self.step_start = self.t
        step = engine.step(self.t)
        cost_ns = step.modelled_cost_ps // 1000
        self.t = self.step_end = self.t + cost_ns
        self.step_wall_ns = round(cost_ns * self.wall_ratio)
        if self.steps == self.stutter[0]:
            self.t += self.stutter[1]
        if self.t >= self.rest[0]:
            time.sleep(self.rest[1])
            self.rest = (2**62, 0.0)
        self.steps += 1
        return step


class Clerk:
    """An engine that answers one request a step, loses some, and gives others too few tokens."""

    def __init__(self, loses=(), shortens=(), empties=()):
        self.loses, self.shortens, self.empties, self.waiting = set(loses), set(shortens), set(empties), []

    def describe(self):
        return {"slots": 1, "reads_prompts": False, "computes_tokens": False}

    def add_request(self, request):
        if request.request_id not in self.loses:
            self.waiting.append(request)

    def has_work(self):
        return bool(self.waiting)

    def ready_ns(self, now_ns):
        return now_ns if self.waiting else None

    def flush(self):
        pass

    def abort(self, request_id):
        self.waiting = [request for request in self.waiting if request.request_id != request_id]

    def step(self, now_ns):
        request = self.waiting.pop(0)
        tokens = request.params.max_tokens - (request.request_id in self.shortens)
        tokens = 0 if request.request_id in self.empties else tokens
        return Step([StepOutput(request.request_id, (0,) * tokens, True, "length")],
                    ended=(request.request_id,), modelled_cost_ps=1000 * MS)  # fmt: skip


def workload(
    requests=1200, rate=80.0, seed=3, outputs=(4, 12), origin=STEADY, recipe=None, process="poisson"
) -> Schedule:
    """Arrivals for an engine of 4 slots that gives each a token every millisecond or so."""
    lengths = np.random.default_rng(seed).integers(*outputs, requests, endpoint=True)
    due = due_times_ns(process, requests, rate, seed)
    return make_schedule(due, np.full(requests, 8), lengths, origin=origin, recipe=recipe)


def closed_loop(requests=40, users=4) -> Schedule:
    """Each user sends when the last answer is there."""
    first = [request < users for request in range(requests)]
    return make_schedule(
        [0 if now else NULL for now in first],
        [8] * requests,
        [5] * requests,
        after=[[] if now else [at - users] for at, now in enumerate(first)],
        think_ns=[NULL if now else MS for now in first],
        origin={"process": "closed", "stationary": False, "window": {"kind": "makespan"}, "label": "closed loop of 4"},
    )


def slots(cost_ms=1.0) -> SlotEngine:
    """Four slots, one step a millisecond."""
    step = DurationPs(round(cost_ms * 1000 * MS))
    return SlotEngine(continuous(4), HashExecutor(), LinearCost(step, DurationPs(0), step, DurationPs(0)))


def host(waited_ns=0, span_ns=10 * S, samples=2):
    """Samples of a client that waited so long in the run queue over the span."""
    share = np.arange(samples) / max(samples - 1, 1)
    table = {name: np.zeros(samples, dtype=np.int64) for name in PART_TABLES["host"]}
    return {**table, "wall_ns": int64(share * span_ns) + 5 * S, "run_queue_wait_ns": int64(share * waited_ns) + 7 * S}


def play(schedule=None, engine=None, clock=None, control=None, host_rows=None) -> Recording:
    """Through the real driver; the host rows of this machine are replaced by those of a quiet one."""
    schedule = workload() if schedule is None else schedule
    clock, control = clock or ModelledClock(), control or Steering()
    recording = play_engine(schedule, engine or slots(), clock, lambda part: None, control)
    return replace(recording, host=host_rows or host())


@cache
def clean() -> Recording:
    """A run without a fault, in modelled time; nobody changes it."""
    return play()


TOLD = {
    "ceiling_eps": 1e9, "wall_over_monotonic_ratio": 1.0, "dirty_tree": False, "governors": ("performance",),
    "throttled_fraction": 0.0, "pressure_fraction": 0.0, "steal_fraction": 0.0, "left_in_flight_requests": 0,
    "warmup_converged": True, "run_cv_ratio": 0.01, "cache_state": "cold", "speculated": False, "slots_observed": True,
    "clock_uncertainty_ns": 0,
}  # fmt: skip
"""Everything that can be told of a run, when nothing is wrong with it."""


def facts(recording: Recording, clock="modelled", **more) -> RunFacts:
    """As they are when nothing is wrong with them."""
    return RunFacts(clock=clock, schedule_sha256=recording.schedule.sha256, **{**TOLD, "repeats": 5, **more})


def judged(recording: Recording, clock="modelled", **more) -> Verdict:
    return judge(recording, facts(recording, clock, **more))


def with_requests(recording: Recording, **columns) -> Recording:
    """With some columns of the requests table replaced."""
    return replace(recording, requests={**recording.requests, **columns})


def statuses_of(recording: Recording, count: int, status: Status) -> Recording:
    """The first `count` requests ended so."""
    column = recording.requests["status"].copy()
    column[:count] = int(status)
    return with_requests(recording, status=column)


def interrupted(decision=Decision.STOP) -> Recording:
    """The control says so in the middle of the run."""
    return play(workload(300), clock=Wall(rest=(S, 0.11)), control=Steering(decision, at_ns=S))


def died(folder) -> tuple[Recording, str | None]:
    """A process that died in the middle of the run, read back from what it had written."""

    class Dies(Steering):
        def __call__(self, now_ns, newest):
            if newest is not None and now_ns >= S:
                raise SystemExit
            return Decision.GO

    schedule = workload(300)
    run_folder = RunFolder(folder, schedule, {})
    with run_folder.writer() as writer, pytest.raises(SystemExit):
        play_engine(schedule, slots(), Wall(rest=(S, 0.51)), writer.write, Dies())
    run = load_run(folder)
    return run.recording, run.label


def moved_due() -> Recording:
    recording = clean()
    due = recording.requests["due_ns"].copy()
    due[5] += 1
    return with_requests(recording, due_ns=due)


def steps_lost() -> Recording:
    """Ten rows of the step table, as a lost part would take them."""
    recording = clean()
    return replace(recording, steps={name: np.delete(rows, range(100, 110)) for name, rows in recording.steps.items()})


def crowded(rho: float, requests=1000, seed=1) -> Recording:
    """One slot, one token a request of 10 ms: Poisson arrivals at that utilisation."""
    due = due_times_ns("poisson", requests, rho * 100, seed)
    ones = np.ones(requests, dtype=np.int64)
    return play(make_schedule(due, ones, ones, origin=STEADY), one_slot())


def one_slot() -> SlotEngine:
    """A request of one token takes 10 ms."""
    step = DurationPs(10_000 * MS)
    return SlotEngine(continuous(1), HashExecutor(), LinearCost(step, DurationPs(0), step, DurationPs(0)))


def suspect() -> Recording:
    """Latency rises evenly from 1 to 300 ms, so 24 more are in flight at the end: a trend, but no 5 % of arrivals."""
    recording = clean()
    due = int64(recording.requests["due_ns"])
    end = due + np.linspace(1, 300, len(due)).astype(np.int64) * MS
    return replace(with_requests(recording, end_ns=end), in_flight_request_ns=int((end - due).sum()))


def drifting() -> Recording:
    """Each hand-over a little later than the one before, 4 ms in all: no limit of lateness is exceeded."""
    recording = play(clock=Wall())
    handed = int64(recording.requests["handed_ns"])
    return with_requests(recording, handed_ns=handed + np.linspace(0, 4 * MS, len(handed)).astype(np.int64))


FIRES = {
    "SENDS_MISSING": lambda: (interrupted(), "real", {}),
    "UNFINISHED": lambda: (play(workload(rate=800.0), control=Steering(drain_ns=10 * MS)), "modelled", {}),
    "FAILURES": lambda: (play(workload(300), Clerk(loses=range(0, 300, 50))), "modelled", {}),
    "WRONG_LENGTHS": lambda: (play(workload(300), Clerk(shortens=range(4))), "modelled", {}),
    "LITTLE_MISMATCH": lambda: (
        replace(clean(), in_flight_request_ns=clean().in_flight_request_ns + 1), "modelled", {}
    ),
    "SCHEDULE_HASH_MISMATCH": lambda: (moved_due(), "modelled", {}),
    "INCOMPLETE_FILE": lambda: (steps_lost(), "modelled", {}),
    "HOST_CONTENTION": lambda: (play(clock=Wall(), host_rows=host(waited_ns=S)), "real", {}),
    "CLIENT_LATE": lambda: (play(clock=Wall(oversleep_ns=6 * MS)), "real", {}),
    "OVERLOADED": lambda: (crowded(1.25), "modelled", {}),
    "N_TOO_SMALL": lambda: (play(workload(99)), "modelled", {}),
    "SUSPECT_TREND": lambda: (suspect(), "modelled", {}),
    "NON_STATIONARY": lambda: (play(workload(origin={**STEADY, "stationary": False})), "modelled", {}),
    "CAPPED": lambda: (play(closed_loop()), "modelled", {}),
    "SCHEDULE_DRIFT": lambda: (drifting(), "real", {}),
    "BURSTED": lambda: (
        play(workload(rate=35.0, process="constant"), slots(8), Wall(stutter=(500, 120 * MS))), "real", {}
    ),
    "CLIENT_SATURATED": lambda: (play(clock=Wall()), "real", {"ceiling_eps": 100.0}),
    "CLOCK_SKEW": lambda: (play(clock=Wall()), "real", {"wall_over_monotonic_ratio": 0.98}),
    "WARMUP_LEAK": lambda: (play(clock=Wall()), "charged", {"left_in_flight_requests": 1}),
    "NO_CI": lambda: (clean(), "modelled", {"repeats": 2}),
    "NOT_OBSERVABLE": lambda: (play(workload(300), Clerk()), "modelled", {}),
    "AUTOCORRELATED": lambda: (crowded(0.8), "modelled", {}),
    "UNSTABLE": lambda: (clean(), "modelled", {"run_cv_ratio": 0.11}),
    "WARMUP_NOT_CONVERGED": lambda: (play(clock=Wall()), "charged", {"warmup_converged": False}),
    "DIRTY_TREE": lambda: (clean(), "modelled", {"dirty_tree": True}),
    "GOVERNOR": lambda: (play(clock=Wall()), "charged", {"governors": ("performance", "powersave")}),
    "THROTTLED": lambda: (play(clock=Wall()), "charged", {"throttled_fraction": 0.01}),
    "CONTENDED_HOST": lambda: (play(clock=Wall()), "charged", {"steal_fraction": 0.02}),
}  # fmt: skip
"""Code -> a run with that fault: recording, clock, further facts."""


@pytest.mark.parametrize("code", FIRES)
def test_each_code_fires(code):
    """On the run with its fault: in its own list, with what was seen and what to do."""
    recording, clock, more = FIRES[code]()
    check_fires(code, judged(recording, clock, **more))


def check_fires(code, verdict):
    """The verdict says so, in the code's own list, with a text and a remedy."""
    assert verdict.checks[code] in (Outcome.FAILED, Outcome.WARNED)
    found = [finding for finding in (*verdict.invalid, *verdict.warnings) if finding.code == code]
    found += [finding for finding in verdict.withheld.values() if finding.code == code]
    assert found
    assert all(finding.text and finding.remedy for finding in found)
    assert verdict.valid is not (code in INVALID)


@pytest.mark.parametrize("kind", ["real", "charged", "modelled"])
def test_a_clean_run_passes_everything(kind):
    """Whatever applies and has a rule passes; nothing is withheld; no warning."""
    recording = play(clock=ModelledClock() if kind == "modelled" else Wall())
    verdict = judged(recording, kind, repeats=5)
    assert verdict.valid
    assert not verdict.withheld
    assert not verdict.warnings
    for code, outcome in verdict.checks.items():
        expected = Outcome.PASSED if code in RULES else Outcome.NOT_APPLICABLE
        assert outcome is (expected if applies(code, kind) else Outcome.NOT_APPLICABLE), code
    assert verdict.load.state == "STABLE"
    assert (verdict.label, verdict.suffices_for) == ("STANDARD", "enough for a CI gate")


def test_the_codes_are_the_specified_ones():
    """One list, in three kinds; every code is answered in every verdict."""
    for name, table in (("INVALID", INVALID), ("WITHHELD", WITHHELD), ("WARN", WARN)):
        assert list(table) == SPECIFIED[name].split()
    assert len(CODES) == len(set(CODES)) == 40
    for kind in KINDS_OF_RUN:
        clock, target = ("real", "http") if kind == "http" else (kind, "engine")
        assert set(judged(play(workload(5)), clock, target=target).checks) == set(CODES)


def test_what_does_not_apply_is_said_not_to_apply():
    """No check of the host or the client in modelled time, none of the sends in charged time."""
    modelled = judged(clean(), "modelled").checks
    assert modelled["HOST_CONTENTION"] == modelled["CLIENT_LATE"] == modelled["CLOCK_SKEW"] == "does not apply"
    charged = judged(play(clock=Wall()), "charged").checks
    assert charged["CLIENT_LATE"] == charged["BURSTED"] == charged["CLOCK_SKEW"] == "does not apply"
    assert charged["BUFFERED"] == charged["CACHE_UNEXPECTED"] == "does not apply"


@pytest.mark.parametrize(
    ("fact", "code", "clock"),
    [
        ("ceiling_eps", "CLIENT_SATURATED", "real"),
        ("wall_over_monotonic_ratio", "CLOCK_SKEW", "real"),
        ("dirty_tree", "DIRTY_TREE", "modelled"),
        ("governors", "GOVERNOR", "charged"),
        ("throttled_fraction", "THROTTLED", "charged"),
        ("left_in_flight_requests", "WARMUP_LEAK", "charged"),
        ("warmup_converged", "WARMUP_NOT_CONVERGED", "charged"),
        ("run_cv_ratio", "UNSTABLE", "modelled"),
    ],
)
def test_what_nobody_told_is_not_said_to_have_passed(fact, code, clock):
    """A rule whose fact is missing says that it has too little, and does not stand against the run."""
    verdict = judged(play(clock=Wall()), clock, **{fact: None})
    assert verdict.checks[code] == "too little to judge"
    assert verdict.valid


def test_an_unknown_clock_is_refused():
    """One line that names what there is."""
    with pytest.raises(ValueError, match="'sundial': known are real, charged, modelled, http"):
        judged(play(workload(5)), "sundial")


def test_a_stopped_run_is_judged_up_to_its_stop():
    """The same rows: complete, they miss sends; stopped, everything due by the stop was sent."""
    recording = interrupted()
    missing = int((recording.requests["status"] == Status.NOT_DISPATCHED).sum())
    assert 0 < missing < 300
    assert f"{missing} of 300 requests were never sent" in judged(recording, "real").invalid[0].text
    stopped = judged(recording, "real", label="STOPPED")
    assert judged(replace(recording, stopped_ns=None), "real", label="STOPPED").checks == stopped.checks
    assert stopped.valid
    assert stopped.checks["SENDS_MISSING"] == stopped.checks["FAILURES"] == "passed"
    assert stopped.load.arrivals_requests == 300 - missing


def test_a_stopped_run_that_skipped_one_misses_a_send():
    """Not dispatched although a later one was."""
    recording = interrupted()
    status, handed = recording.requests["status"].copy(), recording.requests["handed_ns"].copy()
    status[3], handed[3] = int(Status.NOT_DISPATCHED), NULL
    verdict = judged(with_requests(recording, status=status, handed_ns=handed), "real", label="STOPPED")
    assert verdict.checks["SENDS_MISSING"] == "failed"
    assert "1 of " in verdict.invalid[0].text
    assert " due by the stop at " in verdict.invalid[0].text


def test_what_was_due_between_the_last_hand_over_and_the_stop_is_missing():
    """The recorded time of the stop decides."""
    recording = interrupted()
    never = int64(recording.requests["due_ns"])[recording.requests["status"] == Status.NOT_DISPATCHED]
    later = replace(recording, stopped_ns=int(never[4]))
    verdict = judged(later, "real", label="STOPPED")
    assert verdict.invalid[0].code == "SENDS_MISSING"
    assert verdict.invalid[0].text.startswith("5 of ")


@pytest.mark.parametrize(("ratio", "outcome"), [(None, "passed"), (10.0, "passed"), (9.9, "warned")])
def test_a_time_limit_near_the_slo_truncates_the_tail(ratio, outcome):
    """Aborting at less than ten times the SLO's limit is said, by the name of what it does; nothing becomes INVALID."""
    verdict = judged(clean(), timeout_slo_ratio=ratio)
    assert verdict.valid and verdict.checks["FAILURES"] == outcome
    assert ["TRUNCATED" in one.text for one in verdict.warnings if one.code == "FAILURES"] == [True] * (ratio == 9.9)


def test_cancelled_requests_are_failures():
    """Ctrl-C twice."""
    recording = interrupted(Decision.CANCEL)
    open_then = int((recording.requests["status"] == Status.CANCELLED).sum())
    assert open_then > 0
    verdict = judged(recording, "real", label="STOPPED", thresholds=Thresholds().override({"failed_fraction": 0}))
    assert verdict.checks["SENDS_MISSING"] == "passed"
    assert verdict.invalid[0].text.endswith(f"failed: {open_then} cancelled")


def test_a_run_whose_process_died_is_incomplete(tmp_path):
    """Read from its parts; Little's identity does not apply to what has no end; nothing else is claimed of it."""
    recording, label = died(tmp_path / "run")
    verdict = judged(recording, "real", label=label)
    assert verdict.checks["INCOMPLETE_FILE"] == verdict.checks["UNFINISHED"] == "failed"
    assert verdict.checks["SENDS_MISSING"] == "passed"
    assert verdict.checks["LITTLE_MISMATCH"] == "does not apply"
    assert verdict.suffices_for == "enough for nothing before what is INVALID has been mended"


@pytest.mark.parametrize(("lost", "outcome"), [(2, "passed"), (3, "failed")])
def test_failures_may_be_one_percent(lost, outcome):
    """2 of 200 pass, 3 do not, and are told by their kind."""
    verdict = judged(play(workload(200), Clerk(loses=range(lost))))
    assert verdict.checks["FAILURES"] == outcome
    if outcome == "failed":
        text = verdict.invalid[0].text
        assert text.startswith("3 of 200 requests (1.5%, at most 1.0% may) failed: 3 engine_error; 3 of them: ")


@pytest.mark.parametrize(
    ("status", "fails"),
    [(status, status not in (Status.OK, Status.EMPTY, Status.WRONG_LENGTH, Status.BUDGET_SPENT_HIDDEN,
                             Status.CANCELLED_PLANNED)) for status in Status],
)  # fmt: skip
def test_what_counts_as_a_failure(status, fails):
    """Every status but those a request comes to by itself or by plan."""
    verdict = judged(statuses_of(play(workload(200)), 3, status))
    assert (verdict.checks["FAILURES"] == "failed") is fails


def test_lengths_count_where_they_are_pinned():
    """3 of 200 cut short: wrong; without pinned lengths the rule does not apply; no token at all is wrong too."""
    verdict = judged(play(workload(200), Clerk(shortens=range(3))))
    assert verdict.checks["WRONG_LENGTHS"] == "failed"
    assert verdict.invalid[0].text.startswith("3 of 200 requests (1.5%")
    free = workload(200, recipe={"sampling": {"ignore_eos": False}})
    assert judged(play(free, Clerk(shortens=range(3)))).checks["WRONG_LENGTHS"] == "does not apply"
    assert judged(play(workload(200), Clerk(empties=range(200)))).checks["WRONG_LENGTHS"] == "failed"
    assert judged(play(workload(200), Clerk(shortens=range(2)))).checks["WRONG_LENGTHS"] == "passed"


def test_the_schedule_must_be_the_one_that_was_fixed():
    """Another hash, or another due time in the rows."""
    recording = play(workload(200))
    other = judge(recording, replace(facts(recording), schedule_sha256="0" * 64))
    assert other.invalid[0].code == "SCHEDULE_HASH_MISMATCH"
    assert "fixed was 000000000000" in other.invalid[0].text
    assert "1 of 1200 requests have another due time" in judged(moved_due()).invalid[0].text


def test_a_lost_row_breaks_littles_identity():
    """A request that vanishes from the parts is missing from the sum."""
    schedule = workload(200)
    parts: list[RecordingPart] = []
    play_engine(schedule, slots(), ModelledClock(), parts.append, Steering())
    tables = dict(parts[0].tables)
    tables["requests"] = {name: np.delete(rows, 7) for name, rows in tables["requests"].items()}
    checks = judged(merge(schedule, [RecordingPart(tables), *parts[1:]])).checks
    assert checks["LITTLE_MISMATCH"] == checks["SENDS_MISSING"] == "failed"


def test_lag_leaves_out_the_step_that_was_running():
    """Hand-over - max(due, end of the step running then); a step begun in the blink of an eye after it counts too.

    Late is the time, not the requests: of those handed over together the longest lag counts.
    """
    due = [0, 500, 1_000, 2_000, 3_999, 9_000, 9_400]
    recording = play(make_schedule(due, [1] * 7, [1] * 7, origin=STEADY), Clerk())
    steps = {"step": int64([0, 1, 2]), "n_steps": int64([1, 1, 1]),
             "start_ns": int64([0, 1_010, 4_000]), "end_ns": int64([1_000, 2_010, 6_000])}  # fmt: skip
    handed = int64([0, 1_004, 2_015, 2_015, 6_020, 9_500, 9_500])
    recording = replace(with_requests(recording, handed_ns=handed), steps=steps)
    assert client_waits.client_lag_ns(recording).tolist() == [0, 4, 15, 5, 21, 500, 100]
    late = client_waits.late_fraction(with_requests(recording, end_ns=int64([*[1] * 6, 10_000])))
    assert late == pytest.approx((4 + 15 + 21 + 500) / 10_000)


def test_a_client_that_skips_steps_is_late():
    """Only one step is the engine's: a driver that steps on while somebody is due is late by all but the first."""
    recording = play(make_schedule([0], [1], [1], origin=STEADY), Clerk())
    steps = {"step": int64([0, 1, 2]), "n_steps": int64([1, 1, 1]),
             "start_ns": int64([0, 100, 200]), "end_ns": int64([100, 200, 300])}  # fmt: skip
    recording = replace(with_requests(recording, due_ns=int64([50]), handed_ns=int64([300])), steps=steps)
    assert client_waits.client_lag_ns(recording).tolist() == [200]


def test_lateness_has_a_budget():
    """p99 within 5 ms or 5 % of the median TTFT, max within 100 ms or 50 %, sum within 1 % (warned) or 5 %."""
    assert judged(play(clock=Wall(oversleep_ns=5000)), "real").checks["CLIENT_LATE"] == "passed"
    warned = judged(play(clock=Wall(oversleep_ns=100_000)), "real")
    assert warned.checks["CLIENT_LATE"] == "warned"
    assert warned.valid
    assert "of all TTFT" in warned.warnings[0].text
    late = judged(play(clock=Wall(oversleep_ns=6 * MS)), "real")
    assert "the p99 lateness of 1200 hand-overs is 6.0 ms, allowed are 5.0 ms" in late.invalid[0].text
    one = judged(play(workload(), clock=Wall(stutter=(500, 110 * MS))), "real")
    assert one.checks["CLIENT_LATE"] == "failed"
    assert "max" in one.invalid[0].text
    assert "p99" not in one.invalid[0].text
    slow = judged(play(workload(rate=0.4), slots(cost_ms=250), Wall(oversleep_ns=6 * MS)), "real")
    assert slow.checks["CLIENT_LATE"] == "passed"


@pytest.mark.parametrize(
    ("clock", "ratio", "waited_ns", "samples", "outcome"),
    [
        ("charged", 1.0, 0, 2, "passed"),
        ("charged", 1.9, 0, 2, "passed"),
        ("charged", 2.1, 0, 2, "failed"),
        ("charged", 0.94, 0, 2, "failed"),
        ("charged", 0.97, 0, 2, "passed"),
        ("charged", 1.0, S, 2, "warned"),
        ("charged", 1.0, S, 1, "passed"),
        ("charged", 0.0, 0, 2, "too little to judge"),
        ("real", 1.0, 0, 2, "passed"),
        ("real", 1.0, S * 2 // 5, 2, "passed"),
        ("real", 1.0, S * 3 // 5, 2, "failed"),
        ("real", 1.0, 0, 1, "too little to judge"),
    ],
)
def test_the_host_is_judged_by_the_clients_own_waits(clock, ratio, waited_ns, samples, outcome):
    """5 % of the run in the run queue; in charged time the steps' billed share of their wall time decides."""
    recording = play(clock=Wall(wall_ratio=ratio), host_rows=host(waited_ns, samples=samples))
    assert judged(recording, clock).checks["HOST_CONTENTION"] == outcome


def test_a_client_that_sleeps_through_five_percent_of_the_run_had_no_host():
    """Real time: lateness is the heartbeat."""
    recording = play(workload(200, rate=10.0), clock=Wall(oversleep_ns=10 * MS))
    assert judged(recording, "real").checks["HOST_CONTENTION"] == "failed"


def test_steps_too_short_for_the_timers_are_not_held_against_the_host():
    """A step of a microsecond takes less than reading the clocks around it."""
    recording = play(engine=slots(cost_ms=0.001), clock=Wall(wall_ratio=3.0))
    assert judged(recording, "charged").checks["HOST_CONTENTION"] == "too little to judge"


def test_a_kernel_that_does_not_tell_is_not_a_quiet_host():
    """Null run-queue waits in real time."""
    rows = {**host(), "run_queue_wait_ns": np.full(2, NULL)}
    assert judged(play(clock=Wall(), host_rows=rows), "real").checks["HOST_CONTENTION"] == "too little to judge"


def test_overload_withholds_the_queue_bound_latencies_alone():
    """TTFT, E2E, normalised, queue and admission wait; TPOT, gaps and throughput stand."""
    verdict = judged(crowded(1.25))
    assert verdict.valid
    withheld = {name for name, why in verdict.withheld.items() if why.code == "OVERLOADED"}
    assert withheld == {"ttft_ms", "ttft_ok_ms", "e2e_ms", "norm_ms", "queue_wait_ms", "admission_wait_ms"}
    assert withheld <= set(summary.summarise(crowded(0.5)))
    assert "of this run of 1000 requests, grows with its length" in verdict.withheld["ttft_ms"].text
    load = verdict.to_json()["load"]
    assert load["state"] == "OVERLOADED"
    assert load["rho_hat"] == pytest.approx(1.25, rel=0.1)
    assert verdict.checks["SUSPECT_TREND"] == "does not apply"


@pytest.mark.parametrize(
    ("schedule", "overloaded", "non_stationary", "capped"),
    [
        (lambda: workload(1200), "passed", "passed", "passed"),
        (lambda: workload(150), "too little to judge", "passed", "passed"),
        (lambda: make_schedule([0] * 300, [8] * 300, [5] * 300, origin=BURST), "does not apply", "warned", "passed"),
        (lambda: workload(origin={"stationary": False, "window": {"kind": "trace", "end_ns": 20 * S}}),
         "does not apply", "warned", "passed"),
        (lambda: workload(origin={}), "does not apply", "warned", "passed"),
        (closed_loop, "does not apply", "does not apply", "warned"),
        (lambda: make_schedule([0] * 4, [8] * 4, [5] * 4, origin={**BURST, "process": "closed"}),
         "does not apply", "does not apply", "warned"),
    ],
)  # fmt: skip
def test_how_a_schedule_is_treated(schedule, overloaded, non_stationary, capped):
    """One rate: the load is judged. Bursts, traces and closed loops: it does not apply, and that is said."""
    verdict = judged(play(schedule()))
    assert verdict.valid
    assert verdict.checks["OVERLOADED"] == overloaded
    assert verdict.checks["NON_STATIONARY"] == non_stationary
    assert verdict.checks["CAPPED"] == capped


@pytest.mark.parametrize("requests", [1, 2, 9, 10, 20, 99, 100])
def test_quantiles_of_too_few_are_listed(requests):
    """Exactly those that the summary leaves out for that reason."""
    recording = play(workload(requests, outputs=(1, 3)), Clerk(loses=[0]) if requests > 1 else None)
    verdict = judged(recording)
    document = summary.summarise(recording)
    expected = {
        f"{metric}.{name}"
        for metric, figures in document.items()
        if isinstance(figures, dict)
        for name, reason in figures.get("reasons", {}).items()
        if reason == "N_TOO_SMALL"
    }
    assert {name for name, why in verdict.withheld.items() if why.code == "N_TOO_SMALL"} == expected
    assert verdict.checks["N_TOO_SMALL"] == ("failed" if expected else "passed")


def test_the_quantiles_are_those_of_the_summary():
    """And so are the metrics and their counts."""
    recording = play(workload(300), Clerk(loses=[3], empties=[4], shortens=[5]))
    document = summary.summarise(recording)
    assert summary.QUANTILES == QUANTILES
    counts = sample_counts(recording)
    assert set(counts) == {name for name, figures in document.items() if isinstance(figures, dict) and "n" in figures}
    assert counts == {name: document[name]["n"] for name in counts}


@pytest.mark.parametrize(
    ("requests", "repeats", "more", "label"),
    [
        (999, 5, {}, "EXPLORATORY"),
        (1000, 4, {}, "EXPLORATORY"),
        (1000, 5, {}, "STANDARD"),
        (3999, 5, {"clean_tree": True, "calibrated": True}, "STANDARD"),
        (4000, 5, {"clean_tree": True, "calibrated": True}, "PUBLISHABLE"),
        (4000, 4, {"clean_tree": True, "calibrated": True}, "EXPLORATORY"),
        (4000, 5, {"clean_tree": False, "calibrated": True}, "STANDARD"),
        (4000, 5, {"clean_tree": True, "calibrated": False}, "STANDARD"),
    ],
)
def test_what_the_size_suffices_for(requests, repeats, more, label):
    """N and K, and for publishing a clean tree and a calibrated client."""
    verdict = judged(play(workload(requests, outputs=(1, 2))), repeats=repeats, **more)
    assert verdict.label == label
    assert verdict.to_json()["suffices_for"].startswith("enough ")


def test_a_warning_on_the_host_stands_against_publishing():
    """The client waited for its processor in charged time."""
    recording = play(workload(4000, outputs=(1, 2)), clock=Wall(), host_rows=host(waited_ns=S))
    more = {"repeats": 5, "clean_tree": True, "calibrated": True}
    assert judged(recording, "charged", **more).label == "STANDARD"
    assert judged(replace(recording, host=host()), "charged", **more).label == "PUBLISHABLE"


def test_thresholds_are_one_table_and_can_be_overridden():
    """By name; what is used is written with the verdict."""
    lines = Thresholds().override({"failed_fraction": 0.02, "standard_requests": 100})
    verdict = judged(play(workload(200), Clerk(loses=range(3))), thresholds=lines)
    assert verdict.checks["FAILURES"] == "passed"
    assert verdict.to_json()["thresholds"]["failed_fraction"] == 0.02
    assert type(lines.standard_requests) is int
    for values in ({"failed": 1}, {"failed_fraction": -1}, {"failed_fraction": float("nan")}, {"repeats": 1.5}):
        with pytest.raises(ValueError, match=next(iter(values))):
            Thresholds().override(values)


def test_the_same_rows_give_the_same_verdict():
    """Judged twice, and from a second run in modelled time."""
    documents = {json.dumps(judged(play(), repeats=5).to_json(), sort_keys=True) for _ in range(2)}
    assert len(documents) == 1


RECORDING = play(workload(60))


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_any_rows_give_a_document(data):
    """Whatever the rows hold: no exception, no NaN, codes and outcomes from their lists."""
    rows = 60
    integers = st.one_of(st.just(NULL), st.integers(0, 10**12))
    column = st.lists(integers, min_size=rows, max_size=rows).map(int64)
    recording = with_requests(
        RECORDING,
        status=data.draw(st.lists(st.integers(0, len(NAMES) - 1), min_size=rows, max_size=rows).map(int64)),
        end_ns=data.draw(column),
        handed_ns=data.draw(column),
    )
    recording = replace(
        recording,
        host=host(data.draw(st.integers(0, S)), samples=data.draw(st.integers(0, 3))),
        schedule=data.draw(st.sampled_from([RECORDING.schedule, workload(60, origin={}), workload(60, origin=BURST)])),
        in_flight_request_ns=data.draw(st.integers(0, 10**15)),
    )
    lines = Thresholds().override({"load_requests": data.draw(st.sampled_from([0, 200]))})
    label = data.draw(st.sampled_from([None, "STOPPED", "INCOMPLETE"]))
    kind = data.draw(st.sampled_from(KINDS_OF_RUN))
    clock, target = ("real", "http") if kind == "http" else (kind, "engine")
    verdict = judged(recording, clock, target=target, label=label, thresholds=lines)
    document = json.loads(json.dumps(verdict.to_json(), allow_nan=False))
    found = [*document["invalid"], *document["warnings"], *document["withheld"].values()]
    assert {finding["code"] for finding in found} <= set(CODES)
    assert set(document["checks"]) == set(CODES)
    assert set(document["checks"].values()) <= {str(outcome) for outcome in Outcome}
    assert document["valid"] is not bool(document["invalid"])


def test_a_run_that_begins_slower_than_it_goes_on_says_so():
    """By TPOT: a tenth of the requests at twice the others' pace is a beginning that the warm-up has not taken away."""
    recording = steady_tpot(slow=60)
    verdict = judge(recording, RunFacts("real", recording.schedule.sha256, target="http", warmup_converged=True))
    assert verdict.checks["WARMUP_NOT_CONVERGED"] == "passed"
    recording = steady_tpot(slow=320)
    verdict = judge(recording, RunFacts("real", recording.schedule.sha256, target="http", warmup_converged=True))
    assert verdict.checks["WARMUP_NOT_CONVERGED"] == "warned"
    (found,) = [one for one in verdict.warnings if one.code == "WARMUP_NOT_CONVERGED"]
    assert "a beginning of 320 values" in found.text and "--fill" in found.remedy
    filled = steady_tpot(slow=320, fill=320)
    verdict = judge(filled, RunFacts("real", filled.schedule.sha256, target="http", warmup_converged=True))
    assert verdict.checks["WARMUP_NOT_CONVERGED"] == "passed"
    short = steady_tpot(slow=200, requests=400)
    verdict = judge(short, RunFacts("real", short.schedule.sha256, target="http", warmup_converged=True))
    assert verdict.checks["WARMUP_NOT_CONVERGED"] == "passed"


def steady_tpot(slow, requests=600, fill=0):
    """Requests with 20 ms a token, the first `slow` of them with 40."""
    noise = np.random.default_rng(2).normal(0, 0.2, requests)
    streams = []
    for at in range(requests):
        due_ns = at * 100 * MS
        gap_ns = round((40 if at < slow else 20) * MS + noise[at] * MS)
        streams.append(Stream([due_ns + 5 * MS + n * gap_ns for n in range(5)], due_ns))
    phase = [1] * fill + [2] * (requests - fill)
    return streamed(*streams, origin=STEADY, phase=phase)
