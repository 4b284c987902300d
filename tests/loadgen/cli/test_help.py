"""Help: short, complete, and quick because it imports nothing heavy."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from loadgen.cli import COMMANDS, main
from loadgen.cli.exit_codes import Exit
from loadgen.config import options
from loadgen.config_table import GROUPS

HEAVY = ("torch", "locust", "gevent", "numpy", "scipy", "pandas", "plotly", "pyarrow")
CONSOLE_SCRIPT = Path(sys.executable).parent / "tokenload"
SCREEN_LINES = 40
MOST_SCREENS = 3


def help_of(*words: str) -> str:
    """What --help prints."""
    result = CliRunner().invoke(main, [*words, "--help"])
    assert result.exit_code == 0
    return result.stdout


def flags_in(text: str) -> list[str]:
    """Every flag that begins a line of help."""
    return re.findall(r"^  (?:-\w, )?(--[a-z-]+)", text, re.MULTILINE)


def test_every_option_of_the_table_is_in_the_help_of_run_once() -> None:
    """The table of options is what `run` offers, each row once, with what the commands share."""
    flags = flags_in(help_of("run"))
    table = [option.flag for _, option in options().values()]
    shared = ["--concurrency", "--config", "--dry-run", "--fail-on", "--junit", "--json", "--help"]
    assert sorted(flags) == sorted([*table, *shared])


def test_options_stand_under_the_headings_of_their_groups() -> None:
    """Help is read by heading: each option comes after its group's title and before the next one."""
    text = help_of("run")
    places = [text.index(f"{title}:") for title in GROUPS.values()]
    assert places == sorted(places)
    for _, option in options().values():
        heading = text.rindex(":\n", 0, text.index(f"  {option.flag} "))
        assert text[:heading].endswith(GROUPS[option.group])


def test_help_says_unit_default_and_meaning_of_each_option() -> None:
    """Beside each flag stands its unit or its choices; the help text and the default follow."""
    text = " ".join(help_of("run").split())
    unbroken = text.replace("- ", "-")
    for _, (one, option) in options().items():
        shown = f"{option.flag} {option.unit or '|'.join(option.choices)}".strip()
        assert shown in text
        assert option.help.split("  ")[0].replace("- ", "-") in unbroken
        if one.default is not None and not option.is_flag and not option.many:
            assert f"[{option.show(one.default)}]".replace("- ", "-") in unbroken


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_a_command_fits_three_screens(command: str) -> None:
    """No command's help is longer than three screens or wider than a terminal of 120 columns."""
    lines = help_of(command).splitlines()
    assert len(lines) <= MOST_SCREENS * SCREEN_LINES
    assert max(len(line) for line in lines) <= 120


def test_the_first_help_names_every_command_and_exit_code() -> None:
    """`tokenload --help` fits a screen, lists the commands with a line each and says what exit codes mean."""
    text = help_of()
    assert len(text.splitlines()) <= SCREEN_LINES
    for name, (_, line) in COMMANDS.items():
        assert re.search(rf"^  {name} +\S", text, re.MULTILINE)
        assert line.split()[0] in text
    for code in Exit:
        assert re.search(rf"\b{int(code)} \w", text)


def test_the_exit_codes_are_the_one_table() -> None:
    """0 ok, 1 every request failed, 2 usage, 3 INVALID, 4 gate, 5 DIFFERS, 6 INCONCLUSIVE, 130 interrupted."""
    assert {code.name: int(code) for code in Exit} == {
        "OK": 0, "ALL_FAILED": 1, "USAGE": 2, "INVALID": 3, "GATE_MISSED": 4, "DIFFERS": 5, "INCONCLUSIVE": 6,
        "INTERRUPTED": 130,
    }  # fmt: skip


@pytest.mark.parametrize(
    "words", [("--help",), ("--version",), ("run", "--help"), ("runs", "--help"), ("schedule", "-h")]
)
def test_help_loads_nothing_heavy(words: tuple[str, ...]) -> None:
    """The console script answers without importing numpy, pandas, torch or any other slow package."""
    environment = {**os.environ, "PYTHONPROFILEIMPORTTIME": "1"}
    done = subprocess.run([CONSOLE_SCRIPT, *words], env=environment, capture_output=True, text=True, check=True)
    loaded = {line.rpartition("|")[2].strip().partition(".")[0] for line in done.stderr.splitlines()}
    assert "click" in loaded
    assert loaded & set(HEAVY) == set()


def test_an_unknown_command_is_not_imported() -> None:
    """A word that is no command is an error that names it."""
    result = CliRunner().invoke(main, ["perform"])
    assert result.exit_code == 2
    assert "perform" in result.stderr
