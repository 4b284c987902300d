"""The pacer: it wakes the loop at the moment asked, never before."""

import asyncio
import time
from collections.abc import Callable

import pytest
import uvloop

from loadgen.pacer import LoopPacer, Pacer, TimerfdPacer, make_pacer

MS_NS = 1_000_000
Make = Callable[[asyncio.AbstractEventLoop, Callable[[], None]], Pacer]


@pytest.mark.realtime
@pytest.mark.parametrize("make", [TimerfdPacer, LoopPacer, make_pacer])
@pytest.mark.parametrize("factory", [uvloop.new_event_loop, asyncio.new_event_loop])
def test_it_calls_back_once_a_deadline(make: Make, factory: Callable[[], asyncio.AbstractEventLoop]) -> None:
    """Each deadline armed gives one call; a moment that has passed gives it at once."""

    async def scenario() -> list[int]:
        woken: list[int] = []
        ready = asyncio.Event()

        def wake() -> None:
            woken.append(time.perf_counter_ns())
            ready.set()

        pacer = make(asyncio.get_running_loop(), wake)
        for delay_ns in (5 * MS_NS, 0, -MS_NS, 2 * MS_NS):
            ready.clear()
            pacer.arm(time.perf_counter_ns() + delay_ns)
            await asyncio.wait_for(ready.wait(), 5)
        await asyncio.sleep(0.01)
        pacer.close()
        return woken

    with asyncio.Runner(loop_factory=factory) as runner:
        assert len(runner.run(scenario())) == 4


@pytest.mark.realtime
def test_the_timerfd_is_never_early_and_the_last_deadline_counts() -> None:
    """Arming again replaces what was armed; the call comes at or after the deadline."""

    async def scenario() -> tuple[int, int, int]:
        woken: list[int] = []
        pacer = TimerfdPacer(asyncio.get_running_loop(), lambda: woken.append(time.perf_counter_ns()))
        now_ns = time.perf_counter_ns()
        pacer.arm(now_ns + MS_NS)
        pacer.arm(now_ns + 30 * MS_NS)
        while not woken and time.perf_counter_ns() < now_ns + 5_000 * MS_NS:
            await asyncio.sleep(0.005)
        pacer.close()
        return now_ns, woken[0], len(woken)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        armed_ns, woken_ns, times = runner.run(scenario())
    assert woken_ns >= armed_ns + 30 * MS_NS
    assert times == 1


def test_a_closed_pacer_is_silent() -> None:
    """After close nothing calls back."""

    async def scenario() -> list[int]:
        woken: list[int] = []
        for make in (TimerfdPacer, LoopPacer):
            pacer = make(asyncio.get_running_loop(), lambda: woken.append(1))
            pacer.arm(time.perf_counter_ns() + 2 * MS_NS)
            pacer.close()
        await asyncio.sleep(0.02)
        return woken

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(scenario()) == []
