"""What a new folder is called: <UTC>-<name>-<6 hex>, and never as one that is there."""

import os
import secrets
import sys
import unicodedata
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

MOST_NAME_BYTES = 150
"""Of a name: with what stands around it, it must fit into the 255 bytes that file systems take."""
KEPT = "._-"
READABLE = "LMN"
"""Letters, marks and numbers of any script, by Unicode's categories."""


def draw() -> str:
    """What tells two folders of one second and one name apart."""
    return secrets.token_hex(3)


def new_folder(out: str, started: datetime, name: str, ending: Callable[[], str] = draw) -> Path:
    """A folder that is not there yet, below `out`; drawn anew where another has the same name."""
    while True:
        folder = Path(out) / f"{started:%Y%m%dT%H%M%SZ}-{file_name(name)}-{ending()}"
        if not folder.exists():
            return folder


def file_name(text: str) -> str:
    """Its letters and numbers, composed, with one dash in place of whatever lies between them."""
    composed = unicodedata.normalize("NFC", text)
    kept = [one if one in KEPT or unicodedata.category(one)[0] in READABLE else " " for one in composed]
    return "-".join("".join(kept).split()).strip(".-")


def check_name(text: str) -> None:
    """ValueError for a --name after which no folder can be called."""
    encoding, name = sys.getfilesystemencoding(), file_name(text)
    try:
        text.encode()
        size_bytes = len(os.fsencode(name))
    except UnicodeEncodeError:
        remedy = f"file names are in {encoding} here: use its letters, or set LANG=C.UTF-8"
        raise ValueError(f"--name {text!a}: {remedy}") from None
    if not any(unicodedata.category(one)[0] in "LN" for one in name):
        raise ValueError(f"--name {text!r} has no letter and no number: a folder could not be called after it")
    if size_bytes > MOST_NAME_BYTES:
        raise ValueError(
            f"--name {text[:20]!r}... has {size_bytes} bytes, a folder's takes {MOST_NAME_BYTES}: shorten it"
        )
