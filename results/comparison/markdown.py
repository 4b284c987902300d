"""A comparison as Markdown, for a pull request or a job summary. Text from runs cannot break out of its cell."""

from collections.abc import Iterator, Mapping
from typing import Any

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
from results.report.plain import plain

MARKS = "\\`*_{}[]<>#+!|~"


def markdown(document: Mapping[str, Any]) -> str:
    """The whole document; headings from the second level."""
    lines: list[str] = []
    for one in document["comparisons"]:
        lines += [f"## {escaped(title_of(document, one))}", "", *_gates(one), *_tables(one), *_details(one)]
    return "\n".join(lines) + "\n"


def escaped(text: str) -> str:
    """One line of plain text that Markdown leaves as it is."""
    one_line = " ".join(text.split())
    return "".join(f"\\{letter}" if letter in MARKS else letter for letter in one_line)


def _gates(one: Mapping[str, Any]) -> Iterator[str]:
    for gate in one["gates"]:
        yield f"- {'✅' if gate['passed'] else '❌'} {escaped(plain(gate_line(gate)))}"
    if one["gates"]:
        yield ""


def _tables(one: Mapping[str, Any]) -> Iterator[str]:
    for cell in one["cells"]:
        yield from (f"**{escaped(cell_title(cell))}**", "")
        yield f"| {' | '.join(title or 'figure' for title in COLUMNS)} |"
        yield f"|{'---|' * len(COLUMNS)}"
        for row in rows(cell):
            yield f"| {' | '.join(escaped(text) for text in row)} |"
        yield ""
        lines = [f"- {escaped(line)}" for line in request_lines(cell)]
        yield from (*lines, "") if lines else ()


def _details(one: Mapping[str, Any]) -> Iterator[str]:
    told = [*remarks(one), *difference_lines(one)]
    yield from (f"- {escaped(line)}" for line in told)
    if told:
        yield ""
