"""`tokenload serve` from outside: what it prints, how it ends, what it refuses."""

import json
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner

from loadgen.cli import main
from loadgen.engine_spec import make_engine

SCRIPT = str(Path(sys.executable).parent / "tokenload")
COST = "continuous,batch=2,executor=cost"
SLOW = f"{COST},decode-base=50ms"
ENOUGH_S = 60
BREAKS = """
class Breaks:
    def __init__(self):
        self.open = []
    def add_request(self, request):
        self.open.append(request)
    def has_work(self):
        return bool(self.open)
    def step(self):
        raise RuntimeError("out of memory")
"""


@dataclass
class Server:
    """A server in a process of its own."""

    process: subprocess.Popen[str]
    url: str = ""

    def ask(self, **body: Any) -> Any:
        """A whole reply's JSON, and its status."""
        data = json.dumps({"prompt": "x", **body}).encode()
        try:
            with urllib.request.urlopen(f"{self.url}/v1/completions", data, timeout=ENOUGH_S) as reply:
                return reply.status, json.load(reply)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)

    def begin(self, **body: Any) -> Any:
        """A stream whose first event has come; what follows is still to be read."""
        data = json.dumps({"prompt": "x", "stream": True, "return_token_ids": True, **body}).encode()
        reply = urllib.request.urlopen(f"{self.url}/v1/completions", data, timeout=ENOUGH_S)
        assert reply.readline().startswith(b"data: ")
        return reply

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def end(self) -> tuple[int, str, str]:
        """Exit code, the rest of stdout, stderr."""
        out, err = self.process.communicate(timeout=ENOUGH_S)
        return self.process.returncode, out, err


Start = Callable[..., Server]


@pytest.fixture
def start() -> Iterator[Start]:
    """`tokenload serve` on a free port, up; what still runs in the end is killed."""
    servers = []

    def started(*words: str) -> Server:
        command = [SCRIPT, "serve", "--port", "0", *words]
        server = Server(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        servers.append(server)
        assert server.process.stdout is not None
        first = server.process.stdout.readline()
        assert first.startswith("listening on http://127.0.0.1:"), server.end()
        server.url = first.removeprefix("listening on ").strip()
        return server

    yield started
    for server in servers:
        server.process.kill()
        server.process.communicate()


def wait_until_closing(server: Server) -> None:
    """/health is 503 once the signal has been noticed."""
    until_s = time.monotonic() + ENOUGH_S
    while time.monotonic() < until_s:
        try:
            urllib.request.urlopen(f"{server.url}/health", timeout=ENOUGH_S).close()
        except urllib.error.HTTPError as error:
            assert error.code == 503
            return
        time.sleep(0.01)
    raise AssertionError("it never closed")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_drains(start: Start, number: signal.Signals) -> None:
    """What runs is finished to its last event, newcomers get 503, and the exit code is 0 without a word."""
    server = start("--engine", SLOW)
    running = server.begin(max_tokens=20)
    server.signal(number)
    wait_until_closing(server)
    assert server.ask()[0] == 503
    rest = running.read()
    assert rest.endswith(b"data: [DONE]\n\n")
    assert rest.count(b'"token_ids":[') == 19
    assert server.end() == (0, "", "")


def test_a_drain_has_an_end(start: Start) -> None:
    """Past --drain, who still runs is told inside the stream, and the exit code is 0."""
    server = start("--engine", SLOW, "--drain", "100ms")
    running = server.begin(max_tokens=100_000)
    server.signal(signal.SIGTERM)
    rest = running.read()
    assert b"the server is closing" in rest
    assert b"[DONE]" not in rest
    assert server.end() == (0, "", "")


def test_a_second_signal_ends_at_once(start: Start) -> None:
    """Without waiting for the drain's time."""
    server = start("--engine", SLOW, "--drain", "1h")
    running = server.begin(max_tokens=100_000)
    server.signal(signal.SIGTERM)
    wait_until_closing(server)
    server.signal(signal.SIGTERM)
    assert b"the server is closing" in running.read()
    assert server.end() == (0, "", "")


def test_an_engine_that_breaks_ends_the_server(start: Start, tmp_path: Path) -> None:
    """Whoever was in it is told, and the exit code is 1 with one line."""
    (tmp_path / "mine.py").write_text(BREAKS)
    server = start("--engine", f"{tmp_path / 'mine.py'}:Breaks")
    status, reply = server.ask()
    assert (status, reply["error"]["message"]) == (500, "RuntimeError: out of memory")
    assert server.end() == (1, "", "Error: the engine failed: RuntimeError: out of memory\n")


def test_the_cost_executor_serves_in_its_modelled_time(start: Start, tmp_path: Path) -> None:
    """Each step lasts at least as long as its cost says, and the records say so."""
    server = start("--engine", f"{COST},decode-base=20ms,decode-row=0ms,prefill-base=10ms,prefill-token=0ms",
                   "--record", str(tmp_path))  # fmt: skip
    status, reply = server.ask(max_tokens=5)
    assert (status, reply["usage"]["completion_tokens"]) == (200, 5)
    server.signal(signal.SIGTERM)
    assert server.end()[0] == 0
    with (tmp_path / "0000-steps.arrows").open("rb") as file:
        steps = pa.ipc.open_stream(file).read_all().to_pydict()
    assert steps["step"] == [0, 1, 2, 3, 4]
    assert steps["end_ns"][-1] - steps["start_ns"][0] >= 90_000_000


def test_the_transformer_is_served_by_default(start: Start) -> None:
    """Without an engine it is tinygpt, in continuous batches of 8: a real model at once."""
    pytest.importorskip("torch", reason="the tinygpt executor needs torch")
    server = start()
    status, reply = server.ask(max_tokens=3, ignore_eos=True)
    assert (status, reply["model"], reply["usage"]["completion_tokens"]) == (200, "tinygpt", 3)
    with urllib.request.urlopen(f"{server.url}/tokenload/engine", timeout=ENOUGH_S) as told:
        assert json.load(told)["slots"] == 8


def test_a_server_that_is_killed_leaves_its_records(start: Start, tmp_path: Path) -> None:
    """kill -9: what was written by then is read, the last second may be missing."""
    server = start("--engine", COST, "--record", str(tmp_path))
    server.ask(max_tokens=5)
    path = tmp_path / "0000-steps.arrows"
    until_s = time.monotonic() + ENOUGH_S
    while not (path.exists() and path.stat().st_size) and time.monotonic() < until_s:
        time.sleep(0.01)
    server.process.kill()
    server.end()
    with path.open("rb") as file:
        stream = pa.ipc.open_stream(file)
        assert stream.read_next_batch().to_pydict()["step"][0] == 0


def refused(*words: str) -> str:
    """The one line of a command that does not start; exit code 2."""
    result = CliRunner().invoke(main, ["serve", *words])
    assert (result.exit_code, result.stdout) == (2, ""), result.exception
    (line,) = result.stderr.splitlines()
    return line


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("--engine", "static,wait=full,executor=cost"), "add max-wait"),
        (("--engine", "static,until=global-max,executor=cost"), "write until=N"),
        (("--engine", "nonsense"), "'nonsense'"),
        (("--engine", f"{COST},colour=red"), "'colour'"),
        (("--port", "x"), "--port 'x'"),
        (("--port", "65536"), "--port '65536'"),
        (("--port", "-1"), "--port '-1'"),
        (("--max-queue", "0"), "--max-queue: '0'"),
        (("--drain", "30"), "--drain: '30'"),
        (("--served-model", " "), "--served-model ' '"),
        (("--served-model", "a\nb"), "--served-model"),
        (("--host", "", "--engine", COST), "--host"),
        (("--host", "192.0.2.1", "--port", "0", "--engine", COST), "--host 192.0.2.1"),
    ],
)
def test_what_cannot_be_served_is_refused_in_one_line(words: tuple[str, ...], named: str) -> None:
    """The value and the remedy, before anything is bound."""
    assert named in refused(*words)


def test_a_port_that_is_taken_is_refused_in_one_line() -> None:
    """It says which, and that 0 takes a free one."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        line = refused("--engine", COST, "--port", str(port))
    assert f"--port {port}" in line
    assert "--port 0" in line


def test_a_record_goes_into_a_folder_of_its_own(tmp_path: Path) -> None:
    """Records that are there are not written over."""
    (tmp_path / "0000-steps.arrows").touch()
    assert "name another folder" in refused("--engine", COST, "--port", "0", "--record", str(tmp_path))


def test_an_engine_bound_to_a_schedule_needs_one() -> None:
    """until=global-max looks at a schedule's lengths; where there is none, the remedy is named."""
    with pytest.raises(ValueError, match="until=global-max needs a schedule to look at: write until=N"):
        make_engine("static,until=global-max", "real", None)
