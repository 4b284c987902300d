"""Whether the machine can hold so many connections."""

import resource
import subprocess
import sys
from pathlib import Path

import pytest

from targets.transport.headroom import OTHER_FILES, check_ports, raise_file_limit

RAISED = """
import resource
from targets.transport.headroom import raise_file_limit
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 1_000))
raise_file_limit(500)
print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
try:
    raise_file_limit(5_000)
except ValueError as error:
    print(error)
"""


def test_the_soft_limit_is_raised_up_to_the_hard_one() -> None:
    """Beyond that the run is refused, with the number to ask for."""
    done = subprocess.run([sys.executable, "-c", RAISED], capture_output=True, text=True, check=True)
    raised, refused = done.stdout.splitlines()
    assert int(raised) == 500 + OTHER_FILES
    assert "5000 connections" in refused and f"ulimit -Hn {5_000 + OTHER_FILES}" in refused


def test_a_limit_that_is_high_enough_stays() -> None:
    """It is never lowered."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    raise_file_limit(1)
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == before


def test_more_connections_than_local_ports_are_refused(tmp_path: Path) -> None:
    """Where the range is not told, nothing is known and nothing refused."""
    told = tmp_path / "range"
    told.write_text("40000\t40099\n")
    check_ports(100, told)
    with pytest.raises(ValueError, match="this machine has 100"):
        check_ports(101, told)
    check_ports(10**6, tmp_path / "none")
