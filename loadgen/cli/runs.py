"""`tokenload runs`: what there is, and one run rebuilt from its rows."""

import json
from pathlib import Path
from typing import Any

import click

from loadgen.cli.options import one_line_errors


@click.command()
@click.argument("folder", required=False)
@click.option("--out", default="runs", metavar="DIR", help="folder of run folders  [runs]")
@click.option("--json", "as_json", is_flag=True, help="one JSON document on stdout")
def runs(folder: str | None, out: str, as_json: bool) -> None:
    """List run folders, or show one, rebuilt from its rows.

    A run that was killed is read from what it had written and labelled INCOMPLETE.
    """
    with one_line_errors():
        if folder is None:
            _list(Path(out), as_json)
        else:
            _show(Path(folder), as_json)


def _list(out: Path, as_json: bool) -> None:
    if out.exists() and not out.is_dir():
        raise ValueError(f"--out {out} is a file: name the folder that run folders are in, as in --out runs")
    found = sorted([*out.glob("*/run.json"), *out.glob("*/sweep.json")]) if out.is_dir() else []
    rows = [_row(path.parent) if path.name == "run.json" else _sweep_row(path.parent) for path in found]
    if as_json:
        click.echo(json.dumps(rows))
        return
    from loadgen.cli.scorecard import print_runs

    print_runs(out, rows)


def _row(folder: Path) -> dict[str, Any]:
    """What the list says of a run; a folder that cannot be read is a row too."""
    try:
        info = json.loads((folder / "run.json").read_text())
        summary_file = folder / "summary.json"
        summary = json.loads(summary_file.read_text()) if summary_file.exists() else None
        status = "INCOMPLETE" if info["status"] == "running" else info["status"]
        config = info["config"]
        return {
            "folder": folder.name,
            "status": status,
            "engine": config.get("target") or config.get("engine", "continuous"),
            "clock": info["clock"],
            "arrival": config.get("trace") or config.get("preset") or config.get("arrival", "poisson"),
            "rate_rps": float(config["rate"]) if "rate" in config else None,
            "requests": summary["requests"]["scheduled"] if summary else None,
            "failed": summary["requests"]["failed"] if summary else None,
            "ttft_p50_ms": summary["ttft_ms"]["p50"] if summary else None,
            "output_tokens_per_s": summary["rates"]["output_tokens_per_s"] if summary else None,
        }
    except (ValueError, KeyError, TypeError, AttributeError, OSError) as error:
        return {"folder": folder.name, "status": "unreadable", "error": f"{type(error).__name__}: {error}"}


def _sweep_row(folder: Path) -> dict[str, Any]:
    """What the list says of a sweep; its points are in its report."""
    try:
        sweep = json.loads((folder / "sweep.json").read_text())
        return {
            "folder": folder.name,
            "status": "INCOMPLETE" if sweep["status"] == "running" else sweep["status"],
            "engine": f"sweep of {len(sweep['engines'])}",
            "clock": sweep["config"].get("clock", "charged"),
            "arrival": ", ".join(sweep["loads"]),
            "requests": sum(one["status"] == "complete" for one in sweep["points"]),
        }
    except (ValueError, KeyError, TypeError, AttributeError, OSError) as error:
        return {"folder": folder.name, "status": "unreadable", "error": f"{type(error).__name__}: {error}"}


def _show(folder: Path, as_json: bool) -> None:
    from loadgen.cli.scorecard import plain, print_scorecard
    from loadgen.config import from_texts
    from results.slo import parse_slo
    from results.store import INCOMPLETE, changed_files, load_run
    from results.verdicts.judged import judged
    from results.verdicts.run_facts import facts_of

    if (folder / "sweep.json").is_file() and not (folder / "run.json").is_file():
        raise ValueError(f"{folder} is a sweep: name one of its runs, as in {folder}/points/000, or write its page "
                         f"with tokenload report {folder}")  # fmt: skip
    found = load_run(folder)
    changed = changed_files(folder, found.info) if found.label != INCOMPLETE else []
    try:
        config = from_texts(found.info["config"])
        facts = facts_of(found.info, found.label)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{folder / 'run.json'} is damaged: {error}") from None
    summary, verdict = judged(found.recording, parse_slo(config.slo) if config.slo else None, facts)
    if found.info.get("server"):
        summary["server"] = found.info["server"]
    if as_json:
        told = {"folder": str(folder), "label": found.label, "changed": changed, "verdict": verdict.to_json()}
        click.echo(json.dumps({**told, **summary}))
        return
    if changed:
        click.secho(f"CHANGED since the run was written: {plain(', '.join(changed))}", bold=True)
    print_scorecard(summary, verdict.to_json(), found.label)
