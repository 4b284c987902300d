"""The mock server that knows when it wrote what, as a process of its own; found through TOKENLOAD_SSEMOCK."""

import os
import shutil
import signal
import struct
import subprocess
import tempfile
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

VARIABLE = "TOKENLOAD_SSEMOCK"
_MAGIC = b"SSEMOCK1"
_HEADER_BYTES = 24
_RECORD = struct.Struct("<2I7Q8I72s")


@dataclass(frozen=True, slots=True)
class Truth:
    """What the server logged of one request; times are of this machine's monotonic clock."""

    request_read_ns: int
    written_ns: list[int]
    """Just before each token event was written."""
    output_tokens: int


@cache
def ssemock_binary() -> str:
    """The binary that the variable names, or one built from the source that it names. Skips without it."""
    named = os.environ.get(VARIABLE)
    if not named or not Path(named).exists():
        pytest.skip(f"{VARIABLE} names no ssemock, neither binary nor source")
    if Path(named).suffix != ".c":
        return str(Path(named).resolve())
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler to build ssemock with")
    built = Path(tempfile.mkdtemp(prefix="ssemock-")) / "ssemock"
    subprocess.run([compiler, "-O2", "-std=c11", "-o", str(built), named, "-lm"], check=True)
    return str(built)


@contextmanager
def ssemock(*options: str) -> Iterator[int]:
    """Its port on loopback, while it runs; it stops by itself after a minute."""
    command = [ssemock_binary(), "--port", "0", "--quiet", "--run-for-s", "60", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        try:
            assert server.stdout is not None
            yield int(server.stdout.readline().rsplit(":", 1)[1])
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(10)


def read_truth(log: Path) -> dict[str, Truth]:
    """The log of a server that has stopped, by x-request-id."""
    data = log.read_bytes()
    assert data.startswith(_MAGIC)
    truths: dict[str, Truth] = {}
    at = _HEADER_BYTES
    while at + _RECORD.size <= len(data):
        fields = _RECORD.unpack_from(data, at)
        begin = at + _RECORD.size
        times = array("Q", data[begin : begin + 16 * fields[1]])
        name = fields[17].split(b"\0")[0].decode()
        truths[name] = Truth(fields[5], times[0::2].tolist(), fields[13])
        at += fields[0]
    return truths
