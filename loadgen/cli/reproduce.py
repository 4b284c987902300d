"""`tokenload reproduce`: check a run, run it again, and say whether it holds."""

import json
from pathlib import Path
from typing import Any

import click

from loadgen.cli.exit_codes import Exit
from loadgen.cli.options import one_line_errors
from loadgen.cli.places import folder_place


@click.command()
@click.argument("original", metavar="FOLDER_OR_REPORT")
@click.option("--point", metavar="NAME", help="of a sweep or its report: this one alone, as in points/003")
@click.option("--runs", "count", default=5, type=click.IntRange(min=1, max=1000), metavar="K", help="new runs  [5]")
@click.option("--margin", default="10%", metavar="SHARE", help="difference that counts as none  [10%; throughput 5%]")
@click.option("--allow", multiple=True, metavar="FIELD", help="go on in spite of a difference in this field")
@click.option("--out", default="runs", metavar="DIR", help="folder for run folders  [runs]")
@click.option("--json", "as_json", is_flag=True, help="one JSON document on stdout, no table")
@click.pass_context
def reproduce(ctx: click.Context, /, original: str, point: str | None, as_json: bool, **given: Any) -> None:
    """Check a run, a sweep or a report, make its workloads anew, run them again, and compare.

    The hashes of all files are checked and the summary is rebuilt from the rows; a folder that was changed is
    refused. Then: REPRODUCED when a test of equivalence says so for every headline figure, DIFFERS when one is off
    by more than the margin, INCONCLUSIVE with the number of runs that it would take. A sweep has one verdict a run,
    and the worst of them. A report must be the file that was written: one that was edited is refused.

    Exit code 0 REPRODUCED, 2 refused, 3 a new run is INVALID, 5 DIFFERS, 6 INCONCLUSIVE.
    """
    with one_line_errors():
        from loadgen.capacity_options import parse_share
        from loadgen.cli.quiet_progress import QuietProgress
        from loadgen.cli.reproduce_view import exit_of, print_reproduction
        from loadgen.original import read_originals
        from loadgen.reproduce import plan_reproductions, run_reproductions
        from loadgen.stopped import StoppedError
        from results.comparison.conditions import check_allowed

        margin = parse_share(given["margin"])
        folder_place("--out", given["out"], "runs")
        originals = read_originals(Path(original), point)
        check_allowed(given["allow"], *(one.conditions for one in originals))
        folder, planned = plan_reproductions(originals, given["out"], given["count"], margin)
        for line in dict.fromkeys(line for one in originals for line in one.checks):
            click.echo(line, err=True)
        try:
            with QuietProgress() as progress:
                document = run_reproductions(folder, Path(original).name, planned, progress, given["allow"])
        except StoppedError:
            click.echo(f"stopped; what there is lies in {folder}", err=True)
            ctx.exit(Exit.INTERRUPTED)
    if as_json:
        click.echo(json.dumps({"folder": str(folder), **document}, allow_nan=False, default=str))
    else:
        print_reproduction(document)
        click.echo(str(folder))
    ctx.exit(exit_of(document))
