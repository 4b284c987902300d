"""What the events of a reply add up to: written into the Reply as they are read."""

from array import array
from collections.abc import Iterable

from results.columns import NULL
from targets.api import Api, Delta, Usage
from targets.target import Reply
from targets.wire.events import TimedEvent

_USAGE_FIELDS = (
    ("told_output_tokens", "output_tokens"),
    ("told_prompt_tokens", "prompt_tokens"),
    ("cached_tokens", "cached_tokens"),
    ("told_reasoning_tokens", "reasoning_tokens"),
)


class Transcript:
    """Knows the API's events, not how they arrived."""

    __slots__ = ("_api", "_last_read_id", "_texts", "error", "marked_end", "reply")

    def __init__(self, reply: Reply, api: Api) -> None:
        """At the first event."""
        self.reply = reply
        self.error: str | None = None
        """The fault that the server reported."""
        self.marked_end = False
        """The API's end marker came."""
        self._api = api
        self._texts: list[str] = []
        self._last_read_id = NULL

    @property
    def complete(self) -> bool:
        """Whether the last token is known: after the end marker, or with a reason to finish."""
        return self.marked_end or self.reply.finish_reason is not None

    def read(self, events: Iterable[TimedEvent]) -> None:
        """The next events. ValueError when one is not what the API sends; those before it are kept."""
        parse = self._api.event
        self._take((t_ns, read_id, parse(data, kind)) for t_ns, read_id, data, kind in events if data)

    def read_whole(self, t_ns: int, body: bytes) -> None:
        """A reply that came as one document. ValueError when it is not what the API sends."""
        self._take((t_ns, 0, delta) for delta in self._api.whole(body))

    def _take(self, deltas: Iterable[tuple[int, int, Delta | None]]) -> None:
        """Up to the end marker; what follows that is not looked at."""
        if self.marked_end:
            return
        reply = self.reply
        texts: list[str] = []
        times_ns: list[int] = []
        try:
            for t_ns, read_id, delta in deltas:
                if delta is None:
                    self.marked_end = True
                    break
                if delta.text:
                    texts.append(delta.text)
                    times_ns.append(t_ns)
                    if read_id != self._last_read_id:
                        self._last_read_id = read_id
                        reply.content_reads += 1
                    if delta.reasoning:
                        reply.reasoning_events += 1
                    elif reply.answer_ns == NULL:
                        reply.answer_ns = t_ns
                    if delta.tokens is not None or reply.event_tokens is not None:
                        self._count(delta.tokens, len(times_ns))
                self._note(delta)
        finally:
            reply.event_t_ns.extend(times_ns)
            self._texts.append("".join(texts))

    def close(self) -> None:
        """Nothing more comes."""
        self.reply.text = "".join(self._texts)

    def _count(self, told_tokens: int | None, events_now: int) -> None:
        """Once an event has told its tokens, all are counted; those that do not tell are taken as one."""
        reply = self.reply
        if reply.event_tokens is None:
            reply.event_tokens = array("q", [1]) * (len(reply.event_t_ns) + events_now - 1)
        reply.event_tokens.append(1 if told_tokens is None else told_tokens)

    def _note(self, delta: Delta) -> None:
        if self.reply.reply_id is None:
            self.reply.reply_id = delta.reply_id
        if delta.error is not None and self.error is None:
            self.error = delta.error
        if delta.finish_reason is not None:
            self.reply.finish_reason = delta.finish_reason
        if delta.usage is not None:
            self._take_usage(delta.usage)

    def _take_usage(self, usage: Usage) -> None:
        """The last that was told counts: some servers tell it with every event."""
        for column, name in _USAGE_FIELDS:
            told = getattr(usage, name)
            if told is not None:
                setattr(self.reply, column, told)
