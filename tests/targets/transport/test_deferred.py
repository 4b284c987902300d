"""Reading in slices."""

import asyncio
from collections.abc import Iterator

from targets.transport.deferred import READS_AT_ONCE, SLICE_NS, ReadingQueue


class Pile:
    """So many reads, and a note of who was read when."""

    def __init__(self, name: str, reads: int, order: list[str]) -> None:
        self.name, self.left, self.order, self.queued = name, reads, order, False

    def read_some(self, most: int) -> bool:
        self.order.append(self.name)
        self.left -= most
        return self.left > 0


def ticking(step_ns: int) -> Iterator[int]:
    """A clock that goes on by so much each time it is read."""
    now_ns = 0
    while True:
        yield now_ns
        now_ns += step_ns


def turns(step_ns: int) -> list[str]:
    """Two piles are read while the loop's other work notes its turns."""

    async def play() -> list[str]:
        order: list[str] = []
        clock = ticking(step_ns)
        queue = ReadingQueue(lambda: next(clock))
        first, second = Pile("a", 3 * READS_AT_ONCE, order), Pile("b", 1, order)
        queue.add(first)
        queue.add(second)
        queue.add(first)
        while first.queued or second.queued:
            await asyncio.sleep(0)
            order.append("loop")
        return order

    return asyncio.run(play())


def test_the_loop_has_its_turn_after_every_slice() -> None:
    """When a slice takes as long as one read, arrivals are stamped between any two."""
    assert turns(SLICE_NS) == ["a", "loop", "a", "loop", "a", "loop", "b", "loop"]


def test_short_reads_share_a_slice_in_the_order_of_their_queueing() -> None:
    """Each pile is read wholly, and one that is queued twice is read once."""
    assert turns(1) == ["a", "a", "a", "b", "loop"]


class Broken:
    """Something that cannot be read, and should have said so otherwise."""

    queued = False

    def read_some(self, most: int) -> bool:
        raise RuntimeError("broken")


def test_one_that_breaks_does_not_stop_the_others() -> None:
    """The fault is told to the loop; who comes after it is read."""

    async def play() -> tuple[list[str], list[str]]:
        order: list[str] = []
        told: list[str] = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: told.append(str(context["exception"])))
        queue = ReadingQueue()
        broken, pile = Broken(), Pile("a", 1, order)
        queue.add(broken)
        queue.add(pile)
        for _ in range(4):
            await asyncio.sleep(0)
        assert not broken.queued and not pile.queued
        return order, told

    assert asyncio.run(play()) == (["a"], ["broken"])
