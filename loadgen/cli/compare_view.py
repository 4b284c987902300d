"""What a comparison shows in the terminal, and the files it writes for others."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from loadgen.cli.exit_codes import Exit
from loadgen.cli.scorecard import WIDTH, plain
from results.comparison.junit import junit, suites_of
from results.comparison.markdown import markdown
from results.comparison.wording import (
    COLUMNS,
    cell_title,
    difference_lines,
    remarks,
    request_lines,
    rows,
    title_of,
)
from results.gates import gate_line

STYLES = {"better": "green", "worse": "red", "MISSED": "bold red"}
Json = Mapping[str, Any]


def print_comparison(document: Json) -> None:
    """Gates, a table a load, remarks, and in which conditions the sides differ."""
    console = Console(width=max(WIDTH, Console().width), highlight=False)
    for one in document["comparisons"]:
        console.print(Text(plain(title_of(document, one)), style="bold"))
        for gate in one["gates"]:
            console.print(Text(plain(gate_line(gate)), style="" if gate["passed"] else STYLES["MISSED"]))
        for cell in one["cells"]:
            console.print(_table(cell))
            for line in request_lines(cell):
                console.print(Text(plain(line)), soft_wrap=True)
        for line in (*remarks(one), *difference_lines(one)):
            console.print(Text(plain(line)), soft_wrap=True)


def write_files(document: Json, junit_file: str | None, markdown_file: str | None) -> None:
    """For CI: gates as JUnit, everything as Markdown."""
    if junit_file:
        Path(junit_file).write_text(junit(suites_of(document)), encoding="utf-8")
    if markdown_file:
        Path(markdown_file).write_text(markdown(document), encoding="utf-8")


def exit_of(document: Json) -> Exit:
    """INVALID before a missed gate before all is well. A difference alone is no failure: that is what gates are for."""
    if any(one["invalid"] for one in document["comparisons"]):
        return Exit.INVALID
    missed = any(not gate["passed"] for one in document["comparisons"] for gate in one["gates"])
    return Exit.GATE_MISSED if missed else Exit.OK


def _table(cell: Json) -> Table:
    table = Table(title=plain(cell_title(cell)), title_justify="left", box=None, pad_edge=False)
    for at, title in enumerate(COLUMNS):
        table.add_column(title, justify="left" if at in (0, len(COLUMNS) - 1) else "right")
    for row in rows(cell):
        style = STYLES.get(row[-1].split(";")[0], "")
        table.add_row(*(Text(plain(text)) for text in row[:-1]), Text(plain(row[-1]), style=style))
    return table
