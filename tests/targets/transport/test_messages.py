"""What a server says about a failure."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from targets.transport.messages import LONGEST_MESSAGE, one_line, system_says, told_in


@given(st.text())
def test_a_message_is_one_short_printable_line(text: str) -> None:
    """Whatever a server sends: a terminal shows it as it is."""
    line = one_line(text)
    assert len(line) <= LONGEST_MESSAGE and line.isprintable()


def test_secrets_that_a_server_repeats_are_cut_out() -> None:
    """Those we know, and what looks like one."""
    line = one_line("bad key hunter22, header Authorization: Bearer abcdefgh, sk-abcdefghijkl", ["hunter22"])
    assert not any(secret in line for secret in ("hunter22", "abcdefgh"))
    assert line.startswith("bad key")


def test_a_secret_at_the_cap_is_cut_out_whole() -> None:
    """It is looked for before the text is shortened."""
    assert "hunt" not in one_line("x" * (LONGEST_MESSAGE - 4) + "hunter22", ["hunter22"])


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b'{"error": {"message": "too long", "param": "max_tokens"}}', "max_tokens: too long"),
        (b'{"error": {"message": "max_tokens is too big", "param": "max_tokens"}}', "max_tokens is too big"),
        (b'{"error": "no model"}', "no model"),
        (b'{"detail": [{"loc": ["body", "ignore_eos"], "msg": "Extra inputs"}, {"loc": ["b", 1], "msg": "no"}]}',
         "body.ignore_eos: Extra inputs; b.1: no"),
        (b'{"detail": "Unexpected fields in the request: {\'ignore_eos\'}"}',
         "Unexpected fields in the request: {'ignore_eos'}"),
        (b'{"message": "prompt must be a string.", "code": 400}', "prompt must be a string."),
        (b'{"code": 7}', '{"code": 7}'),
        (b"<html>Bad Gateway</html>", "<html>Bad Gateway</html>"),
        (b"\xff\xfe", "\ufffd\ufffd"),
        (b"", ""),
        (b"[]", "[]"),
    ],
)  # fmt: skip
def test_an_errors_body_says_what_is_wrong_and_with_which_field(body: bytes, told: str) -> None:
    """In the forms that servers use."""
    assert told_in(body) == told


def test_an_error_of_the_system_is_told_with_its_kind() -> None:
    """Without the numbers around it."""
    assert system_says(ConnectionResetError(104, "Connection reset by peer")) == (
        "ConnectionResetError: Connection reset by peer"
    )
    assert system_says(TimeoutError()) == "TimeoutError"
