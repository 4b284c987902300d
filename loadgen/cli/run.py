"""`tokenload run`: one schedule, one engine, one run folder."""

import json
from typing import Any

import click

from loadgen.cli.exit_codes import exit_code
from loadgen.cli.gating import gate_options, judge_points, read_gates
from loadgen.cli.options import GroupedCommand, config_options, one_line_errors, read_config


@click.command(cls=GroupedCommand)
@config_options("workload", "trace", "engine", "target", "run")
@click.option("--dry-run", is_flag=True, help="print what would run, and stop")
@gate_options
@click.option("--json", "as_json", is_flag=True, help="one JSON document on stdout, no table")
@click.pass_context
def run(ctx: click.Context, /, dry_run: bool, as_json: bool, **given: Any) -> None:
    """Play one schedule against one engine or server and write a run folder with a report.

    \b
    tokenload run --engine static,batch=8 --rate 16
    tokenload run --target http://127.0.0.1:8000/v1 --rate 4 --duration 60s
    tokenload run --clock modelled --trace conv.csv --window 25m..35m --rate 2
    """
    with one_line_errors():
        config, gates = read_config(given), read_gates(given["fail_on"], given["junit_file"])
        from loadgen.cli.scorecard import Progress, plan_lines, print_plan, print_scorecard
        from loadgen.session import execute, prepare

        prepared = prepare(config)
        print_plan(prepared)
        if dry_run:
            if as_json:
                click.echo(json.dumps({"dry_run": True, "plan": plan_lines(prepared)}))
            return
        with Progress(len(prepared.schedule)) as progress:
            outcome = execute(prepared, progress)
        del prepared  # the page reads the rows anew, and a long run's need not be there twice
        if not as_json:  # before the page: whatever becomes of that, the figures have been shown
            print_scorecard(outcome.summary, outcome.verdict, "STOPPED" if outcome.stopped else None)
        from results.report import write_report  # not before the load has begun: it takes a tenth of a second

        page = write_report(outcome.folder)
        told = [{"summary": outcome.summary, "verdict": outcome.verdict}]
        judged = judge_points(gates, told, given["junit_file"], outcome.folder.name)
    if as_json:
        found = {"folder": str(outcome.folder), "report": str(page), "stopped": outcome.stopped}
        click.echo(json.dumps({**found, "verdict": outcome.verdict, "gates": judged, **outcome.summary}))
    else:
        click.echo(str(page))
    ctx.exit(exit_code([outcome.summary], [outcome.verdict], outcome.stopped, judged))
