"""A model on hardware that is not here: decode steps of more and more sequences, and a text's figures beside ours.

Every figure comes out of a run of the engines in modelled time: of a few sequences for one step, or of a whole
workload.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from engines.policies import Policy, continuous
from engines.roofline import Part, RooflineExecutor, roofline
from engines.slots import SlotEngine
from loadgen.clock import ModelledClock
from loadgen.drive import play_engine
from loadgen.fleet import GoOn
from results.recording import KINDS, Recording
from results.schedule import make_schedule
from results.slots import WORK_COLUMNS, StepWork

PS_PER_S = 10**12
MOST_ROWS = 1024
"""Slots of the engine that is filled until the cache is full."""
DECODE = KINDS.index("decode")


@dataclass(frozen=True, slots=True)
class Machine:
    """A model on some hardware."""

    options: dict[str, Any]
    """Of the roofline executor."""

    def executor(self, **more: Any) -> RooflineExecutor:
        """With other options on top."""
        return roofline(MOST_ROWS, **{**self.options, **more})


@dataclass(frozen=True, slots=True)
class Point:
    """One decode step, as it was played."""

    rows: int
    part: Part
    step_ps: int

    @property
    def tokens_per_s(self) -> float:
        """Of a run of such steps."""
        return self.rows * PS_PER_S / self.step_ps

    @property
    def busy_share(self) -> float:
        """Time of the maths / time of the step."""
        return self.part.maths_ps / self.step_ps


def play(
    policy: Policy, executor: RooflineExecutor, prompt_tokens: int, outputs: Sequence[int], due_ns: Sequence[int] = ()
) -> Recording:
    """A run of one engine; all is due at 0 unless told."""
    schedule = make_schedule(due_ns or [0] * len(outputs), [prompt_tokens] * len(outputs), list(outputs))
    engine = SlotEngine(policy, executor, executor.cost_model)
    return play_engine(schedule, engine, ModelledClock(), lambda part: None, GoOn())


def decode_point(executor: RooflineExecutor, rows: int, context_tokens: int) -> Point:
    """A decode of so many sequences, each of which reads so many tokens: as many as the cache takes.

    ValueError when it does not take one.
    """
    recording = play(continuous(rows), executor, max(context_tokens - 1, 1), [2] * rows)
    decodes = recording.steps["kind"] == DECODE
    if not decodes.any():
        raise ValueError(
            f"no sequence of {context_tokens} tokens was decoded: the cache holds {executor.kv_capacity_tokens}, and a "
            "step must take a picosecond at least; give a shorter --context, a larger --kv-cache or other hardware"
        )
    at = int(decodes.argmax())
    counts = {name: int(recording.steps[name][at]) for name in WORK_COLUMNS}
    part = executor.cost_model.parts(StepWork("decode", **counts))
    return Point(counts["decoding_slots"], part, int(recording.steps["cost_ps"][at]))


def curve(machine: Machine, context_tokens: int, free_cache: bool) -> list[Point]:
    """Steps of more and more sequences, to the last that the cache takes (the ideal one goes on for ever)."""
    executor = machine.executor(cache="free") if free_cache else machine.executor()
    full = decode_point(machine.executor(), MOST_ROWS, context_tokens).rows
    last = MOST_ROWS if free_cache else full
    sizes = sorted({*(2**power for power in range(11) if 2**power <= last), *range(32, last, 32), full, last})
    return [decode_point(executor, rows, context_tokens) for rows in sizes]


def break_even_rows(executor: RooflineExecutor) -> float:
    """At how many sequences the maths of a step would take as long as reading the weights."""
    point = decode_point(executor, 1, 1)
    return point.part.read_ps / point.part.maths_ps


@dataclass(frozen=True, slots=True)
class Claim:
    """A figure of the page, and how to get it from a machine."""

    figure: str
    text: float
    unit: str
    play: Callable[[Machine], float]
    why: str


@dataclass(frozen=True, slots=True)
class Told:
    """A figure of the page beside ours."""

    figure: str
    unit: str
    text: float
    round_weights: float
    """Ours with the page's 16 GB."""
    counted_weights: float
    why: str

    @property
    def difference_fraction(self) -> float:
        """Ours with the page's weights, against the page."""
        return self.round_weights / self.text - 1


def tell(claims: Sequence[Claim], round_machine: Machine, machine: Machine) -> list[Told]:
    """Play every claim on both."""
    return [
        Told(one.figure, one.unit, one.text, one.play(round_machine), one.play(machine), one.why) for one in claims
    ]
