"""The first screen: which engine carries which rate within the SLO, and where its slots went."""

from results.report.figures import Figure, amount, figure_of, percent
from results.report.folder import Folder, Point
from results.report.grid import (
    ATTAINMENT_SHARE,
    INVALID,
    MISSING,
    NO,
    OPEN,
    YES,
    Carried,
    busiest_load,
    carried,
    carried_up_to,
    rates,
    role,
    telling_rate,
)
from results.report.load_words import BURST, CLOSED, load_text, short_load
from results.report.plain import joined
from results.report.server_answer import Column, server_columns, server_sentences
from results.report.table import Cell, Heading, Row, Table, figure_cell
from results.slots import SLOT_STATES

MARKS = {YES: "✓", NO: "✗", OPEN: "?", INVALID: "!", MISSING: "–"}
KINDS = {YES: "good", NO: "bad", OPEN: "open", INVALID: "bad", MISSING: "missing"}
VERBS = {
    YES: ("carries it", "carry it"),
    OPEN: ("attains it, stability not judged", "attain it, stability not judged"),
    NO: ("does not", "do not"),
    INVALID: ("is INVALID there and says nothing", "are INVALID there and say nothing"),
    MISSING: ("was not recorded to its end", "were not recorded to their end"),
}
WORTH_SAYING_SHARE = 0.01
STATES = tuple(name.removesuffix("_slots") for name in SLOT_STATES)


def sentences(folder: Folder) -> tuple[str, ...]:
    """The answers in words."""
    found = (_who_carries(folder), *_throughputs(folder), *_slots_went(folder), *server_sentences(folder))
    return tuple(text for text in found if text)


def answer_table(folder: Folder) -> Table:
    """One row an engine or server."""
    busiest = busiest_load(folder) or ""
    shown = judged_loads(folder)
    where = "in burst" if busiest == BURST else f"at {load_text(busiest)}"
    local = bool(folder.local_engines) or not folder.servers
    of_kind = _columns(where) if local else server_columns(where.replace(" in a closed loop", ", closed"))
    headings = (
        Heading("Engine" if local else "Server"),
        *((Heading("Carries up to"),) if rates(folder) else ()),
        *(Heading(f"at {short_load(load)}", "attainment") for load in shown),
        *(heading for heading, _ in of_kind),
    )
    rows = tuple(_row(folder, engine, shown, busiest, of_kind) for engine in folder.engines)
    return Table(_caption(folder), (), headings, rows, "answer" if local else "answer servers")


def judged_loads(folder: Folder) -> tuple[str, ...]:
    """The rates; and of servers the closed loops too, whose attainment says nothing about a rate."""
    return tuple(load for load in folder.loads if load in rates(folder) or (folder.servers and load.startswith(CLOSED)))


def _caption(folder: Folder) -> str:
    if not folder.slo:
        return "No SLO was asked for: nobody can say which rate is carried."
    text = (
        f"✓: at least {percent(ATTAINMENT_SHARE)} of the scheduled requests meet {folder.slo}, the run is valid and "
        f"the queue does not grow. ?: it attains that, and stability was not judged. ✗: it does not carry the rate. "
        f"!: the run is INVALID and says nothing."
    )
    closed = folder.servers and any(load.startswith(CLOSED) for load in folder.loads)
    return text + (" ○: a closed loop, which offers no rate." if closed else "")


def _columns(where: str) -> tuple[Column, ...]:
    """Of engines that tell their steps."""
    return (
        (Heading("Output tok/s", where), _output),
        (Heading("wasted_slot_fraction", where), _wasted),
        (Heading("Where the slot time went", where), _slot_time),
    )


def _output(points: tuple[Point, ...]) -> Cell:
    return figure_cell(figure_of(points, "rates", "output_tokens_per_s"), "amount", "rates.output_tokens_per_s")


def _wasted(points: tuple[Point, ...]) -> Cell:
    return figure_cell(figure_of(points, "slots", "wasted_slot_fraction"), "fraction", "slots.wasted_slot_fraction")


def _slot_time(points: tuple[Point, ...]) -> Cell:
    shares = shares_of(points)
    return Cell("", shares=shares) if shares else Cell("not told" if points else "missing", kind="missing")


def shares_of(points: tuple[Point, ...]) -> tuple[tuple[str, float], ...]:
    """The six slot states' share of the time, the mean over the repeats; empty when no engine tells."""
    found = [((one.summary or {}).get("slots") or {}).get("slot_time_share") for one in points]
    told = [shares for shares in found if isinstance(shares, dict)]
    return tuple((state, sum(shares[state] for shares in told) / len(told)) for state in STATES) if told else ()


def _row(folder: Folder, engine: str, shown: tuple[str, ...], busiest: str, of_kind: tuple[Column, ...]) -> Row:
    cells = (
        *((_up_to(folder, engine),) if rates(folder) else ()),
        *(_attainment(carried(folder.of(engine, load)), load.startswith(CLOSED)) for load in shown),
        *(cell(folder.at(engine, busiest)) for _, cell in of_kind),
    )
    return Row(Cell(engine), cells)


def _up_to(folder: Folder, engine: str) -> Cell:
    stable, maybe = carried_up_to(folder, engine, (YES,)), carried_up_to(folder, engine, (YES, OPEN))
    if stable is None:
        refused = any(carried(folder.of(engine, load)).answer == NO for load in rates(folder))
        unknown = Cell("none", "", "bad") if refused else Cell("not known", kind="missing")
        return unknown if maybe is None else Cell(f"? {load_text(maybe)}", "not judged", "open")
    note = f"attains up to {load_text(maybe)}" if maybe and maybe != stable else ""
    if stable == rates(folder)[-1]:
        note = "the highest that was tried"
    return Cell(f"✓ {load_text(stable)}", note, "good")


def _attainment(found: Carried, closed: bool) -> Cell:
    share = found.attainment_share
    if closed and share is not None and found.answer not in (INVALID, MISSING):
        return Cell(f"○ {percent(share)}", "closed loop", "open", repr(share), "slo.attainment")
    text = f"{MARKS[found.answer]} {percent(share)}" if share is not None else found.why
    raw = repr(share) if share is not None else ""
    return Cell(text, "" if share is None else found.why, KINDS[found.answer], raw, "slo.attainment")


def _who_carries(folder: Folder) -> str:
    load = telling_rate(folder)
    if load is None or not folder.slo:
        return ""
    found = {engine: carried(folder.of(engine, load)) for engine in folder.engines}
    parts = []
    for answer, (one_does, all_do) in VERBS.items():
        names = [_with_share(engine, one) for engine, one in found.items() if one.answer == answer]
        if names:
            parts.append(f"{joined(names)} {one_does if len(names) == 1 else all_do}")
    text = "; ".join(parts)
    return f"At {load_text(load)} within {folder.slo} (attainment ≥ {percent(ATTAINMENT_SHARE)}): {text}."


def _with_share(engine: str, found: Carried) -> str:
    return f"{engine} ({percent(found.attainment_share)})" if found.attainment_share is not None else engine


def _throughputs(folder: Folder) -> tuple[str, ...]:
    """Ratios of output tokens/s in burst, in words."""
    if BURST not in folder.loads or not folder.local_engines:
        return ()
    figures = {
        name: figure_of(folder.at(engine, BURST), "rates", "output_tokens_per_s")
        for name in ("one", "static", "continuous")
        if (engine := role(folder, name)) is not None
    }
    words = {"one": "one-by-one serving", "static": "static batching", "continuous": "continuous batching"}
    parts = []
    for better, worse in (("static", "one"), ("continuous", "static")):
        ratio = _ratio(figures.get(better), figures.get(worse))
        if ratio is not None:
            parts.append(f"{words[better]} makes {amount(ratio)} times the output tokens/s of {words[worse]}")
    return (f"In burst, {', and '.join(parts)}.",) if parts else ()


def _ratio(over: Figure | None, under: Figure | None) -> float | None:
    if over is None or under is None or over.value is None or not under.value:
        return None
    return over.value / under.value


def _slots_went(folder: Folder) -> tuple[str, ...]:
    """What is computed for nobody, and who waits behind others' prefill."""
    load = busiest_load(folder)
    parts = [text for engine in folder.engines if load is not None and (text := _losses(folder, engine, load))]
    where = "In burst" if load == BURST else f"At {load_text(load)}" if load else ""
    return (f"{where}, {'; '.join(parts)}.",) if parts else ()


def _losses(folder: Folder, engine: str, load: str) -> str:
    points = folder.at(engine, load)
    wasted = figure_of(points, "slots", "wasted_slot_fraction").value
    stalled = dict(shares_of(points)).get("stalled", 0.0)
    told = [
        f"{percent(wasted)} of its computed slot-steps on finished requests" if wasted else "",
        f"{percent(stalled)} of its slot time stalled behind others' prefill" if stalled >= WORTH_SAYING_SHARE else "",
    ]
    return f"{engine} spends {joined([text for text in told if text])}" if any(told) else ""
