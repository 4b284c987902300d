"""The player: what plays a schedule, an engine in this process or a server behind a wire. A session needs no more."""

import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from loadgen.clock import make_clock
from loadgen.config import RunConfig
from loadgen.drive import play_engine
from loadgen.engine_spec import machine_of, make_engine
from loadgen.long_runs import is_long, play_long
from loadgen.steering import Steering
from loadgen.warmup import warm_up
from results.columns import Table
from results.recording import Recording, RecordingPart
from results.schedule import Schedule

Emit = Callable[[RecordingPart], None]
ENGINE, HTTP = "engine", "http"


class Player(Protocol):
    """One kind of thing under load, for one run."""

    target: str
    """engine or http: what the verdict's table calls it."""
    drain_ns: int | None
    """How long the rest may take after the last due time, where nobody said otherwise."""

    def describe(self) -> Mapping[str, Any]:
        """What goes into the stamp."""
        ...

    def open(self) -> None:
        """Before anything is written: see that it can be played at all. ValueError in one line."""

    def warm_up(self, folder: Path) -> Table | None:
        """Before time 0: rows of the warm-up, where there was one."""
        ...

    def play(self, folder: Path, emit: Emit, control: Steering) -> Recording:
        """From time 0 to the end."""
        ...

    def found(self) -> Mapping[str, Any]:
        """After the run: what is known only now, for run.json; under `facts` what the verdict needs."""
        ...

    def close(self) -> None:
        """Give everything back, whatever has been opened."""


class EnginePlayer:
    """A stepping engine in this process, on one of the three clocks."""

    target = ENGINE

    def __init__(self, config: RunConfig, schedule: Schedule) -> None:
        """ValueError in one line when the engine cannot be made."""
        self._config = config
        self._schedule = schedule
        self._facts: dict[str, Any] = {}
        self._engine = make_engine(config.engine, config.clock, schedule, machine_of(config))
        self.drain_ns: int | None = None
        self._long = config.clock == "modelled" and is_long(schedule, self._engine)
        try:
            json.dumps(dict(self._engine.describe()), allow_nan=False, default=str)
        except (ValueError, TypeError) as error:
            told = f"engine {config.engine} describes itself with what JSON cannot hold"
            raise ValueError(f"{told}: {error}") from None

    def describe(self) -> Mapping[str, Any]:
        """As the engine does; and whether its tokens have no row each."""
        return {**self._engine.describe(), **({"token_rows": "implied by stretches"} if self._long else {})}

    def open(self) -> None:
        """Nothing to open."""

    def warm_up(self, folder: Path) -> Table | None:
        """None in modelled time, where nothing can be cold."""
        if self._config.clock == "modelled":
            return None
        charged = self._config.clock == "charged" and self._cost_source == "thread_cpu"
        warmed = warm_up(self._engine, self._schedule, time.thread_time_ns if charged else time.perf_counter_ns)
        self._facts = {"warmup_converged": warmed.converged, "left_in_flight_requests": warmed.left_requests}
        return warmed.rows

    def play(self, folder: Path, emit: Emit, control: Steering) -> Recording:
        """The stepping driver; many steps at once where there would be too many rows."""
        if self._long:
            return play_long(self._schedule, self._engine, emit, control)
        clock = make_clock(self._config.clock, self._cost_source)
        return play_engine(self._schedule, self._engine, clock, emit, control)

    def found(self) -> Mapping[str, Any]:
        """Whether the warm-up settled, and left nothing behind."""
        return {"facts": self._facts} if self._facts else {}

    @property
    def _cost_source(self) -> str:
        return str(self._engine.describe().get("cost_source", "wall"))

    def close(self) -> None:
        """Nothing to give back."""
