"""Every command and the example of the README do what they say."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from loadgen.cli import main
from tests.loadgen.served import serving

README = (Path(__file__).parent.parent / "README.md").read_text()
COMMANDS = [
    line
    for block in re.findall(r"(?<!takes minutes -->\n)(?<!needs a server -->\n)```sh\n(.*?)```", README, re.DOTALL)
    for line in block.splitlines()
    if line.startswith("tokenload ")
]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_the_readme_runs(command: str, tmp_path: Path) -> None:
    """A command in a shell block of the README succeeds in an empty folder that holds the example engine."""
    example = re.search(r"<!-- example engine -->\n```python\n(.*?)```", README, re.DOTALL)
    assert example is not None
    (tmp_path / "mine.py").write_text(example[1])
    words = [sys.executable, "-c", "from loadgen.cli import main; main()", *shlex.split(command)[1:]]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    measures = command.startswith("tokenload run") and "--clock modelled" not in command
    assert done.returncode in ((0, 3) if measures else (0,)), done.stderr  # 3: this machine was too busy to measure


def test_the_example_engine_serves_every_request(tmp_path: Path) -> None:
    """The README's engine of three methods ends every request with the length asked."""
    example = re.search(r"<!-- example engine -->\n```python\n(.*?)```", README, re.DOTALL)
    assert example is not None and len(example[1].splitlines()) <= 30
    (tmp_path / "mine.py").write_text(example[1])
    options = ["--clock", "modelled", "--rate", "20", "--out", str(tmp_path / "runs"), "--json"]
    result = CliRunner().invoke(main, ["run", "--engine", f"{tmp_path / 'mine.py'}:RoundRobin,slots=3", *options])
    assert json.loads(result.stdout)["requests"]["by_status"] == {"ok": 200}


def test_the_commands_against_a_server_run(tmp_path: Path) -> None:
    """Each command of the README that needs a server plans its run against one that we start."""
    block = README.partition("<!-- needs a server -->\n```sh\n")[2].partition("```")[0]
    assert len(block.splitlines()) == 3
    with serving() as (url, _):
        for command in block.splitlines():
            words = shlex.split(command.replace("http://127.0.0.1:8000", url))[1:]
            program = [sys.executable, "-c", "from loadgen.cli import main; main()", *words, "--dry-run"]
            done = subprocess.run(program, cwd=tmp_path, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr


def test_the_two_commands_are_marked_for_ci() -> None:
    """Continuous integration reads exactly two commands between the README's marks."""
    block = README.partition("<!-- setup and test -->\n```sh\n")[2].partition("```\n<!-- end -->")[0]
    assert len(block.splitlines()) == 2
