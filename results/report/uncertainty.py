"""How far the figures may be off: intervals over independent runs, or what one run alone can tell; and by window."""

from collections.abc import Callable
from typing import Any

from results.figures import FIGURES, HEADLINE, PER_S
from results.headline import runs_label
from results.intervals import LEAST_RUNS, over_runs
from results.report.figures import amount, figure_of, percent, reason_text, withheld_code
from results.report.folder import Folder, Point
from results.report.load_words import short_load
from results.report.table import Cell, Heading, Row, Table

Json = dict[str, Any]
OF_ONE = ("ttft_p50", "ttft_p99", "tpot_p50", "e2e_p99", "attainment")
WINDOW_COLUMNS = (
    ("offered_rps", Heading("Offered", "req/s"), amount),
    ("ttft_p50_ms", Heading("TTFT p50", "ms"), amount),
    ("ttft_p99_ms", Heading("TTFT p99", "ms"), amount),
    ("in_flight", Heading("In flight", "mean"), amount),
    ("attainment", Heading("Attainment"), percent),
)


def uncertainty_table(folder: Folder) -> Table | None:
    """Mean ± half of a 95 % interval over the repeats; of fewer than three, bounds that are too narrow, in grey."""
    runs = len(folder.repeats)
    repeated = runs >= LEAST_RUNS
    names = HEADLINE if repeated else OF_ONE
    rows = tuple(
        Row(
            Cell(f"{engine} @ {short_load(load)}"),
            tuple(_over_runs(points, name) if repeated else _in_run(points[0], name) for name in names),
        )
        for load in folder.loads
        for engine in folder.engines
        if (points := folder.at(engine, load))
    )
    if not rows or not any(cell.kind != "missing" for row in rows for cell in row.cells):
        return None
    told = (
        f"Mean over {runs} independent runs of this length ± half of its 95 % interval: {runs_label(runs)}."
        if repeated
        else "From one run each (its first repeat): a lower bound of the uncertainty, by ten sections of it. Requests "
        "in a queue tell the same as their neighbours, so the true interval is wider: --repeats 5."
    )
    headings = (Heading("Configuration"), *(Heading(FIGURES[name].title, _unit(name)) for name in names))
    return Table(told, (), headings, rows, "uncertainty" if repeated else "uncertainty lower-bound")


def window_table(folder: Folder) -> Table | None:
    """Of a run whose load changes by design, window by window; None for all others."""
    point = folder.points[0] if folder.kind == "run" else None
    windows = (point.summary or {}).get("windows", {}) if point is not None else {}
    if point is None or not windows.get("rows"):
        return None
    hidden = withheld_code(point, "ttft_ms")
    rows = tuple(
        Row(
            Cell(f"{one['begin_ns'] / 1e9:.4g}–{one['end_ns'] / 1e9:.4g} s"),
            tuple(_window_cell(one, name, write, hidden) for name, _, write in WINDOW_COLUMNS),
        )
        for one in windows["rows"]
    )
    over = windows.get("over_slo_s")
    lasting = (
        ""
        if over is None
        else (
            f" Over the SLO (fewer than 99 % of the requests due) for {over:.3g} s, at most "
            f"{windows['longest_over_slo_s']:.3g} s on end, to the width of a window."
        )
    )
    headings = (Heading("Window"), *(heading for _, heading, _ in WINDOW_COLUMNS))
    caption = f"The load changes by design: pooled figures are of this window of this schedule.{lasting}"
    return Table(caption, (), headings, rows, "windows")


def _over_runs(points: tuple[Point, ...], name: str) -> Cell:
    path = FIGURES[name].path
    whole = figure_of(points, *path)
    if whole.value is None or whole.of_run:
        return Cell(reason_text(whole.reason) if whole.value is None else "grows with the run", kind="missing")
    found = over_runs([figure_of((point,), *path).value for point in points])
    if found.value is None or found.high is None:
        return Cell(reason_text(found.reason or ""), kind="missing")
    half = found.high - found.value
    return Cell(f"{amount(found.value)} ± {amount(half)}", "", "number", repr(found.value), f"interval.{name}")


def _in_run(point: Point, name: str) -> Cell:
    whole = figure_of((point,), *FIGURES[name].path)
    if whole.value is None or whole.of_run:
        return Cell(reason_text(whole.reason) if whole.value is None else "grows with the run", kind="missing")
    bounds = (point.summary or {}).get("in_run", {}).get(name, {})
    low, high = bounds.get("low"), bounds.get("high")
    if low is None or high is None:
        return Cell(reason_text(str(bounds.get("reasons", {}).get("low", "NO_VALUES"))), kind="missing")
    write = percent if name == "attainment" else amount
    return Cell(f"{write(low)}–{write(high)}", "", "number open", "", f"in_run.{name}")


def _window_cell(row: Json, name: str, write: Callable[[float], str], hidden: str) -> Cell:
    """`hidden`: the code under which no TTFT stands anywhere."""
    value, code = row.get(name), hidden if name.startswith("ttft") else ""
    if value is None or code:
        return Cell(reason_text(code or str(row.get("reasons", {}).get(name))), kind="missing")
    return Cell(write(value), "", "number", repr(value), f"windows.{name}")


def _unit(name: str) -> str:
    return "req/s" if FIGURES[name].unit == PER_S else FIGURES[name].unit
