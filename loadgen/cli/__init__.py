"""The command line. This module imports nothing heavy; a command's module is loaded when the command is used."""

import importlib
from typing import Any

import click

COMMANDS = {
    "run": ("loadgen.cli.run", "Play one schedule against one engine and write a run folder."),
    "sweep": ("loadgen.cli.sweep", "Run engines x loads x repeats on the same schedules, and write one report."),
    "compare": ("loadgen.cli.compare", "Compare runs or sweeps on the same schedules, with gates for CI."),
    "ab": ("loadgen.cli.ab", "Run two engines or servers in alternation, and say which is better."),
    "capacity": ("loadgen.cli.capacity", "Find the largest rate within an SLO, with an interval, and confirm it."),
    "reproduce": ("loadgen.cli.reproduce", "Check a run or a report, run it again, and say whether it holds."),
    "schedule": ("loadgen.cli.schedule", "Make a schedule, show what it is, save it."),
    "serve": ("loadgen.cli.serve", "Put an engine behind HTTP: the OpenAI API, streamed, with /metrics."),
    "locust": ("loadgen.cli.locust", "Play a schedule under locust's web UI, over many machines."),
    "calibrate": ("loadgen.cli.calibrate", "Measure this client itself: its error and its ceiling on this machine."),
    "fit": ("loadgen.cli.fit", "Fit a cost model to a run's steps; the file is an executor."),
    "roofline": ("loadgen.cli.roofline", "Draw what batching gives on hardware that is not here."),
    "plan": ("loadgen.cli.plan", "Find the cheapest fleet that meets an SLO, in modelled time."),
    "report": ("loadgen.cli.report", "Rebuild the HTML page of a run or a sweep from its rows."),
    "doctor": ("loadgen.cli.doctor", "Check this machine before measuring, and say how to mend what is wrong."),
    "runs": ("loadgen.cli.runs", "List run folders, or show one, rebuilt from its rows."),
}
"""name -> (module with a click command of that name, one help line)."""


class LazyGroup(click.Group):
    """A group whose commands are imported when they are asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the module of a command."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = getattr(importlib.import_module(COMMANDS[cmd_name][0]), cmd_name)
        return command

    def invoke(self, ctx: click.Context) -> Any:
        """Ctrl-C while a command loads, a full disk behind stdout: what a command does not catch is one line too."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise
        except (KeyboardInterrupt, OSError, MemoryError):
            from loadgen.cli.options import one_line_errors

            with one_line_errors():
                raise

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The help lines of the table: no command is imported to print them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])


@click.command(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(package_name="tokenload")
def main() -> None:
    """Benchmark and load-test LLM serving: open-loop schedules, every token and every slot accounted for.

    \b
    Exit codes: 0 ok · 1 every request failed · 2 usage or input · 3 INVALID
                4 a gate missed · 5 DIFFERS · 6 INCONCLUSIVE · 130 interrupted
    """
