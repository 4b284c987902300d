"""A file that a user names is loaded as it stands."""

import os
import py_compile
from pathlib import Path

from targets.loading import load


def test_a_file_changed_within_the_second_is_read_anew(tmp_path: Path) -> None:
    """Of the same size and time as the compiled one beside it: what the file says now is what counts."""
    file = tmp_path / "mine.py"
    file.write_text("COST = 2\n")
    written = file.stat()
    py_compile.compile(str(file))
    assert load(f"{file}:COST") == 2
    file.write_text("COST = 3\n")
    os.utime(file, (written.st_atime, written.st_mtime))
    assert load(f"{file}:COST") == 3


def test_nothing_is_left_beside_a_file(tmp_path: Path) -> None:
    """A folder of the user's gets no compiled files."""
    file = tmp_path / "mine.py"
    file.write_text("COST = 2\n")
    load(f"{file}:COST")
    assert list(tmp_path.iterdir()) == [file]
