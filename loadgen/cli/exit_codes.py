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


def exit_code(
    summaries: Sequence[Mapping[str, Any]],
    verdicts: Sequence[Mapping[str, Any]],
    stopped: bool,
    gates: Sequence[Mapping[str, Any]] = (),
) -> int:
    """Of a run: interrupted, then every request failed, then INVALID, then a gate missed.

    Of a sweep INVALID and gates come before the failures.
    """
    if stopped:
        return Exit.INTERRUPTED
    requests = [summary["requests"] for summary in summaries]
    invalid = not all(verdict["valid"] for verdict in verdicts)
    missed = not all(gate["passed"] for gate in gates)
    if len(requests) > 1 and (invalid or missed):
        return Exit.INVALID if invalid else Exit.GATE_MISSED
    if requests and all(one["failed"] and not one["completed"] for one in requests):
        return Exit.ALL_FAILED
    if invalid:
        return Exit.INVALID
    return Exit.GATE_MISSED if missed else Exit.OK
