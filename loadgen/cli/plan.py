"""`tokenload plan`: the cheapest fleet that meets an SLO, before anything is rented."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from loadgen.cli.exit_codes import Exit
from loadgen.cli.options import GroupedCommand, config_options, one_line_errors, read_config, read_rows
from loadgen.cli.places import file_place
from loadgen.plan_options import PlanOptions

if TYPE_CHECKING:
    from loadgen.planning import Plan, Tried

LEFT_OUT = ("--temperature", "--eos", "--timeout", "--drain", "--out", "--name")
HEAD = (
    "price/h", "devices", "hardware", "policy", "batch", "tp", "replicas", "within SLO", "of limit", "TTFT p99, ms",
    "TPOT p99, ms", "busy",
)  # fmt: skip
MOST_LINES = 12


@click.command(cls=GroupedCommand)
@config_options("workload", "trace", "run", more=PlanOptions, without=LEFT_OUT)
@click.option("--out", metavar="FILE", default="runs/plan.html", help="the page  [runs/plan.html]")
@click.option("--json", "as_json", is_flag=True, help="one JSON document on stdout, no table")
@click.pass_context
def plan(ctx: click.Context, /, out: str, as_json: bool, **given: Any) -> None:
    """Find the cheapest policy, batch size, tensor parallel degree and number of replicas that meet the SLO.

    Every fleet is played in modelled time on the roofline of its hardware: an ideal machine, unless the engine's spec
    says how much of the peaks it reaches (bandwidth-fraction, prefill-fraction, step-overhead). --pools tries replicas
    for prompts beside replicas for answers, too, with each prompt's cache sent from one to the other.

    \b
    tokenload plan --trace conv.csv --model llama-3.1-70b --hardware h100-sxm --price 2.5 --slo "ttft<=1s,tpot<=50ms"
    tokenload plan --rate 40 --requests 2000 --hardware h100-sxm --price 2.5 --hardware l4 --price 0.7

    Exit code 0 with a fleet that meets the SLO, 6 when none within --devices does.
    """
    with one_line_errors():
        from loadgen.planning import plan as search
        from loadgen.workload import build_schedule
        from results.slo import parse_slo

        options, config = read_rows(PlanOptions, given), read_config(given)
        page = file_place("--out", out, "plan.html", makes_folders=True)
        schedule, slo = build_schedule(config), parse_slo(config.slo or "")
        found = search(schedule, slo, options, lambda tried: click.echo(_line(tried), err=True))
        document = _document(found, options, str(slo), len(schedule), schedule.sha256)
        path = _write(page, found, document)
    if as_json:
        click.echo(json.dumps({"page": str(path), **document}))
    else:
        _print(found)
        click.echo(str(path))
    ctx.exit(Exit.OK if found.cheapest else Exit.INCONCLUSIVE)


def _line(tried: "Tried") -> str:
    told = tried.reason or f"{100 * (tried.attainment_fraction or 0):.2f} % within the SLO"
    return f"{tried.price_per_h:g}/h  {_words(tried)}: {told}"


def _json(tried: "Tried") -> dict[str, Any]:
    from dataclasses import asdict

    told = asdict(tried)
    return {**told.pop("setup"), "replica_price_per_h": tried.setup.price_per_h, **told}


def _document(found: "Plan", options: PlanOptions, slo: str, requests: int, schedule_sha256: str) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "slo": slo,
        "attainment_fraction": options.attainment_fraction,
        "requests": requests,
        "schedule_sha256": schedule_sha256,
        "router": options.router,
        **({"link_bytes": options.link_bytes} if options.pools else {}),
        "model": options.model,
        "prices_per_h": dict(zip(options.hardware, options.price_per_h, strict=True)),
        "cheapest": _json(found.cheapest) if found.cheapest else None,
        "pareto": [_json(one) for one in found.pareto],
        "tried": [_json(one) for one in found.tried],
    }


def _write(path: Path, found: "Plan", document: dict[str, Any]) -> Path:
    from results.report.plan_page import Fleet, plan_page

    fleets = [
        Fleet(
            _words(one), one.price_per_h, one.limit_ratio, one.attainment_fraction or 0.0, one.meets,
            one in found.pareto, one is found.cheapest,
        )
        for one in found.tried
    ]  # fmt: skip
    conditions = {name: document[name] for name in document if name not in ("cheapest", "pareto", "tried")}
    path.parent.mkdir(parents=True, exist_ok=True)
    table = [HEAD, *(_cells(one) for one in _shown(found))]
    path.write_text(plan_page(_answer(found), fleets, table, conditions), encoding="utf-8")
    return path


def _words(tried: "Tried") -> str:
    return f"{tried.replicas} x {tried.setup.words}"


def _answer(found: "Plan") -> str:
    if found.cheapest is None:
        return "No fleet that was tried meets the SLO"
    return f"The cheapest that meets the SLO: {_words(found.cheapest)} at {found.cheapest.price_per_h:g} an hour"


def _shown(found: "Plan") -> list["Tried"]:
    """Those that meet the SLO, the cheapest first, and the front below them."""
    meeting = sorted((one for one in found.tried if one.meets), key=lambda one: one.price_per_h)
    return [*meeting, *(one for one in found.pareto if not one.meets)]


def _cells(tried: "Tried") -> tuple[str, ...]:
    setup, figures = tried.setup, tried.figures_ms or {}
    late = [f"{value:.4g}" if (value := figures.get(name)) is not None else "-" for name in ("ttft_p99", "tpot_p99")]
    policy, replicas = setup.engine.partition(",")[0], str(tried.replicas)
    if setup.prefill_engine is not None:
        policy = f"{setup.prefill_engine.partition(',')[0]} + {policy}"
        replicas = f"{tried.replicas * setup.prefill_replicas} + {tried.replicas * setup.decode_replicas}"
    return (
        f"{tried.price_per_h:g}", str(tried.devices), setup.hardware, policy,
        "-" if setup.batch is None else str(setup.batch), str(setup.tp), replicas,
        f"{tried.attainment_fraction or 0:.2%}", "-" if tried.limit_ratio is None else f"{tried.limit_ratio:.2f}",
        *late, f"{tried.busy_fraction or 0:.0%}",
    )  # fmt: skip


def _print(found: "Plan") -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(*HEAD, title=_answer(found), title_justify="left")
    for one in _shown(found)[:MOST_LINES]:
        table.add_row(*_cells(one))
    Console(width=150).print(table)
