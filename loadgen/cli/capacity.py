"""`tokenload capacity`: the largest rate within the SLO."""

import json
from pathlib import Path
from typing import Any

import click

from loadgen.capacity_options import CapacityOptions
from loadgen.cli.exit_codes import Exit
from loadgen.cli.options import GroupedCommand, config_options, one_line_errors, read_config, read_rows

SET_BY_SEARCH = ("--rate", "--users", "--think", "--duration", "--speed", "--name")


@click.command(cls=GroupedCommand)
@config_options("workload", "trace", "engine", "target", "run", more=CapacityOptions, without=SET_BY_SEARCH)
@click.option("--quick", is_flag=True, help="2 seeds of 300 requests: labelled, optimistic by some 7 %")
@click.option("--resume", metavar="FOLDER", help="go on with a search that was stopped or killed")
@click.option("--json", "as_json", is_flag=True, help="one JSON document on stdout, no table")
@click.pass_context
def capacity(ctx: click.Context, /, quick: bool, resume: str | None, as_json: bool, **given: Any) -> None:
    """Find the largest rate that meets the SLO, stable and valid.

    Doubling finds a bracket; then each of 5 seeds is searched by bisection on a workload of its own that is only
    stretched. The answer is the mean over the seeds with its 95 % interval, confirmed by one run of a fresh seed at
    the lower end. Every rate that was tried is kept as a run folder.

    \b
    tokenload capacity --engine static,batch=8 --clock modelled --slo "ttft<=1s,tpot<=50ms" --attainment 99%
    tokenload capacity --target http://127.0.0.1:8000/v1 --slo "ttft<=500ms" --start 0.2 --quick

    Exit code 0 with a confirmed capacity, 3 when probes were INVALID for reasons of the client, 6 when nothing was
    found or the confirmation failed.
    """
    with one_line_errors():
        if given.get("concurrency") is not None:
            raise ValueError("--concurrency has no rate to search: leave it out")
        from loadgen.capacity import load_capacity, plan_capacity, run_capacity
        from loadgen.cli.capacity_view import exit_of, plan_line, print_capacity
        from loadgen.cli.quiet_progress import QuietProgress
        from loadgen.stopped import StoppedError

        if resume is not None:
            search = load_capacity(Path(resume))
        else:
            search = plan_capacity(read_config(given, complete=False), read_rows(CapacityOptions, given), quick)
        click.echo(plan_line(search), err=True)
        try:
            with QuietProgress() as progress:
                document = run_capacity(search, progress)
        except StoppedError:
            click.echo(f"stopped; go on with --resume {search.folder}", err=True)
            ctx.exit(Exit.INTERRUPTED)
    if as_json:
        click.echo(json.dumps({"folder": str(search.folder), **document}))
    else:
        print_capacity(document)
        click.echo(str(search.folder))
    ctx.exit(exit_of(document))
