"""Clocks: who waits, owns the time. Real: the wall. Charged: the step's own cost. Modelled: the cost model's.

A clock bills one `engine.step()` call and nothing else; hand-over and recording are free on the virtual ones,
and idle time costs nothing there. Each keeps the begin and end of the last billed step in its own unit.
"""

import time
from collections.abc import Callable
from typing import Protocol

from engines.engine import Engine, Step, Stretch
from loadgen.units import PS_PER_NS

SLEEP_UNTIL_NS = 1_000_000
"""Real time: sleep to this long before a deadline, then spin."""
LONGEST_SLEEP_NS = 100_000_000
"""Real time: return from a wait after this long at the latest, so that the driver can look around."""


class Advance(Protocol):
    """How an engine makes many steps at once: see `engines.engine.Engine`."""

    def __call__(self, now_ps: int, until_ps: int) -> Stretch | None:
        """The steps that start before then; None: use step()."""
        ...


class Clock(Protocol):
    """The run's time axis, from 0."""

    name: str
    """real, charged or modelled."""
    unit: str
    """Of step_start and step_end: ns, or ps in modelled time."""
    step_start: int
    step_end: int
    step_wall_ns: int
    """Wall time of the last billed step; 0 where nothing was measured."""
    steps_per_poll: int
    """After how many steps the driver should look at the wall clock."""

    def now_ns(self) -> int:
        """Time since the start of the run."""
        ...

    def wait_until(self, t_ns: int) -> None:
        """Let time pass until then; may return early."""

    def bill(self, engine: Engine) -> Step:
        """Run one step and move time to its end."""
        ...


class RealClock:
    """Wall time."""

    name = "real"
    unit = "ns"
    steps_per_poll = 1

    def __init__(self) -> None:
        """Starts now."""
        self._origin_ns = time.perf_counter_ns()
        self.step_start = self.step_end = self.step_wall_ns = 0

    def now_ns(self) -> int:
        """Wall time since the start."""
        return time.perf_counter_ns() - self._origin_ns

    def wait_until(self, t_ns: int) -> None:
        """Sleep to 1 ms before the time, then spin; at most 0.1 s."""
        now_ns = self.now_ns()
        until_ns = min(t_ns, now_ns + LONGEST_SLEEP_NS)
        if until_ns - now_ns > SLEEP_UNTIL_NS:
            time.sleep((until_ns - now_ns - SLEEP_UNTIL_NS) / 1e9)
        while self.now_ns() < until_ns:
            pass

    def bill(self, engine: Engine) -> Step:
        """The step takes as long as it takes."""
        self.step_start = start_ns = self.now_ns()
        step = engine.step(start_ns)
        self.step_end = self.now_ns()
        self.step_wall_ns = self.step_end - start_ns
        return step


class ChargedClock:
    """Virtual time that each step's measured duration is charged to."""

    name = "charged"
    unit = "ns"
    steps_per_poll = 1

    def __init__(self, timer: Callable[[], int] = time.thread_time_ns) -> None:
        """`timer`: ns of this thread's CPU time, or of wall time where a step computes on other threads."""
        self._timer = timer
        self._now_ns = 0
        self.step_start = self.step_end = self.step_wall_ns = 0

    def now_ns(self) -> int:
        """Charged time so far."""
        return self._now_ns

    def wait_until(self, t_ns: int) -> None:
        """Idle time passes at once."""
        self._now_ns = max(self._now_ns, t_ns)

    def bill(self, engine: Engine) -> Step:
        """Compute the step and charge what it took, at least 1 ns."""
        self.step_start = self._now_ns
        wall_ns = time.perf_counter_ns()
        begin_ns = self._timer()
        step = engine.step(self._now_ns)
        cost_ns = self._timer() - begin_ns
        self.step_wall_ns = time.perf_counter_ns() - wall_ns
        self._now_ns += max(cost_ns, 1)
        self.step_end = self._now_ns
        return step


class ModelledClock:
    """Virtual time in integer picoseconds that each step's modelled cost is charged to: exact and repeatable."""

    name = "modelled"
    unit = "ps"
    steps_per_poll = 256
    step_wall_ns = 0

    def __init__(self) -> None:
        """Starts at 0."""
        self._now_ps = 0
        self.step_start = self.step_end = 0

    def now_ns(self) -> int:
        """Picoseconds, floored."""
        return self._now_ps // PS_PER_NS

    def wait_until(self, t_ns: int) -> None:
        """Idle time passes at once."""
        self._now_ps = max(self._now_ps, t_ns * PS_PER_NS)

    def bill(self, engine: Engine) -> Step:
        """Charge what the step says it costs. ValueError when it does not say."""
        self.step_start = now_ps = self._now_ps
        step = engine.step(now_ps // PS_PER_NS)
        cost_ps = step.modelled_cost_ps
        if cost_ps is None or cost_ps <= 0:
            raise ValueError(f"a step gave a modelled cost of {cost_ps}: use --clock real or charged for this engine")
        self.step_end = self._now_ps = now_ps + cost_ps
        return step

    def bill_stretch(self, advance: Advance, until_ns: int) -> Stretch | None:
        """Charge all steps of a stretch that start before then; None when the engine must be stepped."""
        now_ps = self._now_ps
        stretch = advance(now_ps, until_ns * PS_PER_NS)
        if stretch is None:
            return None
        steps, first_ps, slope_ps = stretch.steps, stretch.first_cost_ps, stretch.cost_slope_ps
        if steps < 1 or first_ps <= 0 or slope_ps < 0:
            raise ValueError(f"a stretch of {steps} steps of {first_ps} ps and more by {slope_ps} ps each cannot be")
        self.step_start = now_ps
        self.step_end = self._now_ps = now_ps + steps * first_ps + slope_ps * (steps * (steps - 1) // 2)
        return stretch


CLOCKS: dict[str, Callable[[], Clock]] = {
    "real": RealClock,
    "charged": ChargedClock,
    "modelled": ModelledClock,
}


def make_clock(name: str, cost_source: str = "thread_cpu") -> Clock:
    """`cost_source` is the engine's word on how its steps are charged: thread_cpu or wall."""
    if name == "charged" and cost_source != "thread_cpu":
        return ChargedClock(time.perf_counter_ns)
    return CLOCKS[name]()
