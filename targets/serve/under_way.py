"""The requests under way, as the event loop sees them: let in, given their tokens, taken out again."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from http import HTTPStatus
from itertools import count
from types import TracebackType

from engines.engine import Request
from targets.serve.ask import Ask
from targets.serve.generated_text import GeneratedText, Piece
from targets.serve.refusal import Refusal
from targets.serve.stepper import Delivery, Stepper
from targets.serve.tally import ABORTED

CLOSING = "the server is closing"


class Generation:
    """One request under way. Leaving its block frees its slot, however the block is left."""

    def __init__(self, request_id: int, ask: Ask, leave: "Callable[[Generation], None]") -> None:
        """Made by `UnderWay.enter`."""
        self.request_id = request_id
        self.ask = ask
        self.text = GeneratedText(ask.stops, ask.ending_token_ids, ask.min_tokens)
        self.waiting = True
        """It has no slot yet."""
        self.over = False
        """The engine has it no longer."""
        self.end_reason = ABORTED
        self.deliveries: asyncio.Queue[Delivery | Refusal] = asyncio.Queue()
        self._leave = leave

    def __enter__(self) -> "Generation":
        """Itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Out of the engine, if it is still there."""
        self._leave(self)

    async def pieces(self) -> AsyncIterator[Piece]:
        """What comes, to the piece with a finish reason. Refusal when the engine gives it up."""
        while True:
            delivery = await self.deliveries.get()
            if isinstance(delivery, Refusal):
                raise delivery
            if delivery.error is not None:
                raise _given_up(delivery, self.ask)
            if not delivery.token_ids and delivery.finish_reason is None:
                continue
            piece = self.text.add(delivery.token_ids, delivery.finish_reason)
            if piece.finish_reason is not None:
                self.end_reason = piece.finish_reason
                yield piece
                return
            yield piece


class UnderWay:
    """All of them, in front of one stepper. Used on the event loop alone, but for `post`."""

    def __init__(self, loop: asyncio.AbstractEventLoop, most_waiting_requests: int) -> None:
        """`attach` gives it its stepper."""
        self._loop = loop
        self._most_waiting_requests = most_waiting_requests
        self._waiting_requests = 0
        self._generations: dict[int, Generation] = {}
        self._ids = count()
        self.engine_failed = asyncio.Event()
        self._draining = False
        self._empty = asyncio.Event()
        self._empty.set()
        self._stepper: Stepper | None = None

    def __len__(self) -> int:
        """Requests under way."""
        return len(self._generations)

    def attach(self, stepper: Stepper) -> None:
        """What requests are handed to; it delivers to `post`."""
        self._stepper = stepper

    def check_open(self) -> None:
        """Refusal (503) when nobody is let in: the engine has failed, or the server is closing."""
        failure = self._the_stepper().failure
        if failure is not None:
            raise Refusal(f"the engine has failed: {failure}", status=HTTPStatus.SERVICE_UNAVAILABLE)
        if self._draining:
            raise Refusal(CLOSING, status=HTTPStatus.SERVICE_UNAVAILABLE)

    def enter(self, ask: Ask) -> Generation:
        """Submit a request, in the order of the calls. Refusal (503) when there is no room for it."""
        self.check_open()
        if self._waiting_requests >= self._most_waiting_requests:
            full = f"{self._waiting_requests} requests are waiting already"
            raise Refusal(full, code="queue_full", status=HTTPStatus.SERVICE_UNAVAILABLE)
        generation = Generation(next(self._ids), ask, self._leave)
        self._generations[generation.request_id] = generation
        self._waiting_requests += 1
        self._empty.clear()
        due_ns = time.monotonic_ns()
        self._the_stepper().submit(Request(generation.request_id, ask.prompt_token_ids, ask.params, due_ns))
        return generation

    def post(self, news: list[Delivery]) -> None:
        """From the engine's thread: one call into the loop for all of a step."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._deliver, news)

    async def drain(self) -> None:
        """Let nobody in, and wait until all are served."""
        self._draining = True
        self._the_stepper().drain()
        await self._empty.wait()

    async def give_up(self) -> None:
        """End who is still under way with an error; wait until that has been said."""
        for generation in self._generations.values():
            generation.deliveries.put_nowait(Refusal(CLOSING, status=HTTPStatus.SERVICE_UNAVAILABLE))
        await self._empty.wait()

    def _the_stepper(self) -> Stepper:
        if self._stepper is None:
            raise RuntimeError("attach a stepper first")
        return self._stepper

    def _deliver(self, news: Sequence[Delivery]) -> None:
        for delivery in news:
            generation = self._generations.get(delivery.request_id)
            if generation is None:
                continue
            self._begin(generation)
            generation.over = generation.over or delivery.finish_reason is not None or delivery.error is not None
            generation.deliveries.put_nowait(delivery)
        if self._the_stepper().failure is not None:
            self.engine_failed.set()

    def _begin(self, generation: Generation) -> None:
        if generation.waiting:
            generation.waiting = False
            self._waiting_requests -= 1

    def _leave(self, generation: Generation) -> None:
        self._begin(generation)
        del self._generations[generation.request_id]
        if not generation.over:
            self._the_stepper().abort(generation.request_id, generation.end_reason)
        if not self._generations:
            self._empty.set()


def _given_up(delivery: Delivery, ask: Ask) -> Refusal:
    """The request's fault where the engine refused it, otherwise the engine's."""
    if delivery.refused:
        return Refusal(delivery.error or "", "messages" if ask.chat else "prompt")
    return Refusal(delivery.error or "", status=HTTPStatus.INTERNAL_SERVER_ERROR)
