"""`tokenload report`: the page of a run or a sweep, rebuilt from its rows."""

from pathlib import Path

import click

from loadgen.cli.options import one_line_errors


@click.command()
@click.argument("folder")
def report(folder: str) -> None:
    """Write report.html into a run folder or a sweep folder, and print its path.

    Every figure comes from the rows: the same folder gives the same bytes. A run or sweep that was stopped or killed
    has a page too, which says so first.
    """
    with one_line_errors():
        from results.report import write_report

        path = write_report(Path(folder))
    click.echo(str(path))
