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
Rows = list[tuple[str, ...]]


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

    def __init__(self, cap_tokens: int, batch: int, budget_tokens: int) -> None:
        """Static batches of so many, and so many tokens of cache for those that share it in blocks."""
        prompts, self.outputs = anyscale(REQUESTS, SEED, cap_tokens)
        self._batch, self._budget_tokens = batch, budget_tokens
        self.prompt_tokens = int(prompts.sum())
        self.schedule = make_schedule(np.zeros(REQUESTS, dtype=np.int64), prompts, self.outputs)

    def duration_s(self, policy: str) -> float:
        """From the burst to the last token."""
        return float(play_spec(self.schedule, f"{policy},{OPT_ON_A100}").values_ns["e2e"].max()) / NS_PER_S

    @cached_property
    def naive_s(self) -> float:
        """Static batches that all run as long as the longest answer of the whole workload."""
        return self.duration_s(f"static,batch={self._batch},until={int(self.outputs.max())}")

    @cached_property
    def static_s(self) -> float:
        """Static batches that end with their own longest answer."""
        return self.duration_s(f"static,batch={self._batch}")

    @cached_property
    def continuous_s(self) -> float:
        """Whoever joins has room in the cache for its whole answer."""
        return self.duration_s("continuous,batch=256")

    @cached_property
    def paged_s(self) -> float:
        """Room as texts grow, in blocks; prompts in chunks."""
        return self.duration_s(f"paged,batch=256,cache-tokens={self._budget_tokens}")

    @property
    def both_tokens(self) -> int:
        """Prompts counted, too, as the text does."""
        return self.prompt_tokens + self.output_tokens

    @property
    def output_tokens(self) -> int:
        """Answers alone."""
        return int(self.outputs.sum())

    def steps(self, whole: bool) -> int:
        """Of all batches, each as long as its own longest answer, or as the longest of all."""
        longest: Int64 = self.outputs.reshape(-1, self._batch).max(axis=1)
        return len(longest) * int(longest.max()) if whole else int(longest.sum())


OPT_ON_A100 = "executor=roofline,hardware=a100-40gb,model=opt-13b,kv-cache=6.6GB"
"""8,100 tokens of 819,200 bytes: the budget that the text's servers had at this cap."""
ANYSCALE = Machine({"hardware": "a100-40gb", "model": "opt-13b"})
CAPS = ((32, 16, 8_700), (128, 12, 7_500), (512, 8, 8_100), (1_536, 4, 8_100))
"""Longest answer, requests in a static batch, tokens in a shared cache: as the text had them."""


def anyscale_figures() -> list[Figure]:
    """1,000 prompts of 512 tokens in a burst, answers of 128 on average, capped at 1,536."""
    burst = _Burst(*CAPS[-1])
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


def anyscale_loads() -> Rows:
    """Tokens a second by the cap on the answers, prompts counted and not."""
    policies = ("to the longest of all", "static", "continuous", "paged")
    rows: Rows = [("longest answer", "static batch", "tokens counted", *(f"{one}, tok/s" for one in policies))]
    for cap_tokens, batch, budget_tokens in CAPS:
        burst = _Burst(cap_tokens, batch, budget_tokens)
        times_s = (burst.naive_s, burst.static_s, burst.continuous_s, burst.paged_s)
        for words, tokens in (("prompts and answers", burst.both_tokens), ("answers", burst.output_tokens)):
            rows.append((str(cap_tokens), str(batch), words, *(f"{tokens / time_s:,.1f}" for time_s in times_s)))
    return rows


GPT_ON_A100S = "executor=roofline,hardware=a100-40gb,model=gpt-175b,tp=16"
ORCA = Machine({"hardware": "a100-40gb", "model": "gpt-175b", "tp": 16})


def _probe(policy: str, rate_rps: float) -> tuple[float, float]:
    """(median of latency per generated token in ms, requests served a second) under Poisson arrivals."""
    prompts, outputs = orca(PROBE_REQUESTS, SEED)
    schedule = make_schedule(due_times_ns("poisson", PROBE_REQUESTS, rate_rps, SEED), prompts, outputs)
    values_ns = play_spec(schedule, f"{policy},{GPT_ON_A100S}").values_ns
    value, _ = quantile(values_ns["norm"], 0.5)
    return (value or np.inf) / 1e6, PROBE_REQUESTS * NS_PER_S / float((schedule.due_ns + values_ns["e2e"]).max())


def norm_p50_ms(policy: str, rate_rps: float) -> float:
    """The median alone."""
    return _probe(policy, rate_rps)[0]


def highest_rps(policy: str, limit_ms: float) -> float:
    """The largest rate within the limit, to a few parts in a thousand, bisected on a scale of logarithms."""
    low, high = LOWEST_RPS, HIGHEST_RPS
    for _ in range(HALVINGS):
        middle = float(np.sqrt(low * high))
        low, high = (middle, high) if norm_p50_ms(policy, middle) <= limit_ms else (low, middle)
    return low


ITERATION_LEVEL, REQUEST_LEVEL = "continuous,batch=128", ("static,batch=1,return=end", "static,batch=8,return=end")
RATES_RPS = (0.5, 1, 2, 4, 8, 16)


def orca_loads() -> Rows:
    """Latency per generated token against throughput, as the text draws it."""
    rows: Rows = [("scheduling", "offered req/s", "served req/s", "p50 of ms a generated token")]
    for policy in (*REQUEST_LEVEL, ITERATION_LEVEL):
        for rate_rps in RATES_RPS:
            latency_ms, served_rps = _probe(policy, rate_rps)
            rows.append((policy, f"{rate_rps:g}", f"{served_rps:.3g}", f"{latency_ms:,.1f}"))
    return rows


def orca_figures() -> list[Figure]:
    """175 B on 16 devices: the load at which the median normalised latency is twice that of an idle system."""
    limit_ms = 2 * norm_p50_ms(ITERATION_LEVEL, LIGHT_RPS)
    ours = highest_rps(ITERATION_LEVEL, limit_ms)
    theirs = max(highest_rps(one, limit_ms) for one in REQUEST_LEVEL)
    return [
        Figure("limit: twice the normalised latency of an idle system", "ms", 190, limit_ms,
               "a pipeline of two stages there, 16 ways of one layer here, and no kernel's overhead"),
        Figure("iteration-level, requests within it", "req/s", 6.81, ours, "follows from the faster steps"),
        Figure("request-level, requests within it", "req/s", 0.185, theirs,
               "the text's baseline also lets pipeline stages wait for each other"),
        Figure("iteration-level / request-level", "x", 36.9, ours / theirs,
               "of these two; the text's also has what its engine does better than the baseline's"),
    ]  # fmt: skip


TEXTS: dict[str, tuple[Machine, Callable[[], list[Figure]], Callable[[], Rows]]] = {
    "anyscale-2023": (ANYSCALE, anyscale_figures, anyscale_loads),
    "orca-2022": (ORCA, orca_figures, orca_loads),
}
"""Name -> machine, figures beside ours, and what the text draws rather than says, as a table with its head."""
