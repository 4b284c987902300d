"""Locust processes for tests: on loopback, on ports that are free, none left behind."""

import json
import os
import signal
import socket
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

from results.status import NAMES
from results.store import load_run
from tests.loadgen.served import tokenload

LONGEST_S = 90
Process = subprocess.Popen[str]


def free_port() -> int:
    """One that nobody listens on now."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def environment(spool: Path) -> dict[str, str]:
    """Ours, with a spool of the test's own."""
    spool.mkdir(exist_ok=True)
    return {**os.environ, "TMPDIR": str(spool)}


@contextmanager
def locust(
    spool: Path, options: Sequence[str], locusts: Sequence[str], enter: Sequence[str] = ()
) -> Iterator[Process]:
    """`tokenload locust`; killed with all its children at the end. `enter`: leads to the host that it runs on."""
    command = [*enter, *tokenload("locust", *options, "--", *locusts)]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment(spool),
        start_new_session=True,
    )  # fmt: skip
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def master_and_workers(spool: Path, options: Sequence[str], workers: int, port: int) -> tuple[list[str], list[str]]:
    """Locust's options of a headless master, and of each worker."""
    master = ["--master", "--headless", "--only-summary", "--expect-workers", str(workers)]
    return [*master, "--master-bind-port", str(port)], ["--worker", "--master-port", str(port)]


def output_of(process: Process, timeout_s: float = LONGEST_S) -> str:
    """All it printed, when it has ended."""
    return process.communicate(timeout=timeout_s)[0]


def read_until(process: Process, words: str) -> str:
    """All it printed up to the line with these words."""
    assert process.stdout is not None
    printed = ""
    for line in process.stdout:
        printed += line
        if words in line:
            return printed
    raise AssertionError(f"it ended without {words!r}: {printed}")


def until(holds: Callable[[], Any], what: str, timeout_s: float = LONGEST_S) -> Any:
    """What it returns as soon as that is true."""
    end_s = time.monotonic() + timeout_s
    while time.monotonic() < end_s:
        found = holds()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError(f"waited in vain for {what}")


def rows_in(out: Path) -> bool:
    """Whether rows of requests have come to the master."""
    return any(path.stat().st_size > 1_000 for path in out.glob("*/parts/*-requests.arrows"))


def only_folder(out: Path) -> Path:
    """The one run folder there."""
    (folder,) = (path for path in out.iterdir() if path.is_dir() and not path.name.startswith("."))
    return folder


def info_of(folder: Path) -> dict[str, Any]:
    """run.json."""
    found: dict[str, Any] = json.loads((folder / "run.json").read_text())
    return found


def by_status(folder: Path) -> dict[str, int]:
    """How the requests ended, by the rows; none is left out."""
    return dict(Counter(NAMES[status] for status in load_run(folder).recording.requests["status"].tolist()))


def processes_with(words: str, spool: Path) -> list[int]:
    """Pids whose command line has these words and whose environment has this spool."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            named = words.encode() in (place / "cmdline").read_bytes().replace(b"\0", b" ")
            if named and f"TMPDIR={spool}\0".encode() in (place / "environ").read_bytes() + b"\0":
                found.append(int(place.name))
    return sorted(found)


def post(url: str, **fields: str) -> dict[str, Any]:
    """A form of the UI, sent."""
    with urlopen(url, urlencode(fields).encode(), timeout=LONGEST_S) as reply:
        found: dict[str, Any] = json.load(reply)
    return found


def state_of(url: str) -> str:
    """What the UI shows locust to be doing; '' while nobody answers."""
    try:
        with urlopen(f"{url}/stats/requests", timeout=10) as reply:
            return str(json.load(reply)["state"])
    except OSError:
        return ""


def run_plain(target: str, out: Path, *words: str) -> Path:
    """The folder of `tokenload run` with the same options."""
    command = tokenload("run", "--target", target, "--out", str(out), "--no-calibrate", "--json", *words)
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=LONGEST_S)
    assert done.returncode in (0, 3), done.stderr
    return Path(json.loads(done.stdout)["folder"])


