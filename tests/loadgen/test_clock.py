"""Clocks: what a step is billed in each, and how idle time passes."""

from collections.abc import Callable, Iterable

import pytest

from engines.engine import Engine, Request, Step
from loadgen.clock import CLOCKS, ChargedClock, Clock, ModelledClock, RealClock, make_clock


class Stepping:
    """An engine that costs what it is told and remembers at what time it was stepped."""

    def __init__(self, costs_ps: Iterable[int | None] = (), on_step: Callable[[], None] = lambda: None) -> None:
        self._costs_ps = iter(costs_ps)
        self._on_step = on_step
        self.stepped_at_ns: list[int] = []

    def step(self, now_ns: int) -> Step:
        self.stepped_at_ns.append(now_ns)
        self._on_step()
        return Step([], modelled_cost_ps=next(self._costs_ps, None))

    def add_request(self, request: Request) -> None: ...
    def has_work(self) -> bool:
        return True

    def ready_ns(self, now_ns: int) -> int | None:
        return now_ns

    def flush(self) -> None: ...
    def abort(self, request_id: int) -> None: ...
    def describe(self) -> dict[str, None]:
        return {}


class Timer:
    """A timer that jumps only when told, and notes when it was read."""

    def __init__(self) -> None:
        self.now_ns = 1_000_000
        self.readings = 0

    def __call__(self) -> int:
        self.readings += 1
        return self.now_ns


def test_modelled_time_is_exact_to_the_picosecond() -> None:
    """Three steps of a third of a ns and a bit: the engine sees floored ns, the table has the ps."""
    clock = ModelledClock()
    engine = Stepping([333, 333, 335, 999])
    spans = []
    for _ in range(4):
        clock.bill(engine)
        spans.append((clock.step_start, clock.step_end))
    assert spans == [(0, 333), (333, 666), (666, 1_001), (1_001, 2_000)]
    assert engine.stepped_at_ns == [0, 0, 0, 1]
    assert clock.now_ns() == 2


def test_modelled_time_loses_nothing_however_large_the_sums() -> None:
    """Integers: no sum ever rounds."""
    clock = ModelledClock()
    for _ in range(1_000):
        clock.bill(Stepping([7_777_777_777_777_777_777]))
    assert clock.step_end == 7_777_777_777_777_777_777_000


def test_modelled_idle_time_passes_at_once_and_never_backwards() -> None:
    """Waiting until a time that has passed changes nothing, not even the picoseconds."""
    clock = ModelledClock()
    clock.wait_until(5)
    assert clock.now_ns() == 5
    clock.bill(Stepping([1_500]))
    clock.wait_until(6)
    clock.bill(Stepping([500]))
    assert (clock.step_start, clock.step_end) == (6_500, 7_000)


@pytest.mark.parametrize("cost_ps", [None, 0, -1])
def test_modelled_time_refuses_a_step_that_does_not_say_what_it_costs(cost_ps: int | None) -> None:
    """With the remedy: another clock."""
    with pytest.raises(ValueError, match=f"modelled cost of {cost_ps}: use --clock real or charged"):
        ModelledClock().bill(Stepping([cost_ps]))


def test_a_charged_step_costs_what_the_timer_says_and_nothing_else_does() -> None:
    """Only what passes inside step() is billed; what passes between steps is free."""
    timer = Timer()

    def compute() -> None:
        timer.now_ns += 250

    clock = ChargedClock(timer)
    engine = Stepping(on_step=compute)
    spans = []
    for _ in range(3):
        timer.now_ns += 10_000
        clock.bill(engine)
        spans.append((clock.step_start, clock.step_end))
    assert spans == [(0, 250), (250, 500), (500, 750)]
    assert engine.stepped_at_ns == [0, 250, 500]
    assert timer.readings == 6
    assert clock.step_wall_ns >= 0


def test_a_charged_step_costs_at_least_a_nanosecond() -> None:
    """A timer too coarse to see it must not make time stand still."""
    clock = ChargedClock(Timer())
    clock.bill(Stepping())
    assert clock.now_ns() == clock.step_end == 1


def test_charged_idle_time_passes_at_once() -> None:
    """No timer is read for it."""
    timer = Timer()
    clock = ChargedClock(timer)
    clock.wait_until(700)
    clock.wait_until(600)
    assert clock.now_ns() == 700 and timer.readings == 0


def test_a_charged_clock_ignores_what_a_step_says_it_costs() -> None:
    """It has been measured."""
    clock = ChargedClock(Timer())
    clock.bill(Stepping([5_000_000]))
    assert clock.step_end == 1


@pytest.mark.parametrize("name", CLOCKS)
def test_every_clock_starts_near_0_and_has_a_unit(name: str) -> None:
    """Virtual ones exactly at 0; a step table is in ps in modelled time alone."""
    clock: Clock = make_clock(name)
    assert clock.name == name
    assert clock.unit == ("ps" if name == "modelled" else "ns")
    assert clock.now_ns() >= 0
    if name != "real":
        assert clock.now_ns() == 0
    assert clock.steps_per_poll >= 1


@pytest.mark.parametrize("name", CLOCKS)
def test_every_clock_bills_one_step_after_another(name: str) -> None:
    """Steps have a length, follow each other, and the engine is told the time at which its step starts."""
    clock = make_clock(name)
    engine: Engine = Stepping([1_000_000_000] * 3)
    ends = 0
    unit_per_ns = 1_000 if name == "modelled" else 1
    for _ in range(3):
        step = clock.bill(engine)
        assert isinstance(step, Step)
        assert ends <= clock.step_start < clock.step_end
        assert clock.now_ns() * unit_per_ns >= clock.step_end
        ends = clock.step_end


def test_steps_computed_on_other_threads_are_charged_by_the_wall() -> None:
    """CPU time of this thread would miss them."""
    assert make_clock("charged", "wall") is not make_clock("charged", "wall")
    walled, threaded = make_clock("charged", "wall"), make_clock("charged")
    assert isinstance(walled, ChargedClock) and isinstance(threaded, ChargedClock)
    assert type(make_clock("real", "wall")) is RealClock
    assert type(make_clock("modelled", "wall")) is ModelledClock


@pytest.mark.realtime
def test_charging_by_the_wall_sees_time_that_passes_without_computing() -> None:
    """A step that sleeps 20 ms costs nearly no CPU time, and at least 20 ms of wall time."""
    import time

    sleeping = Stepping(on_step=lambda: time.sleep(0.02))
    walled, threaded = make_clock("charged", "wall"), make_clock("charged", "thread_cpu")
    walled.bill(sleeping)
    threaded.bill(sleeping)
    assert walled.step_end >= 20_000_000 > threaded.step_end


@pytest.mark.realtime
def test_real_time_waits_until_it_is_due() -> None:
    """Past 3 ms of waiting it is 3 ms later, in order; a long wait is broken off so that one can look around."""
    clock = RealClock()
    due_ns = clock.now_ns() + 3_000_000
    clock.wait_until(due_ns)
    assert clock.now_ns() >= due_ns
    clock.wait_until(0)
    far_ns = clock.now_ns() + 3_600_000_000_000
    clock.wait_until(far_ns)
    assert clock.now_ns() < far_ns
    clock.bill(Stepping())
    assert due_ns <= clock.step_start <= clock.step_end <= clock.now_ns()
    assert clock.step_wall_ns == clock.step_end - clock.step_start
