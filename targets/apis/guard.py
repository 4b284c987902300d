"""Around an API that somebody else wrote: whatever goes wrong in it fails one request, never the run."""

from collections.abc import Mapping, Sequence
from dataclasses import fields

from targets.api import JSON, Api, BodyOptions, Delta, Usage
from targets.apis.reading import count_of
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
            return _checked(self._api.event(data, event_type))
        except Exception as error:
            raise ValueError(f"API {self.name} cannot read an event: {type(error).__name__}") from error

    def whole(self, body: bytes) -> Sequence[Delta]:
        """A reply that was not streamed."""
        try:
            return [delta for delta in map(_checked, self._api.whole(body)) if delta is not None]
        except Exception as error:
            raise ValueError(f"API {self.name} cannot read a reply: {type(error).__name__}") from error


def _checked(delta: Delta | None) -> Delta | None:
    """With texts that can be written and counts that are some: its rows go into files with those of all others."""
    if delta is None:
        return None
    delta.text = _text(delta.text) or ""
    delta.tokens = count_of(delta.tokens)
    delta.finish_reason, delta.error = _text(delta.finish_reason), _text(delta.error)
    delta.reply_id = _text(delta.reply_id)
    if delta.usage is not None:
        delta.usage = Usage(*(count_of(getattr(delta.usage, one.name)) for one in fields(Usage)))
    return delta


def _text(text: str | None) -> str | None:
    """JSON can hold halves of characters, which no file can."""
    if text is None:
        return None
    if not isinstance(text, str):
        raise TypeError(f"{type(text).__name__} in place of a text")
    return text.encode(errors="replace").decode()


def _told(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())
