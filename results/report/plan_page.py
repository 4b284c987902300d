"""The page of a plan: what each fleet costs and how far it stays from the limits, as one HTML file of its own."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from results.report.figure_page import figure_page

NOTE = (
    "Each point is a fleet that was played in modelled time. Up: the quantile of each request's worst value / limit "
    "that the plan asks for; at most 1 meets the SLO. The line joins the fleets that none beats in both. A roofline is "
    "what the hardware could do at best: real engines reach a part of it."
)
MISSED, MET, FRONT, BEST = "#9aa5ad", "#1f6f8b", "#c05c21", "#2d7d32"


@dataclass(frozen=True, slots=True)
class Fleet:
    """One point."""

    words: str
    price_per_h: float
    limit_ratio: float | None
    """None: so many failed that there is none, or it cannot be built."""
    attainment_fraction: float
    meets: bool
    on_front: bool
    cheapest: bool


def plan_page(
    answer: str, fleets: Sequence[Fleet], table: Sequence[Sequence[str]], conditions: Mapping[str, Any]
) -> str:
    """The document. `table`: a row of headings, then rows of text."""
    return figure_page(answer, NOTE, _figure(fleets), "plan", (table,), conditions)


def _figure(fleets: Sequence[Fleet]) -> Any:
    from plotly.graph_objects import Figure

    known = [(one, one.limit_ratio) for one in fleets if one.limit_ratio is not None]
    figure = Figure()
    groups = (
        ("missed", MISSED, "markers", [pair for pair in known if not pair[0].meets]),
        ("met", MET, "markers", [pair for pair in known if pair[0].meets]),
        ("front", FRONT, "lines", sorted((p for p in known if p[0].on_front), key=lambda p: p[0].price_per_h)),
        ("cheapest", BEST, "markers", [pair for pair in known if pair[0].cheapest]),
    )
    for name, colour, mode, pairs in groups:
        marker = {"size": 14 if name == "cheapest" else 8, "color": colour}
        figure.add_scatter(
            x=[one.price_per_h for one, _ in pairs], y=[ratio for _, ratio in pairs], name=name, mode=mode,
            marker=marker, line={"color": colour, "width": 2}, hoverinfo="skip" if mode == "lines" else "text",
            text=[f"{escape(one.words)}<br>{one.attainment_fraction:.2%} within the SLO" for one, _ in pairs],
        )  # fmt: skip
    figure.add_hline(y=1, line={"dash": "dash", "color": "#555"})
    figure.update_xaxes(title_text="price an hour", rangemode="tozero")
    figure.update_yaxes(title_text="value / limit", type="log")
    figure.update_layout(height=520, margin={"t": 20, "l": 70, "r": 20}, legend={"orientation": "h", "y": 1.08})
    return figure
