"""The batching policies once more, as plain loops after the words of the specification.

Shares no line with the engines: no slots, no queue, no policy functions. A workload whose requests are all known
at the start is served by the rules alone; what comes out is the step table and who was where.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

PS = 1_000


@dataclass
class Load:
    """A workload: rows in the order of (due, id)."""

    due_ns: Sequence[int]
    prompts: Sequence[int]
    outputs: Sequence[int]
    cost_ps: tuple[int, int, int, int]
    """decode: a + b x rows; prefill: pa + pb x tokens of the rectangle."""

    def due_by(self, t_ps: int, first: int) -> int:
        """How many of the requests from `first` on are due by then."""
        return sum(due * PS <= t_ps for due in self.due_ns[first:])


@dataclass
class Story:
    """What happened."""

    slots: int
    steps: list[tuple[int, ...]] = field(default_factory=list)
    """(start_ps, cost_ps, prefilling, decoding, finished, stalled, empty_queued, idle, waiting, prefill tokens,
    padding, kv tokens)"""
    admitted: dict[int, int] = field(default_factory=dict)
    ended: dict[int, int] = field(default_factory=dict)
    released: dict[int, int] = field(default_factory=dict)
    tokens: dict[int, list[int]] = field(default_factory=dict)

    def step(self, start: int, cost: int, states: tuple[int, int, int, int], waiting: int, work: Sequence[int]) -> int:
        """Note a step; when it ends. `states`: prefilling, decoding, finished, stalled."""
        empty = self.slots - sum(states)
        queued = min(empty, waiting)
        self.steps.append((start, cost, *states, queued, empty - queued, waiting, *work))
        return start + cost

    def token(self, request: int, last: bool) -> None:
        """A token in the step noted last."""
        self.tokens.setdefault(request, []).append(len(self.steps) - 1)
        if last:
            self.ended[request] = len(self.steps) - 1


def one_by_one(load: Load, cached: bool = True) -> Story:
    """First come, first served to the end; without a cache every token is a forward pass over all before it."""
    story, t = Story(1), 0
    a, b, pa, pb = load.cost_ps
    for request, (due, prompt, output) in enumerate(zip(load.due_ns, load.prompts, load.outputs, strict=True)):
        t = max(t, due * PS)
        story.admitted[request] = len(story.steps)
        for token in range(output):
            whole = 0 if cached and token else prompt + token
            cost = pa + pb * whole if whole else a + b
            kv = prompt + token if cached else 0
            waiting = load.due_by(t, request + 1)
            t = story.step(t, cost, (int(token == 0), int(token > 0), 0, 0), waiting, (whole, 0, kv))
            story.token(request, token == output - 1)
        story.released[request] = story.ended[request]
    return story


def static(load: Load, slots: int, wait_full: bool = False, max_wait_ns: int | None = None, until: int = 0) -> Story:
    """Idle: take what is due, up to B; or wait for B, or for the oldest's patience, or for the last there is."""
    story, t, served, rows = Story(slots), 0, 0, len(load.due_ns)
    while served < rows:
        begin = load.due_ns[served]
        if wait_full:
            full = load.due_ns[served + slots - 1] if served + slots <= rows else None
            patience = load.due_ns[-1] if max_wait_ns is None else begin + max_wait_ns
            begin = patience if full is None else min(full, patience)
        t = max(t, begin * PS)
        members = range(served, served + min(slots, load.due_by(t, served)))
        served += len(members)
        t = _serve(story, load, members, t, (0, served), until)
    return story


def static_bucketed(load: Load, slots: int, window: int) -> Story:
    """Take the first `window` that are due, sort them by length, serve them all in batches of B, look again."""
    story, t, taken = Story(slots), 0, 0
    while taken < len(load.due_ns):
        t = max(t, load.due_ns[taken] * PS)
        group = range(taken, taken + min(window, load.due_by(t, taken)))
        taken += len(group)
        order = sorted(group, key=lambda one: (load.outputs[one], load.prompts[one], load.due_ns[one], one))
        for at in range(0, len(order), slots):
            t = _serve(story, load, order[at : at + slots], t, (len(order[at + slots :]), taken), 0)
    return story


def _serve(story: Story, load: Load, members: Sequence[int], t: int, behind: tuple[int, int], until: int) -> int:
    """One static batch from its joint prefill to its last step; when that ends.

    `behind`: how many of the same group come later, and the first request outside the group.
    """
    a, b, pa, pb = load.cost_ps
    later, next_one = behind
    prompts = [load.prompts[one] for one in members]
    size, rectangle = len(prompts), len(prompts) * max(prompts)
    length = max(until, *(load.outputs[one] for one in members))
    story.admitted.update(dict.fromkeys(members, len(story.steps)))
    for step in range(length):
        unfinished = [one for one in members if load.outputs[one] > step]
        finished = size - len(unfinished)
        kv = sum(prompts) + sum(min(step, load.outputs[one] - 1) for one in members)
        if step:
            cost, states, work = a + b * size, (0, len(unfinished), finished, 0), (0, 0, kv)
        else:
            cost, states = pa + pb * rectangle, (size, 0, 0, 0)
            work = (sum(prompts), rectangle - sum(prompts), kv)
        t = story.step(t, cost, states, later + load.due_by(t, next_one), work)
        for one in unfinished:
            story.token(one, load.outputs[one] == step + 1)
    story.released.update(dict.fromkeys(members, len(story.steps) - 1))
    return t


def continuous(load: Load, slots: int) -> Story:
    """Whoever is due joins a free place, together; a decode between two prefills if there is anything to decode."""
    story, t, served, left = Story(slots), 0, 0, dict[int, int]()
    a, b, pa, pb = load.cost_ps
    prefilled = False
    while served < len(load.due_ns) or left:
        if not left:
            t = max(t, load.due_ns[served] * PS)
        joining = 0 if prefilled and left else min(slots - len(left), load.due_by(t, served))
        stalled = list(left)
        new = range(served, served + joining)
        served += joining
        left |= {one: load.outputs[one] for one in new}
        kv = sum(load.prompts[one] + load.outputs[one] - left[one] for one in left) - (len(stalled) if new else 0)
        waiting = load.due_by(t, served)
        if new:
            prompts = [load.prompts[one] for one in new]
            rectangle = joining * max(prompts)
            work = (sum(prompts), rectangle - sum(prompts), kv)
            story.admitted.update(dict.fromkeys(new, len(story.steps)))
            t = story.step(t, pa + pb * rectangle, (joining, 0, 0, len(stalled)), waiting, work)
        else:
            t = story.step(t, a + b * len(left), (0, len(left), 0, 0), waiting, (0, 0, kv))
        prefilled = bool(new)
        for one in new or stalled:
            left[one] -= 1
            story.token(one, not left[one])
        left = {one: tokens for one, tokens in left.items() if tokens}
    story.released.update(story.ended)
    return story
