"""Whole runs against a real server: what `tokenload run --target` leaves behind, whatever happens."""

import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from results.report import write_report
from results.store import load_run
from tests.loadgen.served import serving, tokenload

pytestmark = pytest.mark.realtime
SECRET = "hunter2-very-secret"


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The base URL of a server that lives as long as this file's tests."""
    with serving() as (url, _):
        yield url


def run(out: Path, *words: str, **more: Any) -> dict[str, Any]:
    """A run without calibration, and its JSON document."""
    command = tokenload("run", "--out", str(out), "--json", "--no-calibrate", *words)
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, **more)
    assert done.returncode in (0, 3), done.stderr  # 3: the machine was too busy to measure
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def info_of(folder: Path) -> dict[str, Any]:
    """run.json."""
    found: dict[str, Any] = json.loads((folder / "run.json").read_text())
    return found


def only_folder(out: Path) -> Path:
    """The one run folder there."""
    (folder,) = (path for path in out.iterdir() if path.is_dir() and not path.name.startswith("."))
    return folder


@pytest.mark.parametrize("api", ["openai-chat", "openai-completions"])
@pytest.mark.parametrize("stream", [True, False])
def test_a_run_is_a_folder_with_every_row(server: str, tmp_path: Path, api: str, stream: bool) -> None:
    """Every request ok, tokens as many as asked by the server's own usage, rates and latencies there."""
    found = run(tmp_path, "--target", server, "--rate", "60", "--requests", "60", "--api", api,
                *([] if stream else ["--no-stream"]))  # fmt: skip
    assert found["requests"]["by_status"] == {"ok": 60}
    rows = pd.read_parquet(Path(found["folder"]) / "requests.parquet")
    assert (rows.told_output_tokens == rows.output_tokens_asked).all()
    assert (rows.token_source == "usage").all()
    assert (rows.http_status == 200).all()
    assert found["e2e_ms"]["n"] == 60
    checks = found["verdict"]["checks"]
    assert checks["NOT_STREAMING"] == ("passed" if stream else "failed")
    assert (found["ttft_ms"]["p50"] is not None) == stream


def test_token_ids_are_sent_where_asked(server: str, tmp_path: Path) -> None:
    """--prompt-as ids: the server counts exactly the prompt tokens that the schedule has."""
    found = run(tmp_path, "--target", server, "--rate", "60", "--requests", "30", "--api", "openai-completions",
                "--prompt-as", "ids")  # fmt: skip
    rows = pd.read_parquet(Path(found["folder"]) / "requests.parquet")
    assert (rows.told_prompt_tokens == rows.prompt_tokens).all()


def test_processes_share_the_schedule(server: str, tmp_path: Path) -> None:
    """One, two and three processes: the same schedule, the same canonical digest, samples of the host of each."""
    words = ["--target", server, "--rate", "60", "--requests", "60", "--same-bytes"]
    infos = []
    for processes in ("1", "2", "3"):
        found = run(tmp_path, *words, "--processes", processes)
        assert found["requests"]["by_status"] == {"ok": 60}
        infos.append(info_of(Path(found["folder"])))
        workers = load_run(Path(found["folder"])).recording.host["worker_id"]
        assert set(workers.tolist()) == set(range(int(processes)))
    assert len({info["schedule_sha256"] for info in infos}) == 1
    assert len({info["content_sha256"] for info in infos}) == 1
    assert len({info["digest_sha256"] for info in infos}) == 1


def test_a_closed_loop_is_labelled(server: str, tmp_path: Path) -> None:
    """--concurrency N is a closed loop of N users, and the verdict says so."""
    found = run(tmp_path, "--target", server, "--concurrency", "3", "--requests", "30")
    assert "CAPPED" in [one["code"] for one in found["verdict"]["warnings"]]
    assert found["window_kind"] == "makespan"


def test_a_cap_on_an_open_schedule_is_labelled(server: str, tmp_path: Path) -> None:
    """--max-concurrency: no open loop any more, and the wait for a place counts from the schedule."""
    found = run(tmp_path, "--target", server, "--rate", "200", "--requests", "60", "--max-concurrency", "2")
    assert "CAPPED" in [one["code"] for one in found["verdict"]["warnings"]]
    assert found["queue_wait_ms"]["max"] > 100


def test_the_server_is_watched(server: str, tmp_path: Path) -> None:
    """Its metrics are kept raw, and its slots are told: our server shows 8."""
    found = run(tmp_path, "--target", server, "--rate", "40", "--requests", "60")
    folder = Path(found["folder"])
    assert found["server"]["slots"] == 8
    assert 0 <= found["server"]["unused_slot_fraction"] <= 1
    series = pd.read_parquet(folder / "server.parquet")
    assert series.t_ns.max() > 0 and "server.parquet" in info_of(folder)["files_sha256"]


def test_prompts_differ_from_run_to_run_and_shapes_do_not(server: str, tmp_path: Path) -> None:
    """Salted per run, so that a cache cannot know them; --same-bytes repeats them."""
    words = ["--target", server, "--rate", "100", "--requests", "5", "--warmup-requests", "0"]
    plain = [info_of(Path(run(tmp_path, *words)["folder"])) for _ in range(2)]
    same = [info_of(Path(run(tmp_path, *words, "--same-bytes")["folder"])) for _ in range(2)]
    assert len({info["schedule_sha256"] for info in plain + same}) == 1
    assert len({info["content_sha256"] for info in plain}) == 2
    assert len({info["content_sha256"] for info in same}) == 1


def test_no_secret_is_written_anywhere(server: str, tmp_path: Path) -> None:
    """A key and a secret header from the environment stand in no file, no output and no error."""
    words = ["--key-env", "MY_KEY", "--header", "X-Api-Key: env:MY_HEADER", "--rate", "50", "--requests", "5"]
    env = {**os.environ, "MY_KEY": SECRET, "MY_HEADER": SECRET + "2"}
    command = tokenload("run", "--target", server, "--out", str(tmp_path), "--no-calibrate", *words)
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env, timeout=60)
    assert done.returncode in (0, 3), done.stderr
    assert SECRET not in done.stdout + done.stderr
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) >= 8
    for path in files:
        assert SECRET.encode() not in path.read_bytes(), path


def test_nobody_there_is_one_line(tmp_path: Path) -> None:
    """A target that does not answer ends with exit code 2, one line, and no folder."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = tokenload("run", "--target", f"http://127.0.0.1:{port}/v1", "--rate", "5", "--out", str(tmp_path / "out"))
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("Error: ")
    assert "does not answer" in done.stderr
    assert not (tmp_path / "out").exists()


def test_a_server_that_dies_ends_the_run(tmp_path: Path) -> None:
    """Killed in mid-run: the run ends early, says since when nothing answered, and is INVALID with its rows kept."""
    words = ["--rate", "30", "--requests", "3000", "--out", str(tmp_path), "--no-calibrate", "--json"]
    with serving() as (url, server_process):
        command = tokenload("run", "--target", url, *words)
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        wait_for_rows(tmp_path, process)
        server_process.kill()
        stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 3, stderr
    found = json.loads(stdout)
    folder = Path(found["folder"])
    assert "has not answered since" in info_of(folder)["ended_early"]
    assert found["verdict"]["valid"] is False
    counts = found["requests"]["by_status"]
    assert counts["ok"] >= 1 and counts["transport_error"] >= 5
    assert (folder / "report.html").is_file()


@pytest.mark.parametrize("times", [1, 2])
def test_ctrl_c_writes_what_there_is(server: str, tmp_path: Path, times: int) -> None:
    """Once: what is in flight is drained; twice: it is aborted. Exit code 130 and a whole folder each time."""
    slow = ["--target", server, "--rate", "20", "--requests", "4000", "--out", str(tmp_path), "--no-calibrate"]
    process = subprocess.Popen(tokenload("run", *slow), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_for_rows(tmp_path, process)
    for _ in range(times):
        process.send_signal(signal.SIGINT)
        time.sleep(0.3)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130, stderr
    folder = only_folder(tmp_path)
    found = load_run(folder)
    assert found.label == "STOPPED"
    assert (found.recording.requests["status"] == 0).sum() > 0
    assert (folder / "report.html").is_file()


@pytest.mark.parametrize("processes", ["1", "2"])
def test_a_killed_run_is_readable(server: str, tmp_path: Path, processes: str) -> None:
    """kill -9 of the client: what was written is read, labelled INCOMPLETE, and nothing of it stays behind."""
    words = ["--target", server, "--rate", "30", "--requests", "4000", "--processes", processes]
    command = tokenload("run", *words, "--out", str(tmp_path), "--no-calibrate")
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    wait_for_rows(tmp_path, process)
    process.kill()
    process.wait()
    folder = only_folder(tmp_path)
    until = time.monotonic() + 20
    while _others(folder) and time.monotonic() < until:
        time.sleep(0.2)
    assert not _others(folder), "a process of the run lives on"
    found = load_run(folder)
    assert found.label == "INCOMPLETE"
    assert (found.recording.requests["status"] == 0).sum() > 0
    assert write_report(folder).is_file()


def _others(folder: Path) -> list[str]:
    """Processes that still have a file of the folder open."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            targets = [str(one.readlink()) for one in (process / "fd").iterdir()]
        except OSError:
            continue
        found += [process.name] if any(str(folder) in target for target in targets) else []
    return found


def wait_for_rows(out: Path, process: "subprocess.Popen[Any]") -> None:
    """Until rows of requests have been written."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        assert process.poll() is None
        if any(path.stat().st_size > 2_000 for path in out.glob("*/parts/*-requests.arrows")):
            return
        time.sleep(0.05)
    raise AssertionError("no rows were written")


def test_a_client_process_that_is_lost_leaves_its_rows(server: str, tmp_path: Path) -> None:
    """SIGKILL of one of two client processes: the run ends, its unsent requests are worker_lost, the rest is there."""
    words = ["--target", server, "--rate", "40", "--requests", "200", "--processes", "2"]
    command = tokenload("run", *words, "--out", str(tmp_path), "--no-calibrate", "--json")
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_for_rows(tmp_path, process)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    clients = [one for one in children if b"client_process" in Path(f"/proc/{one}/cmdline").read_bytes()]
    assert len(clients) == 2
    os.kill(int(clients[1]), signal.SIGKILL)
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 3, stderr
    counts = json.loads(stdout)["requests"]["by_status"]
    assert counts["worker_lost"] > 10
    assert counts["ok"] >= 100


def test_a_sweep_of_a_server_is_one_report(server: str, tmp_path: Path) -> None:
    """Rates, a burst and closed loops of one server, and the command that runs it again."""
    command = tokenload("sweep", "--target", server, "--rates", "40,burst,closed:2", "--requests", "20", "--json",
                        "--out", str(tmp_path), "--no-calibrate", "--header", "X-A: b")  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode in (0, 3), done.stderr
    found = json.loads(done.stdout)
    assert len(found["points"]) == 3
    assert all(one["summary"]["requests"]["by_status"] == {"ok": 20} for one in found["points"])
    again = json.loads((Path(found["folder"]) / "sweep.json").read_text())["command"]
    assert f"--target {server}" in again and "--header 'X-A: b'" in again and "--no-calibrate --" in again + " --"


