"""The client's end of the scraper: start it, tell it when the run starts, stop it. It never holds up a run for long."""

import asyncio
import json
import os
import selectors
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from results.server.names import STEPS_PART, STREAM_ENDING
from targets.observe.order import PERIOD_S, STOP, Order
from targets.observe.places import check_urls

FIRST_WITHIN_S = 2.0
END_WITHIN_S = 4.0
"""Its last round lasts at most a second; the rest is for a busy machine."""
STEPS_WITHIN_S = 10.0
"""More, where the server may tell its steps: they are fetched behind that round, or given up by then."""
ROOT = Path(__file__).parent.parent.parent


@dataclass(slots=True)
class ServerScrape:
    """One scraper process. Every method returns within its bound, whatever the server does."""

    urls: Sequence[str] = field(repr=False)
    parts: Path
    """The run folder's parts."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Those of the target, sent to the target's own origin alone."""
    origin_url: str = field(default="", repr=False)
    """The target's base URL."""
    verify_tls: bool = True
    ca_file: Path | None = None
    unix_socket: Path | None = None
    steps_url: str = field(default="", repr=False)
    """Where the target may tell its own steps; empty: nobody asks."""
    period_s: float = PERIOD_S
    silent: tuple[str, ...] = ()
    """After `first_scrape`: the places that told nothing, each with the reason."""
    _process: "subprocess.Popen[bytes] | None" = None

    def start(self) -> None:
        """Start it; takes some milliseconds. ValueError, in one line, for a URL that cannot be asked."""
        check_urls(self.urls)
        if not self.urls:
            return
        roots = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
        self._process = subprocess.Popen(  # -P: a folder of the user's called `targets` is not taken for ours
            [sys.executable, "-P", "-m", "targets.observe.scraper"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": roots}, start_new_session=True,
        )  # fmt: skip
        self._tell(self._order().line())

    async def first_scrape(self) -> tuple[str, ...]:
        """Wait for its first round, 2 s at most; the places that told nothing."""
        return await asyncio.to_thread(self.wait_for_first)

    def wait_for_first(self, within_s: float = FIRST_WITHIN_S) -> tuple[str, ...]:
        """The same, blocking."""
        process = self._process
        if process is not None and process.stdout is not None:
            line = _line_within(process.stdout, within_s)
            if line:
                self.silent = tuple(json.loads(line)["silent"])
            else:
                self.silent = (f"the metrics were not read within {within_s:g} s",)
        return self.silent

    def start_run(self, t0_ns: int) -> None:
        """Time 0 of the run, a value of time.perf_counter_ns(): rounds are on its whole seconds from then on."""
        self._tell(json.dumps({"t0_ns": t0_ns}).encode() + b"\n")

    def stop(self) -> Path | None:
        """Let it ask a last time and end, within 4 s, 14 where it fetches steps; the stream it wrote, None: none."""
        if self._process is None:
            return None
        self._tell(STOP)
        process, self._process = self._process, None
        try:
            process.communicate(timeout=END_WITHIN_S + (STEPS_WITHIN_S if self.steps_url else 0))
        except (subprocess.TimeoutExpired, OSError, ValueError):
            process.kill()
            process.communicate()
        path = self._path()
        return path if path.is_file() else None

    def _order(self) -> Order:
        return Order(
            urls=tuple(self.urls),
            stream=str(self._path()),
            parent_id=os.getpid(),
            headers=dict(self.headers),
            origin_url=self.origin_url,
            verify_tls=self.verify_tls,
            ca_file=None if self.ca_file is None else str(self.ca_file),
            unix_socket=None if self.unix_socket is None else str(self.unix_socket),
            period_s=self.period_s,
            steps_url=self.steps_url,
            steps_file=str((self.parts / STEPS_PART).absolute()),
        )

    def _path(self) -> Path:
        return (self.parts / f"0000{STREAM_ENDING}").absolute()

    def _tell(self, line: bytes) -> None:
        """A scraper that has died does not hear it, and its stream ends early."""
        if self._process is not None and self._process.stdin is not None:
            try:
                self._process.stdin.write(line)
                self._process.stdin.flush()
            except OSError:
                return


def _line_within(stream: IO[bytes], within_s: float) -> bytes:
    """The first line, or nothing."""
    until_s = time.monotonic() + within_s
    line = b""
    with selectors.DefaultSelector() as selector:
        selector.register(stream, selectors.EVENT_READ)
        while not line.endswith(b"\n") and selector.select(max(until_s - time.monotonic(), 0)):
            piece = os.read(stream.fileno(), 2**16)
            if not piece:
                break
            line += piece
    return line if line.endswith(b"\n") else b""
