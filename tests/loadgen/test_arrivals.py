"""Arrival processes: each is what it is called, and a schedule of a seed never changes."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from loadgen.arrivals import PROCESSES, due_times_ns, due_times_until_ns
from loadgen.streams import exponentials, integers, stream_key, uniforms
from results.columns import Int64
from results.schedule import make_schedule

S = 10**9
N = 20_000
SEEDS = range(200)
ROOT = Path(__file__).parents[2]


def gaps_s(due_ns: Int64) -> np.ndarray:
    """Gaps in seconds, the first one from 0."""
    return np.diff(due_ns, prepend=0) / S


def lag1(gaps: np.ndarray) -> float:
    """Correlation of each gap with the next."""
    centred = gaps - gaps.mean()
    return float((centred[1:] * centred[:-1]).sum() / (centred**2).sum())


@pytest.mark.parametrize("rate_rps", [0.5, 10.0, 333.3])
def test_poisson_has_the_rate_that_was_asked_for(rate_rps: float) -> None:
    """The mean gap is 1 / rate within four standard errors; nothing is rescaled to make it so."""
    gaps = gaps_s(due_times_ns("poisson", N, rate_rps, 7)) * rate_rps
    assert abs(gaps.mean() - 1) < 4 / N**0.5
    realised = [due_times_ns("poisson", 100, rate_rps, seed)[-1] * rate_rps / S / 100 for seed in SEEDS]
    assert 0.08 < float(np.std(realised)) < 0.12


def test_poisson_gaps_are_exponential() -> None:
    """Kolmogorov-Smirnov against the exponential accepts the right share of 200 seeds, and a long sample."""
    p_values = [stats.kstest(gaps_s(due_times_ns("poisson", 500, 1.0, seed)), "expon").pvalue for seed in SEEDS]
    assert sum(p < 0.05 for p in p_values) <= 20
    assert stats.kstest(p_values, "uniform").pvalue > 0.001
    assert stats.kstest(gaps_s(due_times_ns("poisson", N, 1.0, 7)), "expon").pvalue > 0.01


def test_poisson_counts_are_as_varied_as_their_mean() -> None:
    """Dispersion: variance / mean of the counts in disjoint windows is 1 within four standard errors."""
    due_s = due_times_ns("poisson", N, 10.0, 3) / S
    counts = np.histogram(due_s, bins=np.arange(0, np.floor(due_s[-1])))[0]
    dispersion = counts.var() / counts.mean()
    assert abs(dispersion - 1) < 4 * (2 / len(counts)) ** 0.5


def test_poisson_gaps_are_independent() -> None:
    """The correlation of neighbouring gaps is 0 within four standard errors."""
    for seed in range(5):
        assert abs(lag1(gaps_s(due_times_ns("poisson", N, 10.0, seed)))) < 4 / N**0.5


def test_poisson_gaps_have_no_atoms() -> None:
    """At nanoseconds no gap occurs twice, none is 0, and none is clipped at a largest one."""
    gaps = np.diff(due_times_ns("poisson", 2_000, 0.1, 7))
    assert len(np.unique(gaps)) == len(gaps)
    assert gaps.min() > 0
    longest = [np.diff(due_times_ns("poisson", 5_000, 1.0, seed)).max() for seed in range(20)]
    assert len(set(longest)) == 20
    assert max(longest) > 10 * S


def test_the_first_arrival_is_as_random_as_the_others() -> None:
    """The time to the first arrival is exponential too: no schedule starts at 0 by force."""
    first = [due_times_ns("poisson", 1, 1.0, seed)[0] / S for seed in range(500)]
    assert stats.kstest(first, "expon").pvalue > 0.01


def test_this_poisson_schedule_never_changes() -> None:
    """A golden hash: 1,000 arrivals at 10/s of seed 7, the same on every machine and release."""
    due_ns = due_times_ns("poisson", 1_000, 10.0, 7)
    ones = np.ones(1_000, dtype=np.int64)
    assert due_ns[:3].tolist() == [51393075, 67739501, 102673824]
    assert (
        make_schedule(due_ns, ones, ones).sha256 == "51a26c098a6b4e5487150bf41cdaf22b519737a3e3592b700b2bbb1a8a583002"
    )


def test_arrivals_are_those_of_an_independent_reading_of_the_rule() -> None:
    """SHA-256 of seed and name keys PCG64; its raw words are 53-bit uniforms; their exponentials add up."""
    raw = np.random.PCG64(stream_key(7, "arrivals")).random_raw(1_000)
    unit = np.cumsum(-np.log1p(-((raw >> np.uint64(11)) / 2**53)))
    due_ns = due_times_ns("poisson", 1_000, 10.0, 7)
    assert np.abs(due_ns - np.rint(unit * 1e8)).max() <= 1


def test_the_exponential_is_the_logarithm_within_4_ulp() -> None:
    """Our own logarithm differs from -log1p(-u) by at most four units in the last place, at the edges too."""
    edges = [0.0, 2.0**-53, 2.0**-52, 0.25, 0.5, 1 - 0.5**0.5, 1 - 2.0**-53]
    small = uniforms(2, "test", 20_000) * 2.0**-30
    sample = np.concatenate([uniforms(1, "test", 300_000), edges, small, 1 - small])
    sample = np.floor(sample[sample < 1] * 2.0**53) * 2.0**-53
    reference = -np.log1p(-sample)
    assert (np.abs(exponentials(sample) - reference) <= 4 * np.spacing(reference)).all()
    assert np.isfinite(exponentials(sample)).all()
    assert (exponentials(sample) >= 0).all()
    assert not np.signbit(exponentials(np.array([0.0]))).any()


def test_a_logarithm_rises_with_its_argument() -> None:
    """A larger uniform never gives a smaller gap, also where the exponent of 1 - u changes."""
    for centre in (0.5, 0.75, 1 - 0.5**0.5, 0.875):
        near = np.sort(centre + np.arange(-500, 500) * 2.0**-53)
        assert (np.diff(exponentials(near)) >= 0).all()


def test_uniforms_are_uniform_and_below_1() -> None:
    """53 bits each, in [0, 1), and a stream's beginning does not depend on how much of it is read."""
    drawn = uniforms(7, "test", 100_000)
    assert drawn.min() >= 0
    assert drawn.max() < 1
    assert stats.kstest(drawn, "uniform").pvalue > 0.01
    assert (drawn * 2**53 == np.floor(drawn * 2**53)).all()
    assert np.array_equal(uniforms(7, "test", 10), drawn[:10])


def test_streams_of_other_names_and_seeds_are_others() -> None:
    """Seed and name both decide; no two of many streams begin alike, and they are uncorrelated."""
    names = [f"name{at}" for at in range(20)]
    firsts = {float(uniforms(seed, name, 1)[0]) for seed in range(20) for name in names}
    assert len(firsts) == 400
    assert stream_key(1, "1|x") != stream_key(11, "x")
    one, other = uniforms(7, "arrivals", N), uniforms(7, "lengths.prompt", N)
    assert abs(float(np.corrcoef(one, other)[0, 1])) < 4 / N**0.5


def test_integers_cover_both_ends_evenly() -> None:
    """Uniform integers include both bounds, and no other value."""
    drawn = integers(uniforms(7, "test", 60_000), 3, 8)
    counts = np.bincount(drawn, minlength=9)[3:]
    assert (drawn.min(), drawn.max()) == (3, 8)
    assert stats.chisquare(counts).pvalue > 0.01
    assert integers(np.array([0.0, 1 - 2.0**-53]), 16, 48).tolist() == [16, 48]


def test_conditioned_poisson_is_sorted_uniforms() -> None:
    """Given the count, arrivals are uniform over count / rate, and exactly as many as asked."""
    due_ns = due_times_ns("conditioned", 5_000, 10.0, 7)
    assert len(due_ns) == 5_000
    assert due_ns.max() <= 500 * S
    assert stats.kstest(due_ns / (500 * S), "uniform").pvalue > 0.01
    assert np.array_equal(due_ns, np.rint(np.sort(uniforms(7, "arrivals", 5_000)) * 5_000 * 1e8).astype(np.int64))
    assert PROCESSES["conditioned"].label == "Poisson conditioned on the number of requests"


def test_conditioning_takes_away_the_variation_of_the_count() -> None:
    """The realised rate varies much less from seed to seed than that of a pure Poisson process."""
    spread = {
        name: np.std([due_times_ns(name, 100, 1.0, seed)[-1] / S for seed in range(100)])
        for name in ("poisson", "conditioned")
    }
    assert spread["conditioned"] < spread["poisson"] / 4


def test_constant_gaps_are_all_the_same() -> None:
    """Request k is due at (k + 1) / rate, rounded once: no error adds up."""
    assert due_times_ns("constant", 5, 3.0, 7).tolist() == [333333333, 666666667, 1000000000, 1333333333, 1666666667]
    assert due_times_ns("constant", 300_000, 3.0, 1)[-1] == 100_000 * S
    assert np.array_equal(due_times_ns("constant", 9, 3.0, 1), due_times_ns("constant", 9, 3.0, 2))


@pytest.mark.parametrize("cv", [0.5, 1.0, 2.0])
def test_gamma_gaps_have_the_mean_and_variation_asked_for(cv: float) -> None:
    """Mean 1 / rate, standard deviation CV times that, distribution gamma of shape 1 / CV^2."""
    gaps = gaps_s(due_times_ns("gamma", N, 10.0, 7, cv)) * 10
    assert abs(gaps.mean() - 1) < 4 * cv / N**0.5
    assert abs(gaps.std() / gaps.mean() - cv) < 0.05 * cv
    assert stats.kstest(gaps, stats.gamma(a=1 / cv**2, scale=cv**2).cdf).pvalue > 0.01
    assert abs(lag1(gaps)) < 4 / N**0.5


def test_gamma_of_cv_1_is_poisson() -> None:
    """With shape 1 the inverse CDF is the exponential's: the same arrivals within a nanosecond."""
    difference = due_times_ns("gamma", 2_000, 10.0, 7, 1.0) - due_times_ns("poisson", 2_000, 10.0, 7)
    assert np.abs(difference).max() <= 1


def test_a_burst_is_due_at_0() -> None:
    """All of it, whatever the rate and seed."""
    assert due_times_ns("burst", 4, 99.0, 3).tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize("name", PROCESSES)
def test_every_process_is_sorted_repeatable_and_keeps_its_count(name: str) -> None:
    """Whatever is in the table: int64 times from 0 on that do not fall, one a request, the same twice."""
    for count in (1, 2, 1_000):
        due_ns = due_times_ns(name, count, 20.0, 5, 1.5)
        assert due_ns.dtype == np.int64
        assert len(due_ns) == count
        assert due_ns[0] >= 0
        assert (np.diff(due_ns) >= 0).all()
        assert np.array_equal(due_ns, due_times_ns(name, count, 20.0, 5, 1.5))


@pytest.mark.parametrize("name", [name for name in PROCESSES if name != "burst"])
def test_another_rate_keeps_the_pattern(name: str) -> None:
    """Times are unit times stretched by 1 / rate and rounded once to ns."""
    unit = PROCESSES[name].unit_times(500, 7, 2.0)
    for rate_rps in (0.3, 7.0, 12_345.0):
        due_ns = due_times_ns(name, 500, rate_rps, 7, 2.0)
        assert np.abs(due_ns * (rate_rps / S) - unit).max() <= 0.51 * rate_rps / S + 1e-9


@pytest.mark.parametrize("name", ["poisson", "constant", "gamma"])
def test_more_requests_keep_those_before(name: str) -> None:
    """A longer schedule begins with the shorter one."""
    assert np.array_equal(due_times_ns(name, 1_000, 9.0, 7, 2.0)[:300], due_times_ns(name, 300, 9.0, 7, 2.0))


@pytest.mark.parametrize("name", [name for name in PROCESSES if name != "burst"])
@pytest.mark.parametrize("duration_s", [0.5, 10.6, 10.4, 100])
def test_by_duration_everything_is_due_before_its_end(name: str, duration_s: float) -> None:
    """No request is due at or after the end, for any seed."""
    for seed in range(40):
        due_ns = due_times_until_ns(name, round(duration_s * S), 1.0, seed, 1.5)
        assert (due_ns >= 0).all()
        assert (due_ns < duration_s * S).all(), seed


@pytest.mark.parametrize("name", ["poisson", "constant", "gamma"])
def test_by_duration_nothing_before_its_end_is_missing(name: str) -> None:
    """The arrivals of a duration are those of a long enough schedule that lie before its end."""
    for duration_s in (1, 30, 400):
        due_ns = due_times_until_ns(name, duration_s * S, 5.0, 7, 2.0)
        many = due_times_ns(name, 10_000, 5.0, 7, 2.0)
        assert np.array_equal(due_ns, many[many < duration_s * S])


def test_by_duration_the_count_is_the_processs_own() -> None:
    """Counts of a Poisson process over a duration are Poisson: variance near the mean over 400 seeds."""
    counts = np.array([len(due_times_until_ns("poisson", 5 * S, 10.0, seed)) for seed in range(400)])
    assert abs(counts.mean() - 50) < 4 * (50 / 400) ** 0.5
    assert abs(counts.var() / counts.mean() - 1) < 4 * (2 / 400) ** 0.5


def test_by_duration_a_conditioned_process_fills_the_duration() -> None:
    """Given its count, arrivals are uniform over the duration, not over a neighbouring length."""
    fractions = np.concatenate([due_times_until_ns("conditioned", 10_600_000_000, 1.0, seed) for seed in range(500)])
    assert stats.kstest(fractions / 10_600_000_000, "uniform").pvalue > 0.01


def test_a_duration_without_arrivals_is_empty() -> None:
    """Nothing is invented to fill a duration that is too short for an arrival."""
    assert len(due_times_until_ns("constant", 1, 1.0, 7)) == 0
    assert len(due_times_until_ns("poisson", 0, 1.0, 7)) == 0


def test_hash_randomisation_changes_nothing() -> None:
    """Two processes with different PYTHONHASHSEED draw the same schedule, to the byte."""
    code = (
        "from loadgen.config import from_texts; from loadgen.workload import build_schedule\n"
        "for texts in ({'rate': '10'}, {'arrival': 'gamma', 'cv': '2', 'rate': '3'}):\n"
        "    s = build_schedule(from_texts(texts)); print(s.sha256, s.content_sha256)"
    )
    printed = {
        subprocess.run(
            [sys.executable, "-c", code],
            cwd=ROOT,
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "4242")
    }
    assert len(printed) == 1
    assert len(printed.pop().split()) == 4


def test_a_duration_is_filled_however_late_the_first_draws_come() -> None:
    """Long gaps first: it is drawn on until the end is passed, and what is drawn is the beginning of a longer draw."""
    for seed in range(40):
        longer = due_times_ns("gamma", 4_000, 5.0, seed, 4.0)
        due_ns = due_times_until_ns("gamma", 20 * S, 5.0, seed, 4.0)
        assert due_ns.tolist() == longer[longer < 20 * S].tolist()


def test_no_rounding_moves_an_arrival_to_the_end_of_the_duration() -> None:
    """A hundred arrivals in 3 ns: some round up to the end, and stay before it."""
    due_ns = due_times_until_ns("conditioned", 3, 100 * S / 3, 7)
    assert len(due_ns) == 100
    assert set(due_ns.tolist()) == {0, 1, 2}
