"""`tokenload roofline`: what batching gives on hardware that is not here, played in modelled time."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from engines.hardware import MOST_DEVICES
from loadgen.cli.options import one_line_errors
from loadgen.cli.places import file_place

if TYPE_CHECKING:
    from loadgen.published import Figure
    from loadgen.roofline_runs import Machine, Point, Told

    Figures = list[Told] | list[Figure]
    Text = tuple[Machine, Figures, list[tuple[str, ...]]]

PRESETS = ("seed2-h100", "anyscale-2023", "orca-2022")
HEAD_OF_OTHERS = ("figure", "text", "ours", "difference", "why")
HEAD = ("figure", "text", "with its 16 GB", "difference", "weights counted", "why")
NOTE = (
    "Every point is a decode step that an engine played in modelled time: the greater of reading and maths. Solid: "
    "each sequence reads its own cache, to the last that fits. Dashed: the ideal picture without caches."
)


@click.command()
@click.option("--hardware", metavar="NAME|FILE.toml", help="h100-sxm unless told; a wrong name lists all")
@click.option("--model", metavar="NAME|FILE.toml", help="llama-3.1-8b unless told; a wrong name lists all")
@click.option("--tp", metavar="N", type=click.IntRange(1, MOST_DEVICES), default=1, help="tensor parallel devices  [1]")
@click.option("--kv-cache", metavar="SIZE", help="memory for caches; what 90 % leave beside the weights unless told")
@click.option("--context", metavar="TOKENS", type=click.IntRange(2), default=1000, help="of each sequence  [1000]")
@click.option("--preset", metavar="TEXT", type=click.Choice(PRESETS), help="a published text, its figures beside ours")
@click.option("--out", metavar="FILE", default="runs/roofline.html", help="the page  [runs/roofline.html]")
@click.option("--json", "as_json", is_flag=True, help="one JSON document on stdout, no table")
def roofline(
    hardware: str | None, model: str | None, tp: int, kv_cache: str | None, context: int, preset: str | None, out: str,
    as_json: bool,
) -> None:  # fmt: skip
    """Draw throughput, math-busy share and step time against batch size, by engines in modelled time.

    \b
    Without options it is the H100 of a text on batching, whose figures are set beside ours; --preset takes others.
    tokenload roofline --hardware mi300x --model llama-3.1-70b --context 4000
    """
    with one_line_errors():
        from loadgen.page_claims import CONTEXT_TOKENS
        from loadgen.roofline_runs import curve

        plain = hardware is None and model is None and tp == 1 and kv_cache is None and context == CONTEXT_TOKENS
        if preset is not None and not plain:
            raise ValueError(f"--preset {preset} has its own machine: leave its options out")
        page = file_place("--out", out, "roofline.html", makes_folders=True)
        machine, told, loads = (
            _text(preset or PRESETS[0]) if plain else (_machine(hardware, model, tp, kv_cache), [], [])
        )
        points = {name: curve(machine, context, free) for name, free in (("caches read", False), ("ideal", True))}
        path = _write(page, machine, points, (_rows(told), loads), context)
    if as_json:
        click.echo(json.dumps({**_document(path, machine, points, told), "loads": loads}, default=str))
        return
    _print(told, points, loads)
    click.echo(str(path))


def _text(preset: str) -> "Text":
    """The machine of a text, its figures as we play them, and what it draws, by load."""
    from loadgen.page_claims import CLAIMS, PAGE, PAGE_ROUNDED
    from loadgen.published import TEXTS
    from loadgen.roofline_runs import tell

    if preset == PRESETS[0]:
        return PAGE, tell(CLAIMS, PAGE_ROUNDED, PAGE), []
    machine, figures, loads = TEXTS[preset]
    return machine, figures(), loads()


def _machine(hardware: str | None, model: str | None, tp: int, kv_cache: str | None) -> "Machine":
    from loadgen.roofline_runs import Machine
    from loadgen.units import parse_bytes

    told = {"hardware": hardware or "h100-sxm", "model": model or "llama-3.1-8b", "tp": tp}
    return Machine({**told, "kv_cache": parse_bytes(kv_cache)} if kv_cache else told)


def _write(
    path: Path, machine: "Machine", points: dict[str, list["Point"]], tables: "tuple[list[tuple[str, ...]], ...]",
    context_tokens: int,
) -> Path:  # fmt: skip
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
    path.write_text(roofline_page(title, NOTE, curves, tables, conditions), encoding="utf-8")
    return path


def _rows(told: "Figures") -> list[tuple[str, ...]]:
    from loadgen.roofline_runs import Told

    rows: list[tuple[str, ...]] = []
    for one in told:
        ours = (one.round_weights, one.counted_weights) if isinstance(one, Told) else (one.ours,)
        first, *others = (f"{value:.5g}" for value in ours)
        rows.append((f"{one.figure}, {one.unit}", f"{one.text:g}", first, f"{one.difference_fraction:+.2%}", *others,
                     one.why))  # fmt: skip
    return [HEAD if len(rows[0]) == len(HEAD) else HEAD_OF_OTHERS, *rows] if rows else []


def _document(path: Path, machine: "Machine", points: dict[str, list["Point"]], told: "Figures") -> dict[str, Any]:
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


def _print(told: "Figures", points: dict[str, list["Point"]], loads: list[tuple[str, ...]]) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(width=150)
    if told:
        head, *body = _rows(told)
        table = Table(*head, title="A text on batching, and the engines in modelled time", title_justify="left")
        for row in body:
            table.add_row(*row)
        console.print(table)
    if loads:
        head, *body = loads
        table = Table(*head, title="What the text draws, as the engines play it", title_justify="left")
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
