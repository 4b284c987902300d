"""Faults under locust, each done to the real thing: the run ends, says what was lost, and loses nothing that came."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from results.store import load_run
from tests.loadgen.locust.running import (
    Process,
    by_status,
    free_port,
    info_of,
    locust,
    master_and_workers,
    only_folder,
    output_of,
    post,
    processes_with,
    read_until,
    rows_in,
    state_of,
    until,
)
from tests.loadgen.served import serving, tokenload

pytestmark = pytest.mark.realtime
LONG = ("--rate", "20", "--requests", "4000", "--drain", "5s")
STANDS_STILL_S = 3.0
"""Half of what a worker waits for a sign of its master."""
SHORT = ("--rate", "20", "--requests", "300", "--drain", "5s")


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The base URL of a server that lives as long as this file's tests."""
    with serving() as (url, _):
        yield url


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """Where runs go."""
    return tmp_path / "out"


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    """Where rows wait."""
    return tmp_path / "spool"


def options(server: str, out: Path, load: tuple[str, ...]) -> list[str]:
    """A load without calibration."""
    return ["--target", server, "--out", str(out), "--no-calibrate", *load]


def wait_for_rows(out: Path, process: Process) -> None:
    """Until the master has some."""
    until(lambda: rows_in(out) or process.poll() is not None, "rows")
    assert process.poll() is None


def nothing_left(spool: Path) -> None:
    """No player and no conductor lives on."""
    until(lambda: not processes_with("loadgen.client_process", spool), "the players' end", 20)
    until(lambda: not processes_with("loadgen.locust.conductor", spool), "the conductor's end", 20)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_polite_end_of_a_headless_run_writes_its_folder(
    server: str, out: Path, spool: Path, number: signal.Signals
) -> None:
    """SIGTERM and Ctrl-C: what is in flight is drained, the folder is whole and STOPPED, exit code 130."""
    with locust(spool, options(server, out, LONG), ["--headless", "--only-summary"]) as process:
        wait_for_rows(out, process)
        process.send_signal(number)
        printed = output_of(process)
        assert process.returncode == 130, printed
        nothing_left(spool)
    folder = only_folder(out)
    counts = by_status(folder)
    assert info_of(folder)["status"] == "stopped"
    assert set(counts) == {"ok", "not_dispatched"} and counts["ok"] > 5
    assert (folder / "report.html").is_file()


@pytest.mark.slow
def test_ctrl_c_of_a_whole_terminal_loses_nothing(server: str, out: Path, spool: Path) -> None:
    """SIGINT to master and forked workers at once: drained and written, since the workers leave it to the master."""
    port = str(free_port())
    two = ["--headless", "--only-summary", "--processes", "2", "--master-bind-port", port, "--master-port", port]
    with locust(spool, options(server, out, LONG), two) as process:
        wait_for_rows(out, process)
        os.killpg(process.pid, signal.SIGINT)
        printed = output_of(process)
    assert process.returncode == 130, printed
    assert set(by_status(only_folder(out))) == {"ok", "not_dispatched"}


@pytest.mark.parametrize("victim", ["worker", "player"])
@pytest.mark.slow
def test_a_killed_worker_is_lost_and_the_others_go_on(server: str, out: Path, spool: Path, victim: str) -> None:
    """SIGKILL of one of two workers or of its player: the rest runs to its end; worker_lost, INVALID, exit code 3."""
    of_master, of_worker = master_and_workers(spool, [], 2, free_port())
    with (
        locust(spool, options(server, out, SHORT), of_master) as master,
        locust(spool, [], of_worker) as worker,
        locust(spool, [], of_worker),
    ):
        wait_for_rows(out, master)
        os.kill(worker.pid if victim == "worker" else processes_with("client_process", spool)[0], signal.SIGKILL)
        printed = output_of(master)
        assert master.returncode == 3, printed
        nothing_left(spool)
    counts = by_status(only_folder(out))
    assert counts["worker_lost"] > 10 and counts["ok"] >= 150
    assert sum(counts.values()) == 300
    assert "is lost" in printed


@pytest.mark.slow
def test_rows_of_a_killed_worker_come_later_and_can_be_merged(server: str, out: Path, tmp_path: Path) -> None:
    """Its player leaves them in the spool of its machine; the next worker there ships them beside the run's files.

    Merged into a run of their own: what of the lost worker had ended is there, and no row of the others is gone.
    """
    of_master, of_worker = master_and_workers(tmp_path, [], 2, free_port())
    others, machine = tmp_path / "others", tmp_path / "machine"
    with (
        locust(others, options(server, out, SHORT), of_master) as master,
        locust(machine, [], of_worker) as victim,
        locust(others, [], of_worker),
    ):
        wait_for_rows(out, master)
        victim.kill()
        printed = output_of(master)
    assert master.returncode == 3, printed
    folder = only_folder(out)
    before = by_status(folder)
    again = options(server, out, ("--rate", "20", "--requests", "60"))
    with (
        locust(others, again, of_master) as master,
        locust(machine, [], of_worker),
        locust(others, [], of_worker),
    ):
        printed = output_of(master)
    assert f"--merge-late {folder}" in printed
    command = tokenload("locust", "--merge-late", str(folder))
    merged = Path(subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout.strip())
    after = by_status(merged)
    assert by_status(folder) == before and sum(after.values()) == sum(before.values())
    assert after["ok"] >= before["ok"] and after.get("worker_lost", 0) < before["worker_lost"]
    assert (merged / "report.html").is_file()


@pytest.mark.slow
def test_a_killed_master_leaves_its_rows(server: str, out: Path, spool: Path) -> None:
    """SIGKILL of the master: players stop within seconds, the folder is INCOMPLETE with what had come.

    What had not come waits in the spool, and comes into the folder when there is a master again; the run of that one
    is not disturbed by the stale worker.
    """
    of_master, of_worker = master_and_workers(spool, [], 1, free_port())
    with locust(spool, [], of_worker) as stale:
        with locust(spool, options(server, out, LONG), of_master) as master:
            wait_for_rows(out, master)
            master.kill()
            nothing_left(spool)
        folder = only_folder(out)
        assert load_run(folder).label == "INCOMPLETE"
        before = by_status(folder)
        assert before["ok"] > 5
        again = options(server, out, ("--rate", "20", "--requests", "60"))
        with locust(spool, again, of_master) as master, locust(spool, [], of_worker):
            printed = output_of(master)
        assert master.returncode in (0, 3), printed
        assert stale.poll() is None
    (other,) = (path for path in out.iterdir() if path != folder)
    assert by_status(other) == {"ok": 60}
    assert by_status(folder)["ok"] > before["ok"] + 20


@pytest.mark.slow
def test_a_master_that_stands_still_for_a_while_loses_nothing(server: str, out: Path, spool: Path) -> None:
    """SIGSTOP and, before its workers give it up, SIGCONT: they play on, and ship what has piled up."""
    of_master, of_worker = master_and_workers(spool, [], 2, free_port())
    load = ("--rate", "20", "--requests", "200")
    with (
        locust(spool, options(server, out, load), of_master) as master,
        locust(spool, [], of_worker),
        locust(spool, [], of_worker),
    ):
        wait_for_rows(out, master)
        master.send_signal(signal.SIGSTOP)
        time.sleep(STANDS_STILL_S)
        master.send_signal(signal.SIGCONT)
        printed = output_of(master)
        assert master.returncode in (0, 3), printed
        nothing_left(spool)
    assert by_status(only_folder(out)) == {"ok": 200}
    assert not list(spool.glob("tokenload-spool-*/*"))


def test_ctrl_c_ends_a_master_that_waits_for_its_workers(server: str, out: Path, spool: Path) -> None:
    """Nothing has begun, so nothing is written: exit code 130."""
    of_master, _ = master_and_workers(spool, [], 1, free_port())
    with locust(spool, options(server, out, SHORT), of_master) as master:
        read_until(master, "Waiting for workers")
        master.send_signal(signal.SIGINT)
        printed = output_of(master)
    assert master.returncode == 130, printed
    assert not out.exists()


def test_a_server_that_is_gone_ends_the_run(out: Path, spool: Path) -> None:
    """Nobody there before the start: one line, exit code 2, no folder."""
    target = f"http://127.0.0.1:{free_port()}/v1"
    with locust(spool, options(target, out, SHORT), ["--headless", "--only-summary"]) as process:
        printed = output_of(process)
    assert process.returncode == 2, printed
    assert "does not answer" in printed and "Traceback" not in printed
    assert not out.exists()


@pytest.mark.slow
def test_a_form_with_a_bad_value_is_told_and_the_next_run_works(server: str, out: Path, spool: Path) -> None:
    """In the UI: a bad rate starts nothing; the next start runs; stop drains and writes; start again runs again."""
    web, port = str(free_port()), str(free_port())
    url = f"http://127.0.0.1:{web}"
    ports = ["--web-port", web, "--web-host", "127.0.0.1", "--master-bind-port", port, "--master-port", port]
    with locust(spool, options(server, out, SHORT), ["--processes", "1", *ports]) as process:
        read_until(process, "1 workers connected")
        until(lambda: state_of(url) == "ready", "the UI")
        assert post(f"{url}/swarm", rate="fast")["success"]
        assert "Traceback" not in read_until(process, "--rate: 'fast' is not")
        assert not out.exists()
        for runs in (1, 2):
            post(f"{url}/swarm", rate="20")
            until(lambda: rows_in(out), "rows")
            assert post(f"{url}/stop")["success"]
            until(lambda: state_of(url) in ("ready", "stopped"), "the end")
            folders = sorted(out.iterdir())
            assert len(folders) == runs
            assert set(by_status(folders[-1])) <= {"ok", "not_dispatched"}
        process.send_signal(signal.SIGTERM)
        output_of(process)
