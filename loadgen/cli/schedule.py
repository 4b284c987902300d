"""`tokenload schedule`: make, show and save one."""

import json
from typing import Any

import click

from loadgen.cli.options import GroupedCommand, config_options, one_line_errors, read_config
from loadgen.cli.places import file_place


@click.command(cls=GroupedCommand)
@config_options("workload", "trace")
@click.option("--save", metavar="FILE", help="write it as a trace that --trace reads (.jsonl or .jsonl.gz)")
@click.option("--json", "as_json", is_flag=True, help="one JSON document on stdout, no table")
def schedule(save: str | None, as_json: bool, **given: Any) -> None:
    """Make a schedule, show what it is, save it.

    \b
    tokenload schedule --rate 8 --requests 1000
    tokenload schedule --arrival gamma --cv 3 --rate 8 --save bursty.jsonl.gz
    """
    with one_line_errors():
        config = read_config(given)
        path = None if save is None else file_place("--save", save, "saved.jsonl")
        from loadgen.cli.scorecard import print_schedule
        from loadgen.schedule_shape import shape_of
        from loadgen.workload import build_schedule

        made = build_schedule(config)
        shape = shape_of(made)
        if path is not None:
            from loadgen.traces.neutral import write_neutral

            write_neutral(made, path)
        if as_json:
            click.echo(json.dumps(shape))
        else:
            print_schedule(shape, made)
