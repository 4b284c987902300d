"""Which stretches of which runs are drawn: the slots of static and continuous batching, and who is in flight."""

from dataclasses import dataclass

from results.recording import Recording
from results.report.charts import Chart, flight_chart
from results.report.figures import figure_of, fraction
from results.report.flight import in_flight
from results.report.folder import Folder, Point, recording_of
from results.report.grid import rates, role, saturating_rate
from results.report.load_words import load_text
from results.report.slot_picture import slot_picture, step_at
from results.report.slot_svg import Drawing, counts_text, draw

STEPS = 120


@dataclass(frozen=True, slots=True)
class Missing:
    """Why a picture is not there."""

    title: str
    why: str


def slot_drawings(folder: Folder) -> tuple[Drawing | Missing, ...]:
    """Static and continuous batching from the same moment of the same schedule; of a single run, itself."""
    load = chosen_load(folder)
    points = [found[0] for engine in drawn_engines(folder) if (found := folder.at(engine, load))]
    if not points:
        return ()
    recordings = [recording_of(point) for point in points]
    moment_ns = _middle_ns(points[0])
    pairs = zip(points, recordings, strict=True)
    return tuple(_drawing(point, recording, moment_ns) for point, recording in pairs)


def drawn_engines(folder: Folder) -> tuple[str, ...]:
    """Static and continuous; without them, the first two engines."""
    known = [engine for name in ("static", "continuous") if (engine := role(folder, name)) is not None]
    return tuple(known) or folder.local_engines[:2]


def chosen_load(folder: Folder) -> str:
    """The rate nearest to what static batching (or the first engine) can do; without rates, the last load."""
    engine = role(folder, "static") or (folder.engines[0] if folder.engines else "")
    return saturating_rate(folder, engine) or (folder.loads[-1] if folder.loads else "")


def flight_charts(folder: Folder) -> tuple[Chart, ...]:
    """All engines at the next lower rate, at the chosen load, and at the last one."""
    known, load = rates(folder), chosen_load(folder)
    lower = [one for one in known if load in known and float(one) < float(load)]
    charts = []
    for number, one in enumerate(dict.fromkeys([*lower[-1:], load, *folder.loads[-1:]])):
        found = [(place, engine, folder.at(engine, one)) for place, engine in enumerate(folder.engines)]
        flights = [(place, engine, in_flight(recording_of(points[0]))) for place, engine, points in found if points]
        if flights:
            charts.append(flight_chart(number, one, flights))
    return tuple(charts)


def _drawing(point: Point, recording: Recording, moment_ns: int) -> Drawing | Missing:
    title = f"{point.engine} at {load_text(point.load)}"
    told = point.info.get("engine")
    slots = told.get("slots") if isinstance(told, dict) else None
    if not isinstance(slots, int) or slots < 1:
        return Missing(title, "the engine does not tell how many slots it has")
    if not len(recording.steps["step"]):
        return Missing(title, "no step was recorded")
    try:
        picture = slot_picture(recording, slots, step_at(recording, moment_ns), STEPS)
    except ValueError as error:
        return Missing(title, str(error))
    wasted = figure_of([point], "slots", "wasted_slot_fraction").value
    whole = f" Of the whole run: {fraction(wasted)}." if wasted is not None else ""
    return Drawing(title, draw(picture), counts_text(picture) + whole)


def _middle_ns(point: Point) -> int:
    """Half of the window, where the engine is neither filling nor draining."""
    window = (point.summary or {}).get("window_ns") or [0, 0]
    return int(window[0] + window[1]) // 2
