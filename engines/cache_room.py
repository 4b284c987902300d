"""The room in a cache: given out in blocks as texts grow, or for a whole answer from the start.

Counts blocks and tokens; who is preempted when there are none left is the engine's business.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from engines.engine import Request
from engines.policies import Row
from engines.waiting import kept_tokens


@dataclass(slots=True, eq=False)
class Sequenced:
    """A row with what is computed of its text."""

    row: Row
    computed_tokens: int = 0
    """In the cache."""
    before_tokens: int = 0
    """The most it has had in the cache before it was preempted."""
    blocks: int = 0
    decodes: bool = False
    """Whether it has got a token since it last joined."""
    wrong_tokens: int = 0
    """Drafts of the present step that are not right."""

    @property
    def needed_tokens(self) -> int:
        """To be computed before its next token comes: 1 in a decode."""
        return self.row.prompt_tokens + self.row.output_tokens - self.computed_tokens


class CacheRoom:
    """What of a cache is given out to the rows in slots."""

    def __init__(self, capacity_tokens: int | None, block_tokens: int | None) -> None:
        """`block_tokens` None: not in blocks, room for a whole answer is kept. `capacity_tokens` None: no limit."""
        self._size = block_tokens or 1
        blocks = None if capacity_tokens is None else capacity_tokens // self._size
        self.capacity_tokens = None if blocks is None else blocks * self._size
        self._blocks = blocks if block_tokens else None
        self._kept_limit_tokens = None if block_tokens else self.capacity_tokens
        self._used_blocks = 0
        self._kept_tokens = 0

    def grow(self, one: Sequenced, tokens: int) -> bool:
        """Take the blocks that so many more tokens need, if they are there."""
        if self._blocks is None:
            return True
        wanted = self._blocks_of(one.computed_tokens + tokens)
        used_blocks = self._used_blocks - one.blocks + wanted
        if used_blocks > self._blocks:
            return False
        one.blocks, self._used_blocks = wanted, used_blocks
        return True

    def keep(self, request: Request) -> bool:
        """Without blocks: keep room for its whole answer, if it is there."""
        if self._kept_limit_tokens is None:
            return True
        kept = self._kept_tokens + kept_tokens(request)
        if kept > self._kept_limit_tokens:
            return False
        self._kept_tokens = kept
        return True

    def leave(self, one: Sequenced) -> None:
        """Its room is free again."""
        self._used_blocks -= one.blocks
        one.blocks = 0
        if self._kept_limit_tokens is not None:
            self._kept_tokens -= kept_tokens(one.row.request)

    def decodes_with_room(self, rows: Sequence[Sequenced], most_steps: int) -> int:
        """How many of at most so many decodes of these rows, who have all blocks in use, have room."""
        if self._blocks is None or self._needed_blocks(rows, most_steps) <= self._blocks:
            return most_steps
        enough, too_many = 0, most_steps
        while too_many - enough > 1:
            middle = (enough + too_many) // 2
            if self._needed_blocks(rows, middle) <= self._blocks:
                enough = middle
            else:
                too_many = middle
        return enough

    def has_room_beside(self, rows: Sequence[Sequenced], one: Sequenced, tokens: int) -> bool:
        """Whether, once these rows have decoded, another could join and compute so many tokens."""
        if self._blocks is not None:
            return self._needed_blocks(rows, 1) + self._blocks_of(one.computed_tokens + tokens) <= self._blocks
        kept = self._kept_tokens + kept_tokens(one.row.request)
        return self._kept_limit_tokens is None or kept <= self._kept_limit_tokens

    def decoded(self, rows: Sequence[Sequenced]) -> None:
        """These rows, who have all blocks in use, have got tokens for which there was room."""
        if self._blocks is not None:
            for one in rows:
                one.blocks = self._blocks_of(one.computed_tokens)
            self._used_blocks = sum(one.blocks for one in rows)

    def _needed_blocks(self, rows: Sequence[Sequenced], more_tokens: int) -> int:
        """When each row has so many more tokens."""
        more_tokens += self._size - 1
        return sum((one.computed_tokens + more_tokens) // self._size for one in rows)

    def _blocks_of(self, tokens: int) -> int:
        return -(-tokens // self._size)
