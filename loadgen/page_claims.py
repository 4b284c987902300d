"""What a page on batching says of an accelerator, played by the engines in modelled time.

The page counts 16 GB of weights; ours are counted from the model's shape, and once more with its round figure. Where
the page draws a curve without a number, or says of a law no more than its limit, the text's figure is the one computed
from its own assumptions.
"""

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import numpy as np

from engines.cost import ByteCount
from engines.policies import one_by_one, static
from engines.slots import SlotEngine
from loadgen.clock import ModelledClock
from loadgen.drive import play_compact
from loadgen.fleet import GoOn
from loadgen.roofline_runs import MOST_ROWS, PS_PER_S, Claim, Machine, Point, break_even_rows, decode_point, play
from loadgen.streams import exponentials, uniforms
from results.recording import Recording
from results.schedule import make_schedule
from results.slots import wasted_slot_fraction
from results.steps import ends_ns, starts_ns

NS_PER_S = 10**9

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


def _weights_gb(machine: Machine) -> float:
    """Read in one step."""
    bandwidth = machine.executor().cost_model.hardware.bandwidth_bytes_per_s
    return _ideal(machine, 1).part.read_ps / PS_PER_S * bandwidth / 1e9


def _gathered_ms(machine: Machine) -> float:
    return decode_point(machine.executor(cache="free", embedding="gathered"), 1, 1).step_ps / 1e9


def _cache_ps(machine: Machine) -> int:
    """What reading one sequence's cache adds to a step."""
    return _read(machine, 2).part.read_ps - _read(machine, 1).part.read_ps


BATCHES = (2, 4, 8, 16, 32, 64)
MEAN_TOKENS = 1_000
"""So long that whole tokens make no difference."""
DRAWN_REQUESTS, DRAWN_BATCHES = 6_000, {"uniform": 1, "exponential": 600}
"""At least so many, so that the means of all lengths and of the longest are known to better than a hundredth."""


@lru_cache
def _useful_of_drawn_percent(distribution: str, batch: int) -> float:
    """Slot-steps that yield a token, of static batches of answers of random lengths: whatever the machine.

    One length of each of as many equal parts of the distribution, in random order: the mean of all hardly varies, and
    half as far off as with independent ones.
    """
    requests = max(DRAWN_REQUESTS, DRAWN_BATCHES[distribution] * batch)
    strata = (np.arange(requests) + uniforms(1, f"useful.{distribution}.{batch}", requests)) / requests
    drawn = strata[np.argsort(uniforms(1, f"useful.order.{batch}", requests), kind="stable")]
    lengths = 2 * drawn if distribution == "uniform" else exponentials(drawn)
    outputs = np.maximum(np.ceil(lengths * MEAN_TOKENS), 1).astype(np.int64)
    zeros = np.zeros(len(outputs), dtype=np.int64)
    executor = PAGE.executor(cache="free")
    engine = SlotEngine(static(batch), executor, executor.cost_model)
    schedule = make_schedule(zeros, zeros + 1, outputs)
    run = play_compact(schedule, engine, ModelledClock(), lambda part: None, GoOn())
    return 100 * (1 - (wasted_slot_fraction(run.steps) or 0.0))


def _useful_claims(distribution: str, closed_form: Callable[[int], float], why: str) -> list[Claim]:
    def played(batch: int, machine: Machine) -> float:
        return _useful_of_drawn_percent(distribution, batch)

    return [
        Claim(f"useful work of {distribution} lengths, {batch} in a batch", 100 * closed_form(batch), "%",
              partial(played, batch), why)
        for batch in BATCHES
    ]  # fmt: skip


def _single(machine: Machine) -> float:
    return _read(machine, 1).tokens_per_s


CLAIMS = (
    Claim("weights", 16, "GB", _weights_gb, "8.03 G of them at two bytes"),
    Claim("step of one sequence, weights alone", 4.8, "ms", _steps_ms,
          "16 GB / 3.35 TB/s; counted, the model has 8.03 G weights"),
    Claim("the same, where a row of the input embedding is gathered", 4.48, "ms", _gathered_ms,
          "6.5 % of the weights are not read; an average over all rounded 16 GB, too"),
    Claim("maths in it", 16.0, "us", lambda m: _ideal(m, 1).part.maths_ps / 1e6, "2 x weights / 989 TFLOP/s"),
    Claim("math units busy", 0.33, "%", lambda m: 100 * _ideal(m, 1).busy_share,
          "16 us / 4.8 ms of rounded figures; the ratio does not depend on the weights"),
    Claim("maths catch up with reading at", 300, "sequences", lambda m: break_even_rows(m.executor(cache="free")),
          "peak / bandwidth = 295.2 operations a byte"),
    Claim("the same, at 30 % of the peak", 88.6, "sequences",
          lambda m: break_even_rows(m.executor(cache="free", decode_fraction=0.3)), "0.3 x 295.2"),
    Claim("cache of a token", 128, "KiB", _kv_kib, "from the growth of a step with its context"),
    Claim("throughput of 8 without reading caches", 8, "x", lambda m: 8 * _ideal(m, 1).step_ps / _ideal(m, 8).step_ps,
          "one read of the weights for all"),
    Claim("throughput of 8 at 1,000 tokens of context", 8, "x", lambda m: _read(m, 8).tokens_per_s / _single(m),
          "the page's 8 x leaves out that each reads its own cache"),
    Claim("step of 8 at 1,000 tokens of context", 4.8, "ms", lambda m: _read(m, 8).step_ps / 1e9,
          "the same: the step is longer by 8 caches"),
    Claim("caches take as long to read as the weights at", 122, "sequences",
          lambda m: _ideal(m, 1).part.read_ps / _cache_ps(m), "131 MB each at 1,000 tokens of context"),
    Claim("sequences in a cache of 53 GB", 404, "sequences", lambda m: _read(m, MOST_ROWS).rows,
          "of 1,000 tokens each; where the page's dashed curve stops"),
    Claim("step there", 20.58, "ms", lambda m: _read(m, MOST_ROWS).step_ps / 1e9, "reading caches is most of it"),
    Claim("throughput there", 19_628, "tok/s", lambda m: _read(m, MOST_ROWS).tokens_per_s, "the end of that curve"),
    Claim("throughput that more memory could not exceed", 25_558, "tok/s", lambda m: PS_PER_S / _cache_ps(m),
          "each token takes the reading of its own cache"),
    Claim("math units busy there", 32, "%", lambda m: 100 * _read(m, MOST_ROWS).busy_share,
          "still limited by reading; ours counts the maths of attention, too"),
    Claim("useful work of 100, 200, 300 and 1,000", 40, "%", _useful_percent, "1,600 of 4,000 slot-steps"),
    Claim("the 100-token answer is ready after", 0.5, "s", _short_answer_s, "100 steps; the page rounds to 5 ms"),
    Claim("and is handed back after", 5, "s", lambda m: _short_answer_s(m, return_="end"),
          "1,000 steps; the page rounds to 5 ms"),
    Claim("who comes a step late waits", 5, "s", _newcomer_s, "for the other 999 steps"),
    Claim("the last of 100 users waits", 473, "s", _last_of_100_s, "99 x 1,000 steps, one by one"),
    *_useful_claims("uniform", lambda batch: (batch + 1) / (2 * batch),
                    "(B + 1) / 2B, with the page's one half for large B; ours from drawn lengths"),
    *_useful_claims("exponential", lambda batch: 1 / sum(1 / rank for rank in range(1, batch + 1)),
                    "1 / (1 + 1/2 + ... + 1/B): the page's mean over longest; ours from drawn lengths"),
)  # fmt: skip
