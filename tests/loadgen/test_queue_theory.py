"""One server in modelled time against the textbook: M/M/1, M/D/1 and M/G/1, mean wait and tail of the sojourn.

Kleinrock, "Queueing Systems" I (1975). Service times are drawn here and put into the queue that equals the engine's
to the nanosecond (a test of the verdicts compares them).
"""

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from loadgen.arrivals import due_times_ns
from loadgen.streams import exponentials, uniforms
from results.intervals import student_t
from results.stats import quantile
from tests.benchmarks.fifo import ends_ns

SEEDS = range(10)
REQUESTS, FILL_REQUESTS = 60_000, 5_000
MEAN_NS = 10_000_000
CV = 0.8
"""Of the general service times, which are lognormal."""
Values = NDArray[np.float64]
Draw = Callable[[int], Values]


def exponential(seed: int) -> Values:
    """M: memoryless."""
    return exponentials(uniforms(seed, "lengths.output", REQUESTS))


def constant(seed: int) -> Values:
    """D: all alike."""
    return np.ones(REQUESTS)


def general(seed: int) -> Values:
    """G: lognormal with mean 1."""
    sigma = np.sqrt(np.log1p(CV**2))
    normal = np.random.default_rng(seed).standard_normal(REQUESTS)
    return np.exp(sigma * normal - sigma**2 / 2)


SERVICES: dict[str, tuple[Draw, float]] = {
    "M/M/1": (exponential, 1.0), "M/D/1": (constant, 0.0), "M/G/1": (general, CV),
}  # fmt: skip
"""Name -> service times of mean 1, and their coefficient of variation."""


def played(draw: Draw, rho: float, seed: int) -> tuple[Values, Values]:
    """(wait, sojourn) in mean service times, of those after the fill."""
    due_ns = due_times_ns("poisson", REQUESTS, rho * 1e9 / MEAN_NS, seed)
    service_ns = np.maximum(np.rint(draw(seed) * MEAN_NS), 1).astype(np.int64)
    sojourn_ns = ends_ns(due_ns, service_ns) - due_ns
    wait, sojourn = (sojourn_ns - service_ns) / MEAN_NS, sojourn_ns / MEAN_NS
    return wait[FILL_REQUESTS:], sojourn[FILL_REQUESTS:]


def assert_holds(theory: float, measured: list[float], largest_error: float) -> None:
    """Inside the 99.9 % interval of the runs, which must be narrow enough to mean something."""
    centre = float(np.mean(measured))
    half = student_t(0.9995, len(measured) - 1) * float(np.std(measured, ddof=1)) / np.sqrt(len(measured))
    assert half <= largest_error * theory
    assert abs(centre - theory) <= half


@pytest.mark.parametrize("rho", [0.3, 0.6, 0.8])
@pytest.mark.parametrize("name", SERVICES)
def test_the_mean_wait_is_that_of_pollaczek_and_khinchine(name: str, rho: float) -> None:
    """rho (1 + cv^2) / (2 (1 - rho)) mean service times, over ten seeds that were not chosen."""
    draw, cv = SERVICES[name]
    means = [float(played(draw, rho, seed)[0].mean()) for seed in SEEDS]
    assert_holds(rho * (1 + cv**2) / (2 * (1 - rho)), means, 0.15)


@pytest.mark.parametrize("rho", [0.3, 0.6, 0.8])
def test_the_tail_of_an_m_m_1_sojourn_is_exponential(rho: float) -> None:
    """p99 = ln(100) / (mu - lambda), by the quantile that every table shows."""
    found = [quantile(played(exponential, rho, seed)[1], 0.99)[0] for seed in SEEDS]
    assert_holds(np.log(100) / (1 - rho), [value for value in found if value is not None], 0.20)
