"""Where a command is to write: what is in the way is named before anything is computed."""

import os
from collections.abc import Callable, Iterator
from contextlib import chdir
from pathlib import Path

import pytest
from click.testing import CliRunner

from loadgen.cli import main
from loadgen.cli.options import read_config
from loadgen.cli.places import file_place, folder_place
from loadgen.config import from_texts
from loadgen.session import execute, prepare

LOAD = ["--clock", "modelled", "--rate", "4", "--requests", "120"]
PLAN = ["plan", "--rate", "4", "--requests", "20", "--price", "1", "--tp", "1", "--batch", "8"]
GATED = ["--fail-on", "attainment<1%"]


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A run in a folder that holds a file and another folder too; the folder is the current one."""
    out = tmp_path_factory.mktemp("places")
    (out / "file").write_text("mine")
    (out / "folder").mkdir()
    config = from_texts({"clock": "modelled", "rate": "8", "requests": "120", "out": str(out / "runs")})
    folder = execute(prepare(config), lambda ended: None).folder
    with chdir(out):
        yield str(folder)


FILES = {
    "plan": [*PLAN, "--out"],
    "roofline": ["roofline", "--out"],
    "fit": ["fit", "RUN", "--out"],
    "schedule": ["schedule", "--rate", "4", "--save"],
    "run": ["run", *LOAD, *GATED, "--junit"],
    "sweep": ["sweep", "--clock", "modelled", "--rates", "4", "--requests", "120", *GATED, "--junit"],
    "compare": ["compare", "RUN", "RUN", "--junit"],
    "compare, Markdown": ["compare", "RUN", "RUN", "--markdown"],
    "ab": ["ab", "--a", "static", "--b", "continuous", *LOAD, "--pairs", "1", "--junit"],
    "ab, Markdown": ["ab", "--a", "static", "--b", "continuous", *LOAD, "--pairs", "1", "--markdown"],
}
FOLDERS = {
    "run": ["run", *LOAD, "--out"],
    "run, dry": ["run", *LOAD, "--dry-run", "--out"],
    "sweep": ["sweep", "--clock", "modelled", "--rates", "4", "--requests", "20", "--out"],
    "ab": ["ab", "--a", "static", "--b", "continuous", *LOAD, "--pairs", "1", "--out"],
    "capacity": ["capacity", "--clock", "modelled", "--quick", "--out"],
    "reproduce": ["reproduce", "RUN", "--out"],
    "runs": ["runs", "--out"],
    "serve": ["serve", "--port", "0", "--record"],
}


def refused(words: list[str], run: str) -> str:
    """The one line of exit code 2; nothing is written."""
    before = sorted(str(path) for path in Path().rglob("*"))
    done = CliRunner().invoke(main, [run if word == "RUN" else word for word in words])
    assert done.exit_code == 2, done.output
    assert done.stdout == "" and len(done.stderr.splitlines()) == 1, done.output
    assert sorted(str(path) for path in Path().rglob("*")) == before
    return done.stderr


@pytest.mark.parametrize("words", FILES.values(), ids=FILES.keys())
@pytest.mark.parametrize("place", ["folder", ".", "file/below", ""])
def test_no_file_can_be_written_where_something_else_is(here: str, words: list[str], place: str) -> None:
    """A folder, a file in place of a folder, nothing: the option, the value, and how to write it; nothing has run."""
    line = refused([*words, place], here)
    assert f"Error: {words[-1]} {place}" in line and f"as in {words[-1]} " in line


@pytest.mark.parametrize("words", FOLDERS.values(), ids=FOLDERS.keys())
@pytest.mark.parametrize("place", ["file", "file/below"])
def test_no_folder_can_be_made_where_a_file_is(here: str, words: list[str], place: str) -> None:
    """Nor below one."""
    if words[0] == "runs" and place != "file":
        pytest.skip("it only reads, and nothing is there")
    line = refused([*words, place], here)
    assert f"Error: {words[-1]} {place}" in line and f"as in {words[-1]} " in line


@pytest.mark.parametrize("words", [FILES["fit"], FILES["schedule"], FILES["run"], FILES["compare"]])
def test_a_folder_that_is_missing_is_named(here: str, words: list[str]) -> None:
    """Files go into folders that are there."""
    assert "there is no folder nowhere: make it, or name another place" in refused([*words, "nowhere/x"], here)


def test_whatever_reads_a_config_with_out_looks_at_it(here: str) -> None:
    """Also the one of --config, and for a command that hands it on; a command without the option does not ask."""
    Path("folder/saved.json").write_text('{"rate": "4", "out": "file"}')
    for given in ({"rate": "4", "out": "file"}, {"config": "folder/saved.json", "out": None}):
        with pytest.raises(ValueError, match="--out file is a file"):
            read_config(given)
    assert read_config({"config": "folder/saved.json"}).out == "file"


def test_what_may_be_written_is_let_through(here: str) -> None:
    """A new file, one that is there, a special file; a new folder, a deep one, the current one."""
    for place in ("new", "file", "folder/new", "./new", "/dev/null"):
        assert file_place("--out", place, "x") == Path(place)
    assert file_place("--out", "a/b/c", "x", makes_folders=True) == Path("a/b/c")
    for place in ("new", "folder", ".", "a/b/c"):
        assert folder_place("--out", place, "x") == Path(place)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_place_that_may_not_be_written_to_is_named(tmp_path: Path) -> None:
    """The folder that stands in the way."""
    tmp_path.chmod(0o500)
    for place in (file_place, folder_place):
        with pytest.raises(ValueError, match=f"{tmp_path} may not be written to"):
            place("--out", str(tmp_path / "x"), "y")
    tmp_path.chmod(0o700)


@pytest.mark.parametrize("place", [file_place, folder_place])
def test_a_tilde_that_the_shell_left_is_no_place(place: Callable[[str, str, str], Path]) -> None:
    """Some of what writes would take it for the home folder, some for a name: nobody is to guess."""
    with pytest.raises(ValueError, match=r"--out ~/there: the shell left ~ as it is"):
        place("--out", "~/there", "there")
    assert place("--out", "./~", "there") == Path("~")
