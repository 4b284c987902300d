"""The scorecard: the first text's six columns for every engine and load, gaps between tokens, and the slots."""

from results.report.answer import STATES, shares_of
from results.report.figures import NO_ROWS, Figure, figure_of, fraction, is_overloaded, requests_of
from results.report.folder import COMPLETE, Folder, Point
from results.report.load_words import CLOSED, short_load
from results.report.table import Cell, Heading, Row, Table, figure_cell
from results.window import WHOLE_RUN

Column = tuple[Heading, str, str, str]
"""Heading, group and name in the summary, spelling."""
LATENCIES: tuple[Column, ...] = (
    (Heading("TTFT p50", "ms"), "ttft_ms", "p50", "amount"),
    (Heading("TTFT p95", "ms"), "ttft_ms", "p95", "amount"),
    (Heading("TPOT p50", "ms; the text's ITL"), "tpot_ms", "p50", "amount"),
    (Heading("Output", "tok/s"), "rates", "output_tokens_per_s", "amount"),
    (Heading("Goodput", "req/s"), "slo", "goodput_rps", "amount"),
    (Heading("p50", "ms"), "itl_ms", "p50", "amount"),
    (Heading("p99", "ms"), "itl_ms", "p99", "amount"),
    (Heading("max", "ms"), "itl_ms", "max", "amount"),
    (Heading("Attainment", "of scheduled"), "slo", "attainment", "percent"),
)
GROUPS = (("The first text's six columns", 6), ("ITL, each gap", 3), ("SLO", 1))
GROUPS_OF_SERVERS = (("Latency, throughput, goodput", 6), *GROUPS[1:])
FRACTIONS: tuple[Column, ...] = tuple(
    (Heading(name), "slots", name, "fraction")
    for name in ("wasted_slot_fraction", "unused_slot_fraction", "padding_fraction", "held_back_fraction")
)


def scorecard(folder: Folder) -> Table:
    """Latency, throughput and goodput."""
    note = "" if len(folder.repeats) == 1 else f" Mean of {len(folder.repeats)} runs; the smallest and largest beneath."
    caption = (
        f"Latency from the scheduled arrival; goodput counts requests that meet {folder.slo or 'the SLO'}."
        f" [Brackets]: of this run of so many requests; it grows with the run's length.{note}"
    )
    if folder.servers and not folder.local_engines:
        headings = (Heading("Server"), *(_without_text(column[0]) for column in LATENCIES))
        return Table(caption, GROUPS_OF_SERVERS, headings, _rows(folder, LATENCIES, folder.engines), "scorecard")
    headings = (Heading("Configuration"), *(column[0] for column in LATENCIES))
    return Table(caption, GROUPS, headings, _rows(folder, LATENCIES, folder.engines), "scorecard")


def _without_text(heading: Heading) -> Heading:
    """The first text is about engines that are not there."""
    return Heading(heading.text, heading.note.partition(";")[0])


def slot_table(folder: Folder) -> Table:
    """Fractions under their own names, and the six shares of slot time."""
    headings = (
        Heading("Configuration"),
        *(column[0] for column in FRACTIONS),
        *(Heading(state.replace("_", " ")) for state in STATES),
    )
    caption = (
        "Each fraction answers another question (see the definitions below). On the right, slot_time_share: what a "
        "slot was doing, weighted by the length of the steps; the six add up to 1."
        f"{_span_text(folder)}"
    )
    groups = (("", 1), ("Fractions", len(FRACTIONS)), ("slot_time_share", len(STATES)))
    rows = _rows(folder, FRACTIONS, folder.local_engines)
    with_shares = []
    for row, points in zip(rows, _points_of_rows(folder), strict=True):
        shares = shares_of(points)
        cells = [Cell(fraction(share), "", "number", repr(share), f"slots.{state}") for state, share in shares]
        blank = [Cell("not told" if points else "missing", kind="missing")] * len(STATES)
        with_shares.append(Row(row.head, (*row.cells, *(cells or blank)), row.starts_group))
    return Table(caption, groups, headings, tuple(with_shares), "scorecard")


def _span_text(folder: Folder) -> str:
    """Of which time, where a fill or a cool-down has slots that do not count."""
    spans = {((point.summary or {}).get("slots") or {}).get("span", WHOLE_RUN) for point in folder.points}
    return " Of the steps in the measured window; fill and cool-down are left out." if spans - {WHOLE_RUN} else ""


def _points_of_rows(folder: Folder) -> list[tuple[Point, ...]]:
    return [
        folder.at(engine, load) for load in folder.loads for engine in folder.local_engines if folder.of(engine, load)
    ]


def _rows(folder: Folder, columns: tuple[Column, ...], engines: tuple[str, ...]) -> tuple[Row, ...]:
    """Engines within loads, so that what is to be compared stands together."""
    rows = []
    for load in folder.loads:
        starts_group = True
        for engine in engines:
            points = folder.of(engine, load)
            if points:
                found = folder.at(engine, load)
                cells = tuple(_cell(found, group, name, spelling) for _, group, name, spelling in columns)
                head = Cell(f"{engine} @ {short_load(load)}", row_note(points, columns is LATENCIES))
                rows.append(Row(head, cells, starts_group))
                starts_group = False
    return tuple(rows)


def row_note(points: tuple[Point, ...], has_latencies: bool) -> str:
    """What must be known to read the row."""
    found = tuple(point for point in points if point.summary is not None)
    if not found:
        return "no rows: " + points[0].state
    notes = []
    labels = sorted({point.state for point in points if point.state != COMPLETE})
    if labels:
        notes.append(", ".join(labels) + ": of what was recorded")
    grows = f"[…] of this run of {requests_of(found)} requests, grows with its length"
    if has_latencies and any(is_overloaded(point) for point in found):
        notes.append(f"overloaded: {grows}")
    elif has_latencies and found[0].load == "burst":
        notes.append(f"all due at once: {grows}")
    if has_latencies and found[0].remote and found[0].load.startswith(CLOSED):
        notes.append("closed loop: the load falls when the server slows down")
    if any(point.verdict.valid is False for point in found):
        notes.append("INVALID: " + ", ".join(dict.fromkeys(one.code for p in found for one in p.verdict.invalid)))
    return "; ".join(notes)


def _cell(points: tuple[Point, ...], group: str, name: str, spelling: str) -> Cell:
    figure: Figure = figure_of(points, group, name) if points else NO_ROWS
    return figure_cell(figure, spelling, f"{group}.{name}")
