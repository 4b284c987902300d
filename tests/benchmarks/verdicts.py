"""How often the verdicts are right, on thousands of simulated runs: one JSON line.

Runs are those of `one-by-one` in modelled time, by `fifo.py` beside this file: Poisson arrivals, 1,000 requests. What
decides is the program's own: summary, verdict, comparison and search.

aa_false_rate: of 200 A/B sessions (6 pairs, 10 when undecided) of an engine with itself at rho .8, how many call it
better or worse. Modelled engines equal themselves to the bit, so both sides get a noise of their own: service times
of a run times exp(N(0, 1 %)), of each request times exp(N(0, 5 %)).
power_10pct: the same with side B 10 % slower, how many call it worse and not better.
overload_detected, overload_false: of 200 seeds at rho 1.25 and .9, how many have their TTFT withheld.
capacity_coverage, capacity_bias: of 200 searches (5 seeds) on exponential outputs for the rate at which 90 % of
requests are served within a time whose closed form, M/M/1, says rho .7: how many 95 % intervals hold that rate, and
by how much the answers' mean is off.
"""

import json
import os
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from math import exp, log
from typing import Any

import numpy as np
from fifo import Cost, exponential_outputs, play_fifo, poisson_schedule
from scipy.special import ndtri

from loadgen.rate_search import Effort, find_capacity
from loadgen.streams import uniforms
from results import metrics
from results.comparison.decision import UNRESOLVED, decide, overall
from results.meets import meets
from results.paired import STAGES
from results.recording import Recording
from results.slo import parse_slo
from results.verdicts.judged import judged
from results.verdicts.overload import judge_load
from results.verdicts.run_facts import RunFacts
from results.verdicts.thresholds import Thresholds

SESSIONS = 200
REQUESTS = 1_000
COST = Cost()
SERVICE_S = 1e-9 * (COST.prefill_base_ns + COST.prefill_token_ns * 64 + COST.decode_ns * 31)
"""Mean of one request: 64 prompt tokens, 32 output tokens."""
SLO = parse_slo("ttft<=1s,tpot<=50ms")
RUN_NOISE, REQUEST_NOISE = 0.01, 0.05
MEAN_TOKENS = 200
TOKEN_COST = Cost(prefill_base_ns=1_000_000, prefill_token_ns=0, decode_ns=1_000_000)
CAPACITY_RHO, ATTAINMENT = 0.7, 0.9
Json = dict[str, Any]


def summary_at(rho: float, seed: int, stretch: Any = 1.0) -> tuple[Json, Json]:
    """Summary and verdict of one run."""
    schedule = poisson_schedule(REQUESTS, rho / SERVICE_S, seed)
    facts = RunFacts(clock="modelled", schedule_sha256=schedule.sha256)
    summary, verdict = judged(play_fifo(schedule, COST, stretch), SLO, facts)
    return summary, verdict.to_json()


def noise(seed: int, side: str) -> Any:
    """By how much each request of a run is stretched."""
    drawn = ndtri(uniforms(seed, f"noise.{side}", REQUESTS + 1))
    return np.exp(RUN_NOISE * drawn[0] + REQUEST_NOISE * drawn[1:])


def session(number: int, slower: float) -> tuple[str, int]:
    """The conclusion of one A/B session and the pairs that it took."""
    pairs: list[tuple[Json, Json]] = []
    conclusion = UNRESOLVED
    for target, _ in STAGES:
        while len(pairs) < target:
            seed = 1_000 * number + len(pairs)
            a, _ = summary_at(0.8, seed, noise(seed, "a"))
            b, _ = summary_at(0.8, seed, slower * noise(seed, "b"))
            pairs.append((a, b))
        conclusion = overall(decide([pairs])[0])
        if conclusion != UNRESOLVED:
            break
    return conclusion, len(pairs)


def equal_session(number: int) -> tuple[str, int]:
    """A/A."""
    return session(number, 1.0)


def slower_session(number: int) -> tuple[str, int]:
    """B is 10 % slower."""
    return session(number, 1.1)


def withheld(rho: float, seed: int) -> bool:
    """Whether the run's TTFT is withheld as overloaded."""
    summary, _ = summary_at(rho, seed)
    return bool(summary["ttft_ms"].get("withheld") == "OVERLOADED")


def withheld_above(seed: int) -> bool:
    """At rho 1.25."""
    return withheld(1.25, seed)


def withheld_below(seed: int) -> bool:
    """At rho .9."""
    return withheld(0.9, seed)


def true_capacity() -> tuple[float, float]:
    """(req/s at which 90 % are served within the limit, that limit in ns): P(T <= x) = 1 - exp(-(mu - lambda) x)."""
    mu_rps = 1e9 / TOKEN_COST.decode_ns * (1 - exp(-1 / MEAN_TOKENS))
    limit_s = -log(1 - ATTAINMENT) / (mu_rps * (1 - CAPACITY_RHO))
    return CAPACITY_RHO * mu_rps, limit_s * 1e9


def passes(rate_rps: float, seed: int, requests: int) -> bool:
    """Whether a probe does, by the program's rule on the load and the share within the limit."""
    outputs = exponential_outputs(requests, seed, MEAN_TOKENS)
    recording = play_fifo(poisson_schedule(requests, rate_rps, seed, outputs, (1, 1)), TOKEN_COST)
    return meets(*light_judgement(recording, true_capacity()[1]), ATTAINMENT)[0]


def light_judgement(recording: Recording, limit_ns: float) -> tuple[Json, Json]:
    """What `meets` reads of summary and verdict, without all the rest: these searches take some 7,000 runs."""
    served_ns = metrics.e2e_ns(recording, metrics.events_of(recording))
    load = judge_load(recording, Thresholds())
    attainment = float((served_ns <= limit_ns).mean())
    return {"slo": {"attainment": attainment}}, {"valid": True, "load": load.to_json()}


def search(number: int) -> tuple[float, float, float]:
    """Low end, answer and high end of one search, in true capacities."""
    truth_rps, _ = true_capacity()
    seeds = tuple(range(1_000 * number, 1_000 * number + 5))
    found = find_capacity(passes, truth_rps / 6, Effort(seeds, REQUESTS))
    assert found is not None
    low, value, high = found.interval.low, found.interval.value, found.interval.high
    assert low is not None and value is not None and high is not None
    return low / truth_rps, value / truth_rps, high / truth_rps


def everything(run: Callable[[Callable[[int], Any], Iterable[int]], list[Any]], count: int) -> Json:
    """All figures, from `count` sessions, seeds and searches each."""
    numbers = range(1, count + 1)
    equal, slower = run(equal_session, numbers), run(slower_session, numbers)
    found = run(search, numbers)
    return {
        "aa_false_rate": sum(word in ("better", "worse", "mixed") for word, _ in equal) / count,
        "power_10pct": sum(word == "worse" for word, _ in slower) / count,
        "overload_detected": sum(run(withheld_above, numbers)) / count,
        "overload_false": sum(run(withheld_below, numbers)) / count,
        "capacity_coverage": sum(low <= 1 <= high for low, _, high in found) / count,
        "capacity_bias": round(float(np.mean([value for _, value, _ in found])) - 1, 4),
        "aa_pairs_mean": sum(pairs for _, pairs in equal) / count,
        "power_pairs_mean": sum(pairs for _, pairs in slower) / count,
        "sessions": count,
    }


def main() -> None:
    """Measure and print."""
    begin_s = time.perf_counter()
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        figures = everything(lambda function, numbers: list(pool.map(function, numbers, chunksize=5)), SESSIONS)
    print(json.dumps({**figures, "wall_s": round(time.perf_counter() - begin_s, 1)}))


if __name__ == "__main__":
    main()
