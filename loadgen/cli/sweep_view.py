"""What a sweep shows in the terminal: its plan, its progress, its table."""

import json
import time
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as RichProgress
from rich.table import Table
from rich.text import Text

from loadgen.cli.scorecard import WIDTH, cell, plain
from loadgen.sweep import Point, Sweep, is_address, is_complete
from results.headline import runs_label

SECONDS_PER_MINUTE = 60
COLUMN_GAP = 2
COLUMNS = {
    "TTFT p50": ("ttft_ms", "p50"),
    "TTFT p95": ("ttft_ms", "p95"),
    "TPOT p50": ("tpot_ms", "p50"),
    "ITL p99": ("itl_ms", "p99"),
    "tok/s": ("rates", "output_tokens_per_s"),
    "goodput": ("slo", "goodput_rps"),
    "wasted": ("slots", "wasted_slot_fraction"),
    "unused": ("slots", "unused_slot_fraction"),
    "padding": ("slots", "padding_fraction"),
}


class SweepProgress:
    """Expected compute done and to do, corrected by what has been seen; on stderr."""

    def __init__(self, sweep: Sweep) -> None:
        """Nothing is shown before the sweep starts."""
        self._sweep = sweep
        self._total_s = sweep.expected_s
        self._done_s = 0.0
        self._current: Point | None = None
        self._began_s = 0.0
        console = Console(stderr=True, width=WIDTH)
        columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
        self._progress = RichProgress(*columns, console=console, disable=not console.is_terminal, transient=True)
        self._task = self._progress.add_task("sweep", total=max(self._total_s, 1e-9))

    def __enter__(self) -> "SweepProgress":
        """Start showing."""
        self._began_s = time.monotonic()
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Clear the line."""
        self._progress.stop()

    def __call__(self, point: Point, ended_requests: int, requests: int) -> None:
        """So many requests of the point have ended."""
        if point is not self._current:
            self._done_s += self._current.expected_s if self._current else 0.0
            self._current = point
        done_s = self._done_s + point.expected_s * ended_requests / max(requests, 1)
        passed_s = time.monotonic() - self._began_s
        left = f"about {duration(passed_s * (self._total_s - done_s) / done_s)} left" if done_s else ""
        text = f"{point.order + 1}/{len(self._sweep.points)} {point.engine} at {point.load} {left}"
        self._progress.update(self._task, completed=done_s, description=text)


def print_sweep_plan(sweep: Sweep) -> None:
    """What will run, before it starts."""
    console = Console(stderr=True, width=WIDTH, highlight=False)
    for line in sweep_plan_lines(sweep):
        console.print(Text(plain(line)), soft_wrap=True)


def sweep_plan_lines(sweep: Sweep) -> list[str]:
    """Engines, loads, points and folder of a sweep, and about how long it will take."""
    left = [point for point in sweep.points if not is_complete(sweep.folder / point.folder)]
    clock = "real time" if any(is_address(engine) for engine in sweep.engines) else f"{sweep.config.clock} clock"
    to_run = "" if len(left) == len(sweep.points) else f", {len(left)} to run"
    takes = f"; at least {duration(sweep.expected_s)}" if sweep.expected_s >= 1 else ""
    return [
        f"engines   {', '.join(sweep.engines)}",
        f"loads     {', '.join(sweep.loads)} (requests/s unless named), seed {sweep.config.seed}, {clock}",
        f"repeats   {sweep.repeats}: {runs_label(sweep.repeats)}",
        f"points    {len(sweep.points)}{to_run}, interleaved{takes}",
        f"folder    {sweep.folder}",
    ]


def summaries(sweep: Sweep) -> list[dict[str, Any]]:
    """Of every complete point, in the order of engines, loads and repeats."""
    found = []
    for point in sorted(sweep.points, key=lambda one: (_place(sweep, one), one.repeat)):
        folder = sweep.folder / point.folder
        if is_complete(folder):
            summary = json.loads((folder / "summary.json").read_text())
            verdict = json.loads((folder / "run.json").read_text())["verdict"]
            named = {"engine": point.engine, "load": point.load, "repeat": point.repeat}
            found.append({**named, "verdict": verdict, "summary": summary})
    return found


def print_sweep(found: list[dict[str, Any]]) -> None:
    """One row a point; a figure is never cut short, if the lines become longer for it."""
    rows = [[_cell(one["summary"][group], name) for group, name in COLUMNS.values()] for one in found]
    table = Table(title="Latency in ms from the scheduled time", title_justify="left", box=None, pad_edge=False)
    for title in ("engine", "load", "repeat"):
        words = [title[:3] if title == "repeat" else title, *(plain(str(one[title])) for one in found)]
        table.add_column(words[0], no_wrap=True, width=max(map(len, words)))
    for number, title in enumerate(COLUMNS):
        words = [*title.split(), *(cells[number].plain for cells in rows)]
        table.add_column(title, justify="right", width=max(map(len, words)))
    table.add_column("verdict", no_wrap=True, width=len("INVALID"))
    for one, cells in zip(found, rows, strict=True):
        valid = "VALID" if one["verdict"]["valid"] else "INVALID"
        table.add_row(Text(one["engine"]), Text(one["load"]), str(one["repeat"]), *cells, valid)
    needed = sum(column.width or 0 for column in table.columns) + COLUMN_GAP * len(table.columns)
    console = Console(width=max(WIDTH, Console().width, needed), highlight=False)
    console.print(table)
    for code, text in _what_was_found(found).items():
        console.print(Text(f"  {code}: {text}"))


def _what_was_found(found: list[dict[str, Any]]) -> dict[str, str]:
    """Code -> at how many points, and what the first of them says."""
    told: dict[str, list[str]] = {}
    for one in found:
        for finding in (*one["verdict"]["invalid"], *one["verdict"]["warnings"]):
            told.setdefault(finding["code"], []).append(finding["text"])
    return {code: f"at {len(texts)} of {len(found)} points, as in: {texts[0]}" for code, texts in told.items()}


def _cell(figures: dict[str, Any], name: str) -> Text:
    """A figure; in brackets where it is withheld as one of the system and stands for this run alone."""
    if name in figures.get("of_this_run", {}):
        return Text(f"[{cell(figures['of_this_run'][name])}]")
    return Text(cell(figures.get(name)))


def duration(time_s: float) -> str:
    """Seconds, or minutes with seconds."""
    if time_s < SECONDS_PER_MINUTE:
        return f"{time_s:.0f} s"
    return f"{int(time_s // SECONDS_PER_MINUTE)} min {int(time_s % SECONDS_PER_MINUTE)} s"


def _place(sweep: Sweep, point: Point) -> tuple[int, int]:
    return sweep.engines.index(point.engine), sweep.loads.index(point.load)
