"""What the scraper is told on the first line of its input: everything it needs, secrets included, and no argument."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

PERIOD_S = 1.0
TIMEOUT_S = 1.0
STOP = b"stop\n"
"""The line after which it asks a last time and ends."""


@dataclass(frozen=True, slots=True)
class Order:
    """Whom to ask, how, and where the rows go."""

    urls: tuple[str, ...] = field(repr=False)
    stream: str
    """The Arrow stream that is written."""
    parent_id: int
    """Process that wants this; when it is gone, the scraper ends."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Sent to the places of `origin_url` alone, and never followed to another by a redirect."""
    origin_url: str = field(default="", repr=False)
    verify_tls: bool = True
    ca_file: str | None = None
    unix_socket: str | None = None
    """Path of a socket that places of `origin_url` are reached through."""
    steps_url: str = field(default="", repr=False)
    """Where the target may tell its own steps; empty: nobody asks."""
    steps_file: str = ""
    """What came of that."""
    period_s: float = PERIOD_S
    timeout_s: float = TIMEOUT_S

    def line(self) -> bytes:
        """As one line of JSON."""
        return json.dumps(asdict(self)).encode() + b"\n"


def read_order(line: bytes) -> Order:
    """The order of a line."""
    told = json.loads(line)
    return Order(**{**told, "urls": tuple(told["urls"])})
