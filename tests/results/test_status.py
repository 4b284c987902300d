"""Status: one list of terminal states, each of which is a failure or is not."""

from results.status import COMPLETED, NAMES, NOT_FAILURES, Status

THE_ONLY_LIST = (
    "ok, empty, wrong_length, budget_spent_hidden, http_error, shed, transport_error, protocol_error, engine_error, "
    "truncated, timeout_connect, timeout_first, timeout_total, cancelled, cancelled_planned, unfinished, "
    "not_dispatched, worker_lost"
)


def test_the_list_of_states_is_the_specified_one() -> None:
    """A request ends in one of eighteen ways, known by name everywhere."""
    assert ", ".join(NAMES) == THE_ONLY_LIST
    assert [NAMES[status] for status in Status] == [status.name.lower() for status in Status]
    assert [int(status) for status in Status] == list(range(len(NAMES)))


def test_failures_are_all_but_five() -> None:
    """Every status is a failure but ok, empty, wrong_length, budget_spent_hidden and cancelled_planned."""
    assert {status.name.lower() for status in NOT_FAILURES} == {
        "ok", "empty", "wrong_length", "budget_spent_hidden", "cancelled_planned",
    }  # fmt: skip
    assert set(COMPLETED) == set(NOT_FAILURES) - {Status.CANCELLED_PLANNED}
