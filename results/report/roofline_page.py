"""The page of a roofline: what a batch of each size would do on some hardware, as one HTML file of its own."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

STYLE = (
    "body{font:15px/1.45 system-ui,sans-serif;max-width:980px;margin:2rem auto;padding:0 1rem;color:#1a1a1a}"
    "table{border-collapse:collapse;font-size:13px}td,th{padding:.25rem .6rem;border-bottom:1px solid #ddd;"
    "text-align:left;vertical-align:top}td.number{text-align:right;font-variant-numeric:tabular-nums}"
    "dt{font-weight:600}dd{margin:0 0 .3rem 1rem}"
)
COLOURS = ("#1f6f8b", "#c05c21")


@dataclass(frozen=True, slots=True)
class Curve:
    """One line of each picture; all columns are of one length."""

    name: str
    rows: Sequence[int]
    tokens_per_s: Sequence[float]
    busy_share: Sequence[float]
    step_ms: Sequence[float]
    dash: str = "solid"


PANELS = (
    ("tokens_per_s", "output tokens/s"),
    ("busy_share", "share of the step that the maths take"),
    ("step_ms", "step, ms"),
)


def roofline_page(
    title: str, note: str, curves: Sequence[Curve], table: Sequence[Sequence[str]], conditions: Mapping[str, Any]
) -> str:
    """The document. `table`: a row of headings, then rows of text; empty: none."""
    import plotly.io

    plot = plotly.io.to_html(
        _figure(curves), include_plotlyjs=True, full_html=False, div_id="roofline", config={"displaylogo": False}
    )
    facts = "".join(f"<dt>{escape(str(name))}</dt><dd>{escape(str(value))}</dd>" for name, value in conditions.items())
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f"<style>{STYLE}</style></head><body><h1>{escape(title)}</h1><p>{escape(note)}</p>{plot}"
        f"{html_table(table)}<h2>Conditions</h2><dl>{facts}</dl></body></html>\n"
    )


def _figure(curves: Sequence[Curve]) -> Any:
    from plotly.subplots import make_subplots

    figure = make_subplots(rows=len(PANELS), cols=1, shared_xaxes=True, vertical_spacing=0.06)
    for panel, (column, label) in enumerate(PANELS, 1):
        for number, curve in enumerate(curves):
            line = {"color": COLOURS[number % len(COLOURS)], "dash": curve.dash, "width": 2}
            figure.add_scatter(
                x=list(curve.rows), y=list(getattr(curve, column)), name=curve.name, legendgroup=curve.name,
                showlegend=panel == 1, mode="lines+markers", line=line, marker={"size": 5}, row=panel, col=1,
            )  # fmt: skip
        figure.update_yaxes(title_text=label, rangemode="tozero", row=panel, col=1)
    figure.update_xaxes(title_text="sequences in the batch", row=len(PANELS), col=1)
    figure.update_layout(height=900, margin={"t": 20, "l": 70, "r": 20}, legend={"orientation": "h", "y": 1.05})
    return figure


def html_table(rows: Sequence[Sequence[str]]) -> str:
    """The first row is the head; nothing where there are no rows."""
    if not rows:
        return ""
    head, *body = rows
    lines = ["<tr>" + "".join(f"<th>{escape(cell)}</th>" for cell in head) + "</tr>"]
    for row in body:
        cells = (f"<td{_of_number(cell)}>{escape(cell)}</td>" for cell in row)
        lines.append("<tr>" + "".join(cells) + "</tr>")
    return f"<table>{''.join(lines)}</table>"


def _of_number(cell: str) -> str:
    return ' class="number"' if cell[:1].isdigit() or cell[:1] in "+-" else ""
