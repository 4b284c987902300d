"""`tokenload fit`: a cost model from the steps of a measured run."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from loadgen.cli.options import one_line_errors
from loadgen.cli.places import file_place

if TYPE_CHECKING:
    from results.fitting import Fit

FIGURES = ("mean", "p50", "p90", "p99", "total")


@click.command()
@click.argument("folder", metavar="RUN")
@click.option("--out", metavar="FILE", default="fitted.toml", help="the cost model  [fitted.toml]")
@click.option("--json", "as_json", is_flag=True, help="one JSON document on stdout, no table")
def fit(folder: str, out: str, as_json: bool) -> None:
    """Fit a cost model to a run whose steps were measured, and tell its error on steps held out.

    Of a server, whose steps nobody sees, gaps between tokens are taken for decodes, and what came to an idle server
    for prefills: the run must be one at a low rate.

    \b
    tokenload fit runs/FOLDER --out mine.toml
    tokenload run --clock modelled --engine continuous,executor=fitted,costs=mine.toml
    """
    with one_line_errors():
        from results.fitting import fit_steps
        from results.fitting_streams import fit_streams
        from results.store import INCOMPLETE, load_run

        path = file_place("--out", out, "fitted.toml")
        run = load_run(Path(folder))
        streamed = run.recording.token_t_ns is not None
        fitted = fit_streams(run.recording) if streamed else fit_steps(run.recording.steps)
        _write(path, fitted, str(run.info.get("clock")), run.folder.name)
    codes = [one["code"] for one in (run.info.get("verdict") or {}).get("invalid", ())]
    invalid = [run.label, *codes] if run.label == INCOMPLETE else codes
    if as_json:
        click.echo(json.dumps({**_document(fitted, out), "invalid": invalid}))
        return
    if invalid:
        told = f"the run is INVALID ({', '.join(invalid)}): what was fitted may be off by as much"
        click.echo(f"{told}; mend that, run and fit again", err=True)
    _print(fitted)
    click.echo(out)


def _write(path: Path, fitted: "Fit", clock: str, name: str) -> None:
    lines = [f"{key} = {value}" for key, value in fitted.coefficients_ps.items()]
    source = json.dumps(f"fitted to run {name}, {clock} clock, rho {fitted.rho_fraction:.3f}")
    path.write_text("\n".join(["# picoseconds", *lines, f"source = {source}", ""]))


def _document(fitted: "Fit", out: str) -> dict[str, Any]:
    from dataclasses import asdict

    kinds = {kind: asdict(one) for kind, one in fitted.kinds.items()}
    return {"file": out, "rho_fraction": fitted.rho_fraction, "kinds": kinds}


def _print(fitted: "Fit") -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("steps", "fitted", "held out", *FIGURES, "coefficients, ns", title_justify="left",
                  title=f"Error on the steps held out, at rho {fitted.rho_fraction:.3f}")  # fmt: skip
    for kind, one in fitted.kinds.items():
        told = ", ".join(f"{name} {value / 1000:,.1f}" for name, value in one.coefficients_ps.items())
        errors = [f"{one.errors[name]:.2%}" for name in FIGURES]
        table.add_row(kind, str(one.fitted_steps), str(one.held_out_steps), *errors, told)
    Console(width=150).print(table)
