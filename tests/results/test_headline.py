"""The headline of a point: mean and interval over its runs, the pooled figure beside it, and how much the runs vary."""

import numpy as np
import pytest

from results.headline import INTERVAL, LOOK, PUBLISHED, headline, largest_cv, runs_label
from results.intervals import FINITE_HORIZON, POOLED, over_runs, run_cv
from results.stats import quantile
from tests.results.summaries import summary_of


def test_the_headline_is_the_mean_over_the_runs_with_its_t_interval() -> None:
    """Labelled as what it is; a mean of p99s is of runs of this length, and no p99."""
    values = [100.0, 110.0, 90.0, 105.0]
    figure = headline([summary_of(ttft_p99=value) for value in values])["figures"]["ttft_p99"]
    expected = over_runs(values)
    assert (figure["value"], figure["low"], figure["high"]) == (expected.value, expected.low, expected.high)
    assert figure["label"] == FINITE_HORIZON
    assert figure["cv_ratio"] == run_cv(values)
    assert "pooled" not in figure


def test_the_pooled_quantile_stands_beside_it() -> None:
    """Of all rows together, with a jackknife over the runs, and never the mean of the runs' quantiles."""
    drawn = np.random.default_rng(1).exponential(1e6, (4, 500))
    drawn[0, :7] = np.nan
    rows = [{"ttft": run, "tpot": run, "e2e": run} for run in drawn]
    figure = headline([summary_of()] * 4, rows)["figures"]["ttft_p99"]["pooled"]
    together = drawn[~np.isnan(drawn)] / 1e6
    assert figure["value"] == pytest.approx(quantile(together, 0.99)[0])
    assert figure["low"] < figure["value"] < figure["high"]
    assert figure["label"] == POOLED


@pytest.mark.parametrize(("runs", "label"), [(1, LOOK), (2, LOOK), (3, INTERVAL), (4, INTERVAL), (5, PUBLISHED)])
def test_so_many_runs_are_labelled_with_what_they_suffice_for(runs: int, label: str) -> None:
    """Below three there is no interval, and the reason is beside the null."""
    found = headline([summary_of()] * runs)
    assert found["label"] == runs_label(runs) == label
    figure = found["figures"]["ttft_p50"]
    assert (figure["low"] is None) == (runs < 3)
    if runs < 3:
        assert figure["reasons"]["low"] == "NO_CI"


def test_a_figure_that_one_run_withholds_is_withheld() -> None:
    """Leaving that run out would be choosing."""
    told = [summary_of(), summary_of(), summary_of(ttft_p99=None, reason="OVERLOADED")]
    figure = headline(told)["figures"]["ttft_p99"]
    assert figure["value"] is None and figure["cv_ratio"] is None
    assert figure["reasons"]["value"] == "OVERLOADED"


def test_the_largest_variation_is_of_a_headline_figure_that_all_runs_give() -> None:
    """A figure that one of them lacks is none to judge by; one run varies from nothing."""
    calm = [summary_of(ttft_p50=10.0, e2e_p99=value) for value in (100.0, 130.0, 70.0)]
    assert largest_cv(calm) == pytest.approx(0.3)
    assert largest_cv([*calm[:2], summary_of(e2e_p99=None)]) == 0.0
    assert largest_cv(calm[:1]) is None
    assert headline(calm[:1])["reasons"]["run_cv_ratio"] == "NO_CI"
