"""A table of the page, before it is markup: captions, grouped headings, rows of cells."""

from dataclasses import dataclass

from results.report.figures import Figure, amount, fraction, percent, reason_text

SPELLINGS = {"amount": amount, "fraction": fraction, "percent": percent, "whole": "{:,.0f}".format}


@dataclass(frozen=True, slots=True)
class Cell:
    """What stands in one place; `note` smaller beneath it."""

    text: str
    note: str = ""
    kind: str = ""
    """A class of the style sheet: number, of-run, missing, good, bad, open, words."""
    raw: str = ""
    """The figure in full, for programs that read the page."""
    metric: str = ""
    shares: tuple[tuple[str, float], ...] = ()
    """A bar in place of a text: (slot state, share)."""


@dataclass(frozen=True, slots=True)
class Row:
    """A line of a table. The first cell is its heading."""

    head: Cell
    cells: tuple[Cell, ...]
    starts_group: bool = False


@dataclass(frozen=True, slots=True)
class Heading:
    """A column's name, and its unit or meaning beneath."""

    text: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """All of one."""

    caption: str
    groups: tuple[tuple[str, int], ...]
    """Headings over several columns, or none: (text, columns)."""
    headings: tuple[Heading, ...]
    rows: tuple[Row, ...]
    kind: str = ""


def figure_cell(figure: Figure, spelling: str, metric: str = "") -> Cell:
    """A number; brackets where it is of this run; smallest and largest where the repeats differ."""
    write = SPELLINGS[spelling]
    if figure.value is None:
        return Cell(reason_text(figure.reason), kind="missing", metric=metric)
    text = f"[{write(figure.value)}]" if figure.of_run else write(figure.value)
    low, high = figure.low, figure.high
    note = f"{write(low)}–{write(high)}" if low is not None and high is not None and low != high else ""
    return Cell(text, note, "number of-run" if figure.of_run else "number", repr(figure.value), metric)
