"""Slot time shares as Plotly figures: one picture an engine, one stacked bar a load."""

from results.report.answer import STATES, shares_of
from results.report.charts import Chart
from results.report.folder import Folder
from results.report.load_words import load_text, short_load
from results.report.plain import chart_label
from results.report.server_steps import own_shares_of


def share_charts(folder: Folder) -> tuple[Chart, ...]:
    """Slot time shares: one picture an engine, one bar a load; of servers those that told their own steps."""
    local = folder.local_engines
    found = ((number, engine, _shares(folder, engine)) for number, engine in enumerate(folder.engines))
    return tuple(
        _share_chart(folder, number, engine, shares)
        for number, engine, shares in found
        if engine in local or any(shares.values())
    )


def _shares(folder: Folder, engine: str) -> dict[str, dict[str, float]]:
    """By load."""
    shares = shares_of if engine in folder.local_engines else own_shares_of
    return {load: dict(shares(folder.at(engine, load))) for load in folder.loads}


def _share_chart(folder: Folder, number: int, engine: str, shares: dict[str, dict[str, float]]) -> Chart:
    labels = [chart_label(short_load(load).removesuffix("/s")).replace(" ", "<br>") for load in folder.loads]
    traces = tuple(
        {
            "type": "bar",
            "name": state.replace("_", " "),
            "x": labels,
            "y": [shares[load].get(state) for load in folder.loads],
            "marker": {"color": f"var(--{state.replace('_', '-')})", "line": {"width": 0}},
            "hovertemplate": "%{y:.1%} " + state.replace("_", " "),
        }
        for state in STATES
    )
    layout = {
        "barmode": "stack",
        "bargap": 0.25,
        "showlegend": False,
        "xaxis": {"type": "category", "tickangle": 0, "title": {"text": "offered rate, requests/s"}},
        "yaxis": {"range": [0, 1], "tickformat": ".0%", "title": {"text": "share of slot time"}},
    }
    title = f"Slot time of {engine}" + (", by its own steps" if engine in folder.servers else "")
    return Chart(f"shares-{number}", title, _share_caption(shares), traces, layout)


def _share_caption(shares: dict[str, dict[str, float]]) -> str:
    told = {load: found for load, found in shares.items() if found}
    if not told:
        return "The engine does not tell what its slots do."
    last, found = list(told.items())[-1]
    parts = [f"{state.replace('_', ' ')} {found[state]:.0%}".replace("%", " %") for state in STATES]
    return f"{load_text(last).capitalize()}: {', '.join(parts)}."
