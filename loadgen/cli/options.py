"""click options made from the table of options, and the way back to a config."""

import errno
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click

from loadgen.cli.exit_codes import Exit
from loadgen.cli.places import folder_place
from loadgen.config import RunConfig, from_texts, key_of, options
from loadgen.config_table import GROUPS
from loadgen.option import Option, unique
from loadgen.run_folders import check_name
from loadgen.units import parse_count

Command = TypeVar("Command", bound=Callable[..., Any])
Rows = TypeVar("Rows")


INSTEAD_OF = {
    "requests": ("duration",),
    "duration": ("requests",),
    "rate": ("speed",),
    "speed": ("rate",),
    "arrival": ("cv", "users", "think", "rate"),
    "target": ("engine", "clock", "hardware", "model"),
    "engine": ("target",),
}
"""Flag -> saved options that it takes the place of."""
NO_THREAD = "can't start new thread"
"""What Python says then; it has no class of its own for it."""
TOO_LARGE = "too large to convert"
"""What Python says of a number that 64 bits do not hold."""
FEWER_BITS = "a run ends after at most 2,562 hours of modelled time; ask for fewer tokens, or for faster hardware"
ELSEWHERE = "name another place, as with --out"
DISK_REMEDIES = {
    errno.ENOSPC: f"make room, or {ELSEWHERE}",
    errno.EDQUOT: f"make room, or {ELSEWHERE}",
    **dict.fromkeys((errno.EROFS, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.EACCES), ELSEWHERE),
    errno.ENOENT: "see how it is written, or make the folder that it is to be in",
    errno.ENAMETOOLONG: "give a shorter name",
}


class InputError(click.ClickException):
    """One line that names the value and the remedy."""

    exit_code = Exit.USAGE


class Interrupted(click.ClickException):
    """Ctrl-C outside a run."""

    exit_code = Exit.INTERRUPTED


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


def config_options(
    *groups: str, more: type | None = None, without: tuple[str, ...] = ()
) -> Callable[[Command], Command]:
    """A decorator that adds the options of these groups, and --config.

    `more`: another table whose options are added, in place of those with the same flag. `without`: flags left out.
    """
    rows = [row for row in options().values() if row[1].group in groups and row[1].flag not in without]
    extra = list(options(more).values()) if more else []
    taken = {option.flag for _, option in extra}
    rows = [row for row in rows if row[1].flag not in taken] + extra

    def decorate(command: Command) -> Command:
        command = click.option("--config", metavar="PATH", help="start from a saved run or config file")(command)
        for one, option in reversed(rows):
            command = _click_option(option, one.default)(command)
        if "workload" in groups:
            command = click.option("--concurrency", metavar="N", help="closed loop: --arrival closed --users N")(
                command
            )
        return command

    return decorate


def read_config(given: Mapping[str, Any], complete: bool = True) -> RunConfig:
    """The config from a command's arguments: --config first, flags over it.

    Not complete: some options are set elsewhere, and may be missing.
    """
    saved = given.get("config")
    texts = _saved(Path(saved)) if saved is not None else {}
    known = {_argument(option): option for _, option in options().values()}
    flags = {
        key_of(known[name]): list(text) if isinstance(text, tuple) else text
        for name, text in given.items()
        if name in known and (isinstance(text, tuple) and text if known[name].many else isinstance(text, str))
    }
    if given.get("concurrency") is not None and complete:
        flags |= {"arrival": "closed", "users": given["concurrency"]}
    for flag in flags:
        for other in INSTEAD_OF.get(flag, ()):
            texts.pop(other, None)
    config = from_texts({**texts, **flags}, complete)
    if "out" in given:  # a command that has the option writes there
        folder_place("--out", config.out, "runs")
    if "name" in given and config.name is not None:
        check_name(config.name)
    return config


def closed_loads(text: str) -> str:
    """`4,8` of --concurrency as loads of a sweep: closed:4,closed:8. ValueError names the option."""
    try:
        counts = [parse_count(part.strip()) for part in text.split(",")]
        unique([(str(count), count) for count in counts])
        return ",".join(f"closed:{count}" for count in counts)
    except ValueError as error:
        raise ValueError(f"--concurrency: {error}") from None


def read_rows(table: type[Rows], given: Mapping[str, Any]) -> Rows:
    """Another table's values from a command's arguments. ValueError names the option."""
    values = {}
    for name, (_, option) in options(table).items():
        text = given.get(_argument(option))
        if text not in (None, (), False):  # an empty text is one that was given, and is refused
            try:
                values[name] = tuple(option.parse(one) for one in text) if option.many else option.parse(text)
            except ValueError as error:
                raise ValueError(f"{option.flag}: {error}") from None
    return table(**values)


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Bad input and a refusing disk end a command with one line and exit code 2; Ctrl-C with 130."""
    try:
        yield
    except KeyboardInterrupt:
        raise Interrupted("interrupted before there was anything to write") from None
    except OverflowError as error:
        if TOO_LARGE not in str(error):
            raise InputError(f"too large for this machine: {error or type(error).__name__}") from error
        raise InputError(f"a number has grown beyond 64 bits: {FEWER_BITS}") from error
    except (MemoryError, RecursionError) as error:
        raise InputError(f"too large for this machine: {error or type(error).__name__}") from error
    except RuntimeError as error:
        if NO_THREAD not in str(error):
            raise
        raise InputError("no more threads can be started here: raise the limit of processes (ulimit -u)") from error
    except (ValueError, OSError) as error:
        raise InputError(" ".join(_in_words(error).split()) or type(error).__name__) from error


def _in_words(error: Exception) -> str:
    """A disk that refuses: the file, why, and what to do; other errors say it themselves."""
    remedy = DISK_REMEDIES.get(error.errno or 0) if isinstance(error, OSError) else None
    if not isinstance(error, OSError) or remedy is None:
        return str(error)
    where = f"{error.filename}: " if error.filename else ""
    return f"{where}{error.strerror}: {remedy}"


def _saved(path: Path) -> dict[str, Any]:
    """The config in a run folder, a run.json or a file of options."""
    file = path / "run.json" if path.is_dir() else path
    try:
        text = file.read_text()
        document = json.loads(text)
    except FileNotFoundError:
        raise ValueError(f"--config: no file {str(file)!r}") from None
    except ValueError:
        raise ValueError(f"--config: {str(file)!r} is not JSON") from None
    try:
        json.loads(text, object_pairs_hook=unique)
    except ValueError as error:
        raise ValueError(f"--config: {str(file)!r}: {error}") from None
    texts = document.get("config", document) if isinstance(document, dict) else None
    if not isinstance(texts, dict):
        raise ValueError(f"--config: {str(file)!r} holds no options")
    return texts


def _click_option(option: Option, default: Any) -> Callable[[Command], Command]:
    shown = _help(option, default)
    if option.is_flag:
        return click.option(option.flag, _argument(option), is_flag=True, flag_value="true", default=None, help=shown)
    return click.option(option.flag, _argument(option), metavar=_metavar(option), help=shown, multiple=option.many)


def _argument(option: Option) -> str:
    return key_of(option).replace("-", "_")


def _metavar(option: Option) -> str:
    return option.unit or "|".join(option.choices)


def _help(option: Option, default: Any) -> str:
    if default is None or option.is_flag or (option.many and not default):
        return option.help
    return f"{option.help}  [{option.show(default)}]"
