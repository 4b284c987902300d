"""Runs against `tokenload serve` with the server's own steps: fetched, kept, figured, and like those in process."""

import asyncio
import json
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from loadgen.config import from_texts
from loadgen.server_watch import ServerWatch, is_this_host
from loadgen.session import execute, prepare
from results.report import write_report
from results.server.of_run import server_of_run
from results.store import load_run
from targets.transport.endpoint import parse_endpoint
from tests.loadgen.served import FAST, serving, tokenload
from tests.results.report.reading import read
from tests.targets.observe import pages
from tests.targets.observe.pages import site

STATIC = FAST.replace("continuous,batch=8", "static,batch=4,wait=full,max-wait=5s")
FULL_BATCHES = {"rate": "40", "requests": "48", "seed": "7"}


def run(out: Path, options: Mapping[str, str], *words: str) -> Path:
    """The folder of one run."""
    given = [word for name, value in options.items() for word in (f"--{name}", value)]
    command = tokenload("run", *words, *given, "--out", str(out), "--json")
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode in (0, 3), done.stderr
    return Path(json.loads(done.stdout)["folder"])


def document(folder: Path, name: str) -> Any:
    return json.loads((folder / name).read_text())


@pytest.mark.realtime
def test_the_same_static_engine_wastes_the_same_behind_http(tmp_path: Path) -> None:
    """One schedule, full batches of 4: in process and behind `serve` the fractions are within 0.02 of each other."""
    local = from_texts({**FULL_BATCHES, "engine": STATIC, "clock": "modelled", "out": str(tmp_path)})
    inside = execute(prepare(local), lambda ended_requests: None).summary["slots"]
    with serving(engine=STATIC) as (url, _):
        as_ids = ("--api", "openai-completions", "--prompt-as", "ids")
        folder = run(tmp_path, FULL_BATCHES, "--target", url, *as_ids, "--no-calibrate", "--warmup-requests", "0")
    server = document(folder, "summary.json")["server"]
    own = server["own_steps"]
    for name in ("wasted_slot_fraction", "padding_fraction"):
        assert own[name] == pytest.approx(inside[name], abs=0.02), name
    assert own["wasted_slot_fraction"] > 0.1
    assert own["slot_steps"]["decoding_slots"] == inside["slot_steps"]["decoding_slots"]
    assert own["unused_slot_fraction"] == pytest.approx(server["unused_slot_fraction"], abs=0.02)
    assert sum(own["slot_time_share"].values()) == pytest.approx(1)
    check_folder(folder, own)


def check_folder(folder: Path, own: Mapping[str, Any]) -> None:
    """The table is among the hashed files and gives the figures again; the page draws them."""
    info = document(folder, "run.json")
    frame = pd.read_parquet(folder / "server_steps.parquet")
    assert "server_steps.parquet" in info["files_sha256"]
    assert (info["server"]["own_steps"], info["facts"]["server_steps"]) == (own, "told")
    assert (own["chosen_by"], len(frame[frame.start_ns >= 0])) == ("time", own["steps"])
    loaded = load_run(folder)
    window_ns = document(folder, "summary.json")["window_ns"]
    again = server_of_run(folder, info, loaded.recording.schedule, window_ns)
    assert json.loads(json.dumps(again)) == info["server"]
    page = read(write_report(folder).read_text())
    assert {trace["name"]: trace["y"] for trace in page.charts["shares-0"]["data"]}["finished"] == [
        own["slot_time_share"]["finished"]
    ]


@pytest.mark.realtime
def test_steps_of_a_fill_do_not_count(tmp_path: Path) -> None:
    """Nor those of a cool-down: they are in the table and in no figure."""
    with serving() as (url, _):
        folder = run(tmp_path, {"rate": "60", "requests": "60", "fill": "30", "cooldown": "30"}, "--target", url,
                     "--no-calibrate")  # fmt: skip
    own = document(folder, "summary.json")["server"]["own_steps"]
    begin_ns, end_ns = document(folder, "summary.json")["window_ns"]
    start = pd.read_parquet(folder / "server_steps.parquet").start_ns
    assert start.min() < begin_ns < end_ns < start.max()
    assert own["span"] == "measured window"
    assert own["steps"] == ((start >= begin_ns) & (start < end_ns)).sum() > 0


@pytest.mark.realtime
def test_a_server_without_steps_leaves_a_fact_and_no_file(tmp_path: Path) -> None:
    """One 404; neither a figure nor a line of advice."""
    (tmp_path / "parts").mkdir()
    with site() as server:
        server.text("/metrics", pages.vllm_page(1, 1))
        config = from_texts({"target": f"{server.url}/v1", "rate": "1", "requests": "1"})
        watch = ServerWatch(config, parse_endpoint(f"{server.url}/v1"))
        watch.start(tmp_path)
        asyncio.run(watch.ready())
        watch.begin(time.perf_counter_ns())
        told = watch.end()
    assert watch.steps_told == "HTTP 404" and "own_steps" not in told["server"]
    assert not (tmp_path / "server_steps.parquet").exists() and (tmp_path / "server.parquet").exists()


@pytest.mark.parametrize(
    ("url", "same"),
    [
        ("http://127.0.0.1:8000/v1", True),
        ("http://127.8.9.1/v1", True),
        ("http://[::1]:8000", True),
        ("http://localhost:8000", True),
        ("unix:///run/server.sock", True),
        ("http://10.0.0.7:8000/v1", False),
        ("http://localhost.example.org/v1", False),
        ("https://example.org/v1", False),
    ],
)
def test_this_host_is_the_loopback_or_a_unix_socket(url: str, same: bool) -> None:
    """The server's clock is ours there, and is not taken for it anywhere else."""
    assert is_this_host(parse_endpoint(url)) is same
