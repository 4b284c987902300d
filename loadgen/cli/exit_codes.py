"""The exit codes of every command: one table."""

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Any


class Exit(IntEnum):
    """What a command's exit code says."""

    OK = 0
    ALL_FAILED = 1
    USAGE = 2
    INVALID = 3
    GATE_MISSED = 4
    DIFFERS = 5
    INCONCLUSIVE = 6
    INTERRUPTED = 130


def exit_code(summaries: Sequence[Mapping[str, Any]], verdicts: Sequence[Mapping[str, Any]], stopped: bool) -> int:
    """Of a run: interrupted, then every request failed, then INVALID. Of a sweep INVALID comes before the failures."""
    if stopped:
        return Exit.INTERRUPTED
    requests = [summary["requests"] for summary in summaries]
    invalid = not all(verdict["valid"] for verdict in verdicts)
    if invalid and len(requests) > 1:
        return Exit.INVALID
    if requests and all(one["failed"] and not one["completed"] for one in requests):
        return Exit.ALL_FAILED
    return Exit.INVALID if invalid else Exit.OK
