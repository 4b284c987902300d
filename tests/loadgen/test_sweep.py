"""Sweeps: the same schedules for every engine, an interleaved order, and going on after a stop."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from loadgen.config import RunConfig, from_texts
from loadgen.sweep import Point, Sweep, command_of, load_sweep, plan_sweep, point_config, run_sweep
from results.store import COMPLETE, load_run

ENGINES = ("one-by-one", "static,batch=4", "continuous,batch=4")


def config(out: Path, **texts: str) -> RunConfig:
    return from_texts({"clock": "modelled", "requests": "40", "out": str(out), **texts}, complete=False)


def planned(out: Path, rates: str = "8,burst", repeats: int = 2, **texts: str) -> Sweep:
    return plan_sweep(config(out, **texts), ENGINES, rates, repeats)


def ignore(point: Point, ended_requests: int, requests: int) -> None:
    """A progress that shows nothing."""


def summaries(sweep: Sweep) -> dict[tuple[str, str, int], bytes]:
    return {
        (point.engine, point.load, point.repeat): (sweep.folder / point.folder / "summary.json").read_bytes()
        for point in sweep.points
    }


def test_every_engine_gets_the_same_schedules(tmp_path: Path) -> None:
    """At one load and repeat all engines play one schedule; another repeat plays another."""
    sweep = planned(tmp_path)
    assert run_sweep(sweep, ignore) == COMPLETE
    hashes: dict[tuple[str, int], set[str]] = {}
    for point in sweep.points:
        sha256 = load_run(sweep.folder / point.folder).recording.schedule.sha256
        hashes.setdefault((point.load, point.repeat), set()).add(sha256)
    assert all(len(found) == 1 for found in hashes.values())
    assert len({next(iter(found)) for found in hashes.values()}) == len(hashes)


def test_a_point_is_the_run_it_says(tmp_path: Path) -> None:
    """A point's config is the sweep's with the engine, the load, and the seed of its repeat."""
    point = point_config(config(tmp_path, seed="3"), "static", "16", 2)
    assert (point.engine, point.rate_rps, point.seed) == ("static", 16.0, 5)
    assert point_config(config(tmp_path), "static", "burst", 0).arrival == "burst"
    closed = point_config(config(tmp_path), "static", "closed:4", 0)
    assert (closed.arrival, closed.users) == ("closed", 4)


def test_points_are_interleaved_and_the_order_follows_the_seed(tmp_path: Path) -> None:
    """The order mixes engines and loads within a repeat, is the same for a seed, and another for another."""
    first, again, other = planned(tmp_path), planned(tmp_path), planned(tmp_path, seed="8")
    order = [(point.engine, point.load, point.repeat) for point in first.points]
    assert order == [(point.engine, point.load, point.repeat) for point in again.points]
    assert order != [(point.engine, point.load, point.repeat) for point in other.points]
    assert [repeat for _, _, repeat in order] == sorted(repeat for _, _, repeat in order)
    assert sorted(order) != order


def test_a_sweep_goes_on_to_the_same_summaries(tmp_path: Path) -> None:
    """A sweep that is taken up again after points were lost or cut off ends like one that was never stopped."""
    whole, broken = planned(tmp_path / "whole"), planned(tmp_path / "broken")
    run_sweep(whole, ignore)
    run_sweep(broken, ignore)
    lost, cut = (broken.folder / point.folder for point in broken.points[3:5])
    lost.rename(tmp_path / "away")
    document = json.loads((cut / "run.json").read_text())
    (cut / "run.json").write_text(json.dumps({**document, "status": "running"}))
    resumed = load_sweep(broken.folder)
    assert 0 < resumed.expected_s < whole.expected_s + broken.expected_s + 1e9
    assert run_sweep(resumed, ignore) == COMPLETE
    assert summaries(resumed) == summaries(whole)
    assert (cut.with_name(f"{cut.name}-partial-1") / "run.json").exists()


def test_a_killed_sweep_resumes_to_the_summary_of_an_uninterrupted_one(tmp_path: Path) -> None:
    """kill -9 in the middle, then --resume: every point's summary equals that of a sweep left alone."""
    command = [sys.executable, "-c", "from loadgen.cli import main; main()", "sweep", "--clock", "modelled"]
    options = ["--requests", "600", "--rates", "8,burst"]
    started = subprocess.Popen([*command, *options, "--out", "killed"], cwd=tmp_path, stderr=subprocess.DEVNULL)
    until_s = time.monotonic() + 60
    while time.monotonic() < until_s and len(list(tmp_path.glob("killed/*/points/*/summary.json"))) < 2:
        time.sleep(0.01)
    os.kill(started.pid, signal.SIGKILL)
    started.wait()
    (folder,) = (tmp_path / "killed").iterdir()
    assert load_sweep(folder).expected_s != 0
    subprocess.run([*command, "--resume", str(folder)], cwd=tmp_path, check=True, capture_output=True)
    subprocess.run([*command, *options, "--out", "whole"], cwd=tmp_path, check=True, capture_output=True)
    (whole,) = (tmp_path / "whole").iterdir()
    assert summaries(load_sweep(folder)) == summaries(load_sweep(whole))


def test_auto_rates_span_the_engines(tmp_path: Path) -> None:
    """`auto` gives six rising rates from a quarter of the slowest burst to past the fastest, and the burst."""
    sweep = plan_sweep(config(tmp_path), ENGINES, "auto", 1)
    rates = [float(load) for load in sweep.loads[:-1]]
    assert len(rates) == 6 and rates == sorted(rates) and sweep.loads[-1] == "burst"
    assert rates[0] < 5 and rates[-1] > 25


def test_the_command_line_of_a_sweep_plans_the_same_sweep(tmp_path: Path) -> None:
    """The command kept in sweep.json names every engine, load and option."""
    text = command_of(planned(tmp_path, seed="9"))
    for word in (*ENGINES, "8,burst", "--repeats 2", "--seed 9", "--requests 40", "--clock modelled"):
        assert word in text


@pytest.mark.parametrize(
    ("rates", "texts", "names"),
    [
        ("4,closed:8", {"trace": "x.csv"}, "x.csv"),
        ("4,burst", {"duration": "5s", "requests": ""}, "duration"),
    ],
)
def test_a_sweep_that_cannot_be_is_refused(tmp_path: Path, rates: str, texts: dict[str, str], names: str) -> None:
    """Contradictions are refused before anything runs, in one line that names them."""
    kept = {key: text for key, text in {"requests": "40", **texts}.items() if text}
    whole = from_texts({"clock": "modelled", "out": str(tmp_path), **kept}, complete=False)
    with pytest.raises((ValueError, OSError), match=names):
        plan_sweep(whole, ENGINES, rates, 1)


def test_the_same_engine_twice_is_refused(tmp_path: Path) -> None:
    """Two points must differ in something."""
    with pytest.raises(ValueError, match="twice"):
        plan_sweep(config(tmp_path), ("static", "static"), "4", 1)
