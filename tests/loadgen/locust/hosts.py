"""Hosts for tests on one machine: network namespaces with addresses of their own, and clocks that are not the others'.

Needs what root of a whole machine has: `why_not` says what is missing here. A bridge in a namespace of its own joins
them, so that nothing of the machine's own network is touched; all of it goes away with the block.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache

from tests.loadgen.served import FAST, tokenload

NET = "10.231.77"


@dataclass(frozen=True, slots=True)
class Host:
    """One of them."""

    address: str
    enter: tuple[str, ...]
    """What to write before a command so that it runs there."""


@cache
def why_not() -> str:
    """Why there can be no hosts here; '' where there can."""
    missing = [name for name in ("ip", "unshare") if shutil.which(name) is None]
    if missing:
        return f"no {' and no '.join(missing)} on this machine"
    try:
        with hosts(1) as (switch, one):
            command = [*one.enter, *clock_ahead(60), "true"]
            subprocess.run(command, check=True, capture_output=True, text=True, timeout=20)
            assert switch.address != one.address
    except subprocess.SubprocessError as error:
        told = str(getattr(error, "stderr", "") or error).strip()
        return f"no namespaces of network and time here: {told}"
    return ""


@contextmanager
def hosts(count: int) -> Iterator[list[Host]]:
    """So many on one bridge, and before them the host that the bridge belongs to."""
    names = [f"tokenload-{os.getpid()}-{at}" for at in range(count + 1)]
    with ExitStack() as leaving:
        for name in names:
            _ip("netns", "add", name)
            leaving.callback(_ip, "netns", "del", name, check=False)
            _ip("-n", name, "link", "set", "lo", "up")
        _ip("-n", names[0], "link", "add", "bridge", "type", "bridge", "forward_delay", "0")
        _ip("-n", names[0], "addr", "add", f"{NET}.1/24", "dev", "bridge")
        _ip("-n", names[0], "link", "set", "bridge", "up")
        for at, name in enumerate(names[1:], start=1):
            far = ("peer", "name", "eth", "netns", name)
            _ip("-n", names[0], "link", "add", f"port{at}", "type", "veth", *far)
            _ip("-n", names[0], "link", "set", f"port{at}", "master", "bridge", "up")
            _ip("-n", name, "addr", "add", f"{NET}.{at + 1}/24", "dev", "eth")
            _ip("-n", name, "link", "set", "eth", "up")
        yield [Host(f"{NET}.{at + 1}", ("ip", "netns", "exec", name)) for at, name in enumerate(names)]


@contextmanager
def serving_on(host: Host) -> Iterator[str]:
    """The base URL of a server of ours on that host."""
    command = [*host.enter, *tokenload("serve", "--engine", FAST, "--host", host.address, "--port", "0")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("listening on "), line
        yield line.removeprefix("listening on ").strip()
    finally:
        process.kill()
        process.wait()


def clock_ahead(seconds: int) -> tuple[str, ...]:
    """What to write before a command so that its monotonic clock is so far ahead of the machine's."""
    return ("unshare", "--time", "--monotonic", str(seconds), "--boottime", str(seconds))


def _ip(*words: str, check: bool = True) -> None:
    subprocess.run(["ip", *words], check=check, capture_output=True, text=True, timeout=20)
