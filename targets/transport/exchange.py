"""One request under way: from a connection's reads to the Reply. The transport's side of it; reading is put off."""

import asyncio
import re
from collections.abc import Callable, Sequence
from time import perf_counter_ns
from typing import Any

from results.status import Status
from targets.api import Api
from targets.target import Reply
from targets.transport.messages import one_line, one_word, system_says
from targets.transport.outcome import Ending, outcome
from targets.transport.protocol import MOST_KEPT, SHORTEST_BYTES, Connection
from targets.transport.reading import Reading, reading_of
from targets.transport.transcript import Transcript
from targets.wire.body import Body, body_of
from targets.wire.head import Head, HeadReader

READ_LATER_BYTES = 24_576
"""So much may lie unread before it is queued for being read."""
MOST_PENDING_BYTES = 65_536
"""And so much before it is read at once."""
ALL_READS = 1 << 30
_KEEP_ALIVE_TIMEOUT = re.compile(r"\btimeout\s*=\s*([0-9]{1,6})")
PLAIN_REASONS = ("stop", "length")
SILENT_NS = 250_000_000
"""What a stream sent before it fell silent is read even if it is little: it may be an end."""
LONG_KEPT_NS = 4_000_000_000
"""So is what has lain there for so long: an end may be among it, and comments after that keep a stream from silence."""
GRACE_NS = 1_000_000_000
"""How long a body may go on without its end after the API's end marker or a reported fault."""

TOO_DEEP = "what came is nested too deeply to be read"


class Exchange:
    """Sees one attempt, or two where a kept connection had been closed before the first reply byte."""

    def __init__(
        self, reply: Reply, api: Api, streams: bool, secrets: Sequence[str], later: "Callable[[Exchange], None]"
    ) -> None:
        """`later`: queues it for `read_some`. Within a running loop."""
        self.reply = reply
        self.over = False
        self.queued = False
        self.reusable = False
        self.connection: Connection | None = None
        self.connecting: asyncio.Task[Connection] | None = None
        self.again = False
        """It is to be sent once more, on a new connection."""
        self.settled: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """The Reply is complete, or it is to be sent again."""
        self._timers: list[asyncio.TimerHandle] = []
        self._ending = Ending(streamed=streams)
        self._transcript = Transcript(reply, api)
        self._api = api
        self._secrets = secrets
        self._later = later
        self._head = HeadReader()
        self._body: Body | None = None
        self._last_bytes = b""
        self._reading: Reading | None = None
        self._kept: list[Any] = []
        """Reads that were not looked at: in turn a time and the bytes, for one list is cheaper to add to than two."""
        self._last_read_ns = 0
        """Of what was looked at."""
        self._end_seen_ns = 0
        """When the API's end marker or a reported fault was noticed; 0: there was none yet."""

    # what the connection tells

    def sent(self, t_ns: int) -> None:
        """Of two attempts the first counts: the wait for the second is the server's doing."""
        if not self.reply.resends:
            self.reply.sent_ns = t_ns

    def uploaded(self, t_ns: int) -> None:
        """The kernel has the request."""
        self.reply.uploaded_ns = t_ns

    def received(self, t_ns: int, data: bytes) -> bool:
        """The head, and what comes with it; then it is the connection that keeps what comes."""
        if self._body is None:
            return self._begin(t_ns, data)
        self._kept += (t_ns, data)
        return self.look_at(data)

    def look_at(self, newest: bytes) -> bool:
        """Whether it is over with this read, which is kept by now. Where much lies unread, that is queued."""
        if newest.endswith(self._last_bytes) or len(newest) < SHORTEST_BYTES:
            self._unframe()
            if self._body is not None and self._body.ended:
                self._finish(self._last_read_ns)
                return True
        pending_bytes = self._pending_bytes
        if pending_bytes >= MOST_PENDING_BYTES:
            self.read_some(ALL_READS)
        elif pending_bytes >= READ_LATER_BYTES or len(self._kept) >= MOST_KEPT:
            self._later(self)
        return self.over

    def lost(self, t_ns: int, error: Exception | None) -> None:
        """The connection is gone: an end, a failure, or a kept connection that had been closed before we wrote."""
        connection, self.connection = self.connection, None
        if self.over:
            return
        self._unframe()
        if self._body is not None and self._body.ended:
            self._finish(self._last_read_ns)
            return
        if self._body is not None and self._body.may_end_with_connection and error is None:
            self._body.ended = True
        elif self._may_be_sent_again(connection):
            self.reply.resends += 1
            self.again = True
            self.settled.set_result(None)
            return
        elif error is not None:
            self._ending.broken = system_says(error)
        elif self._head.begun:
            self._ending.cut = True
        else:
            self._ending.broken = "the server closed the connection before any reply"
        self._finish(t_ns)

    # what the target asks for

    def carry(self, connection: Connection, request: bytes, connected_ns: int) -> None:
        """Send it over this connection."""
        self.connection = connection
        self.reply.connected_ns = connected_ns
        self.reply.connection_reused = int(connection.served_requests > 0)
        connection.send(self, request)

    def begin_again(self) -> None:
        """For the second attempt."""
        self.again = False
        self.settled = asyncio.get_running_loop().create_future()
        if self.over:
            self._later(self)

    def stop(self, status: Status) -> None:
        """End it from here; what had arrived is kept."""
        if self.over:
            return
        self._ending.forced = status
        self._end_here(perf_counter_ns())

    def fail(self, error: Exception) -> None:
        """There is no connection to be had."""
        if not self.over:
            self._ending.broken = system_says(error)
            self._finish(perf_counter_ns())

    def watch(self, timer: asyncio.TimerHandle) -> None:
        """A limit that ends with the exchange."""
        self._timers.append(timer)

    def stop_without_token(self) -> None:
        """The limit for the first token has passed."""
        if self.over or (self._reading is not None and not self._reading.streams):
            return
        self.read_some(ALL_READS)
        if not self.reply.event_t_ns:
            self.stop(Status.TIMEOUT_FIRST)

    def look_after(self, now_ns: int) -> None:
        """Now and then: read what lies there for long, and end a stream whose server forgets to."""
        if self.over or self._reading is None:
            return
        kept = self._kept
        silent_ns = now_ns - (kept[-2] if kept else self._last_read_ns)
        if silent_ns >= SILENT_NS or (kept and now_ns - kept[0] >= LONG_KEPT_NS):
            self._later(self)
        if self._transcript.marked_end or self._transcript.error is not None:
            self._end_seen_ns = self._end_seen_ns or now_ns
            if max(silent_ns, now_ns - self._end_seen_ns) > GRACE_NS:
                self._end_here(self._last_read_ns)

    def leave(self) -> None:
        """Nobody waits for it any more."""
        if not self.over:
            self.stop(Status.CANCELLED)
        self.connection = None

    # reading

    def read_some(self, most: int) -> bool:
        """Of what is pending; True: there is more. At the end of an exchange that is over, its Reply is settled."""
        if self.settled.done():
            return False
        self._unframe()
        if self._body is not None and self._body.ended and not self.over:
            self._end_here(self._last_read_ns)
        try:
            if self._reading is not None and self._reading.read_some(most):
                return True
            if self.over and self._reading is not None:
                self._reading.finish(self._body is not None and self._body.ended and self._body.fault is None)
        except ValueError as error:
            self._fault(str(error))
        except RecursionError:
            self._fault(TOO_DEEP)
        if self.over:
            self._settle()
        return False

    def _begin(self, t_ns: int, data: bytes) -> bool:
        self._last_read_ns = t_ns
        try:
            data = self._head.feed(data)
            head = self._head.head
            if head is None:
                return False
            self._take_head(t_ns, head)
        except ValueError as error:
            self._fault(str(error))
            return True
        if data:
            return self.received(t_ns, data)
        if self._body is not None and self._body.ended:
            self._finish(t_ns)
        return self.over

    def _take_head(self, t_ns: int, head: Head) -> None:
        reply = self.reply
        reply.header_ns = t_ns
        reply.http_status = head.http_status
        encoding = head.headers.get("content-encoding", "")
        reply.content_encoding = one_line(encoding) if encoding not in ("", "identity") else None
        self._body = body_of(head)
        self._last_bytes = self._body.last_bytes
        if self.connection is not None:
            self.connection.idle_limit_ns = idle_limit_ns(head)
            self.connection.keep_reads(self._kept, self._last_bytes)
        self._reading = reading_of(head, self._api, self._ending.streamed, self._transcript)
        self._ending.streamed = self._reading.streams

    def _may_be_sent_again(self, connection: Connection | None) -> bool:
        """Once, when a connection that had been kept open is found closed before the first byte of a reply."""
        return bool(
            connection is not None and connection.idle_since_ns and not self._head.begun and not self.reply.resends
        )

    @property
    def _pending_bytes(self) -> int:
        return sum(map(len, self._kept[1::2])) + (self._reading.pending_bytes if self._reading is not None else 0)

    def _unframe(self) -> None:
        """What is kept goes on to the reading, to the body's end."""
        body, reading, times_ns, reads = self._body, self._reading, self._kept[::2], self._kept[1::2]
        if body is None or reading is None or not reads:
            return
        self._kept.clear()
        pieces = body.feed_all(reads)
        self._last_read_ns = times_ns[len(pieces) - 1]
        if not self.reply.reply_bytes:
            self.reply.first_byte_ns = times_ns[0]
        self.reply.reply_bytes += sum(map(len, reads))
        self._ending.fault = self._ending.fault or body.fault
        reading.add(times_ns[: len(pieces)], pieces)

    def _fault(self, fault: str) -> None:
        """What came cannot be read: nothing after it counts."""
        self._ending.fault = self._ending.fault or fault
        if not self.over:
            self._end_here(self._last_read_ns)

    def _end_here(self, t_ns: int) -> None:
        """Though the server may have more to say."""
        connection = self.connection
        self._finish(t_ns)
        if connection is not None:
            connection.abandon()
        if self.connecting is not None:
            self.connecting.cancel()

    def _finish(self, t_ns: int) -> None:
        """The last byte that counts was here; the rest is reading."""
        self.over = True
        self.reply.end_ns = t_ns
        body, head = self._body, self._head.head
        if body is not None and head is not None:
            self.reusable = head.keeps_alive and body.ended and not body.fault and not body.surplus
        self.connection = None
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()
        self._later(self)

    def _settle(self) -> None:
        if self.settled.done():
            return
        self._transcript.close()
        self._ending.marked_end = self._transcript.marked_end
        self._ending.told_error = self._transcript.error
        self.reply.status, error = outcome(self._ending, self.reply)
        self.reply.error = None if error is None else one_line(error, self._secrets)
        self._clean_words()
        self.settled.set_result(None)

    def _clean_words(self) -> None:
        """A server can send a key back in any text."""
        reply = self.reply
        if reply.finish_reason is not None and reply.finish_reason not in PLAIN_REASONS:
            reply.finish_reason = one_word(reply.finish_reason, self._secrets)
        if reply.reply_id is not None:
            reply.reply_id = one_word(reply.reply_id, self._secrets)


def idle_limit_ns(head: Head) -> int | None:
    """Four fifths of the time for which the server says it keeps an idle connection; None: it does not say."""
    found = _KEEP_ALIVE_TIMEOUT.search(head.headers.get("keep-alive", ""))
    return int(found[1]) * 800_000_000 if found else None
