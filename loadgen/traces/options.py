"""The options of a replay, checked one by one; nothing of traces."""

import math
from dataclasses import dataclass

from loadgen.traces.context import CONTEXT_POLICIES
from loadgen.traces.rows import Json

_MIN_CONTEXT_TOKENS = 2


@dataclass(frozen=True, slots=True)
class Replay:
    """What to do with a trace; by default nothing. ValueError where an option or a pair of them makes no sense."""

    window_ns: tuple[int, int] | None = None
    """[from, to) in the source's time, counted from its first row."""
    limit: int | None = None
    """Rows to keep, from the window's start."""
    speed: float | None = None
    """Above 1 is faster: 2 sends in half the time."""
    rate_rps: float | None = None
    """What the window's mean rate becomes, by one factor; the pattern stays."""
    loop: int = 1
    """How often the window is sent."""
    context_tokens: int | None = None
    """What prompt and output together may hold; None: not looked at."""
    context_policy: str = "error"
    seed: int | None = None
    """Of the prompts; passed through to the schedule's origin."""

    def __post_init__(self) -> None:
        """See that each can be meant."""
        for name, count in (("limit", self.limit), ("loop", self.loop)):
            if count is not None and count < 1:
                raise ValueError(f"{name} {count} must be 1 or more")
        for name, number in (("speed", self.speed), ("rate", self.rate_rps)):
            if number is not None and not (math.isfinite(number) and number > 0):
                raise ValueError(f"{name} {number} must be a finite number above 0")
        if self.speed is not None and self.rate_rps is not None:
            raise ValueError(f"speed {self.speed} and rate {self.rate_rps} both set the pace: give one of them")
        _check_window(self.window_ns)
        _check_context(self.context_tokens, self.context_policy)

    def parameters(self) -> Json:
        """As they go into a schedule's origin."""
        return {
            "window_ns": None if self.window_ns is None else list(self.window_ns),
            "limit_rows": self.limit,
            "speed": self.speed,
            "rate_rps": self.rate_rps,
            "loop": self.loop,
            "context_tokens": self.context_tokens,
            "context_policy": self.context_policy,
            "seed": self.seed,
        }


def _check_window(window_ns: tuple[int, int] | None) -> None:
    if window_ns is None:
        return
    if window_ns[0] < 0:
        raise ValueError(f"the window begins at {window_ns[0]} ns: name a time from 0")
    if window_ns[1] <= window_ns[0]:
        raise ValueError(f"the window [{window_ns[0]}, {window_ns[1]}) ns ends before it begins: "
                         "write the earlier time first")  # fmt: skip


def _check_context(tokens: int | None, policy: str) -> None:
    if policy not in CONTEXT_POLICIES:
        raise ValueError(f"{policy!r} is not a context policy: name {', '.join(CONTEXT_POLICIES)}")
    if tokens is None and policy != "error":
        raise ValueError(f"context policy {policy!r} needs a context length, as in 1024:{policy}")
    if tokens is not None and tokens < _MIN_CONTEXT_TOKENS:
        raise ValueError(f"a context of {tokens} tokens holds no prompt and output: name 2 or more")
