"""When a probe passes: attained, stable, believable."""

from typing import Any

import pytest

from results.meets import meets, worthless


def verdict(state: str = "STABLE", *codes: str) -> dict[str, Any]:
    """With this load and these reasons to be INVALID."""
    return {"valid": not codes, "invalid": [{"code": code} for code in codes], "load": {"state": state}}


@pytest.mark.parametrize(
    ("attainment", "state", "codes", "passed"),
    [
        (0.90, "STABLE", (), True),
        (0.899, "STABLE", (), False),
        (1.0, "OVERLOADED", (), False),
        (1.0, "SUSPECT", (), False),
        (1.0, "NOT_JUDGED", (), True),
        (1.0, "STABLE", ("FAILURES",), False),
        (None, "STABLE", (), False),
    ],
)
def test_a_probe_passes_when_all_three_hold(
    attainment: float | None, state: str, codes: tuple[str, ...], passed: bool
) -> None:
    """The share itself is enough; a suspicion is not; what is not known is not met."""
    assert meets({"slo": {"attainment": attainment}}, verdict(state, *codes), 0.9)[0] is passed


def test_what_the_client_did_wrong_says_nothing_of_the_engine() -> None:
    """Failures are the load's; a late client makes the probe worthless."""
    assert worthless(verdict("STABLE", "FAILURES", "UNFINISHED")) == []
    assert worthless(verdict("STABLE", "FAILURES", "CLIENT_LATE")) == ["CLIENT_LATE"]
