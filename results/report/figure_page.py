"""A page of one figure: plotly's, a table and the conditions, in one HTML file that needs no network."""

import re
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

NUMBER = re.compile(r"[+-]?[0-9][0-9.,]*( ?[^\s\d]{1,8})?|[+-]")
STYLE = (
    "body{font:15px/1.45 system-ui,sans-serif;max-width:980px;margin:2rem auto;padding:0 1rem;color:#1a1a1a}"
    "table{border-collapse:collapse;font-size:13px;margin-bottom:1.5rem}"
    "td,th{padding:.25rem .6rem;border-bottom:1px solid #ddd;"
    "text-align:left;vertical-align:top}.number{text-align:right;font-variant-numeric:tabular-nums}"
    "dt{font-weight:600}dd{margin:0 0 .3rem 1rem}"
)


def figure_page(
    title: str, note: str, figure: Any, div_id: str, tables: Sequence[Sequence[Sequence[str]]],
    conditions: Mapping[str, Any],
) -> str:  # fmt: skip
    """One plotly figure, tables and the conditions as a document that needs no network; every text is escaped."""
    import plotly.io

    plot = plotly.io.to_html(
        figure, include_plotlyjs=True, full_html=False, div_id=div_id, config={"displaylogo": False}
    )
    facts = "".join(f"<dt>{escape(str(name))}</dt><dd>{escape(str(value))}</dd>" for name, value in conditions.items())
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f"<style>{STYLE}</style></head><body><h1>{escape(title)}</h1><p>{escape(note)}</p>{plot}"
        f"{''.join(map(html_table, tables))}<h2>Conditions</h2><dl>{facts}</dl></body></html>\n"
    )


def html_table(rows: Sequence[Sequence[str]]) -> str:
    """The first row is the head; nothing where there are no rows."""
    if not rows:
        return ""
    head, *body = rows
    below = body[0] if body else head
    heads = (f"<th{_of_number(under)}>{escape(cell)}</th>" for cell, under in zip(head, below, strict=True))
    lines = ["<tr>" + "".join(heads) + "</tr>"]
    for row in body:
        cells = (f"<td{_of_number(cell)}>{escape(cell)}</td>" for cell in row)
        lines.append("<tr>" + "".join(cells) + "</tr>")
    return f"<table>{''.join(lines)}</table>"


def _of_number(cell: str) -> str:
    """A number alone, or with one word for its unit; a sentence that begins with one is a sentence."""
    return ' class="number"' if NUMBER.fullmatch(cell) else ""
