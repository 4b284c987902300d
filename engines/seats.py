"""The rows in an engine's slots: who sits where, who finishes next, and what they keep in the cache.

Steps that were advanced together are noted as a number beside the rows: the rows' own counts are brought up to
date when somebody looks at them. So a step costs nothing for each row, and an end costs a place in a heap.
"""

from bisect import bisect_left, insort
from collections.abc import Collection
from heapq import heappop, heappush

from engines.engine import Request
from engines.policies import Row


class Seats:
    """The rows in the order in which they joined, and the slots that are free."""

    def __init__(self, slots: int) -> None:
        """All are free."""
        self.rows: list[Row] = []
        self.free_slots = list(range(slots))
        self.finished_rows = 0
        self.stoppable_rows = 0
        """Those that a token may end before their time."""
        self.kv_tokens = 0
        self.reserved_tokens = 0
        """What the rows will keep in the cache when they finish."""
        self.pending_steps = 0
        """Decodes that the unfinished rows' counts do not show yet."""
        self._decodes = 0
        self._joined = 0
        self._orders: list[int] = []
        self._ends: list[tuple[int, int, Row]] = []
        """(count of decodes in which its last token comes, order of joining, row)."""

    def take(self, request: Request, stops: frozenset[int], joined_step: int) -> Row:
        """Give the request the lowest free slot."""
        prompt_tokens, max_tokens = len(request.prompt_token_ids), request.params.max_tokens
        row = Row(request, request.request_id, self.free_slots.pop(0), prompt_tokens, max_tokens, stops, joined_step)
        self.rows.append(row)
        self._orders.append(self._joined)
        heappush(self._ends, (self._decodes + max_tokens - 1, self._joined, row))
        self._joined += 1
        self.stoppable_rows += bool(stops)
        self.kv_tokens += prompt_tokens
        self.reserved_tokens += prompt_tokens + max_tokens - 1
        return row

    def first_token(self, rows: Collection[Row]) -> None:
        """These have got their first token while the counts of all others lag behind."""
        if self.pending_steps:
            for row in rows:
                if not row.finished:
                    row.output_tokens -= self.pending_steps

    def decoded(self) -> None:
        """Every unfinished row has got a token, and its count shows it."""
        self._decodes += 1

    def advance(self, steps: int) -> None:
        """Every unfinished row has got so many tokens; the counts do not show them yet."""
        self._decodes += steps
        self.pending_steps += steps

    def catch_up(self) -> None:
        """Bring the rows' counts up to date."""
        steps, self.pending_steps = self.pending_steps, 0
        if steps:
            for row in self.rows:
                if not row.finished:
                    row.output_tokens += steps

    def steps_to_an_end(self) -> int:
        """In how many decodes the next row gets the last of its max_tokens; 0: all have finished."""
        ends = self._ends
        while ends and ends[0][2].finished:
            heappop(ends)
        return ends[0][0] - self._decodes if ends else 0

    def end(self, leave: bool) -> list[int]:
        """Those whose last token has come with the decodes so far are finished, and leave if told to."""
        ends, ended = self._ends, []
        while ends and ends[0][0] <= self._decodes:
            _, order, row = heappop(ends)
            if row.finished:
                continue
            row.output_tokens, row.finished = row.max_tokens, True
            ended.append(row.request_id)
            if leave:
                at = bisect_left(self._orders, order)
                del self.rows[at], self._orders[at]
                self._forget(row)
            else:
                self.finished_rows += 1
        return ended

    def remove(self, request_ids: Collection[int]) -> None:
        """These leave, whether they have finished or not."""
        self.catch_up()
        staying, orders = [], []
        for row, order in zip(self.rows, self._orders, strict=True):
            if row.request_id not in request_ids:
                staying.append(row)
                orders.append(order)
                continue
            self.finished_rows -= row.finished
            row.finished = True
            self._forget(row)
        self.rows[:] = staying
        self._orders = orders

    def _forget(self, row: Row) -> None:
        self.kv_tokens -= row.prompt_tokens + row.output_tokens - 1
        self.reserved_tokens -= row.prompt_tokens + row.max_tokens - 1
        self.stoppable_rows -= bool(row.stop_token_ids)
        insort(self.free_slots, row.slot)
