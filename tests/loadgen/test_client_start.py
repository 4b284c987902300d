"""Client processes that do not come up: the run can be stopped while it waits for them."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from loadgen.client_processes import play_processes
from loadgen.config import RunConfig, from_texts
from loadgen.steering import Steering
from loadgen.target_player import MOST_PROCESSES, TargetPlayer
from loadgen.workload import build_schedule


def server_config(**texts: str) -> RunConfig:
    """Three requests for a server that is not there."""
    return from_texts({"target": "http://127.0.0.1:9", "rate": "9", "requests": "3", **texts})


class Sleeper:
    """A client that is never ready; whoever starts it presses Ctrl-C so often meanwhile."""

    rank, ended_requests, result = 0, 0, None

    def __init__(self, control: Steering, interrupts: int) -> None:
        self.killed = False
        self._control, self._interrupts = control, interrupts

    async def start(self, setup: dict[str, Any]) -> None:
        """For ever."""
        for _ in range(self._interrupts):
            self._control.interrupt(2, None)
        await asyncio.Event().wait()

    async def listen(self) -> None:
        """There is nothing to hear."""

    def say(self, document: dict[str, Any]) -> None:
        """It does not listen."""

    def kill(self) -> None:
        """Noted."""
        self.killed = True


@pytest.mark.parametrize("interrupts", [1, 2])
def test_ctrl_c_while_processes_start_ends_the_run(interrupts: int, tmp_path: Path) -> None:
    """Nothing has been sent yet, so that nothing is lost; and no process is left behind."""
    config = server_config(processes="2")
    control = Steering(config, lambda ended_requests: None, None)
    client = Sleeper(control, interrupts)
    work = play_processes(
        config, build_schedule(config), tmp_path, control, "m", lambda origin_ns: None, clients=[client]
    )
    with pytest.raises(KeyboardInterrupt):
        asyncio.run(asyncio.wait_for(work, 10))
    assert client.killed


def test_more_processes_than_a_machine_can_start_are_refused() -> None:
    """Before any of them is there; the line names the most."""
    TargetPlayer(server_config(processes=str(MOST_PROCESSES)), build_schedule(server_config()))
    with pytest.raises(ValueError, match=f"at most {MOST_PROCESSES}"):
        TargetPlayer(server_config(processes=str(MOST_PROCESSES + 1)), build_schedule(server_config()))
