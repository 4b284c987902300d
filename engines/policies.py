"""Batching policies: who joins the batch, and who leaves it.

A policy is two pure functions. `join(state)` says which of the waiting requests get a slot in the next step, or
when to ask again; `leave(rows)` says, once something has finished, which finished rows give their slot back.
The engine asks `join` only when somebody waits and a slot is free. To add a policy: write its builder here (or
anywhere), and add one row to `engines.catalog.POLICIES`. A builder's keyword arguments are its options on the
command line, and their annotations say how they are read.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Literal, NewType

from engines.engine import Request

MOST_SLOTS = 65_536
DurationNs = NewType("DurationNs", int)
"""An option given with a unit (50ms) and held in nanoseconds."""


@dataclass(slots=True)
class Row:
    """A request in a slot."""

    request: Request
    request_id: int
    slot: int
    prompt_tokens: int
    max_tokens: int
    stop_token_ids: frozenset[int]
    joined_step: int
    """The engine's count of steps before the one it joined in."""
    output_tokens: int = 0
    finished: bool = False


@dataclass(slots=True)
class SlotState:
    """What a policy may look at. It changes nothing in it."""

    slots: int
    waiting: Sequence[Request]
    """In (due, id) order."""
    running: Sequence[Row]
    now_ns: int = 0
    last_kind: str | None = None
    """Kind of the step before this one."""
    flushed_requests: int = 0
    """How many of the waiting, from the first on, must be served although they would be held back."""
    planned: Sequence[int] = ()
    """Request ids the policy itself left for later batches, with its last joining."""


@dataclass(slots=True)
class Joining:
    """A policy's answer."""

    positions: Sequence[int] = ()
    """Of those who join, in `waiting`."""
    not_before_ns: int | None = None
    """When nobody joins: ask again then. None: only after an arrival or a flush."""
    holds_steps: int | None = None
    """For how many steps this answer stands. None: until queue or membership changes or not_before_ns."""
    planned: Sequence[int] = ()
    """Request ids to be given back as `SlotState.planned` from now on."""


NOBODY = Joining()
NOBODY_YET = Joining(holds_steps=1)
"""Nobody in this step; ask again before the next one."""


@dataclass(frozen=True, slots=True)
class Policy:
    """A named pair of functions with its slots."""

    name: str
    slots: int
    join: Callable[[SlotState], Joining]
    leave: Callable[[Sequence[Row]], Sequence[int]]
    deliver: Literal["stream", "end"] = "stream"
    """end: outputs are held and delivered in the batch's last step."""
    cached: bool = True
    """False: no KV cache, every step is a full forward of prompt and output."""
    least_steps: int = 0
    """Nobody leaves before the first in the batch has been in its slot for so many steps."""
    options: Mapping[str, int | float | str | None] = field(default_factory=dict)
    reads_rows: bool = True
    """False: join never looks at the rows' tokens, only at how many there are; long runs are then faster."""
    first_come: bool = False
    """Whether it need not be asked: who waits longest joins, a prefill at most after every other step, and leaves when
    finished."""
    budget_tokens: int | None = None
    """Tokens that a step may compute, prompts in chunks beside decodes. None: prompts are computed by themselves."""
    block_tokens: int | None = None
    """With a budget: the cache is given out in blocks of so many tokens as texts grow, and rows are preempted."""
    cache_tokens: int | None = None
    """With a budget: how many tokens the cache holds, where the executor does not say."""
    prefilled: bool = False
    """With a budget: all but the last token of a prompt is in the cache when its request joins."""
    draft_tokens: int = 0
    """With a budget: so many tokens beyond the next are drafted for each row that decodes, and looked at with it."""
    accepted_fraction: float = 0.0
    """How often a draft is right if those before it are."""

    def __post_init__(self) -> None:
        """ValueError without a slot."""
        if not 1 <= self.slots <= MOST_SLOTS:
            raise ValueError(f"batch={self.slots}: an engine needs at least 1 slot and at most {MOST_SLOTS}")
        for name in ("budget_tokens", "block_tokens", "cache_tokens"):
            if getattr(self, name) == 0:
                raise ValueError(f"{name.replace('_', '-')}=0: at least 1 token")
        if not 0 <= self.accepted_fraction <= 1:
            raise ValueError(f"accepted-fraction={self.accepted_fraction}: a share is not below 0 and at most 1")


def finished_rows(rows: Sequence[Row]) -> Sequence[int]:
    """Leave as soon as finished."""
    return [row.request_id for row in rows if row.finished]


def all_when_all_finished(rows: Sequence[Row]) -> Sequence[int]:
    """Leave together, when the last has finished."""
    for row in rows:
        if not row.finished:
            return ()
    return [row.request_id for row in rows]


def one_by_one() -> Policy:
    """One slot: a request is served to its end before the next one starts."""
    return Policy("one-by-one", 1, _join_first_free, finished_rows, reads_rows=False, first_come=True)


def naive() -> Policy:
    """One by one without a KV cache: every token costs a forward pass over everything before it."""
    return Policy("naive", 1, _join_first_free, finished_rows, cached=False, reads_rows=False)


def _join_first_free(state: SlotState) -> Joining:
    free = state.slots - len(state.running)
    waiting = len(state.waiting)
    return Joining(range(free if free < waiting else waiting))


def static(
    batch: int = 8,
    wait: Literal["none", "full"] = "none",
    max_wait: DurationNs | None = None,
    until: int | None = None,
    return_: Literal["stream", "end"] = "stream",
) -> Policy:
    """A batch is formed when idle and runs until all of it has finished.

    wait=full holds back until the batch is full, or its oldest member has waited max_wait. until=N runs every
    batch to at least N steps. return=end hands all results back in the batch's last step.
    """
    if max_wait is not None and wait != "full":
        raise ValueError("max-wait needs wait=full: an impatient batch never waits")

    def join(state: SlotState) -> Joining:
        waiting = len(state.waiting)
        if state.running or not waiting:
            return NOBODY
        if wait == "full" and waiting < batch and not state.flushed_requests:
            if max_wait is None:
                return NOBODY
            not_before_ns = state.waiting[0].arrival_ns + max_wait
            if not_before_ns > state.now_ns:
                return Joining(not_before_ns=not_before_ns)
        return Joining(range(min(batch, waiting)))

    options: dict[str, int | str | None] = {
        "batch": batch, "wait": wait, "max_wait_ns": max_wait, "until_steps": until, "return": return_,
    }  # fmt: skip
    return Policy(
        "static", batch, join, all_when_all_finished, return_, least_steps=until or 0, options=options, reads_rows=False
    )


def static_bucketed(batch: int = 8, window: int = 64) -> Policy:
    """Static batches of similar lengths: takes `window` waiting requests, sorts them by the output they ask
    for, cuts them into batches and serves all of these before it looks at the queue again."""

    if window < 1:
        raise ValueError(f"window={window}: a window needs at least 1 request")

    def join(state: SlotState) -> Joining:
        if state.running or not state.waiting:
            return NOBODY
        queue = list(islice(state.waiting, window))
        at = {request.request_id: position for position, request in enumerate(queue)}
        order = [request_id for request_id in state.planned if request_id in at]
        if not order:
            order = [request.request_id for request in sorted(queue, key=_by_length)]
        return Joining([at[request_id] for request_id in order[:batch]], planned=order[batch:])

    options: dict[str, int | str | None] = {"batch": batch, "window": window}
    return Policy("static-bucketed", batch, join, all_when_all_finished, options=options, reads_rows=False)


def _by_length(request: Request) -> tuple[int, int, int, int]:
    return request.params.max_tokens, len(request.prompt_token_ids), request.arrival_ns, request.request_id


def continuous(batch: int = 8) -> Policy:
    """Requests join and leave after any step; at most one prefill step between two decode steps."""

    def join(state: SlotState) -> Joining:
        if state.last_kind == "prefill" and state.running:
            return NOBODY_YET
        return _join_first_free(state)

    options: dict[str, int | str | None] = {"batch": batch}
    return Policy("continuous", batch, join, finished_rows, options=options, reads_rows=False, first_come=True)


def chunked(batch: int = 8, budget_tokens: int = 512, cache_tokens: int | None = None) -> Policy:
    """Continuous, with at most `budget_tokens` a step: decodes first, then prompts in chunks, nobody stalls for long.

    Whoever joins has room in the cache for its whole answer.
    """
    options: dict[str, int | str | None] = {
        "batch": batch, "budget_tokens": budget_tokens, "cache_tokens": cache_tokens,
    }  # fmt: skip
    return Policy(
        "chunked", batch, _join_first_free, finished_rows, options=options, reads_rows=False,
        budget_tokens=budget_tokens, cache_tokens=cache_tokens,
    )  # fmt: skip


def paged(
    batch: int = 8, budget_tokens: int = 2048, block_tokens: int = 16, cache_tokens: int | None = None
) -> Policy:
    """Chunked, and the cache is given out in blocks as texts grow: more rows fit, and the last is preempted at need."""
    options: dict[str, int | str | None] = {
        "batch": batch, "budget_tokens": budget_tokens, "block_tokens": block_tokens, "cache_tokens": cache_tokens,
    }  # fmt: skip
    return Policy(
        "paged", batch, _join_first_free, finished_rows, options=options, reads_rows=False,
        budget_tokens=budget_tokens, block_tokens=block_tokens, cache_tokens=cache_tokens,
    )  # fmt: skip


def decode_only(
    batch: int = 8, budget_tokens: int = 2048, block_tokens: int = 16, cache_tokens: int | None = None
) -> Policy:
    """Paged, for a pool of its own: each prompt comes computed but for its last token, the cache over a link.

    Whoever is preempted computes its text anew here.
    """
    return replace(paged(batch, budget_tokens, block_tokens, cache_tokens), name="decode-only", prefilled=True)


def speculative(
    batch: int = 8, draft_tokens: int = 4, accepted_fraction: float = 0.7, budget_tokens: int = 2048,
    block_tokens: int = 16, cache_tokens: int | None = None,
) -> Policy:  # fmt: skip
    """Paged; each decode looks at some drafted tokens too, and gives those that are right. Drafting costs nothing."""
    base = paged(batch, budget_tokens, block_tokens, cache_tokens)
    options = {**base.options, "draft_tokens": draft_tokens, "accepted_fraction": accepted_fraction}
    return replace(
        base, name="speculative", options=options, draft_tokens=draft_tokens, accepted_fraction=accepted_fraction
    )


def shortest_first(batch: int = 8) -> Policy:
    """Continuous; who asks for the shortest answer joins first, and a long one may wait for ever."""
    join = _least_first(lambda request: request.params.max_tokens)
    return Policy("shortest-first", batch, join, finished_rows, options={"batch": batch}, reads_rows=False)


def priority(batch: int = 8) -> Policy:
    """Continuous; classes join in the order in which the schedule names them, and the last may wait for ever."""
    join = _least_first(lambda request: request.request_class)
    return Policy("priority", batch, join, finished_rows, options={"batch": batch}, reads_rows=False)


def _least_first(rank_of: Callable[[Request], int]) -> Callable[[SlotState], Joining]:
    """Who has the lowest rank joins first, of equals whoever waits longest; one prefill between two decodes."""

    def join(state: SlotState) -> Joining:
        if state.last_kind == "prefill" and state.running:
            return NOBODY_YET
        order = sorted(range(len(state.waiting)), key=lambda position: rank_of(state.waiting[position]))
        return Joining(order[: state.slots - len(state.running)])

    return join
