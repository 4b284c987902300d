"""Replicas behind a router, in modelled time."""

from collections.abc import Callable

import numpy as np
import pytest

from engines.policies import Policy, chunked, continuous, one_by_one, priority, static
from engines.slots import SlotEngine
from loadgen.engine_spec import make_engine
from loadgen.fleet import part_of, play_fleet
from loadgen.routing import ROUTERS, by_session, least_loaded, round_robin
from results.columns import NULL
from results.schedule import Schedule, make_schedule
from tests.engines.playing import EVERY_STEP_1_NS, engine_of, play, schedule_of

MakeEngine = Callable[[], SlotEngine]


def engines(policy: Policy) -> MakeEngine:
    return lambda: engine_of(policy, EVERY_STEP_1_NS)


def poisson(rows: int, gap_ns: float, seed: int = 1) -> Schedule:
    generator = np.random.default_rng(seed)
    due = np.cumsum(generator.exponential(gap_ns, rows)).astype(int).tolist()
    return schedule_of(generator.integers(1, 40, rows).tolist(), due)


@pytest.mark.parametrize("router", ROUTERS)
@pytest.mark.parametrize("policy", [one_by_one(), continuous(3), static(3)], ids=lambda policy: policy.name)
def test_a_fleet_of_one_is_its_engine(policy: Policy, router: str) -> None:
    """Every latency is that of the engine alone."""
    schedule = poisson(120, 9)
    served = play_fleet(schedule, engines(policy), 1, router)
    alone = play(schedule, engine_of(policy, EVERY_STEP_1_NS))
    assert served.values_ns["e2e"].tolist() == (alone.requests["end_ns"] - schedule.due_ns).tolist()
    assert served.output_tokens == int(schedule.output_tokens.sum())


def test_requests_go_round() -> None:
    """Each to the next replica."""
    assert round_robin(schedule_of([1] * 5, 4), 3, engines(one_by_one())).tolist() == [0, 1, 2, 0, 1]


def test_what_waits_for_others_stays_with_them() -> None:
    """Without a session of its own, and refused where those are of different sessions."""
    chain = {"after": [(), (), (0,), (2,)], "think_ns": [NULL, NULL, 0, 0]}
    schedule = make_schedule([0, 0, NULL, NULL], [1] * 4, [1] * 4, **chain)
    assert by_session(schedule, 2, engines(one_by_one())).tolist() == [0, 1, 0, 0]
    torn = make_schedule([0, 0, NULL], [1] * 3, [1] * 3, after=[(), (), (0, 1)], think_ns=[NULL, NULL, 0])
    with pytest.raises(ValueError, match="request 2 waits for answers of other sessions"):
        by_session(torn, 2, engines(one_by_one()))


def test_a_session_stays_where_it_began() -> None:
    """New sessions and requests without one take turns; a follower is where its session is."""
    schedule = make_schedule(
        [0, 1, 2, NULL, 4, 5], [1] * 6, [1] * 6, session=[8, NULL, 9, 8, 9, NULL], turn=[0, NULL, 0, 1, 1, NULL],
        after=[(), (), (), (0,), (), ()], think_ns=[NULL, NULL, NULL, 0, NULL, NULL],
    )  # fmt: skip
    assert by_session(schedule, 2, engines(one_by_one())).tolist() == [0, 1, 0, 0, 0, 1]
    assert by_session(schedule, 3, engines(one_by_one())).tolist() == [0, 1, 2, 0, 2, 0]


def test_the_least_loaded_gets_the_next() -> None:
    """0 is busy until 100; 1 takes all that come one after the other, and 0 the one that comes while 1 is busy."""
    schedule = schedule_of([100, 10, 10, 10], [0, 1, 20, 25])
    assert least_loaded(schedule, 2, engines(one_by_one())).tolist() == [0, 1, 1, 0]


def test_who_is_answered_exactly_at_an_arrival_is_not_counted() -> None:
    """10 steps of 1 ns from 1 on end at 11: at 11 replica 1 is free, at 10 it is not."""
    for due_ns, expected in ((11, 1), (10, 0)):
        schedule = schedule_of([100, 10, 1], [0, 1, due_ns])
        assert least_loaded(schedule, 2, engines(one_by_one())).tolist() == [0, 1, expected]


def test_a_router_sees_classes_served_in_their_order() -> None:
    """Replica 0 has one of 10 tokens, then 5 and 100: the better class of the last leaves two unanswered at 20."""
    for classes, expected in (([0, 0, 1, 0, 0, 0], 1), ([0] * 6, 0)):
        schedule = schedule_of([10, 12, 5, 200, 100, 1], [0, 1, 2, 3, 4, 20], classes=classes)
        chosen = least_loaded(schedule, 2, engines(priority(1))).tolist()
        assert chosen[:5] == [0, 1, 0, 1, 0] and chosen[5] == expected


def in_flight_at_arrival(schedule: Schedule, served_ns: np.ndarray, replica: np.ndarray, request_id: int) -> list[int]:
    """From what came out: how many each replica held when a request was due."""
    due_ns, before = schedule.due_ns[request_id], np.arange(len(schedule)) < request_id
    open_ = before & (schedule.due_ns + served_ns > due_ns)
    return [int((open_ & (replica == one)).sum()) for one in range(int(replica.max()) + 1)]


@pytest.mark.parametrize("policy", [one_by_one(), continuous(3), static(3)], ids=lambda policy: policy.name)
def test_least_loaded_chooses_by_what_the_rows_say_afterwards(policy: Policy) -> None:
    """At every arrival nobody held fewer than the replica that was chosen."""
    schedule = poisson(300, 5)
    served = play_fleet(schedule, engines(policy), 3, "least-loaded")
    for request_id in range(len(schedule)):
        held = in_flight_at_arrival(schedule, served.values_ns["e2e"], served.replica, request_id)
        assert served.replica[request_id] == held.index(min(held))


def test_least_loaded_waits_less_than_round_robin() -> None:
    """The mean wait of a loaded fleet of single slots falls."""
    schedule = poisson(600, 6)
    means = [play_fleet(schedule, engines(one_by_one()), 4, router).values_ns["ttft"].mean() for router in ROUTERS]
    round_robin_ns, least_loaded_ns, _ = means
    assert least_loaded_ns < 0.8 * round_robin_ns


def test_replicas_play_their_parts_alone() -> None:
    """Each request's latency is what its replica has when it plays only its own."""
    schedule = poisson(90, 4)
    served = play_fleet(schedule, engines(continuous(2)), 2)
    for replica in range(2):
        rows = (served.replica == replica).nonzero()[0]
        alone = play(part_of(schedule, rows), engine_of(continuous(2), EVERY_STEP_1_NS))
        assert served.values_ns["e2e"][rows].tolist() == (alone.requests["end_ns"] - schedule.due_ns[rows]).tolist()


def test_an_engine_that_cannot_advance_has_the_same_latencies() -> None:
    """Chunked prefill with room for everything at once, and continuous batching, on single steps."""
    schedule = schedule_of([5, 5, 5, 5], [0, 0, 50, 50])
    plain = play_fleet(schedule, engines(continuous(2)), 2)
    chunks = play_fleet(schedule, lambda: make_engine("chunked,batch=2", "modelled", schedule), 2)
    assert chunks.output_tokens == plain.output_tokens == 20
    assert set(chunks.values_ns) == set(plain.values_ns) == {"ttft", "tpot", "e2e", "stall", "norm"}
    assert (chunks.values_ns["norm"] == chunks.values_ns["e2e"] / 5).all()
    assert chunked(2).budget_tokens == 512


def test_busy_is_the_share_of_the_time_in_which_steps_run() -> None:
    """10 + 20 steps of 1 ns on two replicas, until 60."""
    served = play_fleet(schedule_of([10, 20], [0, 40]), engines(one_by_one()), 2)
    assert served.busy_fraction == 30 / 120


@pytest.mark.parametrize("router", ["round-robin", "least-loaded"])
def test_requests_that_wait_for_others_need_a_session_router(router: str) -> None:
    """Whoever gives the answer must be asked next."""
    schedule = make_schedule([0, NULL], [1, 1], [1, 1], after=[(), (0,)], think_ns=[NULL, 5])
    with pytest.raises(ValueError, match="--router session"):
        play_fleet(schedule, engines(one_by_one()), 2, router)
    assert np.isfinite(play_fleet(schedule, engines(one_by_one()), 2, "session").values_ns["e2e"]).all()


def test_what_a_router_cannot_do_is_one_line() -> None:
    """An unknown name, and a batch that waits for a flush which no router can give."""
    with pytest.raises(ValueError, match="unknown router 'best'"):
        play_fleet(schedule_of([1]), engines(one_by_one()), 1, "best")
    with pytest.raises(ValueError, match="cannot stand behind a router"):
        play_fleet(schedule_of([1, 1], [0, 5]), engines(static(4, wait="full")), 1, "least-loaded")


def test_a_request_that_fits_nowhere_fails_and_is_held_by_nobody() -> None:
    """Its latency is infinite; the next goes to the same replica."""
    schedule = make_schedule([0, 1], [2_000_000, 1], [1, 1])
    spec = "continuous,executor=roofline,kv-cache=1GB"
    served = play_fleet(schedule, lambda: make_engine(spec, "modelled", schedule), 2, "least-loaded")
    assert served.values_ns["e2e"][0] == np.inf
    assert served.replica.tolist() == [0, 0]
