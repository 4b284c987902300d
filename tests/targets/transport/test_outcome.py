"""With which status a reply ended."""

from array import array

import pytest

from results.columns import NULL
from results.status import Status
from targets.target import Reply
from targets.transport.outcome import Ending, outcome


def reply(tokens: int = 3, finish: str | None = "length", http_status: int = 200, told_tokens: int = NULL) -> Reply:
    """As it is when nothing more comes."""
    return Reply(
        1, Status.OK, event_t_ns=array("q", range(tokens)), finish_reason=finish, http_status=http_status,
        told_output_tokens=told_tokens,
    )  # fmt: skip


CASES = {
    "finished": (Ending(), reply(), Status.OK),
    "end marker alone": (Ending(marked_end=True), reply(finish=None), Status.OK),
    "finish reason alone": (Ending(), reply(), Status.OK),
    "neither": (Ending(), reply(finish=None), Status.TRUNCATED),
    "neither, in one document": (Ending(streamed=False), reply(finish=None), Status.OK),
    "cut before the end": (Ending(cut=True), reply(finish=None), Status.TRUNCATED),
    "one document, cut": (Ending(cut=True, streamed=False), reply(0, finish=None), Status.TRUNCATED),
    "cut after the last token": (Ending(cut=True), reply(), Status.OK),
    "reset": (Ending(broken="reset"), reply(finish=None), Status.TRANSPORT_ERROR),
    "reset after the last token": (Ending(broken="reset", marked_end=True), reply(finish=None), Status.OK),
    "refused": (Ending(broken="refused"), reply(0, None, NULL), Status.TRANSPORT_ERROR),
    "timed out": (Ending(forced=Status.TIMEOUT_TOTAL), reply(finish=None), Status.TIMEOUT_TOTAL),
    "timed out after the last token": (Ending(forced=Status.TIMEOUT_TOTAL), reply(), Status.OK),
    "cancelled": (Ending(forced=Status.CANCELLED), reply(finish=None), Status.CANCELLED),
    "error in the stream": (Ending(told_error="boom", marked_end=True), reply(), Status.ENGINE_ERROR),
    "error in the stream, then reset": (Ending(told_error="a", broken="b"), reply(finish=None), Status.ENGINE_ERROR),
    "not what the API sends": (Ending(fault="no JSON"), reply(), Status.PROTOCOL_ERROR),
    "fault, then timed out": (Ending(fault="x", forced=Status.TIMEOUT_TOTAL), reply(), Status.PROTOCOL_ERROR),
    "500": (Ending(told_error="boom"), reply(0, None, 500), Status.HTTP_ERROR),
    "400 without a word": (Ending(), reply(0, None, 400), Status.HTTP_ERROR),
    "429": (Ending(told_error="slow down"), reply(0, None, 429), Status.SHED),
    "503": (Ending(), reply(0, None, 503), Status.SHED),
    "503, then reset": (Ending(broken="reset"), reply(0, None, 503), Status.SHED),
    "moved": (Ending(), reply(0, None, 307), Status.HTTP_ERROR),
    "no text": (Ending(), reply(0, "stop"), Status.EMPTY),
    "no text, none told": (Ending(), reply(0, "length"), Status.EMPTY),
    "no text, none counted": (Ending(), reply(0, "length", told_tokens=0), Status.EMPTY),
    "tokens told and no text": (Ending(), reply(0, "length", told_tokens=900), Status.BUDGET_SPENT_HIDDEN),
    "tokens told, stopped": (Ending(), reply(0, "stop", told_tokens=900), Status.EMPTY),
}


@pytest.mark.parametrize("case", CASES)
def test_how_it_ended_decides(case: str) -> None:
    """A failure says what went wrong; what ended by itself has nothing to say."""
    ending, what_came, status = CASES[case]
    found, error = outcome(ending, what_came)
    assert found is status
    said_here = (Status.OK, Status.EMPTY, Status.BUDGET_SPENT_HIDDEN, Status.TIMEOUT_TOTAL, Status.CANCELLED)
    assert (error is None) == (found in said_here)
