"""What a reproduction shows in the terminal."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from loadgen.cli.exit_codes import Exit
from loadgen.cli.scorecard import WIDTH, plain
from results.comparison.wording import difference_lines
from results.equivalence import Likeness
from results.figures import shown

CODES = {Likeness.REPRODUCED: Exit.OK, Likeness.DIFFERS: Exit.DIFFERS, Likeness.INCONCLUSIVE: Exit.INCONCLUSIVE}
STYLES = {Likeness.REPRODUCED: "green", Likeness.DIFFERS: "bold red", Likeness.INCONCLUSIVE: "yellow"}
NO_NUMBER = "no number of new runs would: a single first run is too uncertain; measure both with --repeats and compare"
Json = Mapping[str, Any]


def exit_of(document: Json) -> Exit:
    """INVALID before the verdict."""
    return Exit.INVALID if document["invalid"] else CODES[Likeness(document["verdict"])]


def print_reproduction(document: Json) -> None:
    """The verdict first, then figure by figure, then in which conditions the runs differ. Of a sweep, run by run."""
    console = Console(width=WIDTH, highlight=False)
    if "points" in document:
        _print_points(console, document)
        return
    verdict = Likeness(document["verdict"])
    console.print(Text(plain(f"{verdict}: {document['why']}"), style=STYLES[verdict]))
    if verdict is Likeness.INCONCLUSIVE:
        needed = document["needed"]
        console.print(Text(f"about {needed} new runs in all would decide it" if needed else NO_NUMBER))
    for line in (*document["faults"], *(_invalid(one) for one in document["invalid"])):
        console.print(Text(plain(line), style=STYLES[Likeness.DIFFERS]))
    if document["outputs"] is not None:
        console.print(Text(plain(document["outputs"]["text"])))
    console.print(_table(document["figures"]))
    for line in difference_lines(document):
        console.print(Text(plain(line)), soft_wrap=True)


def _print_points(console: Console, document: Json) -> None:
    """The worst verdict, how many runs have which, and a line each; what stands behind it is in their folders."""
    verdict, points = Likeness(document["verdict"]), document["points"]
    counts = Counter(str(one["verdict"]) for one in points)
    told = ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))
    console.print(Text(f"{verdict}: of {len(points)} runs {told}", style=STYLES[verdict]))
    for line in (f"{one['point']}: {_invalid(one)}" for one in document["invalid"]):
        console.print(Text(plain(line), style=STYLES[Likeness.DIFFERS]))
    for one in points:
        style = STYLES[Likeness(one["verdict"])]
        needed = f"; about {one['needed']} new runs in all would decide it" if one["needed"] else ""
        more = needed if one["verdict"] == Likeness.INCONCLUSIVE else ""
        line = f"{one['original']}  {one['subject']}: {one['verdict']}, {one['why']}{more}"
        console.print(Text(plain(line), style=style), soft_wrap=True)
        for fault in one["faults"]:
            console.print(Text(plain(f"{one['original']}  {fault}"), style=STYLES[Likeness.DIFFERS]), soft_wrap=True)


def _table(figures: Json) -> Table:
    table = Table(box=None, pad_edge=False)
    for title in ("figure", "first", "again", "", "difference"):
        table.add_column(title, justify="right" if title in ("first", "again") else "left")
    for name, one in figures.items():
        known = [value for value in one["again"] if value is not None]
        mean = shown(name, sum(known) / len(known)) if known else "-"
        table.add_row(one["title"], shown(name, one["first"]), mean, one["likeness"] or "-", Text(plain(one["text"])))
    return table


def _invalid(one: Json) -> str:
    return f"INVALID: new run {one['run']}: {', '.join(one['codes'])}"
