"""A plain Python process beside a gevent one, that speaks in lines of JSON."""

import json
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import gevent
from gevent import subprocess

Json = dict[str, Any]


class Child:
    """One process, in a session of its own: a terminal's Ctrl-C does not reach it, the end of its stdin does."""

    def __init__(self, module: str, heard: Callable[[Json], None], ended: Callable[[], None]) -> None:
        """Starts it. `heard`: told each line; `ended`: that there will be none."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("LOCUST_")}
        self._process = subprocess.Popen(
            [sys.executable, "-m", module],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, start_new_session=True,
        )  # fmt: skip
        self._heard = heard
        self._ended = ended
        self._listener = gevent.spawn(self._listen)

    @property
    def pid(self) -> int:
        """Its process id."""
        return int(self._process.pid)

    def say(self, document: Json) -> None:
        """One line to it; nothing when it is gone."""
        with suppress(OSError, ValueError):
            self._process.stdin.write(json.dumps(document).encode() + b"\n")
            self._process.stdin.flush()

    def interrupt(self) -> None:
        """SIGINT."""
        if self._process.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGINT)

    def let_go(self) -> None:
        """The end of its stdin: it gives up what it does and ends."""
        with suppress(OSError, ValueError):
            self._process.stdin.close()

    def kill(self) -> None:
        """At once."""
        if self._process.poll() is None:
            with suppress(ProcessLookupError):
                self._process.kill()

    def _listen(self) -> None:
        for line in self._process.stdout:
            with suppress(ValueError):
                self._heard(json.loads(line))
        self._process.wait()
        self._ended()
