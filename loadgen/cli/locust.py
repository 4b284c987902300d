"""`tokenload locust`: locust with our locustfile, in place of this process."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from loadgen.cli.options import GroupedCommand, config_options, one_line_errors, read_config
from loadgen.config import to_json

LOCUSTFILE = Path(__file__).parent.parent / "locustfile.py"
IN_LOCUSTS_WORDS = {"users": "concurrency"}
"""Our option -> what the locustfile calls it, where locust has the flag itself."""


@click.command(cls=GroupedCommand)
@config_options("workload", "trace", "engine", "target", "run")
@click.option("--path", "shows_path", is_flag=True, help="print where the locustfile is, and stop")
@click.option(
    "--merge-late", "late_folder", metavar="FOLDER", help="merge the rows that came after that run's end, and stop"
)
@click.argument("locust_options", nargs=-1, metavar="[-- LOCUST OPTIONS]")
def locust(shows_path: bool, late_folder: str | None, locust_options: tuple[str, ...], **given: Any) -> None:
    """Play a schedule under locust: its web UI, its master and workers, our load and run folder.

    \b
    tokenload locust --target http://127.0.0.1:8000/v1 --rate 8 --duration 60s
    tokenload locust --target http://127.0.0.1:8000/v1 --rate 8 --processes 2 -- --headless
    tokenload locust --target http://127.0.0.1:8000/v1 --rate 2,4,8 --duration 60s
    tokenload locust -- --worker --master-host 10.0.0.1
    tokenload locust --merge-late runs/FOLDER
    """
    if shows_path:
        click.echo(str(LOCUSTFILE))
        return
    if late_folder is not None:
        _merge_late(Path(late_folder))
        return
    with one_line_errors():
        words = _words(given)
    command = [sys.executable, "-m", "locust", "-f", str(LOCUSTFILE), *words, *locust_options]
    sys.stdout.flush()
    os.execve(sys.executable, command, environment_of(os.environ))


def _merge_late(folder: Path) -> None:
    with one_line_errors():
        from loadgen.locust.merging import merge_late

        click.echo(str(merge_late(folder)))


def environment_of(environment: Mapping[str, str]) -> dict[str, str]:
    """Without locust's own variables: they would change a run that nobody wrote them for."""
    return {name: value for name, value in environment.items() if not name.startswith("LOCUST_")}


def _words(given: Mapping[str, Any]) -> list[str]:
    """The options as locust is to be given them. ValueError for one that cannot be read."""
    rates = str(given.get("rate") or "")
    words = [f"--rate={rates}"] if "," in rates else []
    for rate in rates.split(",") if words else []:
        read_config({**given, "rate": rate.strip()}, complete=False)
    config = read_config({**given, "rate": None} if words else given, complete=False)
    for key, shown in to_json(config).items():
        flag = f"--{IN_LOCUSTS_WORDS.get(key, key)}"
        if key == "arrival" and shown == "closed":
            continue  # --concurrency says it
        if shown == "true":
            words.append(flag)
        else:
            words += [f"{flag}={text}" for text in (shown if isinstance(shown, list) else [shown])]
    return words
