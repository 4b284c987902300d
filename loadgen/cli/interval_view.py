"""What repeats say in the terminal: each headline figure with its interval, and what one run alone can tell."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from loadgen.cli.scorecard import WIDTH, cell
from loadgen.sweep import Sweep
from results.figures import FIGURES, HEADLINE
from results.intervals import LEAST_RUNS

PERCENT = 100
Json = dict[str, Any]


def read_intervals(sweep: Sweep) -> list[Json]:
    """As they stand in sweep.json; none of a sweep that was stopped."""
    found: list[Json] = json.loads((sweep.folder / "sweep.json").read_text()).get("intervals", [])
    return found


def print_intervals(intervals: Sequence[Mapping[str, Any]]) -> None:
    """One row an engine and load: mean over the runs, 95 % interval, variation. Nothing of a single repeat."""
    repeated = [one for one in intervals if one["runs"] >= LEAST_RUNS]
    if not repeated:
        return
    console = Console(width=max(WIDTH, Console().width), highlight=False)
    title = f"Mean over {repeated[0]['runs']} independent runs of this length, ± half of its 95 % interval"
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    for name in ("engine", "load"):
        table.add_column(name, no_wrap=True)
    for name in (*HEADLINE, "largest run CV"):
        table.add_column(FIGURES[name].title if name in FIGURES else name, justify="right")
    for one in repeated:
        cells = [Text(interval_text(one["figures"][name])) for name in HEADLINE]
        cv = one["run_cv_ratio"]
        table.add_row(Text(one["engine"]), Text(one["load"]), *cells, "-" if cv is None else f"{PERCENT * cv:.1f} %")
    console.print(table)


def interval_text(figure: Mapping[str, Any]) -> str:
    """`12.3 ± 0.5`, or why there is none."""
    if figure["value"] is None:
        return f"- ({figure['reasons']['value']})"
    bounds = "" if figure["high"] is None else f" ± {cell(figure['high'] - figure['value'])}"
    return f"{cell(figure['value'])}{bounds}"
