"""`tokenload doctor`: whether a measurement on this machine could be believed."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from loadgen.cli.exit_codes import Exit
from loadgen.cli.options import one_line_errors

if TYPE_CHECKING:
    from loadgen.doctor import Finding

WIDTH = 110
STYLES = {"ok": "green", "warn": "yellow", "invalid": "bold red"}
CONCLUSIONS = {
    "ok": "A measurement on this machine can be believed.",
    "warn": "A measurement on this machine is valid, with the warnings above.",
    "invalid": "A measurement in real time on this machine would be INVALID.",
}


@click.command()
@click.option("--out", default="runs", metavar="DIR", help="folder for run folders  [runs]")
@click.option("--thresholds", "lines", is_flag=True, help="print where the verdict draws its lines, and stop")
@click.option("--json", "as_json", is_flag=True, help="one JSON document on stdout, no table")
@click.pass_context
def doctor(ctx: click.Context, /, out: str, lines: bool, as_json: bool) -> None:
    """Check machine, Python and disk before measuring, and say how to mend what is wrong.

    Exit code 0 also with warnings, 3 when a measurement in real time would be INVALID.
    """
    if lines:
        _print_thresholds(as_json)
        return
    with one_line_errors():
        from loadgen.doctor import examine, this_machine, verdict

        findings = examine(this_machine(Path(out)))
    level = verdict(findings)
    if as_json:
        click.echo(json.dumps({"verdict": level, "findings": [asdict(finding) for finding in findings]}))
    else:
        _print(findings, level)
    ctx.exit(Exit.INVALID if level == "invalid" else Exit.OK)


def _print_thresholds(as_json: bool) -> None:
    """Each line of the verdict: the name that --threshold takes, where it is drawn, and what lies beyond it."""
    from results.verdicts.thresholds import threshold_table

    rows = threshold_table()
    if as_json:
        keys = ("name", "default", "unit", "meaning")
        click.echo(json.dumps({"thresholds": [dict(zip(keys, row, strict=True)) for row in rows]}))
        return
    names = max(len(name) for name, *_ in rows)
    numbers = max(len(f"{default:,}") for _, default, *_ in rows)
    for name, default, unit, meaning in rows:
        click.echo(f"{name:<{names}}  {default:>{numbers},} {unit}: {meaning}")


def _print(findings: "list[Finding]", level: str) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(width=WIDTH, highlight=False)
    table = Table(box=None, pad_edge=False)
    for column in ("", "check"):
        table.add_column(column, no_wrap=True)
    for column in ("seen", "remedy"):
        table.add_column(column, overflow="fold", ratio=1)
    for finding in findings:
        mark = Text(finding.level, style=STYLES[finding.level])
        table.add_row(mark, Text(finding.name), Text(finding.seen), Text(finding.remedy))
    console.print(table)
    console.print(Text(CONCLUSIONS[level], style=STYLES[level]))
