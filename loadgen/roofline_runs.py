"""What a page on batching says of an accelerator, played by the engines in modelled time.

Every figure comes out of a run: of a few sequences for one step, or of a whole workload. The page (section numbers
as in it) counts 16 GB of weights; ours are counted from the model's shape, and once more with its round figure.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from engines.cost import ByteCount
from engines.policies import Policy, continuous, one_by_one, static
from engines.roofline import Part, RooflineExecutor, roofline
from engines.slots import SlotEngine
from loadgen.clock import ModelledClock
from loadgen.drive import Decision, play_engine
from results.recording import KINDS, Recording, RecordingPart
from results.schedule import make_schedule
from results.slots import WORK_COLUMNS, StepWork, wasted_slot_fraction
from results.steps import ends_ns, starts_ns

PS_PER_S = 10**12
NS_PER_S = 10**9
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


class _GoOn:
    timeout_ns: int | None = None
    drain_ns: int | None = None

    def __call__(self, now_ns: int, newest: RecordingPart | None) -> Decision:
        return Decision.GO


def play(
    policy: Policy, executor: RooflineExecutor, prompt_tokens: int, outputs: Sequence[int], due_ns: Sequence[int] = ()
) -> Recording:
    """A run of one engine; all is due at 0 unless told."""
    schedule = make_schedule(due_ns or [0] * len(outputs), [prompt_tokens] * len(outputs), list(outputs))
    engine = SlotEngine(policy, executor, executor.cost_model)
    return play_engine(schedule, engine, ModelledClock(), lambda part: None, _GoOn())


def decode_point(executor: RooflineExecutor, rows: int, context_tokens: int) -> Point:
    """A decode of so many sequences, each of which reads so many tokens: as many as the cache takes."""
    recording = play(continuous(rows), executor, max(context_tokens - 1, 1), [2] * rows)
    at = int((recording.steps["kind"] == DECODE).argmax())
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


PAGE = Machine({"hardware": "h100-sxm", "model": "llama-3.1-8b", "kv_cache": ByteCount(53_000_000_000)})
PAGE_ROUNDED = Machine({**PAGE.options, "weights": ByteCount(16_000_000_000)})
CONTEXT_TOKENS = 1_000


def _ideal(machine: Machine, rows: int) -> Point:
    return decode_point(machine.executor(cache="free"), rows, 1)


def _read(machine: Machine, rows: int) -> Point:
    return decode_point(machine.executor(), rows, CONTEXT_TOKENS)


def _kv_kib(machine: Machine) -> float:
    """From two steps: of one token of context, and of 1,001."""
    short, long = (decode_point(machine.executor(), 1, tokens).step_ps for tokens in (2, CONTEXT_TOKENS + 2))
    hardware = machine.executor().cost_model.hardware
    return (long - short) / CONTEXT_TOKENS / PS_PER_S * hardware.bandwidth_bytes_per_s / 1024


def _mixed_lengths(machine: Machine, **options: Any) -> Recording:
    """The page's batch: four replies, of which only the last is long."""
    return play(static(4, **options), machine.executor(cache="free"), 1, [100, 200, 300, 1000])


def _useful_percent(machine: Machine) -> float:
    wasted = wasted_slot_fraction(_mixed_lengths(machine).steps)
    return 100 * (1 - (wasted or 0.0))


def _short_answer_s(machine: Machine, **options: Any) -> float:
    return int(_mixed_lengths(machine, **options).requests["end_ns"][0]) / NS_PER_S


def _newcomer_s(machine: Machine) -> float:
    """Due one step after a batch of four started: its wait for a slot."""
    executor = machine.executor(cache="free")
    step_ns = -(-_ideal(machine, 4).step_ps // 1000)
    recording = play(static(4), executor, 1, [100, 200, 300, 1000, 100], [0, 0, 0, 0, step_ns])
    return _admitted_s(recording, 4) - step_ns / NS_PER_S


def _last_of_100_s(machine: Machine) -> float:
    recording = play(one_by_one(), machine.executor(cache="free"), 1, [CONTEXT_TOKENS] * 100)
    return _admitted_s(recording, 99)


def _admitted_s(recording: Recording, request_id: int) -> float:
    row = int(np.searchsorted(recording.steps["step"], recording.requests["admitted_step"][request_id]))
    return int(starts_ns(recording.steps)[row]) / NS_PER_S


def _steps_ms(machine: Machine) -> float:
    recording = play(one_by_one(), machine.executor(cache="free"), 1, [CONTEXT_TOKENS])
    return int(ends_ns(recording.steps)[-1]) / CONTEXT_TOKENS / 1e6


def _single(machine: Machine) -> float:
    return _read(machine, 1).tokens_per_s


CLAIMS = (
    Claim("step of one sequence, weights alone", 4.8, "ms", _steps_ms,
          "16 GB / 3.35 TB/s; counted, the model has 8.03 G weights"),
    Claim("maths in it", 16.0, "us", lambda m: _ideal(m, 1).part.maths_ps / 1e6, "2 x weights / 989 TFLOP/s"),
    Claim("math units busy", 0.33, "%", lambda m: 100 * _ideal(m, 1).busy_share,
          "16 us / 4.8 ms of rounded figures; the ratio does not depend on the weights"),
    Claim("maths catch up with reading at", 300, "sequences", lambda m: break_even_rows(m.executor(cache="free")),
          "peak / bandwidth = 295.2 operations a byte"),
    Claim("cache of a token", 128, "KiB", _kv_kib, "from the growth of a step with its context"),
    Claim("throughput of 8 without reading caches", 8, "x", lambda m: 8 * _ideal(m, 1).step_ps / _ideal(m, 8).step_ps,
          "one read of the weights for all"),
    Claim("throughput of 8 at 1,000 tokens of context", 8, "x", lambda m: _read(m, 8).tokens_per_s / _single(m),
          "the page's 8 x leaves out that each reads its own cache"),
    Claim("step of 8 at 1,000 tokens of context", 4.8, "ms", lambda m: _read(m, 8).step_ps / 1e9,
          "the same: the step is longer by 8 caches"),
    Claim("sequences in a cache of 53 GB", 404, "sequences", lambda m: _read(m, MOST_ROWS).rows,
          "of 1,000 tokens each; where the page's dashed curve stops"),
    Claim("step there", 20.58, "ms", lambda m: _read(m, MOST_ROWS).step_ps / 1e9, "reading caches is most of it"),
    Claim("throughput there", 19_628, "tok/s", lambda m: _read(m, MOST_ROWS).tokens_per_s, "the end of that curve"),
    Claim("math units busy there", 32, "%", lambda m: 100 * _read(m, MOST_ROWS).busy_share,
          "still limited by reading; ours counts the maths of attention, too"),
    Claim("useful work of 100, 200, 300 and 1,000", 40, "%", _useful_percent, "1,600 of 4,000 slot-steps"),
    Claim("the 100-token answer is ready after", 0.5, "s", _short_answer_s, "100 steps; the page rounds to 5 ms"),
    Claim("and is handed back after", 5, "s", lambda m: _short_answer_s(m, return_="end"),
          "1,000 steps; the page rounds to 5 ms"),
    Claim("who comes a step late waits", 5, "s", _newcomer_s, "for the other 999 steps"),
    Claim("the last of 100 users waits", 473, "s", _last_of_100_s, "99 x 1,000 steps, one by one"),
)  # fmt: skip
"""Where the page draws a curve without a number, the text's figure is the one computed from its own assumptions."""
