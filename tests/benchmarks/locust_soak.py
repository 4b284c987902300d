"""A soak of the way through locust: one JSON line.

    python tests/benchmarks/locust_soak.py --mock BINARY [--requests 200000] [--rate 500]
        [--workers 2 | --processes 4] [--own-hosts]

A master and its workers on loopback send that many requests of 16 tokens to a server that logs when it read what:
workers that were started by themselves, or forked ones; without either, a local run. With --own-hosts (root's) each
has a network, an address and a clock of its own.

merged: requests of the run folder that are ok with all their tokens. master_peak_mib: most memory that locust's
master held; conductor_peak_mib: the same of the process beside it, which merges and writes. arrival_error_ms_p99: the
server's time of reading a request less its due time, against the lowest half percent of the same.
"""

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

import numpy as np
import pandas as pd

from results.schedule import load_schedule
from targets.transport.encoding import request_uuid
from tests.loadgen.locust.hosts import Host, clock_ahead, hosts, why_not
from tests.targets.ssemock_process import read_truth

TOKENS, PROMPT_TOKENS = 16, 32
LOOK_S = 0.5
AHEAD_S = 3_600
"""How far the clock of each host is ahead of the one before."""
COMMAND = [sys.executable, "-c", "from loadgen.cli import main; main()", "locust"]


def main() -> None:
    """Run it and print the line."""
    options = read_options()
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(soak(options, Path(folder))))


def read_options() -> argparse.Namespace:
    """Of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mock", required=True, help="the server's binary")
    parser.add_argument("--requests", type=int, default=200_000)
    parser.add_argument("--rate", type=float, default=500.0)
    parser.add_argument("--workers", type=int, default=2, help="started by themselves")
    parser.add_argument("--processes", type=int, default=0, help="forked, in place of --workers")
    parser.add_argument("--own-hosts", action="store_true", help="each worker on a host of its own")
    options = parser.parse_args()
    if options.own_hosts and why_not():
        parser.error(f"--own-hosts: {why_not()}")
    return options


def soak(options: argparse.Namespace, place: Path) -> dict[str, float]:
    """Play it and look at what came of it."""
    log, out = place / "truth.bin", place / "out"
    with ExitStack() as running:
        here = Host("127.0.0.1", ())
        home, *others = [here] * (options.workers + 1)
        if options.own_hosts:
            home, *others = running.enter_context(hosts(options.workers))
        port = mock_server(options, log, running, home)
        peaks = play(options, f"http://{home.address}:{port}/v1", out, running, home, others)
    (folder,) = (path for path in out.iterdir() if not path.name.startswith("."))
    rows = pd.read_parquet(folder / "requests.parquet")
    merged = int(((rows.status == "ok") & (rows.output_tokens == TOKENS)).sum())
    error_ms = arrival_error_ms(folder, log)
    info = json.loads((folder / "run.json").read_text())
    return {
        "requests": options.requests,
        "merged": merged,
        **{f"{name}_peak_mib": round(peak / 2**20, 1) for name, peak in peaks.items()},
        "arrival_error_ms_p99": round(float(np.quantile(error_ms, 0.99)), 3),
        "arrival_error_ms_p50": round(float(np.quantile(error_ms, 0.5)), 3),
        "clock_uncertainty_ms": max(one["clock"].get("uncertainty_ns", 0) for one in info["workers"]) / 1e6,
    }


def mock_server(options: argparse.Namespace, log: Path, running: ExitStack, home: Host) -> int:
    """Its port."""
    words = ["--host", home.address, "--port", "0", "--quiet", "--log", str(log), "--ttft-us", "20000"]
    command = [*home.enter, options.mock, *words, "--itl-us", "5000"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    running.callback(server.wait)
    running.callback(server.send_signal, signal.SIGTERM)
    assert server.stdout is not None
    return int(server.stdout.readline().rsplit(":", 1)[1])


def play(
    options: argparse.Namespace, target: str, out: Path, running: ExitStack, home: Host, others: Sequence[Host]
) -> dict[str, int]:
    """To the end of the run; the most memory, in bytes, of the master and of the conductor."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    load = ["--target", target, "--rate", str(options.rate), "--requests", str(options.requests), "--out", str(out)]
    lengths = ["--prompt-tokens", str(PROMPT_TOKENS), "--output-tokens", str(TOKENS), "--no-calibrate"]
    headless = ["--headless", "--only-summary"]
    if options.processes:
        headless += ["--processes", str(options.processes), "--master-bind-port", port, "--master-port", port]
    elif options.workers:
        headless += ["--master", "--expect-workers", str(options.workers), "--master-bind-port", port]
    master = started([*home.enter, *COMMAND, *load, *lengths, "--", *headless], running)
    for at, host in enumerate([] if options.processes else others):
        enter = [*host.enter, *clock_ahead(at * AHEAD_S)] if options.own_hosts else []
        started([*enter, *COMMAND, "--", "--worker", "--master-host", home.address, "--master-port", port], running)
    peaks = {"master": 0, "conductor": 0}
    while master.poll() is None:
        peaks["master"] = max(peaks["master"], peak_bytes(master.pid))
        peaks["conductor"] = max([peaks["conductor"], *(peak_bytes(child) for child in conductors(master.pid))])
        time.sleep(LOOK_S)
    return peaks


def started(command: Sequence[str], running: ExitStack) -> "subprocess.Popen[bytes]":
    """In a session of its own, so that its end takes its children along."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)

    def kill() -> None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    running.callback(kill)
    return process


def peak_bytes(pid: int) -> int:
    """Most memory that a process has held; 0 when it is gone."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM")), 0)


def conductors(pid: int) -> list[int]:
    """Of the children of a process those that merge and write."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return [int(one) for one in children if b"conductor" in Path(f"/proc/{one}/cmdline").read_bytes()]
    except OSError:
        return []


def arrival_error_ms(folder: Path, log: Path) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
    """Of every request that the server read."""
    schedule = load_schedule(folder / "schedule.parquet")
    salt = str((schedule.recipe.get("prompt") or {}).get("salt") or "")
    truths = read_truth(log)
    names = [request_uuid(salt, request_id) for request_id in range(len(schedule))]
    read = [(truths[name].request_read_ns, due) for name, due in zip(names, schedule.due_ns.tolist(), strict=True)
            if name in truths]  # fmt: skip
    error_ns = np.array([at_ns - due_ns for at_ns, due_ns in read], dtype=np.float64)
    return (error_ns - np.quantile(error_ns, 0.005)) / 1e6


if __name__ == "__main__":
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    main()
