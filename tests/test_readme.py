"""Every command and the example of the README do what they say."""

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from loadgen.cli import main

README = (Path(__file__).parent.parent / "README.md").read_text()
COMMANDS = [
    line
    for block in re.findall(r"```sh\n(.*?)```", README, re.DOTALL)
    for line in block.splitlines()
    if line.startswith("tokenload ")
]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_the_readme_runs(command: str) -> None:
    """A command in a shell block of the README succeeds in an empty folder that holds the example engine."""
    example = re.search(r"<!-- example engine -->\n```python\n(.*?)```", README, re.DOTALL)
    assert example is not None
    runner = CliRunner()
    with runner.isolated_filesystem():
        Path("mine.py").write_text(example[1])
        result = runner.invoke(main, shlex.split(command)[1:])
    assert result.exit_code == 0, result.output


def test_the_example_engine_serves_every_request() -> None:
    """The README's engine of three methods ends every request with the length asked."""
    assert any("mine.py:RoundRobin" in command for command in COMMANDS)


def test_the_two_commands_are_marked_for_ci() -> None:
    """Continuous integration reads exactly two commands between the README's marks."""
    block = README.partition("<!-- setup and test -->\n```sh\n")[2].partition("```\n<!-- end -->")[0]
    assert len(block.splitlines()) == 2
