"""A soak of the way through locust: one JSON line.

    python tests/benchmarks/locust_soak.py --mock BINARY [--requests 200000] [--rate 500]

A master and two workers on loopback send that many requests of 16 tokens to a server that logs when it read what.

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
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pandas as pd

from results.schedule import load_schedule
from targets.transport.encoding import request_uuid
from tests.targets.ssemock_process import read_truth

TOKENS, PROMPT_TOKENS = 16, 32
WORKERS = 2
LOOK_S = 0.5
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
    return parser.parse_args()


def soak(options: argparse.Namespace, place: Path) -> dict[str, float]:
    """Play it and look at what came of it."""
    log, out = place / "truth.bin", place / "out"
    with ExitStack() as running:
        port = mock_server(options, log, running)
        peaks = play(options, f"http://127.0.0.1:{port}/v1", out, running)
    (folder,) = (path for path in out.iterdir() if not path.name.startswith("."))
    rows = pd.read_parquet(folder / "requests.parquet")
    merged = int(((rows.status == "ok") & (rows.output_tokens == TOKENS)).sum())
    error_ms = arrival_error_ms(folder, log)
    return {
        "requests": options.requests,
        "merged": merged,
        **{f"{name}_peak_mib": round(peak / 2**20, 1) for name, peak in peaks.items()},
        "arrival_error_ms_p99": round(float(np.quantile(error_ms, 0.99)), 3),
        "arrival_error_ms_p50": round(float(np.quantile(error_ms, 0.5)), 3),
    }


def mock_server(options: argparse.Namespace, log: Path, running: ExitStack) -> int:
    """Its port."""
    words = ["--port", "0", "--quiet", "--log", str(log), "--ttft-us", "20000", "--itl-us", "5000"]
    server = subprocess.Popen([options.mock, *words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    running.callback(server.wait)
    running.callback(server.send_signal, signal.SIGTERM)
    assert server.stdout is not None
    return int(server.stdout.readline().rsplit(":", 1)[1])


def play(options: argparse.Namespace, target: str, out: Path, running: ExitStack) -> dict[str, int]:
    """To the end of the run; the most memory, in bytes, of the master and of the conductor."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    load = ["--target", target, "--rate", str(options.rate), "--requests", str(options.requests), "--out", str(out)]
    lengths = ["--prompt-tokens", str(PROMPT_TOKENS), "--output-tokens", str(TOKENS), "--no-calibrate"]
    headless = ["--master", "--headless", "--only-summary", "--expect-workers", str(WORKERS)]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    master = subprocess.Popen([*COMMAND, *load, *lengths, "--", *headless, "--master-bind-port", port], **quiet)
    running.callback(master.kill)
    for _ in range(WORKERS):
        worker = subprocess.Popen([*COMMAND, "--", "--worker", "--master-port", port], **quiet)
        running.callback(worker.wait)
        running.callback(worker.kill)
    peaks = {"master": 0, "conductor": 0}
    while master.poll() is None:
        peaks["master"] = max(peaks["master"], peak_bytes(master.pid))
        peaks["conductor"] = max([peaks["conductor"], *(peak_bytes(child) for child in children(master.pid))])
        time.sleep(LOOK_S)
    return peaks


def peak_bytes(pid: int) -> int:
    """Most memory that a process has held; 0 when it is gone."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM")), 0)


def children(pid: int) -> list[int]:
    """Of a process."""
    try:
        return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
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
