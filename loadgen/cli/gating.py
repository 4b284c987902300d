"""--fail-on of run and sweep: absolute gates on what was measured, and the files that a CI system reads."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from loadgen.cli.places import file_place

if TYPE_CHECKING:
    from results.gates import Gate

Command = TypeVar("Command", bound=Callable[..., Any])
Json = dict[str, Any]


def gate_options(command: Command) -> Command:
    """--fail-on and --junit."""
    command = click.option("--junit", "junit_file", metavar="FILE", help="write the gates as JUnit XML")(command)
    return click.option("--fail-on", multiple=True, metavar="GATES", help="what must not be: 'ttft_p99>500ms'")(command)


def read_gates(texts: Sequence[str], junit_file: str | None = None) -> "tuple[Gate, ...]":
    """Before anything runs. ValueError for one that cannot be read or needs a baseline, or a --junit of none."""
    check_files(junit_file)
    if not texts and junit_file is not None:
        raise ValueError(f"--junit {junit_file} would hold no gate: add one, as in --fail-on 'ttft_p99>500ms'")
    if not texts:
        return ()
    from results.gates import parse_gates, refuse_relative

    gates = tuple(gate for text in texts for gate in parse_gates(text))
    refuse_relative(gates)
    return gates


def check_files(junit_file: str | None, markdown_file: str | None = None) -> None:
    """Whether the files for a CI system can be written, before anything runs. ValueError in one line."""
    for flag, file, example in (("--junit", junit_file, "gates.xml"), ("--markdown", markdown_file, "comparison.md")):
        if file is not None:
            file_place(flag, file, example)


def judge_points(
    gates: "Sequence[Gate]", points: Sequence[Mapping[str, Any]], junit_file: str | None, name: str
) -> list[Json]:
    """Each gate at each engine and load, over its repeats; printed on stderr, so that --json stays one document.

    A point has `summary` and `verdict`, and `engine` and `load` where there are several.
    """
    if not gates:
        return []
    from loadgen.cli.scorecard import plain
    from results.comparison.junit import junit
    from results.gates import gate_line, judge_places

    places: dict[str, list[tuple[Json, Json]]] = {}
    for point in points:
        place = f"{point['engine']} at {point['load']}" if "load" in point else ""
        places.setdefault(place, []).append((point["summary"], point["verdict"]))
    found = judge_places(gates, places)
    for told in found:
        click.echo(plain(gate_line(told)), err=True)
    if junit_file:
        Path(junit_file).write_text(junit({name: found}), encoding="utf-8")
    return found
