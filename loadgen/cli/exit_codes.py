"""The exit codes of every command: one table."""

from enum import IntEnum


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
