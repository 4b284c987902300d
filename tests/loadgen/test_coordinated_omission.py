"""An engine that freezes: whoever was due meanwhile has waited, whether or not it could be handed over."""

from dataclasses import replace

import numpy as np
import pytest

from engines.engine import Request, Step, StepOutput
from loadgen.clock import ModelledClock
from loadgen.drive import play_engine
from results.recording import Recording
from results.schedule import Schedule, make_schedule
from results.stats import quantile
from results.summary import summarise
from results.verdicts.run_facts import RunFacts
from results.verdicts.verdict import judge
from tests.engines.playing import Steering, ignore
from tests.results.streams import Stream, streamed

MS, S = 1_000_000, 1_000_000_000
GAP_NS, SERVICE_NS, FROZEN_AT_NS, FROZEN_NS = 10 * MS, 2 * MS, 5 * S, S
REQUESTS = 2_000


class Freezing:
    """Answers one request a step in 2 ms; the first step that starts after 5 s takes 1 s longer."""

    def __init__(self) -> None:
        self.waiting: list[Request] = []
        self.frozen = False

    def describe(self) -> dict[str, int]:
        return {"slots": 1}

    def add_request(self, request: Request) -> None:
        self.waiting.append(request)

    def has_work(self) -> bool:
        return bool(self.waiting)

    def ready_ns(self, now_ns: int) -> int | None:
        return now_ns if self.waiting else None

    def flush(self) -> None:
        """Holds nothing back."""

    def abort(self, request_id: int) -> None:
        self.waiting = [one for one in self.waiting if one.request_id != request_id]

    def step(self, now_ns: int) -> Step:
        freezes = now_ns >= FROZEN_AT_NS and not self.frozen
        self.frozen |= freezes
        request = self.waiting.pop(0)
        cost_ns = SERVICE_NS + (FROZEN_NS if freezes else 0)
        output = StepOutput(request.request_id, [1], True, "length")
        one = [request.request_id]
        return Step([output], ended=one, released=one, modelled_cost_ps=1_000 * cost_ns)


def even_schedule() -> Schedule:
    """One request every 10 ms."""
    due_ns = np.arange(1, REQUESTS + 1, dtype=np.int64) * GAP_NS
    origin = {"process": "constant", "stationary": True, "rate_rps": 100.0, "window": {"kind": "schedule"}}
    ones = np.ones(REQUESTS, dtype=np.int64)
    return make_schedule(due_ns, ones, ones, origin=origin)


def play() -> Recording:
    """In modelled time."""
    return play_engine(even_schedule(), Freezing(), ModelledClock(), ignore, Steering())


def latencies_ns() -> list[int]:
    """By hand: a backlog that a server of 2 ms works off at one arrival every 10 ms, in whole ms."""
    found, free_ns, frozen = [], 0, False
    for number in range(1, REQUESTS + 1):
        start_ns = max(number * GAP_NS, free_ns)
        freezes = start_ns >= FROZEN_AT_NS and not frozen
        frozen |= freezes
        free_ns = start_ns + SERVICE_NS + (FROZEN_NS if freezes else 0)
        found.append(free_ns - number * GAP_NS)
    return found


def test_everybody_due_during_the_freeze_has_waited_for_its_end() -> None:
    """TTFT p99 from the schedule is the analytic one: the k-th due after the freeze began waits 1,002 - 8 k ms."""
    expected = np.array(latencies_ns(), dtype=np.float64)
    behind = expected[expected > SERVICE_NS]
    assert behind.tolist() == [FROZEN_NS + SERVICE_NS - 8 * MS * k for k in range(len(behind))]
    summary = summarise(play())
    assert summary["ttft_ms"]["p99"] == quantile(expected, 0.99)[0] / MS  # type: ignore[operator]
    assert summary["ttft_ms"]["max"] == 1_002
    assert summary["ttft_ms"]["p99"] == pytest.approx(1_002 - 8 * 20, abs=8)


def one_at_a_time() -> Recording:
    """The same server behind a client that has one request under way at most: it sends when the last has ended."""
    ends_ns = [number * GAP_NS + latency for number, latency in enumerate(latencies_ns(), start=1)]
    streams = []
    for number, end_ns in enumerate(ends_ns, start=1):
        due_ns = number * GAP_NS
        handed_ns = max(due_ns, ends_ns[number - 2] if number > 1 else 0)
        streams.append(Stream([end_ns], due_ns, handed_ns=handed_ns, told={"dispatched_ns": due_ns}))
    return streamed(*streams, origin=even_schedule().origin)


def test_a_capped_client_hides_nothing_and_says_what_it_is() -> None:
    """From the schedule the tail is the same; from the sending it would be 2 ms. CAPPED by wish, else CLIENT_LATE."""
    recording = one_at_a_time()
    summary = summarise(recording)
    assert summary["ttft_ms"]["p99"] == summarise(play())["ttft_ms"]["p99"]
    assert summary["ttft_net_ms"]["p99"] == SERVICE_NS / MS
    facts = RunFacts("real", recording.schedule.sha256, target="http")
    capped = judge(recording, replace(facts, cap_requests=1)).checks
    assert (capped["CAPPED"], capped["CLIENT_LATE"]) == ("warned", "passed")
    hidden = judge(recording, facts).checks
    assert (hidden["CAPPED"], hidden["CLIENT_LATE"]) == ("passed", "failed")


def test_a_freeze_is_no_overload() -> None:
    """The queue comes and goes: the load is stable, and nothing is withheld."""
    recording = play()
    verdict = judge(recording, RunFacts("modelled", recording.schedule.sha256))
    assert verdict.checks["OVERLOADED"] == "passed"
    assert verdict.valid
