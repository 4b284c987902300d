"""The page as a program reads it: figures in full from the tables, the text without markup, the chart data."""

import json
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any

VOID = ("meta", "br", "wbr", "link", "img", "input", "hr")


@dataclass
class Reading:
    """What stands in a page."""

    values: dict[tuple[str, str, str], float] = field(default_factory=dict)
    """(class of the table, head of the row, metric) -> the figure in full."""
    texts: dict[tuple[str, str, str], str] = field(default_factory=dict)
    """The same cells as people see them."""
    text: str = ""
    """All visible text."""
    charts: dict[str, Any] = field(default_factory=dict)
    elements: list[tuple[str, dict[str, str]]] = field(default_factory=list)


def read(html: str) -> Reading:
    """Parse a report."""
    parser = _Parser()
    parser.feed(html)
    parser.close()
    return parser.reading


class _Parser(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.reading = Reading()
        self._open: list[tuple[str, dict[str, str]]] = []
        self._table = ""
        self._head = ""
        self._cell = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {name: value or "" for name, value in attrs}
        self.reading.elements.append((tag, attributes))
        if tag in VOID:
            return
        self._open.append((tag, attributes))
        if tag == "table":
            self._table = attributes.get("class", "")
        if tag in ("td", "th"):
            self._cell = ""

    def handle_endtag(self, tag: str) -> None:
        while self._open:
            closed, attributes = self._open.pop()
            if closed == tag:
                break
        if tag == "th" and attributes.get("scope") == "row":
            self._head = self._cell
        if tag == "td" and attributes.get("data-metric"):
            key = (self._table, self._head, attributes["data-metric"])
            self.reading.texts[key] = self._cell
            if attributes.get("data-value"):
                self.reading.values[key] = float(attributes["data-value"])

    def handle_data(self, data: str) -> None:
        inside = [tag for tag, _ in self._open]
        if "script" in inside or "style" in inside:
            if self._open[-1][1].get("id") == "chart-data":
                self.reading.charts = json.loads(data)
            return
        self.reading.text += data
        if "small" not in inside:
            self._cell += data
