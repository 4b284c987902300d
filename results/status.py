"""How a request can end: the only list. HTTP status and error text are columns, not states."""

from enum import IntEnum


class Status(IntEnum):
    """Terminal state of a request; the name, in lower case, is what files and tables show."""

    OK = 0
    EMPTY = 1
    WRONG_LENGTH = 2
    BUDGET_SPENT_HIDDEN = 3
    HTTP_ERROR = 4
    SHED = 5
    TRANSPORT_ERROR = 6
    PROTOCOL_ERROR = 7
    ENGINE_ERROR = 8
    TRUNCATED = 9
    TIMEOUT_CONNECT = 10
    TIMEOUT_FIRST = 11
    TIMEOUT_TOTAL = 12
    CANCELLED = 13
    CANCELLED_PLANNED = 14
    UNFINISHED = 15
    NOT_DISPATCHED = 16
    WORKER_LOST = 17


NAMES = tuple(status.name.lower() for status in Status)
COMPLETED = (Status.OK, Status.EMPTY, Status.WRONG_LENGTH, Status.BUDGET_SPENT_HIDDEN)
"""Ended by themselves: they have an end, whatever it is worth."""
NOT_FAILURES = (*COMPLETED, Status.CANCELLED_PLANNED)
