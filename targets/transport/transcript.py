"""What the events of a reply add up to: written into the Reply as they are read."""

from array import array
from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from typing import cast

from results.columns import NULL
from targets.api import Api, Delta, PlainRun, Usage
from targets.target import Reply
from targets.wire.events import DEFAULT_TYPE, Around, TimedEvents

_USAGE_FIELDS = (
    ("told_output_tokens", "output_tokens"),
    ("told_prompt_tokens", "prompt_tokens"),
    ("cached_tokens", "cached_tokens"),
    ("told_reasoning_tokens", "reasoning_tokens"),
)
UNADORNED: Around = (b"", b"")
ReadEach = Callable[[Sequence[int], Sequence[int], Sequence[bytes]], bool]


class Transcript:
    """Knows the API's events, not how they arrived."""

    __slots__ = (
        "_api", "_lacks_id", "_last_read_id", "_plain_run", "_texts", "_watches_tokens", "error", "marked_end", "reply",
    )  # fmt: skip

    def __init__(self, reply: Reply, api: Api) -> None:
        """At the first event."""
        self.reply = reply
        self.error: str | None = None
        """The fault that the server reported."""
        self.marked_end = False
        """The API's end marker came."""
        self._api = api
        self._plain_run = getattr(api, "plain_run", None)
        self._texts: list[str] = []
        self._last_read_id = NULL
        self._lacks_id = True
        self._watches_tokens = True
        """The first of the answer has not come, or tokens are counted: once any event tells, all are."""

    @property
    def complete(self) -> bool:
        """Whether the last token is known: after the end marker, or with a reason to finish."""
        return self.marked_end or self.reply.finish_reason is not None

    def read(self, events: TimedEvents) -> None:
        """The next events. ValueError when one is not what the API sends; those before it are kept."""
        if events.plain:
            times_ns, read_ids = cast("Sequence[int]", events.t_ns), cast("Sequence[int]", events.read_ids)
            self.read_alike(times_ns, read_ids, cast("Sequence[bytes]", events.data), UNADORNED, self._read_each)
        else:
            self._take(events.t_ns, events.read_ids, map(self._api.event, events.data, events.types))

    def read_alike(
        self, t_ns: Sequence[int], read_ids: Sequence[int], pieces: Sequence[bytes], around: Around, each: ReadEach
    ) -> None:
        """Pieces of a body: those that the API can read together are kept together, `each` reads the rest.

        `around` is what stands around the data of a piece that is one event; `each` tells whether one may follow.
        """
        run = self._run_in(pieces, around)
        if run is None:
            each(t_ns, read_ids, pieces)
            return
        first, last = run.first, run.last
        self.read_alike(t_ns[:first], read_ids[:first], pieces[:first], around, each)
        looked = first + int(self._watches_tokens)  # the answer's first is looked at
        may_follow = each(t_ns[first:looked], read_ids[first:looked], pieces[first:looked])
        if not may_follow or not self._takes_runs or self._watches_tokens:
            each(t_ns[looked:], read_ids[looked:], pieces[looked:])
            return
        self._keep(run.texts[looked - first :], t_ns[looked:last], read_ids[looked:last])
        self.read_alike(t_ns[last:], read_ids[last:], pieces[last:], around, each)

    @property
    def _takes_runs(self) -> bool:
        return not self.marked_end and self.reply.event_tokens is None

    def _run_in(self, pieces: Sequence[bytes], around: Around) -> PlainRun | None:
        return self._plain_run(pieces, *around) if self._plain_run is not None and self._takes_runs else None

    def _read_each(self, t_ns: Sequence[int], read_ids: Sequence[int], data: Sequence[bytes]) -> bool:
        if data:
            self._take(t_ns, read_ids, map(self._api.event, data, repeat(DEFAULT_TYPE)))
        return True

    def read_whole(self, t_ns: int, body: bytes) -> None:
        """A reply that came as one document. ValueError when it is not what the API sends."""
        self._take(repeat(t_ns), repeat(0), self._api.whole(body))

    def _take(self, t_ns: Iterable[int], read_ids: Iterable[int], deltas: Iterable[Delta | None]) -> None:
        """Up to the end marker; what follows that is not looked at."""
        if self.marked_end:
            return
        texts: list[str] = []
        times_ns: list[int] = []
        token_read_ids: list[int] = []
        try:
            for arrived_ns, read_id, delta in zip(t_ns, read_ids, deltas, strict=False):
                if delta is None:
                    self.marked_end = True
                    break
                text = delta.text
                if text:
                    texts.append(text)
                    times_ns.append(arrived_ns)
                    token_read_ids.append(read_id)
                    if self._watches_tokens or delta.reasoning or delta.tokens is not None:
                        self._bear(delta, arrived_ns, len(times_ns))
                if (
                    delta.finish_reason is not None
                    or delta.usage is not None
                    or delta.error is not None
                    or self._lacks_id
                ):
                    self._note(delta)
        finally:
            self._keep(texts, times_ns, token_read_ids)

    def _keep(self, texts: Sequence[str], times_ns: Sequence[int], token_read_ids: Sequence[int]) -> None:
        """What these events bore; a read that the last ones were in already is not counted twice."""
        if times_ns:
            self.reply.event_t_ns.extend(times_ns)
            self.reply.content_reads += len(set(token_read_ids)) - (token_read_ids[0] == self._last_read_id)
            self._last_read_id = token_read_ids[-1]
            self._texts.append("".join(texts))

    def close(self) -> None:
        """Nothing more comes."""
        self.reply.text = "".join(self._texts)

    def _bear(self, delta: Delta, t_ns: int, count: int) -> None:
        """A token-bearing event that is not like the one before it, or where tokens are counted."""
        reply = self.reply
        if delta.reasoning:
            reply.reasoning_events += 1
        elif reply.answer_ns == NULL:
            reply.answer_ns = t_ns
        if delta.tokens is not None and reply.event_tokens is None:
            reply.event_tokens = array("q", [1]) * (len(reply.event_t_ns) + count - 1)
        if reply.event_tokens is not None:
            reply.event_tokens.append(1 if delta.tokens is None else delta.tokens)
        self._watches_tokens = reply.event_tokens is not None or reply.answer_ns == NULL

    def _note(self, delta: Delta) -> None:
        if self._lacks_id:
            self.reply.reply_id = delta.reply_id
            self._lacks_id = delta.reply_id is None
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
