"""Around an API that somebody else wrote: whatever goes wrong in it fails one request, never the run."""

from collections.abc import Mapping, Sequence

from targets.api import JSON, Api, BodyOptions, Delta
from targets.target import PlannedRequest


class Guarded:
    """The same API, whose every exception is a ValueError that does not repeat what the server sent."""

    def __init__(self, api: Api):
        """Nothing is asked of it yet."""
        self.name, self.path, self.framing, self.models_path = api.name, api.path, api.framing, api.models_path
        self._api = api

    def body(self, request: PlannedRequest, options: BodyOptions) -> Mapping[str, JSON]:
        """The request's body. The text of a ValueError is meant for the user and passed on."""
        try:
            return self._api.body(request, options)
        except ValueError:
            raise
        except Exception as error:
            raise ValueError(f"API {self.name} cannot write request {request.request_id}: {_told(error)}") from error

    def event(self, data: bytes, event_type: str) -> Delta | None:
        """One event."""
        try:
            return self._api.event(data, event_type)
        except Exception as error:
            raise ValueError(f"API {self.name} cannot read an event: {type(error).__name__}") from error

    def whole(self, body: bytes) -> Sequence[Delta]:
        """A reply that was not streamed."""
        try:
            return self._api.whole(body)
        except Exception as error:
            raise ValueError(f"API {self.name} cannot read a reply: {type(error).__name__}") from error


def _told(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())
