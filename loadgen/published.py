"""Published comparisons of batching policies, played in modelled time on the hardware they name.

A roofline is the machine at its best and knows nothing of a framework's own cost, so figures of a framework are not
met, and the table says by how much. Nothing is scaled to fit.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from loadgen.arrivals import due_times_ns
from loadgen.engine_spec import make_engine
from loadgen.fleet import Served, play_fleet
from loadgen.presets import anyscale, orca
from loadgen.roofline_runs import Machine
from results.columns import Int64
from results.schedule import Schedule, make_schedule
from results.stats import quantile

NS_PER_S = 1e9
SEED = 7
REQUESTS = 1_000
PROBE_REQUESTS = 400
HALVINGS = 12
LOWEST_RPS, HIGHEST_RPS = 0.01, 1_000.0
LIGHT_RPS = 0.001


@dataclass(frozen=True, slots=True)
class Figure:
    """What a text says beside what came out."""

    figure: str
    unit: str
    text: float
    ours: float
    why: str

    @property
    def difference_fraction(self) -> float:
        """Ours against the text."""
        return self.ours / self.text - 1


def play_spec(schedule: Schedule, spec: str) -> Served:
    """One engine alone."""
    return play_fleet(schedule, lambda: make_engine(spec, "modelled", schedule), 1)


class _Burst:
    """All due at 0: how long everything takes under a policy."""

    def __init__(self, cap_tokens: int) -> None:
        prompts, self.outputs = anyscale(REQUESTS, SEED, cap_tokens)
        self.prompt_tokens = int(prompts.sum())
        self.schedule = make_schedule(np.zeros(REQUESTS, dtype=np.int64), prompts, self.outputs)

    def duration_s(self, policy: str) -> float:
        """From the burst to the last token."""
        return float(play_spec(self.schedule, f"{policy},{OPT_ON_A100}").values_ns["e2e"].max()) / NS_PER_S

    @cached_property
    def naive_s(self) -> float:
        """Static batches that all run as long as the longest answer of the whole workload."""
        return self.duration_s(f"static,batch=4,until={int(self.outputs.max())}")

    @cached_property
    def static_s(self) -> float:
        """Static batches that end with their own longest answer."""
        return self.duration_s("static,batch=4")

    @cached_property
    def continuous_s(self) -> float:
        """Whoever joins has room in the cache for its whole answer."""
        return self.duration_s("continuous,batch=256")

    @cached_property
    def paged_s(self) -> float:
        """Room as texts grow, in blocks; prompts in chunks."""
        return self.duration_s("paged,batch=256,cache-tokens=8100")

    @property
    def both_tokens(self) -> int:
        """Prompts counted, too, as the text does."""
        return self.prompt_tokens + self.output_tokens

    @property
    def output_tokens(self) -> int:
        """Answers alone."""
        return int(self.outputs.sum())

    def steps(self, whole: bool) -> int:
        """Of all batches of four, each as long as its own longest answer, or as the longest of all."""
        longest: Int64 = self.outputs.reshape(-1, 4).max(axis=1)
        return len(longest) * int(longest.max()) if whole else int(longest.sum())


OPT_ON_A100 = "executor=roofline,hardware=a100-40gb,model=opt-13b,kv-cache=6.6GB"
"""8,100 tokens of 819,200 bytes: the budget that the text's servers had at this cap."""
ANYSCALE = Machine({"hardware": "a100-40gb", "model": "opt-13b"})


def anyscale_figures() -> list[Figure]:
    """1,000 prompts of 512 tokens in a burst, answers of 128 on average, capped at 1,536."""
    burst = _Burst(1536)
    framework = "the text's server takes 2.2 times as long for a step as reading the weights does"
    naive, useful = burst.naive_s, burst.output_tokens / 4
    return [
        Figure("useful share, every batch as long as the longest of all", "%", 15.4,
               100 * useful / burst.steps(whole=True), "other lengths were drawn; theirs had a longest of 843"),
        Figure("useful share, every batch as long as its own longest", "%", 48.4,
               100 * useful / burst.steps(whole=False), "1 / H_4 = 48 % for exponential lengths"),
        Figure("static to the longest of all, prompts and answers", "tok/s", 81, burst.both_tokens / naive, framework),
        Figure("the same, answers alone", "tok/s", 16.4, burst.output_tokens / naive, framework),
        Figure("static with its own longest / that", "x", 4, naive / burst.static_s,
               "the text's is another, faster framework; ours is the policy alone"),
        Figure("continuous / that", "x", 8, naive / burst.continuous_s,
               "ours has no cost of its own, and knows how long each answer will be"),
        Figure("paged / that", "x", 23, naive / burst.paged_s,
               "the same budget of 8,100 tokens; the text's server has faster kernels than its baseline, too"),
    ]  # fmt: skip


GPT_ON_A100S = "executor=roofline,hardware=a100-40gb,model=gpt-175b,tp=16"
ORCA = Machine({"hardware": "a100-40gb", "model": "gpt-175b", "tp": 16})


def norm_p50_ms(policy: str, rate_rps: float) -> float:
    """Median of latency per generated token under Poisson arrivals."""
    prompts, outputs = orca(PROBE_REQUESTS, SEED)
    schedule = make_schedule(due_times_ns("poisson", PROBE_REQUESTS, rate_rps, SEED), prompts, outputs)
    value, _ = quantile(play_spec(schedule, f"{policy},{GPT_ON_A100S}").values_ns["norm"], 0.5)
    return (value or np.inf) / 1e6


def highest_rps(policy: str, limit_ms: float) -> float:
    """The largest rate within the limit, to a few parts in a thousand, bisected on a scale of logarithms."""
    low, high = LOWEST_RPS, HIGHEST_RPS
    for _ in range(HALVINGS):
        middle = float(np.sqrt(low * high))
        low, high = (middle, high) if norm_p50_ms(policy, middle) <= limit_ms else (low, middle)
    return low


def orca_figures() -> list[Figure]:
    """175 B on 16 devices: the load at which the median normalised latency is twice that of an idle system."""
    iteration, static = "continuous,batch=128", ("static,batch=1,return=end", "static,batch=8,return=end")
    limit_ms = 2 * norm_p50_ms(iteration, LIGHT_RPS)
    ours = highest_rps(iteration, limit_ms)
    theirs = max(highest_rps(one, limit_ms) for one in static)
    return [
        Figure("limit: twice the normalised latency of an idle system", "ms", 190, limit_ms,
               "a pipeline of two stages there, 16 ways of one layer here, and no kernel's overhead"),
        Figure("iteration-level, requests within it", "req/s", 6.81, ours, "follows from the faster steps"),
        Figure("request-level, requests within it", "req/s", 0.185, theirs,
               "the text's baseline also lets pipeline stages wait for each other"),
        Figure("iteration-level / request-level", "x", 36.9, ours / theirs,
               "of these two; the text's also has what its engine does better than the baseline's"),
    ]  # fmt: skip


TEXTS: dict[str, tuple[Machine, Callable[[], list[Figure]]]] = {
    "anyscale-2023": (ANYSCALE, anyscale_figures),
    "orca-2022": (ORCA, orca_figures),
}
