"""`tokenload compare`: runs or sweeps against each other, on the same schedules."""

import json
from pathlib import Path

import click

from loadgen.cli.gating import check_files
from loadgen.cli.options import one_line_errors


@click.command()
@click.argument("folders", nargs=-1, required=True, metavar="A [B] [C ...]")
@click.option("--fail-on", multiple=True, metavar="GATES", help="what must not be: 'ttft_p99>+10%,attainment<99%'")
@click.option("--allow", multiple=True, metavar="FIELD", help="compare in spite of a difference in this field")
@click.option("--slo", metavar="LIMITS", help="limits for goodput on all sides  [those of A]")
@click.option("--junit", "junit_file", metavar="FILE", help="write the gates as JUnit XML")
@click.option("--markdown", "markdown_file", metavar="FILE", help="write the comparison as Markdown")
@click.option("--json", "as_json", is_flag=True, help="one JSON document on stdout, no table")
@click.pass_context
def compare(
    ctx: click.Context,
    /,
    folders: tuple[str, ...],
    fail_on: tuple[str, ...],
    allow: tuple[str, ...],
    slo: str | None,
    junit_file: str | None,
    markdown_file: str | None,
    as_json: bool,
) -> None:
    """Compare B, C ... with A: run folders or sweep folders. One sweep alone: its engines with the first of them.

    Runs are paired on the same schedules. A difference counts when the sign flips of all pairs and figures together
    say so (6 pairs at the least) and when it is large enough to matter: 3 %, 10 % for p99s. Other workloads, models
    and clocks are refused (exit code 2) unless they are allowed by name.

    \b
    tokenload compare runs/before runs/after --fail-on "ttft_p99>+10%"
    tokenload compare runs/20260101T000000Z-sweep-a1b2c3

    Exit code 0 whatever was found, 3 when a run is INVALID, 4 when a gate is missed. Gates fail closed.
    """
    with one_line_errors():
        from loadgen.cli.compare_view import exit_of, print_comparison, write_files
        from loadgen.option import parse_slo_text
        from results.comparison.document import compare as compared
        from results.comparison.trials import read_sides
        from results.gates import parse_gates

        check_files(junit_file, markdown_file)
        gates = [gate for text in fail_on for gate in parse_gates(text)]
        sides = read_sides(tuple(Path(folder) for folder in folders), parse_slo_text(slo) if slo else None)
        document = compared(sides, gates, allow)
        write_files(document, junit_file, markdown_file)
        if as_json:
            click.echo(json.dumps(document, allow_nan=False, default=str))
        else:
            print_comparison(document)
    ctx.exit(exit_of(document))
