"""What servers told of themselves, as a table: slots, requests, KV cache; or what to pass so that they do."""

from results.report.folder import Folder, Point
from results.report.load_words import short_load
from results.report.server_answer import advice_of, observed_cell
from results.report.servers import told_by_server
from results.report.table import Cell, Heading, Row, Table

FIGURES = (
    (Heading("unused_slot_fraction"), "unused_slot_fraction", "fraction"),
    (Heading("Slots"), "slots", "whole"),
    (Heading("Running", "most"), "running_max", "whole"),
    (Heading("Waiting", "most"), "waiting_max", "whole"),
    (Heading("KV in use", "most"), "kv_max_fraction", "percent"),
    (Heading("Preemptions"), "preemptions", "whole"),
    (Heading("Time in queue", "mean, ms"), "queue_time_ms_mean", "amount"),
)


def server_table(folder: Folder) -> Table:
    """One row a server and load; why a figure is missing is said once, beneath."""
    rows = []
    for load in folder.loads:
        named = [engine for engine in folder.servers if folder.of(engine, load)]
        for at, engine in enumerate(named):
            points = folder.at(engine, load)
            cells = tuple(_short(observed_cell(points, name, spelling)) for _, name, spelling in FIGURES)
            rows.append(Row(Cell(f"{engine} @ {short_load(load)}", _kind(points)), cells, at == 0))
    caption = (
        "From the run's start to its end, or in the measured window where fill or cool-down surround it; over all "
        "engines behind the address. unused_slot_fraction = 1 - slot-steps that "
        "made a token / (steps x slots)."
    )
    return Table(caption, (), (Heading("Server"), *(heading for heading, _, _ in FIGURES)), tuple(rows), "scorecard")


def advice(folder: Folder) -> tuple[str, ...]:
    """What to pass, one line a figure or several with the same reason."""
    lines: dict[str, list[str]] = {}
    points = tuple(point for point in folder.points if point.remote and point.summary is not None)
    for heading, name, _ in FIGURES:
        for point in points:
            if told_by_server(point.info).get(name) is None:
                known = lines.setdefault(advice_of((point,), name), [])
                known += [] if heading.text in known else [heading.text]
    return tuple(f"{', '.join(names)}: not observable. {_sentence(why)}" for why, names in lines.items())


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")


def _short(cell: Cell) -> Cell:
    """Its note stands beneath the table."""
    return cell if cell.kind != "missing" else Cell(cell.text, "", cell.kind, cell.raw, cell.metric)


def _kind(points: tuple[Point, ...]) -> str:
    """What kind of server it is, and how often it was asked."""
    told = told_by_server(points[0].info) if points else {}
    if not told:
        return ""
    return f"{told.get('kind', 'unknown')}, {told.get('scrapes', 0)} scrapes"
