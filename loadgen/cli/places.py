"""Where a command is to write: looked at before anything is computed, and refused in one line that names a way out.

A disk that fills up later is told by `one_line_errors`.
"""

import os
from pathlib import Path


def file_place(flag: str, text: str, example: str, makes_folders: bool = False) -> Path:
    """The file that an option names. ValueError when none can be written there.

    `example`: a file's name, as one could be written. `makes_folders`: whether missing folders above it are made.
    """
    _check_home(flag, text)
    path = Path(text)
    if not text.strip():
        raise ValueError(f"{flag} is empty: name a file, as in {flag} {example}")
    if path.is_dir():
        raise ValueError(f"{flag} {text} is a folder: name a file, as in {flag} {path / example}")
    if not makes_folders and not path.parent.exists():
        raise ValueError(f"{flag} {text}: there is no folder {path.parent}: make it, or name another place")
    _check_standing(flag, text, path if path.exists() else _standing(path.parent), example)
    return path


def folder_place(flag: str, text: str, example: str) -> Path:
    """The folder that an option names, which may be made. ValueError when something else is in its way."""
    _check_home(flag, text)
    if not text.strip():
        raise ValueError(f"{flag} is empty: name a folder, as in {flag} {example}")
    place = _standing(Path(text))
    if place == Path(text) and not place.is_dir():
        raise ValueError(f"{flag} {text} is a file: name a folder, as in {flag} {example}")
    _check_standing(flag, text, place, example)
    return Path(text)


def _check_home(flag: str, text: str) -> None:
    """A shell puts the home folder for a ~ at the beginning of a word; in the middle of `--out=~/x` it does not."""
    if text.startswith("~"):
        raise ValueError(f"{flag} {text}: the shell left ~ as it is: write {flag} and the place apart, or ./{text}")


def _standing(path: Path) -> Path:
    """The path, or the nearest above it that is there."""
    return next((place for place in (path, *path.parents) if place.exists()), path)


def _check_standing(flag: str, text: str, place: Path, example: str) -> None:
    """Nothing can be made below a file, or where writing is not allowed."""
    if place != Path(text) and not place.is_dir():
        raise ValueError(f"{flag} {text}: {place} is a file: name another place, as in {flag} {example}")
    if place.exists() and not os.access(place, os.W_OK):
        raise ValueError(f"{flag} {text}: {place} may not be written to: name another place, as in {flag} {example}")
