"""`tokenload sweep`: engines x loads x repeats, one folder, one report."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from loadgen.cli.exit_codes import exit_code
from loadgen.cli.gating import gate_options, judge_points, read_gates
from loadgen.cli.options import GroupedCommand, closed_loads, config_options, one_line_errors, read_config, read_rows
from loadgen.config import SweepOptions

if TYPE_CHECKING:
    from loadgen.sweep import Sweep

SET_BY_POINTS = ("--rate", "--users", "--name")


@click.command(cls=GroupedCommand)
@config_options("workload", "trace", "engine", "target", "run", more=SweepOptions, without=SET_BY_POINTS)
@click.option("--resume", metavar="FOLDER", help="go on with a sweep that was stopped or killed")
@click.option("--dry-run", is_flag=True, help="print what would run, and stop")
@gate_options
@click.option("--json", "as_json", is_flag=True, help="one JSON document on stdout, no table")
@click.pass_context
def sweep(ctx: click.Context, /, resume: str | None, dry_run: bool, as_json: bool, **given: Any) -> None:
    """Run engines x loads x repeats on the same schedules, and write one report.

    Without options: three ways of batching a small transformer on this CPU, at five loads. With --target a
    server in place of engines: --rates 1,2,4, or --concurrency 4,8,16 for closed loops.
    """
    with one_line_errors():
        from loadgen.cli.interval_view import print_intervals, read_intervals
        from loadgen.cli.sweep_view import SweepProgress, print_sweep, print_sweep_plan, summaries, sweep_plan_lines
        from loadgen.sweep import run_sweep
        from results.store import STOPPED

        gates = read_gates(given["fail_on"], given["junit_file"])
        planned = _planned(resume, given)
        print_sweep_plan(planned)
        if dry_run:
            click.echo(json.dumps({"dry_run": True, "plan": sweep_plan_lines(planned)}) if as_json else "", nl=as_json)
            return
        with SweepProgress(planned) as progress:
            status = run_sweep(planned, progress)
        from results.report import write_report  # not before the load has begun: it takes a tenth of a second

        page = write_report(planned.folder)
        found, intervals = summaries(planned), read_intervals(planned)
        judged = judge_points(gates, found, given["junit_file"], planned.folder.name)
        if as_json:
            told = {"folder": str(planned.folder), "report": str(page), "status": status, "points": found}
            click.echo(json.dumps({**told, "intervals": intervals, "gates": judged}))
        else:
            print_sweep(found)
            print_intervals(intervals)
            click.echo(str(page))
    outcomes = ([one["summary"] for one in found], [one["verdict"] for one in found])
    ctx.exit(exit_code(*outcomes, status == STOPPED, judged))


def _planned(resume: str | None, given: Mapping[str, Any]) -> "Sweep":
    from loadgen.sweep import load_sweep, plan_sweep

    if resume is not None:
        return load_sweep(Path(resume))
    chosen = read_rows(SweepOptions, given)
    subjects = (*chosen.target, *(chosen.engine if given.get("engine") or not chosen.target else ()))
    rates = closed_loads(given["concurrency"]) if given.get("concurrency") is not None else chosen.rates
    return plan_sweep(read_config(given, complete=False), subjects, rates, chosen.repeats)
