"""Gates: how they are written, what they let through, and that they fail closed."""

from math import log
from typing import Any

import pytest

from results.figures import FIGURES, read
from results.gates import judge_absolute, judge_relative, parse_gate, parse_gates
from results.verdicts.judged import judged
from tests.results.summaries import facts_of_modelled, modelled_run, summary_of


@pytest.mark.parametrize(
    ("text", "above", "inclusive", "limit", "relative"),
    [
        ("ttft_p99>500ms", True, False, 500.0, False),
        ("ttft_p99 > 0.5s", True, False, 500.0, False),
        ("tpot_p50>=250us", True, True, 0.25, False),
        ("attainment<99%", False, False, 0.99, False),
        ("goodput<=12.5", False, True, 12.5, False),
        ("throughput<1000tok/s", False, False, 1000.0, False),
        ("e2e_p50>+5%", True, False, 0.05, True),
        ("attainment<-1%", False, False, -0.01, True),
    ],
)
def test_what_a_gate_says(text: str, above: bool, inclusive: bool, limit: float, relative: bool) -> None:
    """A unit makes it absolute, a sign relative to the baseline."""
    gate = parse_gate(text)
    assert (gate.above, gate.inclusive, gate.relative) == (above, inclusive, relative)
    assert gate.limit == pytest.approx(limit)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("ttft_p99", "not a gate"),
        ("ttft_p99=5ms", "not a gate"),
        ("ttft_p98>5ms", "no figure 'ttft_p98'"),
        ("ttft_p99>5", r"write it as 500ms"),
        ("ttft_p99>10%", r"\+10%"),
        ("attainment<0.99", "write it as 99%"),
        ("goodput<5ms", "write it as 12.5"),
        ("ttft_p99>+10ms", "in percent"),
        ("goodput<-100%", "nothing falls by 100 %"),
        ("attainment<99%,,", "not a gate"),
    ],
)
def test_what_cannot_be_read_is_named(text: str, says: str) -> None:
    """One line with the part and how to write it."""
    with pytest.raises(ValueError, match=says) as error:
        parse_gates(text)
    assert "\n" not in str(error.value)


def test_every_figure_is_in_a_real_summary() -> None:
    """The table of figures and the summary know each other: no gate can name what is never there."""
    summary, _ = judged(modelled_run(300), None, facts_of_modelled(300))
    for name in FIGURES:
        value, reason = read(summary, name)
        assert (value is None) == (reason is not None), name
        assert reason != "NOT_IN_SUMMARY", name


def test_slots_of_a_server_are_what_it_tells() -> None:
    """Where no engine ran in process; what it does not tell has its reason."""
    own = {"wasted_slot_fraction": 0.25}
    server = {"unused_slot_fraction": None, "reasons": {"unused_slot_fraction": "NOT_OBSERVABLE"}, "own_steps": own}
    assert read({"server": server}, "wasted_slots") == (0.25, None)
    assert read({"server": server}, "unused_slots") == (None, "NOT_OBSERVABLE")
    assert read({"server": server, "slots": {"wasted_slot_fraction": 0.5}}, "wasted_slots") == (0.5, None)


def test_an_absolute_gate_is_judged_on_the_mean_of_the_runs() -> None:
    """400 and 620 ms are 510 on average; the limit itself only counts where it was said to."""
    runs = [summary_of(ttft_p99=400.0), summary_of(ttft_p99=620.0)]
    assert not judge_absolute(parse_gate("ttft_p99>500ms"), runs).passed
    found = judge_absolute(parse_gate("ttft_p99>510ms"), runs)
    assert found.passed and found.value == 510 and "mean of 2 runs" in found.text
    assert not judge_absolute(parse_gate("ttft_p99>=510ms"), runs).passed
    assert judge_absolute(parse_gate("attainment<99%"), [summary_of(attainment=0.99)]).passed
    assert not judge_absolute(parse_gate("attainment<99%"), [summary_of(attainment=0.989)]).passed


@pytest.mark.parametrize(
    ("summaries", "says"),
    [
        ([summary_of(ttft_p99=None, reason="OVERLOADED")], "OVERLOADED"),
        ([summary_of(ttft_p99=1.0), summary_of(ttft_p99=None, reason="FAILED_TAIL")], "FAILED_TAIL"),
        ([summary_of(ttft_p99=1.0, scheduled=99)], "TOO_FEW_REQUESTS"),
        ([], "TOO_FEW_REQUESTS"),
        ([{"requests": {"scheduled": 100}}], "NOT_IN_SUMMARY"),
    ],
)
def test_what_is_not_known_does_not_pass(summaries: list[dict[str, Any]], says: str) -> None:
    """Withheld, failed, too few, missing: every gate fails, whichever way it points."""
    for text in ("ttft_p99>500ms", "ttft_p99<1ms"):
        found = judge_absolute(parse_gate(text), summaries)
        assert not found.passed
        assert says in found.text


def test_failures_have_a_gate() -> None:
    """Failed over scheduled."""
    assert not judge_absolute(parse_gate("failed>1%"), [summary_of(failed=3, scheduled=200)]).passed
    assert judge_absolute(parse_gate("failed>1%"), [summary_of(failed=2, scheduled=200)]).passed


@pytest.mark.parametrize(
    ("text", "ratios", "passed"),
    [
        ("ttft_p99>+10%", [1.0, 1.01, 0.99, 1.0], True),
        ("ttft_p99>+10%", [1.2, 1.21, 1.19, 1.2], False),
        ("ttft_p99>+10%", [1.1, 1.1, 1.1], True),
        ("ttft_p99>=+10%", [1.2, 1.2, 1.2], False),
        ("goodput<-5%", [0.98, 0.99, 0.98], True),
        ("goodput<-5%", [0.90, 0.91, 0.90], False),
    ],
)
def test_a_relative_gate_passes_when_the_bound_is_on_the_right_side(
    text: str, ratios: list[float], passed: bool
) -> None:
    """The one-sided 95 % bound of the ratio against the limit."""
    found = judge_relative(parse_gate(text), [log(ratio) for ratio in ratios])
    assert found.passed is passed
    assert found.needed is None


def test_an_unresolved_gate_fails_and_says_how_many_runs_it_takes() -> None:
    """A mean of no change under a spread of 20 %: neither shown to be fine nor shown to be worse."""
    found = judge_relative(parse_gate("ttft_p99>+10%"), [0.2, -0.2, 0.15, -0.15])
    assert not found.passed
    assert found.needed is not None and found.needed > 4
    assert f"about {found.needed} pairs" in found.text


def test_one_pair_resolves_nothing() -> None:
    """Below three pairs there is no bound, however equal they are."""
    for count in (1, 2):
        found = judge_relative(parse_gate("ttft_p99>+10%"), [0.0] * count)
        assert (found.passed, found.needed) == (False, 3)


def test_no_ratio_does_not_pass() -> None:
    """A figure that is withheld in a run, or 0, has no ratio."""
    found = judge_relative(parse_gate("ttft_p99>+10%"), None, "OVERLOADED")
    assert not found.passed and "OVERLOADED" in found.text
