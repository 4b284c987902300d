"""Whole runs under locust: the same requests, the same rows and the same folder as `tokenload run`."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pandas as pd
import pytest

from tests.loadgen.locust.hosts import clock_ahead, hosts, serving_on, why_not
from tests.loadgen.locust.running import (
    by_status,
    environment,
    free_port,
    info_of,
    locust,
    master_and_workers,
    only_folder,
    output_of,
    run_plain,
)
from tests.loadgen.served import serving

pytestmark = pytest.mark.realtime
LOAD = ("--rate", "60", "--requests", "60", "--same-bytes")
HASHES = ("schedule_sha256", "content_sha256", "digest_sha256")


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The base URL of a server that lives as long as this file's tests."""
    with serving() as (url, _):
        yield url


@pytest.fixture(scope="module")
def hashes(server: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Of `tokenload run` with the same load."""
    return hashes_of(run_plain(server, tmp_path_factory.mktemp("plain"), *LOAD))


def hashes_of(folder: Path) -> dict[str, str]:
    """What two runs with the same requests and the same ends have in common."""
    info = info_of(folder)
    assert info["status"] == "complete"
    return {name: info[name] for name in HASHES}


def options(server: str, out: Path) -> list[str]:
    """A load without calibration."""
    return ["--target", server, "--out", str(out), "--no-calibrate", *LOAD]


@pytest.mark.parametrize("processes", [0, 2, pytest.param(4, marks=pytest.mark.slow)])
def test_locust_plays_what_run_plays(
    server: str, hashes: dict[str, str], tmp_path: Path, processes: int
) -> None:
    """Headless, alone and with forked workers: schedule hash, content hash and digest are those of `tokenload run`."""
    port = str(free_port())
    ports = ["--master-bind-port", port, "--master-port", port]
    forks = ["--processes", str(processes), *ports] if processes else []
    out, headless = tmp_path / "out", ["--headless", "--only-summary"]
    with locust(tmp_path / "spool", options(server, out), [*headless, *forks]) as process:
        printed = output_of(process)
    assert process.returncode in (0, 3), printed  # 3: the machine was too busy to measure
    folder = only_folder(out)
    assert hashes_of(folder) == hashes
    assert by_status(folder) == {"ok": 60}
    assert (folder / "report.html").is_file()
    assert not list((tmp_path / "spool").glob("tokenload-spool-*/*"))


@pytest.mark.slow
def test_separate_workers_play_what_run_plays(server: str, hashes: dict[str, str], tmp_path: Path) -> None:
    """A master and three workers that were started by themselves: the same hashes and digest; one clock for all."""
    out, spool = tmp_path / "out", tmp_path / "spool"
    of_master, of_worker = master_and_workers(spool, [], 3, free_port())
    with (
        locust(spool, options(server, out), of_master) as master,
        locust(spool, [], of_worker),
        locust(spool, [], of_worker),
        locust(spool, [], of_worker),
    ):
        printed = output_of(master)
    assert master.returncode in (0, 3), printed
    assert hashes_of(only_folder(out)) == hashes
    assert [one["clock"]["shared"] for one in info_of(only_folder(out))["workers"]] == [True] * 3


@pytest.mark.slow
@pytest.mark.skipif(why_not() != "", reason=why_not())
def test_workers_on_hosts_of_their_own_play_what_run_plays(hashes: dict[str, str], tmp_path: Path) -> None:
    """Three, each with a network, an address and a clock of its own: the same requests at the same times all the same.

    How far each clock is ahead was found out, to what is said of it, and time 0 told in it.
    """
    out, port, ahead_s = tmp_path / "out", str(free_port()), (0, 3_600, 86_400)
    with hosts(3) as (home, *others), serving_on(home) as server, ExitStack() as running:
        of_master, of_worker = master_and_workers(tmp_path, [], 3, int(port))
        for at, (host, seconds) in enumerate(zip(others, ahead_s, strict=True)):
            enter, spool = [*host.enter, *clock_ahead(seconds)], tmp_path / f"spool{at}"
            running.enter_context(locust(spool, [], [*of_worker, "--master-host", home.address], enter))
        master = running.enter_context(locust(tmp_path / "spool", options(server, out), of_master, home.enter))
        printed = output_of(master)
    assert master.returncode in (0, 3), printed
    folder = only_folder(out)
    assert hashes_of(folder) == hashes
    clocks = sorted((one["clock"] for one in info_of(folder)["workers"]), key=lambda told: float(told["offset_ns"]))
    for told, seconds in zip(clocks, ahead_s, strict=True):
        assert told["shared"] is False and told["uncertainty_ns"] < 1_000_000_000
        assert abs(told["offset_ns"] - seconds * 1_000_000_000) <= told["uncertainty_ns"]
    rows = pd.read_parquet(folder / "requests.parquet")
    assert (rows.handed_ns - rows.due_ns).between(0, 20_000_000_000).all()


def test_an_engine_in_a_process_has_one_player(tmp_path: Path) -> None:
    """Without a server, a local run plays the engine itself."""
    words = ["--engine", "static,batch=4", "--clock", "modelled", "--rate", "50", "--requests", "40"]
    out, spool = tmp_path / "out", tmp_path / "spool"
    with locust(spool, [*words, "--out", str(out)], ["--headless", "--only-summary"]) as process:
        printed = output_of(process)
    assert process.returncode == 0, printed
    assert by_status(only_folder(out)) == {"ok": 40}


@pytest.mark.slow
def test_an_engine_in_a_process_is_not_shared(tmp_path: Path) -> None:
    """Two workers for an engine that has no address are refused in one line, with the remedy, and no folder."""
    words = ["--engine", "static,batch=4", "--clock", "modelled", "--rate", "50", "--requests", "40"]
    spool, port = tmp_path / "spool", str(free_port())
    ports = ["--master-bind-port", port, "--master-port", port]
    two = ["--headless", "--only-summary", "--processes", "2", *ports]
    with locust(spool, [*words, "--out", str(tmp_path / "none")], two) as process:
        printed = output_of(process)
    assert process.returncode == 2, printed
    assert "cannot be shared by 2 workers" in printed
    assert not (tmp_path / "none").exists()


@pytest.mark.slow
def test_an_overload_is_an_open_loop(tmp_path: Path) -> None:
    """At twice the capacity every request is sent when due, whatever waits, and TTFT grows to the end."""
    out = tmp_path / "out"
    words = ["--rate", "20", "--requests", "100", "--arrival", "constant", "--output-tokens", "10"]
    slow = "one-by-one,executor=cost,decode-base=10ms,decode-row=0.01ms,prefill-base=0.1ms,prefill-token=0.001ms"
    with serving(engine=slow) as (url, _):
        command = ["--target", url, "--out", str(out), "--no-calibrate", *words]
        with locust(tmp_path / "spool", command, ["--headless", "--only-summary"]) as process:
            printed = output_of(process)
    assert process.returncode in (0, 3), printed
    rows = pd.read_parquet(only_folder(out) / "requests.parquet").sort_values("due_ns")
    last_due_ns = int(rows.due_ns.iloc[-1])
    assert rows.handed_ns.max() < 1.4 * last_due_ns < rows.end_ns.max()
    ttft_ns = (rows.first_byte_ns - rows.due_ns).to_numpy()
    assert ttft_ns[-10:].mean() > 5 * ttft_ns[:10].mean()


def test_a_locustfile_of_ones_own_sets_the_load(server: str, hashes: dict[str, str], tmp_path: Path) -> None:
    """Five lines that configure ours; run by locust itself."""
    out, file = tmp_path / "out", tmp_path / "mine.py"
    file.write_text(
        "from loadgen.locustfile import OpenLoopUser, ScheduleShape, configure\n"
        f"configure(target={server!r}, rate='60', requests='60', same_bytes='true', no_calibrate='true')\n"
    )
    command = [sys.executable, "-m", "locust", "-f", str(file), "--headless", "--only-summary", "--out", str(out)]
    done = subprocess.run(
        command, env=environment(tmp_path / "spool"), capture_output=True, text=True, check=False, timeout=90
    )
    assert done.returncode in (0, 3), done.stderr
    assert hashes_of(only_folder(out)) == hashes
