"""The first screen of servers: latency and slots at the busiest load, and what must be known to believe them."""

from collections.abc import Callable

from results.report.figures import figure_of, fraction, percent
from results.report.folder import Folder, Point
from results.report.grid import busiest_load
from results.report.load_words import BURST, CLOSED, load_text
from results.report.plain import joined
from results.report.servers import calibration_of, told_by_server
from results.report.table import Cell, Heading, figure_cell
from results.store import INCOMPLETE

Column = tuple[Heading, Callable[[tuple[Point, ...]], Cell]]
NOT_OBSERVABLE = "not observable"
ASK = "pass --metrics-url URL (and --slots N where the server does not tell them)"


def server_columns(where: str) -> tuple[Column, ...]:
    """In the answer table, of servers."""
    return (
        (Heading("Output tok/s", where), _figure("amount", "rates", "output_tokens_per_s")),
        (Heading("TTFT p50", f"ms, {where}"), _figure("amount", "ttft_ms", "p50")),
        (Heading("TTFT p99", f"ms, {where}"), _figure("amount", "ttft_ms", "p99")),
        (Heading("TPOT p50", f"ms, {where}"), _figure("amount", "tpot_ms", "p50")),
        (Heading("unused_slot_fraction", where), unused_cell),
    )


def unused_cell(points: tuple[Point, ...]) -> Cell:
    """Of the server's slots, or what to pass."""
    return observed_cell(points, "unused_slot_fraction", "fraction")


def observed_cell(points: tuple[Point, ...], name: str, spelling: str) -> Cell:
    """A figure that the server told, or why it did not."""
    figure = figure_of(points, "server", name)
    if figure.value is None and points:
        return Cell(NOT_OBSERVABLE, advice_of(points, name), "missing", metric=f"server.{name}")
    return figure_cell(figure, spelling, f"server.{name}")


def advice_of(points: tuple[Point, ...], name: str) -> str:
    """Why a figure of the server's side is missing, and what to pass."""
    for point in points:
        told = told_by_server(point.info)
        advice = told.get("advice")
        line = advice.get(name) if isinstance(advice, dict) else None
        if line or not told:
            return str(line or ASK)
    return ASK


def server_sentences(folder: Folder) -> tuple[str, ...]:
    """What a reader of the first screen must know of a server's figures."""
    if not folder.servers:
        return ()
    points = tuple(point for point in folder.points if point.remote and point.summary is not None)
    return (_closed(folder), _capped(folder), _slots(folder), _chunked(points), _uncalibrated(points))


def _closed(folder: Folder) -> str:
    users = [load.removeprefix(CLOSED) for load in folder.loads if load.startswith(CLOSED)]
    if not users:
        return ""
    return (
        f"In a closed loop ({joined(users)} user{'s' if users != ['1'] else ''}) each request is due when an earlier "
        "one has ended, so the load falls when the server slows down, and nobody can say which rate it carries. For a "
        "rate pass --rate R (a sweep: --rates)."
    )


def _capped(folder: Folder) -> str:
    capped = [engine for engine in folder.servers if "capped at" in engine]
    if not capped:
        return ""
    return (
        f"Capped schedule ({joined(capped)}): a request that is due waits for a free place, so this is no open loop. "
        "The wait counts into TTFT and E2E, which begin at the schedule; TTFT net begins at the hand-over."
    )


def _slots(folder: Folder) -> str:
    """What was left unused where the load was highest."""
    load = busiest_load(folder) or ""
    told = []
    for engine in folder.servers:
        value = figure_of(folder.at(engine, load), "server", "unused_slot_fraction").value
        told += [f"{engine} leaves {fraction(value)} of its slot-steps unused"] if value is not None else []
    where = "In burst" if load == BURST else f"At {load_text(load)}"
    return f"{where}, {'; '.join(told)}." if told else ""


def _chunked(points: tuple[Point, ...]) -> str:
    approximate = sum(_source(point).get("chunks", 0) for point in points)
    counted = sum(sum(_source(point).values()) for point in points)
    if not approximate:
        return ""
    share = percent(approximate / counted)
    return (
        f"Tokens are approximate: the server tells no usage for {share} of the answers, so chunks are counted. Pass "
        "--tokenizer FILE to count their text."
    )


def _source(point: Point) -> dict[str, int]:
    tokens = (point.summary or {}).get("tokens")
    found = tokens.get("source") if isinstance(tokens, dict) else None
    return found if isinstance(found, dict) else {}


def _uncalibrated(points: tuple[Point, ...]) -> str:
    without = [point for point in points if not calibration_of(point.info)]
    if not without:
        return ""
    where = "" if len(without) == len(points) else f" at {len(without)} of {len(points)} points"
    why = " and ".join(dict.fromkeys(why_uncalibrated(point) for point in without))
    return f"This client was not calibrated{where} ({why}): how much of each latency is its own is not known."


def why_uncalibrated(point: Point) -> str:
    """Why nobody knows the client's own error, with what to do."""
    if "no-calibrate" in (point.info.get("config") or {}):
        return "leave out --no-calibrate"
    if point.state == INCOMPLETE:
        return "the run did not come to its end"
    return "the calibration failed: see tokenload calibrate"


def _figure(spelling: str, group: str, name: str) -> Callable[[tuple[Point, ...]], Cell]:
    return lambda points: figure_cell(figure_of(points, group, name), spelling, f"{group}.{name}")
