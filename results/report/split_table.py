"""What a pooled figure hides, apart: classes of requests, turns of conversations, and what was not measured."""

from results.report.asked import config_of
from results.report.figures import Figure, figure_of, withheld_code
from results.report.folder import Folder, Point
from results.report.table import Cell, Heading, Row, Table, figure_cell

CLOSED = "closed"
COLUMNS = (
    (Heading("TTFT p50", "ms"), "ttft_ms", "p50"),
    (Heading("TTFT p99", "ms"), "ttft_ms", "p99"),
    (Heading("TPOT p50", "ms"), "tpot_ms", "p50"),
    (Heading("E2E p50", "ms"), "e2e_ms", "p50"),
    (Heading("E2E p99", "ms"), "e2e_ms", "p99"),
)
SPLITS = (("by_class", "class {}"), ("by_turn", "turn {}"), ("by_phase", "{}, in no other figure"))


def split_table(folder: Folder) -> Table | None:
    """Of one run; None where there is one class, no conversation, and all is measured."""
    point = folder.points[0] if folder.kind == "run" else None
    if point is None or point.summary is None:
        return None
    loop = config_of(point.info).get("arrival") == CLOSED and point.summary.get("by_phase")
    rows = tuple(
        _row(point, split, name, words.format(name))
        for split, words in SPLITS
        if split != "by_turn" or not loop  # users' turns are alike, once the first ones are apart as fill
        for name in point.summary.get(split) or {}
    )
    headings = (Heading("Part"), Heading("Requests"), *(heading for heading, _, _ in COLUMNS))
    caption = "The same figures of a part of the requests each; parts of different kinds overlap."
    return Table(caption, (), headings, rows, "splits") if rows else None


def _row(point: Point, split: str, name: str, title: str) -> Row:
    count = figure_of((point,), split, name, "requests")
    cells = [_cell(point, split, name, metric, figure) for _, metric, figure in COLUMNS]
    return Row(Cell(title), (figure_cell(count, "whole", f"{split}.requests"), *cells))


def _cell(point: Point, split: str, name: str, metric: str, figure: str) -> Cell:
    hidden = withheld_code(point, metric)
    found = Figure(None, reason=hidden) if hidden else figure_of((point,), split, name, metric, figure)
    return figure_cell(found, "amount", f"{split}.{metric}.{figure}")
