"""The process that asks a server about itself: `python -m targets.observe.scraper`, its order on standard input.

It asks every place at the start, says on standard output that it has, asks again on the whole seconds of the run and
once more at the end; then it fetches the steps of a server that tells them. The end is the word `stop`, the end of its
input, or its parent's: whoever dies, it ends.
"""

import asyncio
import json
import os
import sys
import time
from pathlib import Path

from targets.observe.asking import Answer, Asker, secrets_of
from targets.observe.exposition import Exposition, Page
from targets.observe.order import STOP, Order, read_order
from targets.observe.places import Place, add, beside, places_of
from targets.observe.rows import MOST_ROWS, RowStream, read_answer, rows_of, start_row
from targets.observe.step_records import StepRecords

NS_PER_S = 1_000_000_000
POLITE = 5
"""How far behind the client it stands in the queue for a processor, once the first round is done."""
LONGEST_ORDER_BYTES = 2**20
Told = tuple[Answer, Page | None]
KIND_MARKS = {"llamacpp:": "llamacpp", "vllm:": "vllm", "sglang:": "sglang"}


class Rounds:
    """Rounds of requests to all places of one order."""

    def __init__(self, order: Order, stream: RowStream, asker: Asker) -> None:
        """Asks nothing yet."""
        self._stream, self._asker = stream, asker
        self._places = places_of(order.urls)
        self._readers: dict[str, Exposition] = {}
        self._secrets = secrets_of(order)
        self._gone: set[str] = set()
        self.number = 0

    async def first(self) -> list[Told]:
        """All places, and those beside them of the kind of server that shows; not written yet."""
        told = await self._round(self._places)
        kinds = [(answer.place.url, _kind_of(page)) for answer, page in told if page is not None]
        found = [add(self._places, url) for place, kind in kinds if kind for url in beside(place, kind)]
        return told + await self._ask([place for place in found if place is not None])

    async def again(self, last: bool = False) -> None:
        """The places that may tell something new."""
        self.number += 1
        self.write(await self._round([place for place in self._places if last or not place.once]))

    async def _round(self, places: list[Place]) -> list[Told]:
        return await self._ask([place for place in places if place.shown not in self._gone])

    async def _ask(self, places: list[Place]) -> list[Told]:
        """Asked side by side, and read when all have come, so that no reading delays a stamp."""
        told = []
        for answer in await asyncio.gather(*(self._asker.ask(place) for place in places)):
            reader = self._readers.setdefault(answer.place.shown, Exposition(self._secrets))
            page, read = read_answer(answer, reader)
            if read.final:
                self._gone.add(read.place.shown)
            told.append((read, page))
        return told

    def write(self, told: list[Told]) -> None:
        """The rows of a round."""
        rows = [row for answer, page in told for row in rows_of(self.number, answer, page)]
        if rows:
            self._stream.write(rows)


class Timetable:
    """When the next round is due: on whole periods after the start of the run, once that is known."""

    def __init__(self, period_s: float) -> None:
        """From now on."""
        self._period_ns = round(period_s * NS_PER_S)
        self.next_ns = time.perf_counter_ns() + self._period_ns
        self._halvings = 0

    def start_run(self, t0_ns: int) -> None:
        """The next round is at the run's time 0, or now where that is past."""
        self.next_ns = t0_ns

    def done(self, now_ns: int, written_rows: int) -> None:
        """A round has ended: the next is on the first whole period that is not past."""
        while written_rows >= MOST_ROWS * (self._halvings + 1):
            self._halvings += 1
            self._period_ns *= 2
        missed = max((now_ns - self.next_ns) // self._period_ns, 0)
        self.next_ns += (missed + 1) * self._period_ns


async def scrape(order: Order, reader: asyncio.StreamReader, stream: RowStream) -> None:
    """All rounds of a run, and behind the last one the server's own steps."""
    asker = Asker(order)
    rounds, records = Rounds(order, stream, asker), StepRecords(order, asker)
    try:
        told, _ = await asyncio.gather(rounds.first(), records.stand())
        _say({"silent": [f"{answer.place.shown}: {answer.reason}" for answer, page in told if page is None]})
        rounds.write(told)
        os.nice(POLITE)
        told_to_stop = await _scrape_on(order, reader, stream, rounds, records)
        await rounds.again(last=True)
        if told_to_stop:
            await records.fetch()
    finally:
        await asker.close()


async def _scrape_on(
    order: Order, reader: asyncio.StreamReader, stream: RowStream, rounds: Rounds, records: StepRecords
) -> bool:
    """Round after round until somebody says stop; False: nobody is left who could."""
    timetable = Timetable(order.period_s)
    while (line := await _line(reader, timetable.next_ns)) != STOP:
        if line is None and os.getppid() == order.parent_id:
            await rounds.again()
            timetable.done(time.perf_counter_ns(), stream.written_rows)
        elif line:
            t0_ns = int(json.loads(line)["t0_ns"])
            stream.write([start_row(rounds.number, t0_ns)])
            timetable.start_run(t0_ns)
            await records.begin()
        else:
            return False
    return True


async def _line(reader: asyncio.StreamReader, until_ns: int) -> bytes | None:
    """The next line of the input, empty at its end; None: there was none until then."""
    try:
        async with asyncio.timeout(max(until_ns - time.perf_counter_ns(), 0) / NS_PER_S):
            return await reader.readline()
    except TimeoutError:
        return None


def _kind_of(page: Page) -> str | None:
    """By the names on its page."""
    marks = (mark for mark in KIND_MARKS if any(name.startswith(mark) for name, _, _ in page.samples))
    return KIND_MARKS.get(next(marks, ""))


def _say(document: dict[str, object]) -> None:
    """To the parent, who may be gone."""
    try:
        sys.stdout.write(json.dumps(document) + "\n")
        sys.stdout.flush()
    except OSError:
        return


async def _main() -> None:
    reader = asyncio.StreamReader(limit=LONGEST_ORDER_BYTES)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    order = read_order(await reader.readline())
    stream = RowStream(Path(order.stream))
    loading = asyncio.create_task(_load(stream))
    try:
        await scrape(order, reader, stream)
    finally:
        await loading
        stream.close()


async def _load(stream: RowStream) -> None:
    """Beside the first requests."""
    await asyncio.to_thread(stream.load)
    stream.flush()


if __name__ == "__main__":
    asyncio.run(_main())
