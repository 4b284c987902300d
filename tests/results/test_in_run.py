"""What one run tells of its own uncertainty: bounds by sections, certificates, and when neither is given."""

import numpy as np
import pytest

from results.in_run import uncertainty
from results.intervals import LOWER_BOUND, in_run, order_statistics
from results.metrics import e2e_ns, events_of, measured, ttft_ns
from results.recording import Recording
from results.slo import parse_slo
from results.stats import quantile
from results.summary import summarise
from results.verdicts.judged import judged
from results.verdicts.run_facts import RunFacts
from tests.benchmarks.fifo import Cost, play_fifo, poisson_schedule
from tests.results.summaries import modelled_schedule

SERVICE_RPS = 1e9 / (2_000_000 + 64 * 128_000 + 31 * 2_155_000)


def run_at(rho: float, requests: int = 2_000, seed: int = 3) -> Recording:
    """One request after another at that utilisation."""
    return play_fifo(poisson_schedule(requests, rho * SERVICE_RPS, seed), Cost())


def test_bounds_are_those_of_ten_sections_in_the_order_of_arrival() -> None:
    """Of every headline figure; the value is the table's own."""
    recording = run_at(0.5)
    summary = summarise(recording, parse_slo("ttft<=100ms"))
    found = summary["in_run"]
    values = ttft_ns(recording, events_of(recording))[measured(recording)] / 1e6
    expected = in_run(values, lambda part: quantile(part, 0.99)[0])
    assert (found["ttft_p99"]["low"], found["ttft_p99"]["high"]) == (expected.low, expected.high)
    assert found["ttft_p99"]["value"] == pytest.approx(summary["ttft_ms"]["p99"])
    assert found["ttft_p99"]["label"] == LOWER_BOUND
    assert found["attainment"]["value"] == pytest.approx(summary["slo"]["attainment"])
    assert found["attainment"]["low"] < found["attainment"]["value"] < found["attainment"]["high"]
    assert set(found) == {"ttft_p50", "ttft_p99", "tpot_p50", "e2e_p99", "attainment"}


def test_bounds_are_no_further_than_a_figure_can_be() -> None:
    """No latency below 0, no share outside 0 to 1, however much ten sections differ; what is inside stays."""
    recording = run_at(0.5, 100)
    spiked = {name: np.where(np.arange(100) < 90, 1e6, 9e9) for name in ("ttft", "tpot", "e2e")}
    few, most = np.arange(100) >= 92, np.arange(100) < 92
    chosen = np.ones(100, dtype=np.bool_)
    low, high = (uncertainty(recording, spiked, chosen, attained) for attained in (few, most))
    assert low["ttft_p50"]["low"] == 0.0 and low["ttft_p50"]["high"] > 1.0
    assert low["attainment"]["low"] == 0.0 and 0.08 < low["attainment"]["high"] < 1.0
    assert high["attainment"]["high"] == 1.0 and 0.0 < high["attainment"]["low"] < 0.92


def test_sections_that_are_too_short_for_a_quantile_give_no_bounds() -> None:
    """999 requests have sections of 99: no p99 of a section, so no bounds of the p99, and the value stands."""
    found = summarise(run_at(0.5, 999))["in_run"]["ttft_p99"]
    assert found["value"] is not None and found["low"] is None
    assert found["reasons"]["low"] == "N_TOO_SMALL"


def test_the_certificate_is_withheld_in_a_queue() -> None:
    """Neighbours in a queue tell the same: AUTOCORRELATED with the evidence; in an idle system it is given."""
    busy = summarise(run_at(0.8))["in_run"]["e2e_p99"]["certificate"]
    assert busy["low"] is None and busy["reasons"]["low"] == "AUTOCORRELATED"
    assert busy["autocorrelations"][0] > 0.5
    assert busy["effective_requests"] < 0.2 * 2_000
    recording = run_at(0.02)
    idle = summarise(recording)["in_run"]["e2e_p99"]["certificate"]
    values = e2e_ns(recording, events_of(recording)) / 1e6
    assert (idle["low"], idle["high"]) == (
        order_statistics(values, 0.99).interval.low, order_statistics(values, 0.99).interval.high,
    )  # fmt: skip
    assert idle["effective_requests"] > 0.8 * 2_000


def test_what_has_no_steady_state_has_no_bounds() -> None:
    """A burst, a ramp, a trace: null with NON_STATIONARY."""
    schedule = modelled_schedule(50)
    schedule.origin["stationary"] = False
    values = {name: np.ones(50) for name in ("ttft", "tpot", "e2e")}
    recording = play_fifo(schedule, Cost())
    found = uncertainty(recording, values, np.ones(50, dtype=np.bool_), None)
    assert all(one["reasons"]["value"] == "NON_STATIONARY" for one in found.values())
    assert "attainment" not in found


def test_bounds_of_a_figure_that_is_withheld_are_withheld() -> None:
    """Overloaded: no bounds of TTFT and E2E, which grow with the run; those of TPOT stand."""
    recording = run_at(1.5)
    facts = RunFacts("modelled", recording.schedule.sha256)
    summary, verdict = judged(recording, None, facts)
    assert verdict.checks["OVERLOADED"] == "failed"
    for name in ("ttft_p50", "ttft_p99", "e2e_p99"):
        assert summary["in_run"][name]["value"] is None
        assert summary["in_run"][name]["reasons"]["low"] == "OVERLOADED"
    assert summary["in_run"]["tpot_p50"]["value"] is not None
