"""A server's own steps on the page: where its slot time went, by the accounting of an engine in this process."""

from results.report.answer import STATES
from results.report.figures import figure_of, fraction
from results.report.folder import Folder, Point
from results.report.load_words import short_load
from results.report.servers import Json, told_by_server
from results.report.table import Cell, Heading, Row, Table, figure_cell
from results.server.step_figures import BY_STEP
from results.window import WHOLE_RUN

OWN = "own_steps"
FRACTIONS = ("wasted_slot_fraction", "unused_slot_fraction", "padding_fraction")
CAPTION = (
    "The server told each of its steps, and these are the same figures as of an engine in this process, computed from "
    "them (see the definitions below). On the right, slot_time_share: the six add up to 1."
)
IN_WINDOW = " Of the steps in the measured window; fill and cool-down are left out."
BY_NUMBER = "all steps since time 0, by their numbers: its clock is not this one"


def own_steps_of(point: Point) -> Json:
    """What its steps come to; empty where the server told none."""
    found = told_by_server(point.info).get(OWN)
    return found if isinstance(found, dict) else {}


def tells_steps(folder: Folder) -> bool:
    """Whether any server did."""
    return any(own_steps_of(point) for point in folder.points)


def own_shares_of(points: tuple[Point, ...]) -> tuple[tuple[str, float], ...]:
    """The six slot states' share of the time, the mean over the repeats; empty where they are not told."""
    told = [shares for point in points if (shares := _shares(own_steps_of(point)))]
    return tuple((state, sum(shares[state] for shares in told) / len(told)) for state in STATES) if told else ()


def own_step_table(folder: Folder) -> Table | None:
    """One row a server and load; None where no server told its steps."""
    rows = []
    for load in folder.loads:
        found = ((engine, folder.at(engine, load)) for engine in folder.servers)
        told = [(engine, points) for engine, points in found if any(map(own_steps_of, points))]
        for at, (engine, points) in enumerate(told):
            rows.append(Row(Cell(f"{engine} @ {short_load(load)}", _note(points)), _cells(points), at == 0))
    if not rows:
        return None
    spans = {own_steps_of(point).get("span", WHOLE_RUN) for point in folder.points}
    groups = (("", 1), ("Fractions", len(FRACTIONS)), ("slot_time_share", len(STATES)))
    states = (Heading(state.replace("_", " ")) for state in STATES)
    headings = (Heading("Server"), *map(Heading, FRACTIONS), *states)
    return Table(CAPTION + (IN_WINDOW if spans - {WHOLE_RUN} else ""), groups, headings, tuple(rows), "scorecard")


def own_step_advice(folder: Folder) -> tuple[str, ...]:
    """Why figures of the steps are withheld, each reason once."""
    found: dict[str, None] = {}
    for point in folder.points:
        advice = own_steps_of(point).get("advice")
        why = advice.get(FRACTIONS[0]) if isinstance(advice, dict) else None
        found.update({f"Withheld, for they need every step: {why}.": None} if why else {})
    return tuple(found)


def _cells(points: tuple[Point, ...]) -> tuple[Cell, ...]:
    figures = (
        figure_cell(figure_of(points, "server", OWN, name), "fraction", f"server.{OWN}.{name}") for name in FRACTIONS
    )
    shares = [Cell(fraction(share), "", "number", repr(share), f"server.{OWN}.{state}")
              for state, share in own_shares_of(points)]  # fmt: skip
    return (*figures, *(shares or [Cell("not told", kind="missing")] * len(STATES)))


def _note(points: tuple[Point, ...]) -> str:
    """How many steps, and which they are where that needs saying."""
    told = [own_steps_of(point) for point in points if own_steps_of(point)]
    steps = sum(one["steps"] for one in told if isinstance(one.get("steps"), int))
    by_number = any(one.get("chosen_by") == BY_STEP for one in told)
    return f"{steps:,} steps" + (f"; {BY_NUMBER}" if by_number else "")


def _shares(own: Json) -> dict[str, float]:
    """All six, or none: a file can hold anything."""
    told = own.get("slot_time_share")
    shares: Json = told if isinstance(told, dict) else {}
    found = {state: shares.get(state) for state in STATES}
    good = all(isinstance(one, int | float) and 0 <= one <= 1 for one in found.values())
    return {state: float(shares[state]) for state in found} if good else {}
