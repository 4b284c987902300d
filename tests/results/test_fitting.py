"""A cost model's coefficients from steps, against steps whose cost is known."""

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from engines.cost import DurationPs, LinearCost, fitted_executor
from engines.policies import continuous, static
from engines.slots import SlotEngine
from loadgen.cli import main
from loadgen.cli.exit_codes import Exit
from loadgen.clock import ModelledClock
from loadgen.drive import play_compact
from results.columns import NULL, Table
from results.fitting import fit_steps
from tests.engines.playing import Steering, engine_of, ignore, play, schedule_of
from tests.results.report.folders import as_killed, make_run

COSTS = (2_000_000_000, 205_000_000, 3_000_000_000, 128_000_000)
KV_PS = 400_000


def steps_of(kv_ps: int = KV_PS, rows: int = 300) -> Table:
    """Of a run whose costs are these."""
    generator = np.random.default_rng(2)
    due = np.cumsum(generator.exponential(60e6, rows)).astype(int).tolist()
    lengths = generator.integers(2, 40, rows).tolist()
    cost = LinearCost(*map(DurationPs, (*COSTS, kv_ps)))
    schedule = schedule_of(lengths, due, generator.integers(8, 300, rows).tolist())
    return play(schedule, engine_of(continuous(8), cost)).steps


def as_measured(steps: Table, noise: float = 0.0) -> Table:
    """The same steps on a clock of nanoseconds, each cost off by a random factor around 1."""
    factors = np.random.default_rng(3).lognormal(-(noise**2) / 2, noise, len(steps["step"]))
    costs = np.rint(steps["cost_ps"] * factors / 1000).astype(np.int64)
    begins = np.concatenate([[0], np.cumsum(costs)[:-1]])
    left = {name: values for name, values in steps.items() if not name.endswith("_ps")}
    return {**left, "start_ns": begins, "end_ns": begins + costs}


def test_exact_costs_are_found_again() -> None:
    """All five coefficients to a millionth, and no error on the steps held out."""
    fit = fit_steps(steps_of())
    expected = dict(zip(("decode_base", "decode_row", "prefill_base", "prefill_token"), COSTS, strict=True))
    for name, value in {**expected, "decode_kv": KV_PS}.items():
        assert fit.coefficients_ps[name] == pytest.approx(value, rel=1e-6)
    assert all(one.errors["p99"] < 1e-6 for one in fit.kinds.values())
    assert all(abs(one.fitted_steps - one.held_out_steps) <= 20 for one in fit.kinds.values())


def test_a_row_of_many_steps_tells_their_mean() -> None:
    """Costs are found again from stretches, in which the cache grows."""
    generator = np.random.default_rng(2)
    due = np.cumsum(generator.exponential(60e6, 600)).astype(int).tolist()
    schedule = schedule_of(generator.integers(2, 40, 600).tolist(), due, generator.integers(8, 300, 600).tolist())
    cost = LinearCost(*map(DurationPs, (*COSTS, KV_PS)))
    run = play_compact(schedule, engine_of(continuous(8), cost), ModelledClock(), ignore, Steering())
    assert run.steps["n_steps"].max() > 10
    fit = fit_steps(run.steps)
    assert fit.coefficients_ps["decode_kv"] == pytest.approx(KV_PS, rel=1e-6)
    assert fit.coefficients_ps["decode_base"] == pytest.approx(COSTS[0], rel=1e-6)


def test_noise_and_rare_interruptions_count_for_what_they_cost_and_no_more() -> None:
    """10 % of noise, and one step in 300 that took twenty times as long: 6 % of the time, spread over all steps."""
    steps = as_measured(steps_of(), noise=0.1)
    costs = steps["end_ns"] - steps["start_ns"]
    undisturbed_ns = costs.sum()
    costs[::300] *= 20
    more_ratio = costs.sum() / undisturbed_ns
    ends = np.cumsum(costs)
    fit = fit_steps({**steps, "start_ns": ends - costs, "end_ns": ends})
    assert more_ratio > 1.05
    assert fit.coefficients_ps["decode_base"] == pytest.approx(COSTS[0] * more_ratio, rel=0.05)
    assert fit.coefficients_ps["decode_row"] == pytest.approx(COSTS[1] * more_ratio, rel=0.2)
    assert abs(fit.kinds["decode"].errors["total"]) < 0.05
    assert 0.05 < fit.kinds["decode"].errors["p50"] < 0.12
    assert fit.rho_fraction == 1


def test_no_coefficient_is_below_0() -> None:
    """Costs that fall with the cache are told as costs that do not depend on it."""
    steps = steps_of(0)
    falling = {**steps, "cost_ps": steps["cost_ps"] - 100_000 * steps["kv_tokens"]}
    fit = fit_steps(falling)
    assert fit.coefficients_ps["decode_kv"] == 0
    assert all(value >= 0 for value in fit.coefficients_ps.values())


def test_rho_is_the_share_of_time_in_which_a_step_ran() -> None:
    """Steps of 1 ns every 4 ns."""
    steps = as_measured(steps_of())
    begins = np.arange(len(steps["step"]), dtype=np.int64) * 4
    assert fit_steps({**steps, "start_ns": begins, "end_ns": begins + 1}).rho_fraction == pytest.approx(0.25, rel=0.01)


def test_a_run_with_too_little_to_fit_is_refused_in_one_line() -> None:
    """Few steps of a kind, or none whose work is told."""
    few = play(schedule_of([30]), engine_of(static(2))).steps
    with pytest.raises(ValueError, match="29 steps of kind decode: at least 40") as caught:
        fit_steps(few)
    assert "\n" not in str(caught.value)
    silent = {**few, "told": np.zeros_like(few["told"]), "kv_tokens": np.full_like(few["kv_tokens"], NULL)}
    with pytest.raises(ValueError, match="does not tell what its steps did"):
        fit_steps(silent)


def test_the_file_that_is_written_is_an_executor(tmp_path: Path) -> None:
    """A modelled run, fitted, and played again with the file: the same figures to a millionth."""
    runs, costs = tmp_path / "runs", tmp_path / "mine.toml"
    words = ["run", "--clock", "modelled", "--rate", "12", "--out", str(runs), "--engine"]
    assert CliRunner().invoke(main, [*words, "continuous,batch=4,decode-kv=400ns"]).exit_code == 0
    (folder,) = runs.iterdir()
    done = CliRunner().invoke(main, ["fit", str(folder), "--out", str(costs)])
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines()[-1] == str(costs) and "at rho 0." in done.stdout
    told = fitted_executor(4, costs=str(costs))
    assert told.cost_model.describe()["decode_kv_ps"] == pytest.approx(400_000, rel=1e-3)
    assert "fitted to run" in str(told.describe()["fitted_to"])
    assert isinstance(SlotEngine(continuous(4), told, told.cost_model).describe()["cost_model"], dict)
    again = CliRunner().invoke(main, [*words, f"continuous,batch=4,executor=fitted,costs={costs}"])
    assert again.exit_code == 0, again.output


@pytest.mark.parametrize("words", [["nowhere"], ["nowhere", "--json"]])
def test_a_folder_that_is_no_run_is_one_line(words: list[str], tmp_path: Path) -> None:
    """Exit code 2, and no file."""
    done = CliRunner().invoke(main, ["fit", *words, "--out", str(tmp_path / "x.toml")])
    assert done.exit_code == Exit.USAGE and "nowhere" in done.output
    assert not (tmp_path / "x.toml").exists()


def test_a_fit_to_a_killed_run_says_so(tmp_path: Path) -> None:
    """Its rows are true, and end in the middle."""
    folder = make_run(tmp_path, "continuous,batch=4", "16", requests="400")
    as_killed(folder)
    done = CliRunner().invoke(main, ["fit", str(folder), "--out", str(tmp_path / "x.toml"), "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["invalid"] == ["INCOMPLETE"]
