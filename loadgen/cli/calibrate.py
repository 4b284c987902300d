"""`tokenload calibrate`: this client's own error and ceiling, on this machine."""

import json
import time

import click

from loadgen.cli.options import one_line_errors

ROWS = {
    "ttft_error_us": "stamp of a first token, later than it was written",
    "itl_error_us": "gap between two tokens, off by",
    "send_lateness_us": "request, sent later than it was due",
}


@click.command()
@click.option("--fresh", is_flag=True, help="measure now, whatever was measured in the last hour")
@click.option("--json", "as_json", is_flag=True, help="one JSON document on stdout, no table")
def calibrate(fresh: bool, as_json: bool) -> None:
    """Measure this client against a server that computes nothing, in about two seconds.

    A run at more than half the ceiling is INVALID: what it shows may be the client.
    """
    with one_line_errors():
        from rich.console import Console
        from rich.table import Table

        from loadgen.calibrate import calibration

        began_s = time.time()
        found = calibration(fresh)
    if as_json:
        click.echo(json.dumps(found))
        return
    kept = "" if found["measured_s"] >= began_s else " and kept for an hour; --fresh measures now"
    table = Table(title=f"This client, measured {found['measured_utc']}{kept}", title_justify="left")
    for column in ("us", "p50", "p95", "p99"):
        table.add_column(column, justify="left" if column == "us" else "right")
    for name, what in ROWS.items():
        table.add_row(what, *(str(found[name][quantile]) for quantile in ("p50", "p95", "p99")))
    console = Console(width=110, highlight=False)
    console.print(table)
    console.print(f"{found['cpu_us_per_event']:.1f} us of CPU an event: {found['ceiling_events_per_s']:,.0f} events/s")
