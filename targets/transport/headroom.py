"""Whether this machine can hold so many connections: file descriptors and local ports."""

import resource
from pathlib import Path

OTHER_FILES = 128
"""Descriptors that a run needs beside its connections."""
PORT_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")


def raise_file_limit(connections: int) -> None:
    """Let this process have so many connections. ValueError when its hard limit forbids it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + OTHER_FILES
    if soft == resource.RLIM_INFINITY or wanted <= soft:
        return
    if hard != resource.RLIM_INFINITY and wanted > hard:
        raise ValueError(
            f"{connections} connections need {wanted} file descriptors, and this process may have {hard}: "
            f"raise the hard limit (ulimit -Hn {wanted}) or ask for fewer at once"
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def check_ports(connections: int, port_range: Path = PORT_RANGE) -> None:
    """Each connection to one address takes a local port. ValueError when there are too few."""
    try:
        low, high = map(int, port_range.read_text(encoding="ascii").split())
    except (OSError, ValueError):
        return
    if connections > high - low + 1:
        raise ValueError(
            f"{connections} connections need as many local ports, and this machine has {high - low + 1}: "
            f"widen net.ipv4.ip_local_port_range or ask for fewer at once"
        )
