"""What people see in the terminal: plan and progress on stderr, scorecard and lists on stdout."""

import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress
from rich.table import Table
from rich.text import Text

from loadgen.session import Prepared
from loadgen.units import NS_PER_S
from results.columns import is_null
from results.figures import FIGURES
from results.schedule import PHASES, Schedule
from results.window import WHOLE_RUN

WIDTH = 110
LINE_EVERY_S = 10.0
BARS = " ▁▂▃▄▅▆▇█"
LATENCY_ROWS = (
    ("ttft_ms", "TTFT"),
    ("tpot_ms", "TPOT (mean of a request)"),
    ("itl_ms", "ITL (each gap)"),
    ("e2e_ms", "E2E"),
    ("norm_ms", "E2E per token"),
    ("queue_wait_ms", "due to hand-over"),
    ("admission_wait_ms", "due to slot"),
)
SLOT_ROWS = (
    ("wasted_slot_fraction", "finished / (prefilling + decoding + finished) slot-steps"),
    ("unused_slot_fraction", "1 - (prefilling + decoding) / all slot-steps"),
    ("padding_fraction", "padding / prefill rectangle"),
    ("held_back_fraction", "time with requests waiting and no step running"),
)
SERVER_ROWS = (
    ("unused_slot_fraction", "of the server's steps: 1 - sequence-steps with a token / (steps x slots)"),
    ("running_max", "most requests that the server ran, as seen once a second"),
    ("waiting_max", "most that waited in its queue, as seen once a second"),
    ("kv_max_fraction", "of the server's KV cache"),
)

RUN_COLUMNS = {
    "folder": "folder",
    "status": "status",
    "engine": "engine",
    "clock": "clock",
    "arrival": "arrival",
    "rate_rps": "req/s",
    "requests": "n",
    "failed": "failed",
    "ttft_p50_ms": "TTFT p50 ms",
    "output_tokens_per_s": "tok/s",
}
LENGTH_FIGURES = ("sum", "mean", "min", "p50", "p90", "p99", "max")
FOUR_DIGITS_BELOW = 1000


class Progress:
    """Requests ended, with an estimate of the time left, on stderr; outside a terminal a line now and then."""

    def __init__(self, requests: int) -> None:
        """Nothing is shown before the run starts."""
        console = Console(stderr=True, width=WIDTH)
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
                   TextColumn("ETA"), TimeRemainingColumn())  # fmt: skip
        self._progress = RichProgress(*columns, console=console, disable=not console.is_terminal, transient=True)
        self._task = self._progress.add_task("requests", total=requests)
        self._requests = requests
        self._next_line_s = time.monotonic() + LINE_EVERY_S if not console.is_terminal else float("inf")

    def __enter__(self) -> "Progress":
        """Start showing."""
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Clear the line."""
        self._progress.stop()

    def __call__(self, ended_requests: int) -> None:
        """So many have ended."""
        self._progress.update(self._task, completed=ended_requests)
        if time.monotonic() >= self._next_line_s:
            self._next_line_s = time.monotonic() + LINE_EVERY_S
            print(f"{ended_requests} of {self._requests} requests have ended", file=sys.stderr, flush=True)


def print_plan(prepared: Prepared) -> None:
    """What will run, before it starts."""
    console = Console(stderr=True, width=WIDTH, highlight=False)
    for line in plan_lines(prepared):
        console.print(Text(plain(line)), soft_wrap=True)


def plan_lines(prepared: Prepared) -> list[str]:
    """Engine, workload, schedule and folder of a run."""
    schedule, config = prepared.schedule, prepared.config
    told = prepared.player.describe()
    engine = f"engine    {config.engine} ({told.get('slots')} slots), {config.clock} clock"
    return [
        f"target    {config.target}, {config.api}, real time" if config.target else engine,
        f"workload  {workload_line(schedule)}",
        f"schedule  {schedule.sha256[:16]}, seed {config.seed}",
        f"folder    {config.out}/",
    ]


def workload_line(schedule: Schedule) -> str:
    """Requests, process, rate, span and tokens in one line."""
    due_ns = schedule.due_ns[~is_null(schedule.due_ns)]
    span_s = int(due_ns.max()) / NS_PER_S if len(due_ns) else 0.0
    rate = schedule.origin.get("rate_rps")
    parts = [
        _requests_text(schedule),
        str(schedule.origin.get("label") or schedule.origin.get("process", "given")),
        f"{rate:g} req/s" if rate else "",
        f"over {span_s:.3f} s" if span_s else "",
        f"{int(schedule.prompt_tokens.sum())} prompt and {int(schedule.output_tokens.sum())} output tokens",
    ]
    return ", ".join(part for part in parts if part)


def _requests_text(schedule: Schedule) -> str:
    """Measured ones, and what comes before and after them."""
    counts = {name: int((schedule.phase == code).sum()) for code, name in enumerate(PHASES)}
    more = [f"{counts[name]} {word}" for name, word in (("fill", "fill"), ("cooldown", "cool-down")) if counts[name]]
    return f"{counts['measure']} requests" + (f" (and {' and '.join(more)}, not counted)" if more else "")


def print_verdict(verdict: dict[str, Any]) -> None:
    """Whether the run may be believed, and what to do when not."""
    console = Console(width=WIDTH, highlight=False)
    word = "VALID" if verdict["valid"] else "INVALID"
    console.print(Text(f"{word}, {verdict['label']}: {verdict['suffices_for']}", style="bold"))
    for finding in (*verdict["invalid"], *verdict["warnings"]):
        console.print(Text(f"  {finding['code']}: {finding['text']}; {finding['remedy']}"))


def print_scorecard(summary: dict[str, Any], verdict: dict[str, Any], label: str | None) -> None:
    """Verdict, latencies, rates and slots of one run."""
    console = Console(width=WIDTH, highlight=False)
    print_verdict(verdict)
    if label:
        console.print(Text(f"{label}: figures of what was recorded", style="bold red"))
    requests = summary["requests"]
    by_status = ", ".join(f"{count} {name}" for name, count in requests["by_status"].items())
    console.print(Text(f"{requests['scheduled']} scheduled, {requests['sent']} sent: {by_status or 'none'}"))
    console.print(_latency_table(summary))
    if any("of_this_run" in summary[key] for key, _ in LATENCY_ROWS):
        console.print(Text("[...]: overloaded; of this run of so many requests, and growing with its length"))
    console.print(_rate_table(summary))
    bounds = bounds_lines(summary["in_run"])
    if bounds:
        console.print(Text(f"At least this uncertain, from one run: {'; '.join(bounds)}", style="dim"))


def bounds_lines(in_run: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Of one run: `TTFT p99 812.3 ms (702 to 922)` of each figure that has bounds."""
    return [
        f"{FIGURES[name].title} {cell(one['low'])} to {cell(one['high'])}"
        for name, one in in_run.items()
        if one["low"] is not None and one["low"] < one["high"]
    ]


def _latency_table(summary: dict[str, Any]) -> Table:
    table = Table(title="Latency, ms from the scheduled time", title_justify="left")
    table.add_column("", no_wrap=True)
    for name in ("n", "p50", "p95", "p99", "max", "mean"):
        table.add_column(name, justify="right")
    for key, title in LATENCY_ROWS:
        figures = summary[key]
        if "server" in summary and key == "admission_wait_ms":  # a server does not tell it
            continue
        shown = figures.get("of_this_run") or figures
        cells = [_figure({**figures, **shown}, name) for name in ("p50", "p95", "p99", "max", "mean")]
        if "of_this_run" in figures:
            cells = [f"[{text}]" for text in cells]
        table.add_row(Text(title), str(figures["n"]), *(Text(text) for text in cells))
    return table


def _rate_table(summary: dict[str, Any]) -> Table:
    rates, slo = summary["rates"], summary["slo"]
    span = summary.get("server", summary["slots"]).get("span", WHOLE_RUN)
    of = "" if span == WHOLE_RUN else f" (slots: of the {span})"
    table = Table(show_header=False, title=f"Rates and slots{of}", title_justify="left")
    for column in ("name", "value", "what"):
        table.add_column(column, justify="right" if column == "value" else "left")
    for name in ("offered_rps", "realised_rps", "completed_rps", "output_tokens_per_s", "total_tokens_per_s"):
        table.add_row(name, _figure(rates, name), "")
    meets = f"requests that meet {slo['limits']}, by when they were due"
    table.add_row("goodput_rps", _figure(slo, "goodput_rps"), Text(meets))
    table.add_row("attainment", _figure(slo, "attainment"), "of the scheduled")
    for name, what in SLOT_ROWS if "server" not in summary else ():
        table.add_row(name, _figure(summary["slots"], name), what)
    for name, what in SERVER_ROWS if "server" in summary else ():
        table.add_row(name, _figure(summary["server"], name), Text(summary["server"]["advice"].get(name, what)))
    return table


def print_runs(out: Path, rows: list[dict[str, Any]]) -> None:
    """The list of run folders."""
    console = Console(width=max(WIDTH, Console().width), highlight=False)
    if not rows:
        console.print(Text(f"no runs in {out}"))
        return
    table = Table(box=None, pad_edge=False)
    for name, title in RUN_COLUMNS.items():
        table.add_column(title, no_wrap=name in ("folder", "status"), overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell(row.get(name))) for name in RUN_COLUMNS))
    console.print(table)


def print_schedule(shape: dict[str, Any], schedule: Schedule) -> None:
    """A schedule's figures and its arrivals over time."""
    console = Console(width=WIDTH, highlight=False)
    console.print(Text(workload_line(schedule)))
    table = Table(show_header=False)
    for name in ("realised_rps", "gap_cv", "dispersion_1s", "lag1_correlation", "waiting_for_others"):
        table.add_row(name, cell(shape[name]))
    for name in ("prompt_tokens", "output_tokens"):
        table.add_row(name, "  ".join(f"{key} {cell(shape[name][key])}" for key in LENGTH_FIGURES))
    table.add_row("sha256", shape["sha256"])
    console.print(table)
    for step in shape["origin"].get("steps", ()):
        console.print(Text(f"{step['step']}: {step['rows_in']} rows in, {step['rows_out']} out"))
    counts = shape["arrivals_histogram"]
    peak = max(counts)
    bars = "".join(BARS[(count * (len(BARS) - 1) + peak - 1) // peak] for count in counts)
    console.print(Text(f"arrivals, {len(counts)} parts of the time to the last one, at most {peak} in one:\n{bars}"))


def _figure(figures: dict[str, Any], name: str) -> str:
    value = figures.get(name)
    if value is None:
        reason = figures.get("reasons", {}).get(name, "none")
        return "inf (failures)" if reason == "FAILED_TAIL" else f"- ({reason})"
    return cell(value)


def cell(value: object) -> str:
    """A figure in about four digits."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < FOUR_DIGITS_BELOW else f"{value:.1f}"
    return plain(str(value))


def plain(text: str) -> str:
    """Text from a file or a server without what a terminal would obey."""
    return "".join(letter if letter.isprintable() else f"\\x{ord(letter):02x}" for letter in text)
