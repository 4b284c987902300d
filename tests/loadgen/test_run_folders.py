"""What run folders are called: letters of any script, and no two alike."""

import unicodedata
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from loadgen.cli import main
from loadgen.run_folders import MOST_NAME_BYTES, check_name, file_name, new_folder

NOON = datetime(2026, 1, 2, 12, 0, 0, tzinfo=UTC)
RUN = ["run", "--clock", "modelled", "--rate", "4", "--requests", "5", "--dry-run"]


@pytest.mark.parametrize(
    ("asked", "name"),
    [
        ("before_2.0", "before_2.0"),
        ("mit größerem Batch", "mit-größerem-Batch"),
        ("до и после", "до-и-после"),
        ("日本語", "日本語"),
        ("हिन्दी", "हिन्दी"),
        ("עברית", "עברית"),
        ("e\u0301te\u0301", "\u00e9t\u00e9"),
        ("../../etc/passwd", "etc-passwd"),
        ("a/b\\c:d\0e\nf", "a-b-c-d-e-f"),
        (" 🎉 party 🎉 ", "party"),
    ],
)
def test_letters_of_every_script_are_kept(asked: str, name: str) -> None:
    """Composed; what no file's name should hold is one dash, and none at the ends."""
    assert file_name(asked) == name
    check_name(asked)


@given(st.text())
def test_a_name_is_one_plain_part_of_a_path(asked: str) -> None:
    """Nothing that a shell, a path or a terminal takes for something else, whatever was asked for."""
    name = file_name(asked)
    assert all(one in "._-" or unicodedata.category(one)[0] in "LMN" for one in name)
    assert not name.startswith((".", "-")) and not name.endswith((".", "-"))
    assert file_name(name) == name


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ("", "no letter"),
        ("***", "no letter"),
        ("🎉", "no letter"),
        ("..", "no letter"),
        (".", "no letter"),
        ("x" * 300, f"takes {MOST_NAME_BYTES}"),
        ("語" * 51, "has 153 bytes"),
        ("gr\udcc3\udcb6", "LANG=C.UTF-8"),
    ],
)
def test_a_name_of_which_nothing_could_be_made_is_refused(asked: str, says: str) -> None:
    """In one line with the reason, before anything runs; a surrogate is a byte that the locale could not read."""
    with pytest.raises(ValueError, match=says):
        check_name(asked)
    done = CliRunner().invoke(main, [*RUN, "--name", asked])
    assert done.exit_code == 2 and done.stderr.startswith("Error: --name ") and len(done.stderr.splitlines()) == 1


def test_the_longest_name_can_be_written(tmp_path: Path) -> None:
    """With all that stands around it while a run begins."""
    asked = "é" * (MOST_NAME_BYTES // 2)
    check_name(asked)
    done = CliRunner().invoke(main, [*RUN[:-1], "--name", asked, "--out", str(tmp_path), "--json"])
    assert done.exit_code == 0, done.output
    (folder,) = tmp_path.iterdir()
    assert f"-{asked}-" in folder.name and (folder / "report.html").is_file()


def test_no_folder_is_called_as_one_that_is_there(tmp_path: Path) -> None:
    """Three runs that begin in the same second under the same name, in letters and in their parts, and draw alike."""
    endings = iter(["aaaaaa", "aaaaaa", "bbbbbb", "bbbbbb", "aaaaaa", "cccccc"])
    names = ("été", "e\u0301te\u0301", "été")
    for name, ending in zip(names, ("aaaaaa", "bbbbbb", "cccccc"), strict=True):
        folder = new_folder(str(tmp_path), NOON, name, lambda: next(endings))
        folder.mkdir()
        assert folder.name == f"20260102T120000Z-été-{ending}"
