"""The HTTP section: where a request's time went, how its reply came, whose token counts they are, what the client adds.

A sweep has one row a server and load; a run has the same figures one beneath the other.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from results.report.figures import NO_ROWS, Figure, figure_of, percent
from results.report.folder import Folder, Point
from results.report.load_words import short_load
from results.report.scorecard import row_note
from results.report.servers import calibration_of
from results.report.table import Cell, Heading, Row, Table, figure_cell
from results.stats import NO_VALUES

Points = tuple[Point, ...]
US_PER_MS = 1e3


@dataclass(frozen=True, slots=True)
class Column:
    """A figure: its name, what it says, and its cell."""

    heading: Heading
    cell: Callable[[Points], Cell]


PHASES = (
    ("connect", "where one was waited for", ("phases", "connect_ms")),
    ("TLS", "where it was waited for", ("phases", "tls_ms")),
    ("upload", "first to last byte sent", ("phases", "upload_ms")),
    ("wait to head", "last byte sent to reply's head", ("phases", "wait_ms")),
    ("wait to first token", "head to first token", ("wire", "head_to_token_ms")),
    ("decode", "first to last token", ("wire", "decode_ms")),
    ("tail", "last token to end of reply", ("tail_ms",)),
)
QUANTILES = ("p50", "p99")


def phase_table(folder: Folder) -> Table:
    """Phases of a request: of a run one a row, of a sweep one a pair of columns."""
    caption = (
        "In the order in which they come; each over the requests that got so far. A connection that was opened ahead "
        "or used before costs nothing here."
    )
    return _phases_by_row(folder, caption) if folder.kind == "run" else _phases_by_column(folder, caption)


def _phases_by_row(folder: Folder, caption: str) -> Table:
    points = folder.points
    names = (*QUANTILES, "max")
    rows = tuple(
        Row(Cell(name, note), (_count(points, path), *(_phase(points, path, one) for one in names)))
        for name, note, path in PHASES
    )
    headings = (Heading("Phase"), Heading("requests"), *(Heading(name, "ms") for name in names))
    return Table(caption, (), headings, rows, "phases")


def _phases_by_column(folder: Folder, caption: str) -> Table:
    groups = (("", 1), *((name, len(QUANTILES)) for name, _, _ in PHASES))
    headings = (Heading("Server"), *(Heading(one, "ms") for _ in PHASES for one in QUANTILES))
    cells = [
        Column(Heading(one), lambda points, path=path, one=one: _phase(points, path, one))  # type: ignore[misc]
        for _, _, path in PHASES
        for one in QUANTILES
    ]
    return Table(caption, groups, headings, _rows(folder, cells), "scorecard wire")


def _phase(points: Points, path: tuple[str, ...], name: str) -> Cell:
    """`none` where no request had this phase, such as TLS without TLS."""
    figure = figure_of(points, *path, name)
    if figure.value is None and points and not figure_of(points, *path, "n").value:
        return Cell("none", kind="missing")
    return figure_cell(figure, "amount", ".".join((*path, name)))


def _count(points: Points, path: tuple[str, ...]) -> Cell:
    return _whole(figure_of(points, *path, "n"), ".".join((*path, "n")))


def _number(spelling: str, *path: str) -> Callable[[Points], Cell]:
    return lambda points: figure_cell(figure_of(points, *path) if points else NO_ROWS, spelling, ".".join(path))


def _counted(*path: str) -> Callable[[Points], Cell]:
    return lambda points: _whole(figure_of(points, *path), ".".join(path))


def _whole(figure: Figure, metric: str) -> Cell:
    """A count: of several repeats their mean."""
    if figure.reason == NO_VALUES:
        return Cell("not told", kind="missing", metric=metric)
    return figure_cell(figure, "whole", metric)


def _pair(first: tuple[str, ...], other: tuple[str, ...]) -> Callable[[Points], Cell]:
    """Two counts that belong together: told and asked."""

    def cell(points: Points) -> Cell:
        one, two = _whole(figure_of(points, *first), ""), _whole(figure_of(points, *other), "")
        kind = "missing" if "missing" in (one.kind, two.kind) else "number"
        return Cell(f"{one.text} of {two.text}", kind=kind, raw=one.raw, metric=".".join(first))

    return cell


REPLIES = (
    Column(Heading("Requests", "measured"), _counted("requests", "scheduled")),
    Column(Heading("On new connections", "opened ahead or now"), _counted("wire", "connections", "opened_here")),
    Column(Heading("On used connections", "kept alive"), _counted("wire", "connections", "reused")),
    Column(Heading("Sent again", "after a reset"), _counted("wire", "connections", "resends")),
    Column(Heading("Tokens an event", "1: one by one"), _number("amount", "stream", "tokens_per_event")),
    Column(Heading("Reads an event", "socket reads"), _number("amount", "stream", "reads_per_event")),
    Column(Heading("Coalesced", "events in a read of others"), _number("percent", "stream", "coalesced_reads_share")),
    Column(Heading("Whole replies", "in one event"), _number("percent", "stream", "whole_replies_share")),
    Column(Heading("ICL p50", "ms, between events"), _number("amount", "icl_ms", "p50")),
    Column(Heading("ICL p99", "ms, between events"), _number("amount", "icl_ms", "p99")),
)


def _source(points: Points) -> Cell:
    """Who counted, and by how many answers; chunks are no tokens."""
    counts: dict[str, int] = {}
    for point in points:
        told = ((point.summary or {}).get("tokens") or {}).get("source") or {}
        for name, count in told.items():
            counts[name] = counts.get(name, 0) + int(count)
    if not counts:
        return Cell("none", kind="missing")
    text = ", ".join(f"{name} ({count:,})" if len(counts) > 1 else name for name, count in sorted(counts.items()))
    return Cell(text, "approximate" if "chunks" in counts else "", "open" if "chunks" in counts else "words")


def _prompt(points: Points) -> Cell:
    """Not told is not 0."""
    if figure_of(points, "wire", "prompt_tokens").value is None:
        return Cell("not told" if points else "missing", kind="missing")
    return _pair(("tokens", "prompt_told"), ("tokens", "prompt_asked"))(points)


TOKENS = (
    Column(Heading("Counted by", "usage: the server"), _source),
    Column(Heading("Output", "got of asked"), _pair(("tokens", "received"), ("tokens", "asked"))),
    Column(Heading("Prompt", "told of asked"), _prompt),
    Column(Heading("Cached prompt tokens", "told"), _counted("wire", "cached_tokens")),
    Column(Heading("Reasoning tokens", "told"), _counted("wire", "reasoning_tokens")),
    Column(Heading("Reasoning events", "streamed"), _counted("wire", "reasoning_events")),
    Column(Heading("Hidden tokens", "told, never sent"), _counted("tokens", "hidden")),
    Column(Heading("Counts that differ", "usage and tokenizer"), _counted("tokens", "unlike_requests")),
)


def _calibrated(group: str, name: str) -> Callable[[Points], Cell]:
    """An error of this client's, in ms as everything else."""

    def cell(points: Points) -> Cell:
        found = figure_of(points, "calibration", group, name)
        if found.value is None:
            return Cell("not calibrated" if points else "missing", kind="missing")
        text = f"{found.value / US_PER_MS:.3f}"
        return Cell(text, kind="number", raw=repr(found.value / US_PER_MS), metric=f"calibration.{group}.{name}")

    return cell


def _ceiling(points: Points) -> Cell:
    """Of all processes of this client together."""
    found = figure_of(points, "facts", "ceiling_eps")
    if found.value is None:
        return Cell("not calibrated" if points else "missing", kind="missing")
    return figure_cell(found, "amount", "facts.ceiling_eps")


def _share_used(points: Points) -> Cell:
    """The busiest second's events over the ceiling."""
    busiest, ceiling = figure_of(points, "wire", "busiest_events_per_s"), figure_of(points, "facts", "ceiling_eps")
    if busiest.value is None or not ceiling.value:
        return Cell("not known" if points else "missing", kind="missing", metric="client.ceiling_share")
    share = busiest.value / ceiling.value
    return Cell(percent(share), kind="number", raw=repr(share), metric="client.ceiling_share")


LATENESS = (
    Column(Heading("TTFT p50", "ms, from the schedule"), _number("amount", "ttft_ms", "p50")),
    Column(Heading("TTFT net p50", "ms, from hand-over"), _number("amount", "ttft_net_ms", "p50")),
    Column(Heading("TTFT p99", "ms, from the schedule"), _number("amount", "ttft_ms", "p99")),
    Column(Heading("TTFT net p99", "ms, from hand-over"), _number("amount", "ttft_net_ms", "p99")),
    Column(Heading("Lateness p50", "ms, due to hand-over"), _number("amount", "wire", "lag_ms", "p50")),
    Column(Heading("Lateness p99", "ms"), _number("amount", "wire", "lag_ms", "p99")),
    Column(Heading("Lateness max", "ms"), _number("amount", "wire", "lag_ms", "max")),
)
CALIBRATED = (
    Column(Heading("TTFT error p50", "ms"), _calibrated("ttft_error_us", "p50")),
    Column(Heading("TTFT error p99", "ms"), _calibrated("ttft_error_us", "p99")),
    Column(Heading("ITL error p99", "ms"), _calibrated("itl_error_us", "p99")),
    Column(Heading("Send lateness p99", "ms"), _calibrated("send_lateness_us", "p99")),
    Column(Heading("Events/s", "busiest second"), _number("whole", "wire", "busiest_events_per_s")),
    Column(Heading("Ceiling", "events/s"), _ceiling),
    Column(Heading("Ceiling used", "above 50 %: INVALID"), _share_used),
)


def wire_table(folder: Folder, columns: Sequence[Column], caption: str) -> Table:
    """One row a server and load."""
    headings = (Heading("Server"), *(column.heading for column in columns))
    kind = "scorecard wire" if folder.kind == "sweep" else "single"
    return Table(caption, (), headings, _rows(folder, columns), kind)


def calibration_caption(folder: Folder) -> str:
    """Whether the calibration's errors may be subtracted: never."""
    if any(calibration_of(point.info) for point in folder.points if point.remote):
        return "What this client adds on this machine. The errors stand beside the figures and are never subtracted."
    return "Not calibrated: this client's own error is not known."


def ends_table(folder: Folder) -> Table:
    """How requests ended: status, HTTP status, finish reason, and what was said."""
    rows = []
    for point in folder.points:
        for at, end in enumerate(point.ends):
            http = Cell(str(end.http_status), kind="number") if end.http_status is not None else _none()
            words = Cell(end.error, kind="words") if end.error else _none()
            finish = Cell(end.finish_reason, kind="words") if end.finish_reason else _none()
            head = Cell(f"{point.engine} @ {short_load(point.load)}" + _repeat(folder, point))
            count = Cell(f"{end.requests:,}", kind="number", raw=str(end.requests), metric=f"ends.{end.status}")
            status = Cell(end.status, kind="words" if end.status == "ok" else "bad words")
            rows.append(Row(head, (count, status, http, finish, words), at == 0))
        if point.left_out_rows:
            rows.append(Row(Cell(f"and {point.left_out_rows} more ways"), tuple([_none()] * 5)))
    headings = [Heading(name) for name in ("Server", "Requests", "Status", "HTTP", "Finish reason", "What was said")]
    caption = "Finish reasons and texts are the server's own words, cut after 300 characters."
    return Table(caption, (), tuple(headings), tuple(rows), "ends")


def _none() -> Cell:
    return Cell("–", kind="missing")


def _repeat(folder: Folder, point: Point) -> str:
    return f" (repeat {point.repeat_id + 1})" if len(folder.repeats) > 1 else ""


def _rows(folder: Folder, columns: Sequence[Column]) -> tuple[Row, ...]:
    """Servers within loads."""
    rows = []
    for load in folder.loads:
        named = [engine for engine in folder.servers if folder.of(engine, load)]
        for at, engine in enumerate(named):
            found = folder.at(engine, load)
            cells = tuple(column.cell(found) if found else Cell("missing", kind="missing") for column in columns)
            head = Cell(f"{engine} @ {short_load(load)}", row_note(folder.of(engine, load), has_latencies=False))
            rows.append(Row(head, cells, at == 0))
    return tuple(rows)


Facts = tuple[tuple[str, str, Cell], ...]
"""Name, what it says, cell: a table of one row, told downwards."""


def downwards(table: Table) -> Facts:
    """Of a table with one row."""
    row = table.rows[0] if table.rows else None
    pairs = zip(table.headings[1:], row.cells if row else (), strict=False)
    return tuple((heading.text, heading.note, cell) for heading, cell in pairs)
