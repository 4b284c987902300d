"""What a search for a capacity shows in the terminal."""

from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from loadgen.capacity import Search
from loadgen.cli.exit_codes import Exit
from loadgen.cli.scorecard import WIDTH, cell, plain

PERCENT = 100.0
Json = Mapping[str, Any]


def plan_line(search: Search) -> str:
    """What will be searched."""
    effort, config = search.effort, search.config
    subject = config.target or config.engine
    return plain(
        f"{subject}: {len(effort.seeds)} seed(s) of {effort.requests} requests, from {search.start_rps:.4g}/s, "
        f"{PERCENT * search.chosen.attainment_fraction:g} % within {config.slo}; folder {search.folder}"
    )


def exit_of(document: Json) -> Exit:
    """INVALID before INCONCLUSIVE."""
    if document.get("worthless"):
        return Exit.INVALID
    sure = document.get("confirmation")
    found = document["capacity"] is not None and (sure is None or sure["passed"])
    return Exit.OK if found else Exit.INCONCLUSIVE


def print_capacity(document: Json) -> None:
    """Every rate of the first seed and the answer."""
    console = Console(width=WIDTH, highlight=False)
    table = Table(title="Rates that were tried", title_justify="left", box=None, pad_edge=False)
    for title in ("req/s", "seed", "n", "", "what was seen"):
        table.add_column(title, justify="right" if title in ("req/s", "seed", "n") else "left")
    for one in document["probes"]:
        row = (cell(one["rate_rps"]), str(one["seed"]), str(one["scheduled"]), "passed" if one["passed"] else "failed")
        table.add_row(*row, Text(plain(one["text"])))
    console.print(table)
    for line in answer_lines(document):
        console.print(Text(plain(line)))


def answer_lines(document: Json) -> Iterator[str]:
    """The capacity, what it rests on, and what speaks against it."""
    found = document["capacity"]
    if found is None:
        yield f"no capacity: {document['reason']}"
        return
    bounds = f" ({found['low']:.4g} to {found['high']:.4g}, 95 %)" if found["low"] is not None else ""
    seeds = ", ".join(f"{value:.4g}" for value in found["per_seed_rps"])
    sure = document["confirmation"]
    refuted = "" if sure is None or sure["passed"] else "NOT CONFIRMED, and so not to be relied on: "
    yield f"{refuted}capacity {found['value']:.4g} requests/s{bounds}; per seed {seeds}"
    yield str(document["label"])
    if sure is not None:
        word = "confirmed" if sure["passed"] else "NOT CONFIRMED"
        yield (
            f"{word} at {sure['rate_rps']:.4g}/s with seed {sure['seed']} and {sure['requests']} requests: "
            f"{sure.get('text', '')}{', which says nothing of the load' if sure.get('worthless') else ''}"
        )
    if document["unstable"]:
        yield f"UNSTABLE: the seeds' capacities vary by {PERCENT * document['run_cv']:.1f} %"
    for one in document["not_monotone"]:
        yield (
            f"not monotone: seed {one['seed']} failed at {one['failed_rps']:.4g}/s and passed at "
            f"{one['passed_rps']:.4g}/s, so there is more than one limit"
        )
    if document["worthless"]:
        yield f"INVALID: probes that say nothing of what was measured: {', '.join(document['worthless'])}"
