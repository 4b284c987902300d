"""The figures of the page against an independent computation with pandas from the Parquet files alone."""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from results.report import write_report
from results.report.asked import workload_of
from results.report.differences import unwrapped
from results.report.figures import Figure, amount, percent
from results.report.table import figure_cell
from results.schedule import load_schedule
from tests.results.report.folders import ENGINES, LOADS, make_run, make_sweep, point_of
from tests.results.report.reading import Reading, read

NS_PER_MS, NS_PER_S = 1e6, 1e9


@dataclass(frozen=True)
class Rows:
    """A run's Parquet files, and the end of every step."""

    requests: pd.DataFrame
    tokens: pd.DataFrame
    steps: pd.DataFrame
    ends_ns: pd.Series


def rows_of(folder: Path) -> Rows:
    """Read with pandas; stretches of steps are taken apart."""
    steps = pd.read_parquet(folder / "steps.parquet")
    ends = {}
    for row in steps.to_dict("records"):
        for taken in range(1, int(row["n_steps"]) + 1):
            if "start_ps" in row:
                slope = row["cost_slope_ps"] * taken * (taken - 1) // 2
                ends[row["step"] + taken - 1] = (row["start_ps"] + row["cost_ps"] * taken + slope) // 1000
            else:
                ends[row["step"]] = row["end_ns"]
    requests, tokens = (pd.read_parquet(folder / f"{name}.parquet") for name in ("requests", "tokens"))
    return Rows(requests, tokens, steps, pd.Series(ends))


def expected(folder: Path, burst: bool) -> dict[str, float]:
    """The scorecard's figures. All requests are ok, and every delivery is one token."""
    rows = rows_of(folder)
    assert (rows.requests["status"] == "ok").all() and rows.tokens["tokens"].isna().all()
    times = [rows.ends_ns[list(steps)].to_numpy(dtype=np.float64) for steps in rows.tokens["step"]]
    due = rows.requests["due_ns"].to_numpy(dtype=np.float64)
    ttft = np.array([one[0] for one in times]) - due
    tpot = np.array([(one[-1] - one[0]) / (len(one) - 1) for one in times])
    gaps = np.concatenate([np.diff(one) for one in times])
    window = max(one[-1] for one in times) if burst else due.max()
    delivered = sum((one <= window).sum() for one in times)
    attained = ((ttft <= 1e9) & (tpot <= 50e6)).sum()
    quantile = lambda values, q: float(np.quantile(values, q, method="median_unbiased")) / NS_PER_MS  # noqa: E731
    return {
        "ttft_ms.p50": quantile(ttft, 0.5),
        "ttft_ms.p95": quantile(ttft, 0.95),
        "tpot_ms.p50": quantile(tpot, 0.5),
        "itl_ms.p50": quantile(gaps, 0.5),
        "itl_ms.p99": quantile(gaps, 0.99),
        "itl_ms.max": float(gaps.max()) / NS_PER_MS,
        "rates.output_tokens_per_s": float(delivered) * NS_PER_S / window,
        "slo.goodput_rps": float(attained) * NS_PER_S / window,
        "slo.attainment": float(attained) / len(times),
        **slot_figures(rows.steps),
    }


def slot_figures(steps: pd.DataFrame) -> dict[str, float]:
    """Fractions from the step table's counts."""
    spent = {
        name: float((steps[f"{name}_slots"] * steps["n_steps"]).sum())
        for name in ("prefilling", "decoding", "finished", "stalled", "empty_queued", "idle")
    }
    busy = spent["prefilling"] + spent["decoding"]
    real, padding = float(steps["prefill_tokens"].sum()), float(steps["padding_tokens"].sum())
    n = steps["n_steps"]
    duration = steps["cost_ps"] * n + steps["cost_slope_ps"] * n * (n - 1) // 2
    share = {name: float((steps[f"{name}_slots"] * duration).sum()) for name in spent}
    return {
        "slots.wasted_slot_fraction": spent["finished"] / (busy + spent["finished"]),
        "slots.unused_slot_fraction": 1 - busy / sum(spent.values()),
        "slots.padding_fraction": 1 - real / (real + padding),
        **{f"slots.{name}": value / sum(share.values()) for name, value in share.items()},
    }


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = make_sweep(tmp_path_factory.mktemp("sweep"), requests="120")
    write_report(folder)
    return folder


@pytest.fixture(scope="module")
def reading(sweep: Path) -> Reading:
    return read((sweep / "report.html").read_text())


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("load", LOADS)
def test_every_figure_equals_its_recomputation(sweep: Path, reading: Reading, engine: str, load: str) -> None:
    """TTFT, TPOT, gaps, throughput, goodput, attainment and the slots of each engine at each load."""
    head = f"{engine} @ {load if load == 'burst' else f'{load}/s'}"
    shown = {metric: value for (table, row, metric), value in reading.values.items()
             if table == "scorecard" and row == head}  # fmt: skip
    for metric, value in expected(point_of(sweep, engine, load), load == "burst").items():
        assert shown[metric] == pytest.approx(value, rel=1e-9, abs=1e-12), metric


def test_every_figure_equals_the_stored_summary(sweep: Path, reading: Reading) -> None:
    """What `--json` prints is what the page shows."""
    for engine in ENGINES:
        summary = unwrapped(json.loads((point_of(sweep, engine, "16") / "summary.json").read_text()))
        for (table, head, metric), value in reading.values.items():
            group, _, name = metric.partition(".")
            if table == "scorecard" and head == f"{engine} @ 16/s" and name in summary.get(group, {}):
                assert value == summary[group][name], metric


def test_charts_show_the_same_figures_as_the_tables(reading: Reading) -> None:
    """Each line's values are the table's, load by load."""
    for chart, trace, metric in (("throughput", 1, "rates.output_tokens_per_s"), ("ttft", 0, "ttft_ms.p50"),
                                 ("ttft", 3, "ttft_ms.p95"), ("tpot", 3, "itl_ms.p99")):  # fmt: skip
        values = [value for value in reading.charts[chart]["data"][trace]["y"] if value is not None]
        heads = [f"one-by-one @ {load}" for load in ("4/s", "16/s", "burst")]
        assert values == [reading.values["scorecard", head, metric] for head in heads], chart


def test_the_offered_line_is_rate_times_mean_output_tokens(sweep: Path, reading: Reading) -> None:
    """In tokens/s, through the origin."""
    offered = reading.charts["throughput"]["data"][0]
    outputs = pd.read_parquet(point_of(sweep, "one-by-one", "16") / "schedule.parquet")["output_tokens"]
    assert (offered["x"], offered["y"]) == ([0, 4, 16], [0, 4 * outputs.mean(), 16 * outputs.mean()])


def test_slot_time_shares_add_up_to_one(reading: Reading) -> None:
    """In the table and in every bar."""
    for engine in ENGINES:
        shares = [value for (table, head, metric), value in reading.values.items()
                  if (table, head) == ("scorecard", f"{engine} @ 16/s") and metric.startswith("slots.")
                  and not metric.endswith("fraction")]  # fmt: skip
        assert len(shares) == 6 and sum(shares) == pytest.approx(1)


def test_ratios_in_words_are_those_of_the_table(reading: Reading) -> None:
    """Static over one-by-one, continuous over static, in burst."""
    one, static, continuous = (
        reading.values["scorecard", f"{engine} @ burst", "rates.output_tokens_per_s"] for engine in ENGINES
    )
    assert f"static batching makes {static / one:.2f} times the output tokens/s of one-by-one" in reading.text
    assert f"continuous batching makes {continuous / static:.2f} times the output tokens/s of static" in reading.text


def test_means_over_repeats_are_means_of_the_runs(tmp_path: Path) -> None:
    """With the smallest and largest run beside them."""
    sweep = make_sweep(tmp_path, engines=("static,batch=4",), loads=("16",), repeats=3)
    summaries = [json.loads(path.read_text()) for path in sorted(sweep.glob("points/*/summary.json"))]
    runs = [unwrapped(summary)["ttft_ms"]["p50"] for summary in summaries]
    found = read(write_report(sweep).read_text())
    assert found.values["scorecard", "static,batch=4 @ 16/s", "ttft_ms.p50"] == pytest.approx(np.mean(runs))
    assert f"{amount(min(runs))}–{amount(max(runs))}" in found.text


def test_a_stored_summary_that_the_rows_contradict_is_said_loudly(tmp_path: Path) -> None:
    """The page shows what the rows give, and first of all that the file says otherwise."""
    run = make_run(tmp_path)
    summary = json.loads((run / "summary.json").read_text())
    true, summary["ttft_ms"]["p50"] = summary["ttft_ms"]["p50"], 1.0
    (run / "summary.json").write_text(json.dumps(summary))
    html = write_report(run).read_text()
    found = read(html)
    assert found.values["scorecard", "static,batch=4 @ 16/s", "ttft_ms.p50"] == true
    assert "summary.json is not what the rows give: ttft_ms.p50 says 1.0, the rows give" in found.text
    assert html.index("is not what the rows give") < html.index('<section id="answer"')


def test_a_run_in_nanoseconds_is_read_as_well(tmp_path: Path) -> None:
    """The charged clock's step table has starts and ends."""
    run = make_run(tmp_path, "static,batch=4,executor=cost", clock="charged")
    rows = rows_of(run)
    firsts = np.array([rows.ends_ns[next(iter(steps))] for steps in rows.tokens["step"]], dtype=np.float64)
    ttft = firsts - rows.requests["due_ns"].to_numpy(dtype=np.float64)
    found = read(write_report(run).read_text())
    shown = found.values["scorecard", "static,batch=4,executor=cost @ 16/s", "ttft_ms.p50"]
    assert shown == pytest.approx(np.quantile(ttft, 0.5, method="median_unbiased") / NS_PER_MS)


def test_the_expected_longest_of_a_batch_is_that_of_drawing(tmp_path: Path) -> None:
    """E[max of B] of the schedule's own lengths, against 200,000 drawn batches."""
    schedule = load_schedule(make_run(tmp_path) / "schedule.parquet")
    drawn = np.random.default_rng(1).choice(schedule.output_tokens, (200_000, 4)).max(axis=1).mean()
    longest = workload_of(schedule).longest_of_batch
    assert longest[0] == pytest.approx(schedule.output_tokens.mean())
    assert longest[3] == pytest.approx(drawn, rel=2e-3)


def test_numbers_are_written_with_three_digits_or_so() -> None:
    """Misses are not rounded up to all."""
    assert [amount(value) for value in (1659.2, 100, 76.34, 2.046, 0)] == ["1,659", "100", "76.3", "2.05", "0.00"]
    assert [percent(value) for value in (1, 0.9951, 0.99, 0.3, 0.001, 0)] == [
        "100 %", "99.5 %", "99 %", "30 %", "0.1 %", "0 %",
    ]  # fmt: skip
    assert figure_cell(Figure(None, reason="FAILED_TAIL"), "amount").text == "inf (failures)"


def test_figures_of_engines_on_different_schedules_are_not_to_be_compared(tmp_path: Path) -> None:
    """Said before everything else."""
    sweep = make_sweep(tmp_path, engines=("one-by-one", "static,batch=4"), loads=("16",))
    other = make_run(tmp_path / "other", "static,batch=4", seed="99")
    place = point_of(sweep, "static,batch=4", "16")
    place.rename(tmp_path / "gone")
    other.rename(place)
    assert "At load 16 the engines did not get the same schedule" in write_report(sweep).read_text()
