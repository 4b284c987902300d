"""`tokenload roofline`: what batching gives on hardware that is not here, played in modelled time."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from loadgen.cli.options import one_line_errors

if TYPE_CHECKING:
    from loadgen.roofline_runs import Machine, Point, Told

HEAD = ("figure", "text", "with its 16 GB", "difference", "weights counted", "why")
NOTE = (
    "Every point is a decode step that an engine played in modelled time: the greater of reading and maths. Solid: "
    "each sequence reads its own cache, to the last that fits. Dashed: the ideal picture without caches."
)


@click.command()
@click.option("--hardware", metavar="NAME|FILE.toml", help="h100-sxm unless told; a wrong name lists all")
@click.option("--model", metavar="NAME|FILE.toml", help="llama-3.1-8b unless told; a wrong name lists all")
@click.option("--tp", metavar="N", type=click.IntRange(1, 1024), default=1, help="tensor parallel devices  [1]")
@click.option("--kv-cache", metavar="SIZE", help="memory for caches; what 90 % leave beside the weights unless told")
@click.option("--context", metavar="TOKENS", type=click.IntRange(2), default=1000, help="of each sequence  [1000]")
@click.option("--out", metavar="FILE", default="runs/roofline.html", help="the page  [runs/roofline.html]")
@click.option("--json", "as_json", is_flag=True, help="one JSON document on stdout, no table")
def roofline(
    hardware: str | None, model: str | None, tp: int, kv_cache: str | None, context: int, out: str, as_json: bool
) -> None:
    """Draw throughput, math-busy share and step time against batch size, by engines in modelled time.

    \b
    Without options it is the H100 of a text on batching, whose figures are set beside ours.
    tokenload roofline --hardware mi300x --model llama-3.1-70b --context 4000
    """
    with one_line_errors():
        from loadgen.roofline_runs import CLAIMS, CONTEXT_TOKENS, PAGE, PAGE_ROUNDED, curve, tell

        as_in_text = hardware is None and model is None and tp == 1 and kv_cache is None and context == CONTEXT_TOKENS
        machine = PAGE if as_in_text else _machine(hardware, model, tp, kv_cache)
        told = tell(CLAIMS, PAGE_ROUNDED, machine) if as_in_text else []
        points = {name: curve(machine, context, free) for name, free in (("caches read", False), ("ideal", True))}
        path = _write(Path(out), machine, points, told, context)
    if as_json:
        click.echo(json.dumps(_document(path, machine, points, told), default=str))
        return
    _print(told, points)
    click.echo(str(path))


def _machine(hardware: str | None, model: str | None, tp: int, kv_cache: str | None) -> "Machine":
    from loadgen.roofline_runs import Machine
    from loadgen.units import parse_bytes

    told = {"hardware": hardware or "h100-sxm", "model": model or "llama-3.1-8b", "tp": tp}
    return Machine({**told, "kv_cache": parse_bytes(kv_cache)} if kv_cache else told)


def _write(
    path: Path, machine: "Machine", points: dict[str, list["Point"]], told: list["Told"], context_tokens: int
) -> Path:
    from results.report.roofline_page import Curve, roofline_page

    executor = machine.executor()
    cost = executor.cost_model
    curves = [
        Curve(
            name, [one.rows for one in line], [one.tokens_per_s for one in line], [one.busy_share for one in line],
            [one.step_ps / 1e9 for one in line], "dash" if name == "ideal" else "solid",
        )
        for name, line in points.items()
    ]  # fmt: skip
    title = f"{cost.shape.name} on {cost.tp} x {cost.hardware.name}, {context_tokens} tokens of context"
    conditions = {**cost.describe(), "kv_capacity_tokens": executor.kv_capacity_tokens}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(roofline_page(title, NOTE, curves, _rows(told), conditions), encoding="utf-8")
    return path


def _rows(told: list["Told"]) -> list[tuple[str, ...]]:
    if not told:
        return []
    body = [
        (
            f"{one.figure}, {one.unit}", f"{one.text:g}", f"{one.round_weights:.5g}", f"{one.difference_fraction:+.2%}",
            f"{one.counted_weights:.5g}", one.why,
        )
        for one in told
    ]  # fmt: skip
    return [HEAD, *body]


def _document(path: Path, machine: "Machine", points: dict[str, list["Point"]], told: list["Told"]) -> dict[str, Any]:
    from dataclasses import asdict

    lines = {
        name: [
            {
                "rows": one.rows, "tokens_per_s": one.tokens_per_s, "busy_share": one.busy_share,
                "step_ms": one.step_ps / 1e9,
            }
            for one in line
        ]
        for name, line in points.items()
    }  # fmt: skip
    figures = [{**asdict(one), "difference_fraction": one.difference_fraction} for one in told]
    model = dict(machine.executor().cost_model.describe())
    return {"page": str(path), "cost_model": model, "curves": lines, "figures": figures}


def _print(told: list["Told"], points: dict[str, list["Point"]]) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(width=150)
    if told:
        head, *body = _rows(told)
        table = Table(*head, title="A text on batching, and the engines in modelled time", title_justify="left")
        for row in body:
            table.add_row(*row)
        console.print(table)
    table = Table("batch", "caches read, tok/s", "step, ms", "maths busy", "ideal, tok/s", title_justify="left")
    ideal = {one.rows: one.tokens_per_s for one in points["ideal"]}
    for one in points["caches read"]:
        beside = f"{ideal[one.rows]:,.0f}" if one.rows in ideal else ""
        table.add_row(
            str(one.rows), f"{one.tokens_per_s:,.0f}", f"{one.step_ps / 1e9:.3f}", f"{one.busy_share:.2%}", beside
        )
    console.print(table)
