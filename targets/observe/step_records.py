"""The steps that `tokenload serve` tells of itself: where its journal stands before a run, and all since after it.

They are fetched when the run is over and written as they were told; `results.server.step_table` judges them. Neither
a slow server nor one that tells nonsense holds the end up: pages, rows, bytes and seconds are bounded.
"""

import json
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from results.server.names import STEPS_TOLD
from targets.observe.asking import Asker, RefusedError
from targets.observe.order import Order
from targets.observe.places import Place, shown

FAR_STEP = 10**18 - 1
"""No journal gets that far: whoever asks from there is told where it stands, and no step."""
MOST_PAGE_STEPS = 10_000
MOST_STEPS = 1 << 20
FETCH_WITHIN_S = 8.0
PAGE_WITHIN_S = 5.0
LARGEST_INTEGER = 2**62
MOST_KINDS = 16
MOST_COLUMNS = 64


@dataclass(frozen=True, slots=True)
class StepsPage:
    """What one answer tells."""

    next_step: int
    missed_steps: int
    """Dropped before anybody asked for them."""
    made_steps: int
    """So many there have been: the number of the next one."""
    started_s: int | None
    """When the server started: another one has other steps."""
    kinds: tuple[str, ...]
    """What the codes of the column `kind` mean."""
    columns: Mapping[str, list[Any]] = field(default_factory=dict, repr=False)


@dataclass(slots=True)
class Fetching:
    """How the steps were fetched, for whoever judges them."""

    reason: str = ""
    """Why they are not all there; empty: they are."""
    begin_step: int | None = None
    """Number of the first step after time 0; None: the server tells no steps."""
    missed_steps: int = 0
    asked_ns: int | None = None
    """Before the first question, on this process's clock: no step that was fetched had ended by then."""
    stood_ns: int | None = None
    """After the answer to it: no step that began later is left out."""
    fetched_ns: int | None = None
    """After the last answer."""
    kinds: tuple[str, ...] = ()


class StepRecords:
    """Asks one server. Without a URL every method does nothing."""

    def __init__(self, order: Order, asker: Asker) -> None:
        """Asks nothing yet."""
        url, self._file, self._asker = order.steps_url, order.steps_file, asker
        self._place = Place(url, shown(url), None) if url else None
        self._fetching = Fetching()
        self._first: StepsPage | None = None
        self._has_begun = False

    async def stand(self) -> None:
        """Before the warm-up: whether it tells steps at all, and how many there were. A 404 ends the asking."""
        if self._place is None:
            return
        asked_ns = time.perf_counter_ns()
        try:
            page = await self._page(self._place, FAR_STEP)
        except RefusedError as error:
            self._fetching.reason = error.reason
            self._place = None if error.final else self._place
            return
        self._fetching.reason, self._fetching.begin_step = "", page.made_steps
        if self._first is None:
            self._first = page
            self._fetching.asked_ns, self._fetching.stood_ns = asked_ns, time.perf_counter_ns()

    async def begin(self) -> None:
        """At time 0: the steps of the warm-up are behind it."""
        self._has_begun = True
        await self.stand()

    async def fetch(self, within_s: float = FETCH_WITHIN_S) -> None:
        """Every step since the first question, after the run; what came, or why nothing did, goes into the file."""
        if not self._file or not self._has_begun:
            return
        tables: list[Any] = []
        if self._place is not None and self._first is not None:
            try:
                self._fetching.reason = ""
                await self._fetch_into(tables, self._place, self._first, within_s)
            except RefusedError as error:
                self._fetching.reason = error.reason
            self._fetching.fetched_ns = time.perf_counter_ns()
        _write_stream(Path(self._file), tables, self._fetching)

    async def _fetch_into(self, tables: list[Any], place: Place, first: StepsPage, within_s: float) -> None:
        """Page after page, up to where the journal stood at the first of them. RefusedError: that is not all."""
        step, made_steps, rows = first.made_steps, None, 0
        self._fetching.kinds = first.kinds
        until_s = time.monotonic() + within_s
        while made_steps is None or step < made_steps:
            try:
                page = await self._page(place, step, min(until_s - time.monotonic(), PAGE_WITHIN_S))
            except RefusedError as error:
                late = time.monotonic() >= until_s
                raise RefusedError(f"not all of its steps came within {within_s:g} s") if late else error from None
            _check_goes_on(page, step, first)
            tables.append(_table(page))
            rows += tables[-1].num_rows
            if rows > MOST_STEPS:
                raise RefusedError(f"it told more than {MOST_STEPS} steps")
            self._fetching.missed_steps += page.missed_steps
            step, made_steps = page.next_step, page.made_steps if made_steps is None else made_steps

    async def _page(self, place: Place, since_step: int, within_s: float | None = None) -> StepsPage:
        asked = Place(f"{place.url}?since={since_step}", place.shown, None)
        answer = await self._asker.ask(asked, within_s)
        if answer.reason:
            raise RefusedError(answer.reason, answer.final)
        return read_steps_page(answer.body, since_step)


def read_steps_page(body: bytes, since_step: int) -> StepsPage:
    """RefusedError where it is not what `tokenload serve` tells of the steps from this one on."""
    try:
        told = json.loads(body)
    except (ValueError, RecursionError):
        raise RefusedError("not JSON", final=True) from None
    columns = _columns(told)
    counts = [told.get(name) for name in ("next", "missed", "made")]
    if not all(_is_count(one) for one in counts):
        raise RefusedError("it does not say how many steps it has made", final=True)
    rows = {len(values) for values in columns.values()}
    if len(rows) > 1 or max(rows, default=0) > MOST_PAGE_STEPS:
        raise RefusedError("its columns of steps are unlike, or too long", final=True)
    next_step, missed_steps, made_steps = counts
    if next_step != since_step + missed_steps + max(rows, default=0):
        raise RefusedError("the steps it tells are not those that were asked for", final=True)
    started_s = told.get("started_s")
    return StepsPage(
        next_step, missed_steps, made_steps, started_s if _is_count(started_s) else None, _kinds(told), columns
    )


def _columns(told: Any) -> dict[str, list[Any]]:
    columns = told.get("steps") if isinstance(told, dict) else None
    if not isinstance(columns, dict) or len(columns) > MOST_COLUMNS:
        raise RefusedError("no steps in it", final=True)
    if not all(isinstance(values, list) for values in columns.values()):
        raise RefusedError("no steps in it", final=True)
    return columns


def _kinds(told: Mapping[str, Any]) -> tuple[str, ...]:
    """Words of the server's, not to be shown."""
    kinds = told.get("kinds")
    words = kinds[:MOST_KINDS] if isinstance(kinds, list) else []
    return tuple(word if isinstance(word, str) else "" for word in words)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < LARGEST_INTEGER


def _check_goes_on(page: StepsPage, since_step: int, first: StepsPage) -> None:
    """RefusedError where a page is not the next one of the server that was asked before the run."""
    if page.started_s != first.started_s or page.made_steps < since_step:
        raise RefusedError("the server restarted during the run")
    if page.next_step == since_step and since_step < page.made_steps:
        raise RefusedError("it tells fewer steps than it says it has made")
    if page.kinds != first.kinds:
        raise RefusedError("its kinds of steps changed during the run")


def _table(page: StepsPage) -> Any:
    """A page's columns, far smaller than they were. RefusedError where they are not made of whole numbers."""
    arrow = import_module("pyarrow")
    try:
        columns = {name: arrow.array(values) for name, values in sorted(page.columns.items())}
        if all(one.type in (arrow.int64(), arrow.null()) for one in columns.values()):
            return arrow.table({name: values.cast(arrow.int64()) for name, values in columns.items()})
    except (ValueError, TypeError, OverflowError):
        pass
    raise RefusedError("its steps are not made of whole numbers")


def _write_stream(path: Path, tables: list[Any], fetching: Fetching) -> None:
    """One Arrow stream of all pages, how they were fetched in its metadata: all of it or nothing."""
    arrow = import_module("pyarrow")
    try:
        table = arrow.concat_tables(tables) if tables else arrow.table({})
    except ValueError:
        table, fetching.reason = arrow.table({}), fetching.reason or "its columns of steps changed during the run"
    known = import_module("results.recording").KINDS  # no other word of a server's gets into a file
    fetching.kinds = tuple(kind if kind in known else "" for kind in fetching.kinds)
    table = table.replace_schema_metadata({STEPS_TOLD: json.dumps(asdict(fetching)).encode()})
    partial = path.with_suffix(".partial")
    with partial.open("wb") as file, arrow.ipc.new_stream(file, table.schema) as stream:
        stream.write_table(table)
    partial.replace(path)
