"""The transformer under the real, charged and modelled clocks: one engine, one schedule, the same tokens."""

import numpy as np
import pytest

from loadgen.clock import make_clock
from loadgen.config import from_texts
from loadgen.drive import Decision, play_engine
from loadgen.engine_spec import make_engine
from loadgen.workload import build_schedule
from results.recording import Recording, RecordingPart
from results.slots import slot_steps
from results.status import Status

pytest.importorskip("torch")

POLICIES = ("one-by-one", "static,batch=4", "static-bucketed,batch=4", "continuous,batch=4")
SMALL = "executor=tinygpt,layers=2"
CLOCKS = ("real", "charged", "modelled")


class GoOn:
    timeout_ns: int | None = None
    drain_ns: int | None = None

    def __call__(self, now_ns: int, newest: RecordingPart | None) -> Decision:
        return Decision.GO


def played(policy: str, clock: str, **texts: str) -> Recording:
    schedule = build_schedule(from_texts({"requests": "12", "prompt-tokens": "4:20", "output-tokens": "2:9", **texts}))
    engine = make_engine(f"{policy},{SMALL}", clock, schedule)
    cost_source = str(engine.describe()["cost_source"])
    return play_engine(schedule, engine, make_clock(clock, cost_source), lambda part: None, GoOn())


@pytest.mark.realtime
@pytest.mark.parametrize("policy", POLICIES)
def test_with_everything_due_at_0_clocks_change_nothing_but_times(policy: str) -> None:
    """In a burst the three clocks give the same tokens, the same steps and the same slot counts."""
    real, charged, modelled = (played(policy, clock, arrival="burst") for clock in CLOCKS)
    for other in (charged, modelled):
        assert np.array_equal(real.token_ids, other.token_ids)
        assert slot_steps(real.steps) == slot_steps(other.steps)
        for column in ("admitted_step", "ended_step", "released_step", "slot"):
            assert np.array_equal(real.requests[column], other.requests[column])


@pytest.mark.realtime
@pytest.mark.parametrize("policy", POLICIES)
def test_under_poisson_arrivals_the_tokens_are_the_same(policy: str) -> None:
    """Who shares a batch depends on the clock; what each request is answered does not."""
    runs = [played(policy, clock, rate="200") for clock in CLOCKS]
    for run in runs:
        assert set(run.requests["status"].tolist()) == {Status.OK}
        assert np.array_equal(run.token_offsets, runs[0].token_offsets)
        assert np.array_equal(run.token_ids, runs[0].token_ids)


def test_the_transformer_is_deterministic_in_modelled_time() -> None:
    """Two modelled runs of the transformer are equal to the last token and picosecond."""
    first, second = (played("continuous,batch=4", "modelled", rate="100") for _ in range(2))
    assert np.array_equal(first.token_ids, second.token_ids)
    assert np.array_equal(first.steps["start_ps"], second.steps["start_ps"])
