"""click options made from the table of options, and the way back to a config."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click

from loadgen.cli.exit_codes import Exit
from loadgen.config import GROUPS, Option, RunConfig, from_texts, key_of, options

Command = TypeVar("Command", bound=Callable[..., Any])


class InputError(click.ClickException):
    """One line that names the value and the remedy."""

    exit_code = Exit.USAGE


class GroupedCommand(click.Command):
    """A command whose help lists its options under the headings of the table."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """One section a group; what is not in the table comes last."""
        heading = {option.flag: GROUPS[option.group] for _, option in options().values()}
        sections: dict[str, list[tuple[str, str]]] = {title: [] for title in (*GROUPS.values(), "Other")}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                sections[heading.get(parameter.opts[0], "Other")].append(record)
        for title, records in sections.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


def config_options(*groups: str) -> Callable[[Command], Command]:
    """A decorator that adds the options of these groups, and --config."""

    def decorate(command: Command) -> Command:
        command = click.option("--config", metavar="PATH", help="start from a saved run or config file")(command)
        for one, option in reversed(list(options().values())):
            if option.group in groups:
                command = click.option(
                    option.flag,
                    key_of(option).replace("-", "_"),
                    metavar=_metavar(option),
                    help=_help(option, one.default),
                )(command)
        return command

    return decorate


def read_config(given: Mapping[str, str | None]) -> RunConfig:
    """The config from a command's arguments: --config first, flags over it."""
    saved = given.get("config")
    texts = _saved(Path(saved)) if saved else {}
    by_name = {key_of(option).replace("-", "_"): key_of(option) for _, option in options().values()}
    flags = {by_name[name]: text for name, text in given.items() if name in by_name and text is not None}
    return from_texts({**texts, **flags})


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Bad input and a refusing disk end a command with one line and exit code 2."""
    try:
        yield
    except (ValueError, OSError) as error:
        raise InputError(" ".join(str(error).split()) or type(error).__name__) from error


def _saved(path: Path) -> dict[str, str]:
    """The config in a run folder, a run.json or a file of options."""
    file = path / "run.json" if path.is_dir() else path
    try:
        document = json.loads(file.read_text())
    except FileNotFoundError:
        raise ValueError(f"--config: no file {str(file)!r}") from None
    except ValueError:
        raise ValueError(f"--config: {str(file)!r} is not JSON") from None
    texts = document.get("config", document) if isinstance(document, dict) else None
    if not isinstance(texts, dict):
        raise ValueError(f"--config: {str(file)!r} holds no options")
    return texts


def _metavar(option: Option) -> str:
    return option.unit or "|".join(option.choices)


def _help(option: Option, default: Any) -> str:
    return option.help if default is None else f"{option.help}  [{option.show(default)}]"
