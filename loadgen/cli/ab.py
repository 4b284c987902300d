"""`tokenload ab`: two engines or servers in alternation, and which of them is better."""

import json
from typing import Any

import click

from loadgen.ab_options import AbOptions
from loadgen.cli.exit_codes import Exit
from loadgen.cli.options import GroupedCommand, config_options, one_line_errors, read_config, read_rows

SET_BY_SIDES = ("--engine", "--target", "--name")


@click.command(cls=GroupedCommand)
@config_options("workload", "trace", "engine", "target", "run", more=AbOptions, without=SET_BY_SIDES)
@click.option("--share-cache", is_flag=True, help="both stand before one prompt cache: other bytes in each run")
@click.option("--fail-on", multiple=True, metavar="GATES", help="what must not be: 'ttft_p99>+10%'")
@click.option("--allow", multiple=True, metavar="FIELD", help="compare in spite of a difference in this field")
@click.option("--junit", "junit_file", metavar="FILE", help="write the gates as JUnit XML")
@click.option("--markdown", "markdown_file", metavar="FILE", help="write the comparison as Markdown")
@click.option("--json", "as_json", is_flag=True, help="one JSON document on stdout, no table")
@click.pass_context
def ab(ctx: click.Context, /, as_json: bool, fail_on: tuple[str, ...], **given: Any) -> None:
    """Run A and B in alternation (A B, B A, ...) on the same schedules, and say which is better.

    Six pairs of runs, extended to ten when undecided. Also the test of what a gateway adds: a server directly, and
    through it, with the distribution of what each request lost.

    \b
    tokenload ab --a static,batch=8 --b continuous,batch=8 --rate 16 --requests 1000
    tokenload ab --a http://10.0.0.5:8000/v1 --b http://gateway/v1 --share-cache --rate 4

    Exit code 0 whatever was found, 3 when a run is INVALID, 4 when a gate is missed.
    """
    with one_line_errors():
        from loadgen.ab import plan_ab, run_ab
        from loadgen.cli.compare_view import exit_of, print_comparison, write_files
        from loadgen.cli.gating import check_files
        from loadgen.cli.quiet_progress import QuietProgress
        from loadgen.stopped import StoppedError
        from results.gates import parse_gates

        gates = tuple(gate for text in fail_on for gate in parse_gates(text))
        check_files(given["junit_file"], given["markdown_file"])
        config, chosen = read_config(given, complete=False), read_rows(AbOptions, given)
        session = plan_ab(config, chosen, given["share_cache"], given["allow"])
        click.echo(f"folder {session.folder}", err=True)
        try:
            with QuietProgress() as progress:
                document = run_ab(session, progress, gates, given["allow"])
        except StoppedError:
            click.echo(f"stopped; what there is: tokenload compare {session.folder}", err=True)
            ctx.exit(Exit.INTERRUPTED)
        write_files(document, given["junit_file"], given["markdown_file"])
    if as_json:
        click.echo(json.dumps({"folder": str(session.folder), **document}, allow_nan=False, default=str))
    else:
        print_comparison(document)
        click.echo(str(session.folder))
    ctx.exit(exit_of(document))
