"""Whether new runs say what the first one said, figure by figure, and whether outputs are the same."""

from dataclasses import replace

import numpy as np
import pytest

from results.equivalence import Likeness
from results.likeness import conclusion, liken, runs_needed
from results.outputs import is_greedy, same_outputs
from results.recording import Recording
from tests.engines.playing import Numbering, engine_of, play, schedule_of
from tests.results.summaries import summary_of


def found(first: dict[str, object], again: list[dict[str, object]]) -> dict[str, Likeness | None]:
    """Figure -> what is said of it."""
    return {one.name: one.likeness for one in liken(first, again)}


def test_equal_runs_are_reproduced() -> None:
    """Every figure that the first gives; what it does not give says nothing."""
    told = found(summary_of(), [summary_of()] * 3)
    assert {name for name, likeness in told.items() if likeness is None} == {"throughput"}
    assert set(told.values()) == {Likeness.REPRODUCED, None}
    assert conclusion(liken(summary_of(), [summary_of()] * 3)) is Likeness.REPRODUCED


def test_one_figure_that_is_off_makes_it_differ() -> None:
    """TTFT p99 a third higher in each new run."""
    told = liken(summary_of(), [summary_of(ttft_p99=133.0 + at) for at in range(3)])
    assert conclusion(told) is Likeness.DIFFERS
    assert {one.name for one in told if one.likeness is Likeness.DIFFERS} == {"ttft_p99"}


def test_open_figures_say_how_many_runs_they_take() -> None:
    """A spread of 3 %: three new runs leave it open. At 8 % no number helps, since the first run stays one."""
    told = liken(summary_of(), [summary_of(ttft_p50=value) for value in (10.3, 9.7, 10.0)])
    assert conclusion(told) is Likeness.INCONCLUSIVE
    needed = runs_needed(told)
    assert needed is not None and needed > 3
    wide = liken(summary_of(), [summary_of(ttft_p50=value) for value in (10.8, 9.2, 10.0)])
    assert (conclusion(wide), runs_needed(wide)) == (Likeness.INCONCLUSIVE, None)


def test_a_figure_that_a_new_run_withholds_is_open() -> None:
    """It was given once, and is not any more."""
    told = liken(summary_of(), [summary_of(), summary_of(), summary_of(ttft_p99=None, reason="OVERLOADED")])
    figure = next(one for one in told if one.name == "ttft_p99")
    assert figure.likeness is Likeness.INCONCLUSIVE
    assert "OVERLOADED" in figure.text


@pytest.mark.parametrize(("again", "likeness"), [(0.0, Likeness.REPRODUCED), (0.5, Likeness.DIFFERS)])
def test_a_zero_is_compared_as_it_is(again: float, likeness: Likeness) -> None:
    """Goodput 0 has no ratio."""
    assert found(summary_of(goodput=0.0), [summary_of(goodput=again)] * 3)["goodput"] is likeness


def test_throughput_must_agree_within_five_percent() -> None:
    """7 % is too much for it, and would be nothing for a latency."""
    first, again = summary_of(ttft_p50=10.0), summary_of(ttft_p50=10.7)
    first["rates"], again["rates"] = {"output_tokens_per_s": 100.0}, {"output_tokens_per_s": 107.0}
    told = found(first, [again] * 3)
    assert (told["ttft_p50"], told["throughput"]) == (Likeness.REPRODUCED, Likeness.DIFFERS)


def recorded(**changes: object) -> Recording:
    """Three requests whose tokens count."""
    recording = play(schedule_of([3, 2, 4], [0, 2, 5]), engine_of_numbers())
    return replace(recording, **changes)  # type: ignore[arg-type]


def engine_of_numbers() -> object:
    """One slot; token n of request r is 100 r + n."""
    from engines.policies import one_by_one

    return engine_of(one_by_one(), executor=Numbering())


def test_greedy_outputs_must_be_equal_token_by_token() -> None:
    """One token of one request is enough; sampled ones may differ."""
    first = recorded()
    assert same_outputs(first, recorded(), greedy=True)["same"] is True
    ids = first.token_ids.copy()
    ids[-1] += 1
    told = same_outputs(first, recorded(token_ids=ids), greedy=True)
    assert (told["same"], told["equal"], told["compared"]) == (False, 2, 3)
    assert same_outputs(first, recorded(token_ids=ids), greedy=False)["same"] is None


def test_without_ids_lengths_are_compared() -> None:
    """Within 10 % nothing is claimed; beyond it the outputs are others."""
    first, none = recorded(), np.empty(0, dtype=np.int64)
    requests = dict(first.requests)
    requests["output_tokens"] = first.requests["output_tokens"] * 2
    assert same_outputs(first, recorded(token_ids=none), greedy=True)["same"] is None
    assert same_outputs(first, recorded(token_ids=none, requests=requests), greedy=True)["same"] is False


def test_greedy_is_what_the_config_says() -> None:
    """No temperature, no sampling."""
    assert is_greedy({"config": {}})
    assert not is_greedy({"config": {"temperature": "0.7"}})
