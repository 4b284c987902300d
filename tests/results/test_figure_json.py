"""A latency's figures: from values written out and from counted ones, with a reason beside every null."""

import numpy as np
import pytest

from results.columns import int64
from results.figure_json import counted_latency, latency

NAMES = ("p50", "p90", "p95", "p99", "mean", "max")


@pytest.mark.parametrize("total", [0, 1, 2, 9, 10, 19, 20, 99, 100, 250])
def test_counted_values_have_the_figures_of_all_of_them(total: int) -> None:
    """Below, at and above each quantile's floor, in any order."""
    values = np.random.default_rng(total).integers(0, 12, total) * 1_000_000
    found, counts = np.unique(values, return_counts=True)
    turned = np.random.default_rng(1).permutation(len(found))
    counted, written = counted_latency(int64(found[turned]), int64(counts[turned])), latency(values.astype(np.float64))
    assert counted["reasons"] == written["reasons"]
    assert [counted[name] for name in ("n", "undefined", *NAMES)] == pytest.approx(
        [written[name] for name in ("n", "undefined", *NAMES)]
    )


def test_nothing_has_no_figure_and_a_reason_of_its_own() -> None:
    """Neither too few nor failed: none; what is undefined is counted apart."""
    assert latency(np.array([np.nan, np.nan])) == {
        "n": 0, "undefined": 2, **dict.fromkeys(NAMES), "reasons": dict.fromkeys(NAMES, "NO_VALUES"),
    }  # fmt: skip


def test_a_failure_leaves_neither_mean_nor_maximum() -> None:
    """The median of the others stands; one failure among three is enough."""
    found = latency(np.array([1e6, 2e6, np.inf]))
    assert (found["n"], found["p50"]) == (3, 2.0)
    assert (found["reasons"]["mean"], found["reasons"]["max"], found["mean"]) == ("FAILED_TAIL", "FAILED_TAIL", None)
