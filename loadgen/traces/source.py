"""A trace file: its bytes, their hash, its text, and what is wrong with it in one line.

Knows nothing of formats. Compression is recognised by its first bytes, whatever the file is called.
"""

import csv
import gzip
import hashlib
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_GZIP_MAGIC = b"\x1f\x8b"
_LFS_POINTER = "version https://git-lfs"
_FIRST_LINE_CHARS = 65_536
_SHOWN_LINES = 10


@dataclass(frozen=True, slots=True)
class Source:
    """A file as it lies on the disk, compressed or not."""

    path: Path
    sha256: str
    size_bytes: int

    @property
    def file(self) -> str:
        """Its name, without the folder: paths of a machine stay on that machine."""
        return self.path.name

    @property
    def suffix(self) -> str:
        """`.csv` of both data.csv and data.csv.gz, in lower case."""
        name = Path(self.file.lower())
        return name.with_suffix("").suffix if name.suffix == ".gz" else name.suffix

    @property
    def name(self) -> str:
        """The file's name without its suffixes."""
        stem = Path(self.file)
        return stem.with_suffix("").stem if stem.suffix.lower() == ".gz" else stem.stem


def open_source(path: Path) -> Source:
    """Hash the file. ValueError when it cannot be read."""
    try:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            return Source(path, digest, file.tell())
    except OSError as problem:
        raise ValueError(f"{path} cannot be read: {problem.strerror}") from None


@contextmanager
def text_of(source: Source) -> Iterator[io.TextIOWrapper]:
    """The decoded text, line ends as they are. ValueError, in one line, for whatever stops it from being read."""
    try:
        with source.path.open("rb") as file:
            zipped = file.read(len(_GZIP_MAGIC)) == _GZIP_MAGIC
            file.seek(0)
            plain: Any = gzip.GzipFile(fileobj=file) if zipped else file
            with io.TextIOWrapper(plain, encoding="utf-8-sig", newline="") as text:
                yield text
    except UnicodeDecodeError as problem:
        byte = problem.object[problem.start]
        raise ValueError(f"{source.file} is not UTF-8 text (byte 0x{byte:02x}): convert it, as with "
                         "iconv -f latin1 -t utf-8") from None  # fmt: skip
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise ValueError(f"{source.file} ends early or is damaged: fetch the compressed file again") from None
    except csv.Error as problem:
        raise ValueError(f"{source.file} is not well-formed CSV ({problem}): correct its quotes") from None
    except OSError as problem:
        raise ValueError(f"{source.file} cannot be read: {problem.strerror}") from None


def first_line(source: Source) -> str:
    """The first line that is not blank, stripped. ValueError when there is none, or only a pointer to the data."""
    with text_of(source) as text:
        line = ""
        while not line.strip() and (content := text.readline(_FIRST_LINE_CHARS)):
            line = content
    line = line.strip()
    if not line:
        raise ValueError(f"{source.file} is empty: a trace has a first line and at least one row")
    if line.startswith(_LFS_POINTER):
        raise ValueError(f"{source.file} is a Git LFS pointer, not the data: fetch it with git lfs pull")
    return line


@dataclass(slots=True)
class BadRows:
    """Rows that could not be parsed: where, and why the first one could not."""

    count_rows: int = 0
    lines: list[int] = field(default_factory=list)
    reason: str = ""

    def add(self, line: int, reason: str) -> None:
        """One more, at a line of the file (1-based)."""
        if not self.count_rows:
            self.reason = reason
        if len(self.lines) < _SHOWN_LINES:
            self.lines.append(line)
        self.count_rows += 1

    def stop_import(self, source: Source) -> None:
        """ValueError when there was any."""
        if not self.count_rows:
            return
        some = "row" if self.count_rows == 1 else "rows"
        lines = ", ".join(str(line) for line in self.lines)
        more = ", ..." if self.count_rows > len(self.lines) else ""
        raise ValueError(f"{source.file}: {self.count_rows:,} {some} cannot be read, at line {lines}{more} "
                         f"(line {self.lines[0]}: {self.reason}): correct or remove them")  # fmt: skip
