"""The charts as Plotly figures, written as plain data: colours are names of the style sheet's variables."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from results.report.figures import Figure, amount, figure_of, is_of_run
from results.report.flight import Flight
from results.report.folder import Folder, number_of
from results.report.grid import rates
from results.report.load_words import load_text, short_load
from results.report.plain import chart_label, joined

Json = dict[str, Any]
ENGINE_COLOURS = 6
SYMBOLS = ("square", "diamond", "circle", "triangle-up", "cross", "star")
ROOM_FOR_NAMED_LOADS = 0.22
ON_THE_LINE_RATIO = 0.95
LOGARITHMIC = {"type": "log", "dtick": 1, "separatethousands": True, "exponentformat": "none"}


@dataclass(frozen=True, slots=True)
class Chart:
    """One picture: `id` is the element it goes into."""

    id: str
    title: str
    caption: str
    data: tuple[Json, ...]
    layout: Json
    rows: int = 1
    """Pictures one above the other in it."""


def rate_charts(folder: Folder) -> tuple[Chart, ...]:
    """Throughput, TTFT and gaps against the load."""
    axis = _axis(folder)
    return (
        Chart(
            "throughput",
            "Throughput against offered rate",
            _throughput_caption(folder),
            (*_offered(folder), *_lines(folder, ("rates", "output_tokens_per_s"), "tok/s")),
            {"xaxis": axis, "yaxis": {"title": {"text": "output tokens/s"}, "rangemode": "tozero"}},
        ),
        Chart(
            "ttft",
            "TTFT against rate",
            "Median (solid) and p95 (dotted), logarithmic. Hollow: overloaded or burst, where TTFT is of this run's "
            "length and would grow with it.",
            (
                *_lines(folder, ("ttft_ms", "p50"), "ms", "p50"),
                *_lines(folder, ("ttft_ms", "p95"), "ms", "p95", dash="dot"),
            ),
            {"xaxis": axis, "yaxis": {"title": {"text": "TTFT, ms"}, **LOGARITHMIC}},
        ),
        Chart(
            "tpot",
            "TPOT and gap tail against rate",
            "Median TPOT (solid) is a mean per request; the p99 of every gap between tokens (dotted) shows the pauses "
            "that it averages away.",
            (
                *_lines(folder, ("tpot_ms", "p50"), "ms", "TPOT p50"),
                *_lines(folder, ("itl_ms", "p99"), "ms", "ITL p99", dash="dot"),
            ),
            {"xaxis": axis, "yaxis": {"title": {"text": "ms a token"}, "rangemode": "tozero"}},
        ),
    )


def flight_chart(at: int, load: str, flights: list[tuple[int, str, Flight]]) -> Chart:
    """Requests due and not ended, over time: (engine's number, engine, counts)."""
    traces: list[Json] = [
        {
            "type": "scatter",
            "mode": "lines",
            "name": chart_label(engine),
            "x": list(flight.t_s),
            "y": list(flight.requests),
            "line": {"color": _colour(number), "width": 1.6, "shape": "hv"},
            "hovertemplate": "%{x:.2f} s: %{y} in flight",
        }
        for number, engine, flight in flights
    ]
    title = {"title": {"text": "time, s"}, "rangemode": "tozero"}
    peaks = [f"{engine} at most {max(flight.requests, default=0)}" for _, engine, flight in flights]
    return Chart(
        f"flight-{at}",
        f"In flight over time, {load_text(load)}",
        f"Requests that are due and have not ended: {joined(peaks)}.",
        tuple(traces),
        {"xaxis": title, "yaxis": {"title": {"text": "requests in flight"}, "rangemode": "tozero"}},
    )


def _places(folder: Folder) -> dict[str, float]:
    """Where each load stands: rates at themselves, the others to the right of them."""
    known = rates(folder)
    last = float(known[-1]) if known else 0.0
    step = last * ROOM_FOR_NAMED_LOADS or 1.0
    named = [load for load in folder.loads if number_of(load) is None]
    return {**{load: float(load) for load in known}, **{load: last + step * (at + 1) for at, load in enumerate(named)}}


def _axis(folder: Folder) -> Json:
    places = _places(folder)
    highest = max(places.values(), default=1.0)
    return {
        "title": {"text": "offered rate, requests/s"},
        "tickmode": "array",
        "tickvals": list(places.values()),
        "ticktext": [chart_label(short_load(load).removesuffix("/s")).replace(" ", "<br>") for load in places],
        "tickangle": 0,
        "range": [0, highest * 1.06],
        "zeroline": False,
    }


def _lines(folder: Folder, path: tuple[str, str], unit: str, name: str = "", dash: str = "solid") -> list[Json]:
    """A trace an engine: a line over the rates, single marks for the other loads. The legend names it once."""
    traces = []
    for number, engine in enumerate(folder.engines):
        marks = list(_marks(folder, number, engine, path))
        traces.append(
            {
                **_line(marks, _colour(number), dash),
                "name": chart_label(engine),
                "hovertemplate": f"{name} %{{text}} {unit}".strip(),
                "legendgroup": str(number),
                "showlegend": dash == "solid",
            }
        )
    return traces


@dataclass(frozen=True, slots=True)
class _Mark:
    """One point of a line; a place of None interrupts it."""

    place: float | None
    figure: Figure
    symbol: str
    text: str


def _marks(folder: Folder, number: int, engine: str, path: tuple[str, str]) -> Iterator[_Mark]:
    symbol = SYMBOLS[number % len(SYMBOLS)]
    for load, place in _places(folder).items():
        points = folder.at(engine, load)
        if number_of(load) is None:
            yield _Mark(None, Figure(None), symbol, "")
        figure = figure_of(points, *path)
        hollow = "-open" if path[0] == "ttft_ms" and any(is_of_run(point) for point in points) else ""
        text = f"at {load_text(load)}: {amount(figure.value)}" if figure.value is not None else ""
        yield _Mark(place, figure, symbol + hollow, chart_label(text))


def _line(marks: list[_Mark], colour: str, dash: str) -> Json:
    trace: Json = {
        "type": "scatter",
        "mode": "lines+markers",
        "x": [mark.place for mark in marks],
        "y": [mark.figure.value for mark in marks],
        "line": {"color": colour, "width": 2, "dash": dash},
        "marker": {"color": colour, "size": 8, "line": {"color": colour, "width": 1.6},
                    "symbol": [mark.symbol for mark in marks]},
        "text": [mark.text for mark in marks],
        "connectgaps": False,
    }
    spread = [(mark.figure.value or 0.0, mark.figure.low or 0.0, mark.figure.high or 0.0) for mark in marks]
    if any(low != high for _, low, high in spread):
        trace["error_y"] = {
            "type": "data",
            "symmetric": False,
            "array": [high - value for value, _, high in spread],
            "arrayminus": [value - low for value, low, _ in spread],
            "thickness": 1,
        }
    return trace


def offered_tokens_per_s(folder: Folder, load: str) -> float | None:
    """Rate x mean output tokens of the schedule."""
    rate_rps = number_of(load)
    workload = next((point.workload for point in folder.points if point.load == load and point.workload), None)
    return rate_rps * workload.mean_output_tokens if rate_rps is not None and workload is not None else None


def _offered(folder: Folder) -> list[Json]:
    known = [(float(load), offered_tokens_per_s(folder, load)) for load in rates(folder)]
    told = [(rate_rps, tokens) for rate_rps, tokens in known if tokens is not None]
    if not told:
        return []
    line = {"color": "var(--muted)", "width": 1.2, "dash": "dash"}
    xs, ys = [0.0, *(rate_rps for rate_rps, _ in told)], [0.0, *(tokens for _, tokens in told)]
    hover = "%{y:.0f} tok/s offered"
    return [{"type": "scatter", "mode": "lines", "name": "offered", "x": xs, "y": ys, "line": line,
             "hovertemplate": hover}]  # fmt: skip


def _throughput_caption(folder: Folder) -> str:
    """Where each engine leaves the line of what is offered."""
    told = []
    for engine in folder.engines:
        for load in rates(folder):
            offered = offered_tokens_per_s(folder, load)
            value = figure_of(folder.at(engine, load), "rates", "output_tokens_per_s").value
            if offered is not None and value is not None and value < ON_THE_LINE_RATIO * offered:
                told.append(f"{engine} at {load_text(load)} ({amount(value)} of {amount(offered)} tok/s)")
                break
        else:
            told.append(f"{engine} at none of these rates")
    who = "an engine" if folder.local_engines or not folder.servers else "a server"
    line = f"Dashed: what is offered, rate x mean output tokens. While {who} keeps up it delivers just that."
    return f"{line} First more than 5 % below it: {'; '.join(told)}." if rates(folder) else ""


def _colour(number: int) -> str:
    return f"var(--engine-{number % ENGINE_COLOURS})"
