"""The page of a roofline: what a batch of each size would do on some hardware, as one HTML file of its own."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from results.report.figure_page import figure_page

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
    title: str, note: str, curves: Sequence[Curve], tables: Sequence[Sequence[Sequence[str]]],
    conditions: Mapping[str, Any],
) -> str:  # fmt: skip
    """The document. Tables: a row of headings, then rows of text; empty: none."""
    return figure_page(title, note, _figure(curves), "roofline", tables, conditions)


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
