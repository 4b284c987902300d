"""The options of a run as locust's: every one of the table, back to the same config."""

import os
import subprocess
import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

import pytest

from loadgen.cli.locust import environment_of
from loadgen.config import from_texts, key_of, options
from loadgen.locust.form import LOCUSTS_OWN, add_arguments, configure, texts_of
from tests.loadgen.served import tokenload


class Parser(ArgumentParser):
    """As locust's, which knows more words."""

    def add_argument(self, *args: Any, include_in_web_ui: bool = True, **more: Any) -> Any:
        return super().add_argument(*args, **more)


def parsed(*words: str) -> dict[str, Any]:
    """What locust's parser makes of these."""
    parser = Parser()
    add_arguments(parser)
    return vars(parser.parse_args(words))


def test_every_option_is_offered() -> None:
    """Each row of the table, but for those whose flags locust has itself."""
    names = {key_of(option).replace("-", "_") for _, option in options().values()}
    assert set(parsed()) == names - set(LOCUSTS_OWN) | {"concurrency"}


def test_no_default_that_the_form_shows_is_none() -> None:
    """The form keeps the type it finds: every default is a text or a switch."""
    assert {type(value) for name, value in parsed().items() if value is not None} == {str, bool}
    many = {key_of(option).replace("-", "_") for _, option in options().values() if option.many}
    assert {name for name, value in parsed().items() if value is None} == many


def test_what_was_left_alone_is_no_text() -> None:
    """Defaults are not given: a target can then be, where an engine has a default."""
    assert texts_of(parsed()) == {}
    config = from_texts(texts_of(parsed("--target", "http://h:1", "--rate", "4")))
    assert (config.target, config.clock, config.rate_rps) == ("http://h:1", "real", 4.0)


def test_options_come_back_as_they_were_given() -> None:
    """Texts, switches and options that may be given again."""
    words = ["--target=http://h:1", "--rate=4", "--no-stream", "--header=X-A: b,c", "--header=X-B: d"]
    texts = texts_of(parsed(*words))
    assert texts == {"target": "http://h:1", "rate": "4", "no-stream": "true", "header": ["X-A: b,c", "X-B: d"]}


def test_concurrency_is_a_closed_loop() -> None:
    """--concurrency N stands for --arrival closed --users N, whose flag locust has itself."""
    assert texts_of(parsed("--concurrency", "8")) == {"arrival": "closed", "users": "8"}


def test_a_locustfile_sets_defaults_of_its_own() -> None:
    """`configure` changes what is offered; an unknown name is an error that says which there are."""
    words = "from loadgen.locust.form import *; configure(rate='3');" \
        "from tests.loadgen.locust.test_form import parsed; print(texts_of(parsed()))"
    done = subprocess.run([sys.executable, "-c", words], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "{'rate': '3'}"
    with pytest.raises(ValueError, match="no option 'speedy'"):
        configure(speedy="1")


def test_the_path_is_a_locustfile() -> None:
    """`tokenload locust --path` prints a file that locust can be given."""
    done = subprocess.run(tokenload("locust", "--path"), capture_output=True, text=True, check=True)
    assert "OpenLoopUser" in Path(done.stdout.strip()).read_text()


def test_a_bad_option_is_one_line_before_locust_starts(tmp_path: Path) -> None:
    """Exit code 2 and the option's name; nothing of locust is seen."""
    done = subprocess.run(tokenload("locust", "--rate", "fast"), capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "--rate" in done.stderr and "locust" not in done.stderr.splitlines()[-1]


def test_locusts_own_variables_are_dropped() -> None:
    """LOCUST_* of a shell do not change a run."""
    kept = environment_of({**os.environ, "LOCUST_USERS": "7", "LOCUST_HOST": "x"})
    assert not [name for name in kept if name.startswith("LOCUST_")]
    assert kept["PATH"] == os.environ["PATH"]
