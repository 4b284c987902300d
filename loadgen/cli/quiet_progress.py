"""Progress of commands that do not know how much they have to do: what is running; on stderr, in a terminal only."""

from types import TracebackType

from rich.console import Console
from rich.progress import Progress as RichProgress
from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

from loadgen.cli.scorecard import WIDTH, plain


class QuietProgress:
    """One line that changes."""

    def __init__(self) -> None:
        """Nothing is shown before the work starts."""
        console = Console(stderr=True, width=WIDTH)
        columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
        self._progress = RichProgress(*columns, console=console, disable=not console.is_terminal, transient=True)
        self._task = self._progress.add_task("", total=None)

    def __enter__(self) -> "QuietProgress":
        """Start showing."""
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Clear the line."""
        self._progress.stop()

    def __call__(self, text: str, ended_requests: int, requests: int) -> None:
        """So many requests of this have ended."""
        told = plain(text).replace("[", "\\[")
        self._progress.update(self._task, description=f"{told}: {ended_requests}/{requests}")
