"""What a client is told when it does not get what it asked for. Only what the client itself sent is repeated."""

from http import HTTPStatus

JSON = None | bool | int | float | str | list["JSON"] | dict[str, "JSON"]

MOST_SHOWN_CHARACTERS = 80
RETRY_AFTER = {"Retry-After": "1"}
KINDS = {
    HTTPStatus.INTERNAL_SERVER_ERROR: "engine_error",
    HTTPStatus.SERVICE_UNAVAILABLE: "overloaded_error",
}
"""Status -> the error's type; every other status is the client's own fault."""


class Refusal(Exception):  # noqa: N818 - a refused request is a reply like any other
    """A request that is answered with an error, in OpenAI's form."""

    def __init__(self, message: str, param: str | None = None, code: str | None = None,
                 status: HTTPStatus = HTTPStatus.BAD_REQUEST) -> None:  # fmt: skip
        """`param`: the field at fault, as the client wrote it; None: no single field is."""
        super().__init__(message)
        self.message = message
        self.param = param
        self.code = code
        self.status = status

    @property
    def headers(self) -> dict[str, str]:
        """A full or closing server says when to come again."""
        return RETRY_AFTER if self.status is HTTPStatus.SERVICE_UNAVAILABLE else {}

    def document(self) -> dict[str, JSON]:
        """The reply's body, and the data of an error inside a stream."""
        kind = KINDS.get(self.status, "invalid_request_error")
        return {"error": {"message": self.message, "type": kind, "param": self.param, "code": self.code}}


def shown(value: object) -> str:
    """A client's value in an error message: on one line, and not at full length."""
    text = repr(value)
    return text if len(text) <= MOST_SHOWN_CHARACTERS else f"{text[:MOST_SHOWN_CHARACTERS]}..."
