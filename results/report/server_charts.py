"""The server's side over time, beneath the client's: small pictures with one time axis."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from results.columns import int64
from results.metrics import Float64, events_of, failed, measured, tokens_by_event, ttft_ns
from results.recording import Recording
from results.report.charts import Chart
from results.report.figures import withheld_code
from results.report.flight import in_flight
from results.report.folder import Folder, Point, recording_of
from results.report.load_words import load_text
from results.report.pictures import chosen_load
from results.report.scrapes import table_of
from results.report.server_answer import advice_of
from results.server.panels import Panel, panels

Json = dict[str, Any]
CLIENT, SERVER, WAITING, FAILED = "var(--engine-2)", "var(--engine-1)", "var(--engine-4)", "var(--bad)"
NS_PER_S, NS_PER_MS = 1e9, 1e6
MOST_BINS = 60
BINS_S = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 60.0, 120.0, 300.0)
MOST_DOTS = 2_000
GAP_SHARE = 0.3
"""Of a picture's height, between it and the next: room for the title."""
MOST_PLACES = 6
EDGE_SHARE = 0.015
RUNNING = "running_max"
"""The figure of the server's summary whose advice says why nothing was told."""


@dataclass(frozen=True, slots=True)
class Strip:
    """One of the small pictures."""

    title: str
    traces: tuple[Json, ...]
    axis: Json


def server_charts(folder: Folder) -> tuple[Chart, ...]:
    """Of every server at the telling load and at the busiest one, up to six."""
    loads = dict.fromkeys([chosen_load(folder), *folder.loads[-1:]])
    found = [points[0] for load in loads for engine in folder.servers if (points := folder.at(engine, load))]
    return tuple(_chart(number, point) for number, point in enumerate(found[:MOST_PLACES]))


def scrapes_of(point: Point) -> tuple[dict[str, Panel], str]:
    """What the server told over time; why there is none, where there is none."""
    try:
        table = table_of(point.folder)
        return (panels(table) if table is not None else {}), ""
    except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
        return {}, f"server.parquet cannot be read: {type(error).__name__}"


def _chart(number: int, point: Point) -> Chart:
    recording = recording_of(point)
    told, fault = scrapes_of(point)
    strips = tuple(_strips(point, recording, told))
    blind = f"The server's side is not observable: {fault or advice_of((point,), RUNNING)}." if not told else ""
    return Chart(
        f"server-{number}",
        f"{point.engine} at {load_text(point.load)}",
        blind or "Blue: what the client saw. Orange: what the server told, at each scrape.",
        tuple(trace for at, strip in enumerate(strips) for trace in _on(strip, at)),
        _layout(strips),
        rows=len(strips),
    )


def _strips(point: Point, recording: Recording, told: dict[str, Panel]) -> Iterable[Strip]:
    """The client's own are always there."""
    flight = in_flight(recording)
    running, waiting = told.get("running_requests"), told.get("waiting_requests")
    seen = [_line("client: in flight", flight.t_s, flight.requests, CLIENT, "%{y} due and not ended", legend=True)]
    seen += [_scraped("server: running", running, SERVER, "%{y} running", legend=True)] if running else []
    seen += [_scraped("server: waiting", waiting, WAITING, "%{y} waiting", legend=True)] if waiting else []
    yield Strip("Requests", tuple(seen), {"rangemode": "tozero"})
    if not withheld_code(point, "ttft_ms"):
        yield Strip("TTFT of each request, ms (by when it was due)", _dots(recording), {"type": "log", "dtick": 1})
    tokens = [_tokens_per_s(recording)]
    if (rate := told.get("output_tokens_per_s")) is not None:
        tokens.append(_scraped("server: tokens/s", rate, SERVER, "%{y:.0f} tokens/s told"))
    yield Strip("Output tokens/s", tuple(tokens), {"rangemode": "tozero"})
    for name in ("kv_used_fraction", "preempted_requests", "queue_time_ms"):
        if (panel := told.get(name)) is not None:
            axis = {"range": [0, 1], "tickformat": ".0%"} if name == "kv_used_fraction" else {"rangemode": "tozero"}
            unit = "" if name == "kv_used_fraction" else f", {panel.unit}"
            trace = _scraped(panel.title, panel, SERVER, "%{y}" + unit.replace(",", ""))
            yield Strip(panel.title + unit, (trace,), axis)


def _line(name: str, x: Any, y: Any, colour: str, hover: str, legend: bool = False, shape: str = "hv") -> Json:
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "x": list(x),
        "y": list(y),
        "line": {"color": colour, "width": 1.6, "shape": shape},
        "hovertemplate": "%{x:.2f} s: " + hover,
        "showlegend": legend,
    }


def _scraped(name: str, panel: Panel, colour: str, hover: str, legend: bool = False) -> Json:
    """Each scrape is a mark; what no round told interrupts the line."""
    rate = panel.name == "output_tokens_per_s"
    line = _line(name, (panel.t_ns / NS_PER_S).round(3).tolist(), _known(panel.value), colour, hover, legend,
                 "vh" if rate else "linear")  # fmt: skip
    return {**line, "mode": "lines+markers", "marker": {"color": colour, "size": 4}, "connectgaps": False}


def _tokens_per_s(recording: Recording) -> Json:
    """Delivered tokens of each stretch of time, at its end, as the server's rate is."""
    events = events_of(recording)
    end_s = float(events.t_ns.max()) / NS_PER_S if len(events.t_ns) else 1.0
    width_s = next((one for one in BINS_S if end_s / one <= MOST_BINS), BINS_S[-1])
    count = int(end_s // width_s) + 1
    place = np.clip((events.t_ns / NS_PER_S // width_s).astype(np.int64), 0, count - 1)
    sums = np.bincount(place, weights=tokens_by_event(recording, events).astype(np.float64), minlength=count)
    x = (np.arange(count + 1) * width_s).round(3).tolist()
    rate = (sums / width_s).round(3).tolist()
    return _line("client: tokens/s", x, [rate[0], *rate], CLIENT, "%{y:.0f} tokens/s seen", shape="vh")


def _dots(recording: Recording) -> tuple[Json, ...]:
    """One mark a request, of many an even choice; failures as crosses at the foot."""
    due = int64(recording.requests["due_ns"])
    ttft = ttft_ns(recording, events_of(recording)) / NS_PER_MS
    rows = np.flatnonzero(measured(recording))
    rows = rows[:: max(1, -(-len(rows) // MOST_DOTS))]
    good = rows[np.isfinite(ttft[rows]) & (ttft[rows] > 0)]
    lost = rows[failed(recording)[rows]]
    foot = float(ttft[good].min()) if len(good) else 1.0
    dots = {"type": "scatter", "mode": "markers", "showlegend": False}
    seen = {
        **dots,
        "name": "TTFT",
        "x": (due[good] / NS_PER_S).round(3).tolist(),
        "y": ttft[good].round(3).tolist(),
        "marker": {"color": CLIENT, "size": 4, "opacity": 0.65},
        "hovertemplate": "due at %{x:.2f} s: %{y:.1f} ms",
    }
    crosses = {
        **dots,
        "name": "failed",
        "x": (due[lost] / NS_PER_S).round(3).tolist(),
        "y": [foot] * len(lost),
        "marker": {"color": FAILED, "size": 8, "symbol": "x-thin", "line": {"color": FAILED, "width": 1.6}},
        "hovertemplate": "due at %{x:.2f} s: failed",
        "showlegend": bool(len(lost)),
    }
    return (seen, crosses) if len(lost) else (seen,)


def _known(values: Float64) -> list[float | None]:
    return [None if np.isnan(value) else round(float(value), 6) for value in values]


def _on(strip: Strip, at: int) -> tuple[Json, ...]:
    return tuple({**trace, "xaxis": "x", "yaxis": _axis("y", at)} for trace in strip.traces)


def _axis(name: str, at: int) -> str:
    return name if at == 0 else f"{name}{at + 1}"


def _layout(strips: tuple[Strip, ...]) -> Json:
    """Strips from the top down; the one time axis stands beneath the last."""
    share = 1 / len(strips)
    layout: Json = {"annotations": [], "hovermode": "closest"}
    for at, strip in enumerate(strips):
        top = 1 - at * share - share * GAP_SHARE * 0.6
        domain = [round(1 - (at + 1) * share, 4), round(top, 4)]
        layout[f"yaxis{at + 1 if at else ''}"] = {**strip.axis, "domain": domain, "nticks": 4}
        layout["annotations"].append(_title(strip.title, domain[1]))
    layout["xaxis"] = {"title": {"text": "time, s"}, "anchor": _axis("y", len(strips) - 1), "range": _times(strips)}
    return layout


def _times(strips: tuple[Strip, ...]) -> list[float]:
    """From time 0 to the last that is drawn: scrapes of the warm-up stand to the left of it."""
    last_s = max((float(x) for strip in strips for trace in strip.traces for x in trace["x"]), default=1.0)
    return [round(-EDGE_SHARE * last_s, 3), round((1 + EDGE_SHARE) * last_s, 3)]


def _title(text: str, height_share: float) -> Json:
    """Above its strip, at the left."""
    place = {"x": 0, "xref": "paper", "xanchor": "left", "y": height_share, "yref": "paper", "yanchor": "bottom"}
    return {"text": f"<b>{text}</b>", "showarrow": False, "font": {"size": 11.5}, **place}
