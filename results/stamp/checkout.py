"""The code that ran: commit, branch and changes, when the program runs from a checkout of its own."""

import hashlib
import os
import subprocess
from pathlib import Path

from results.stamp.canonical import Json
from results.stamp.kernel import MissingError

LONGEST_S = 5
DIFF = (
    "diff", "HEAD", "--no-ext-diff", "--no-textconv", "--no-color", "--binary", "--src-prefix=a/", "--dst-prefix=b/",
)  # fmt: skip
"""Nothing that a user has configured changes its bytes."""


def checkout(program: Path) -> Json:
    """commit, branch ("(detached)" without one), dirty, diff_sha256, untracked.

    Dirty: a tracked file differs from the commit. The hash is of all such differences, of nothing when there are
    none. Untracked: files and folders that are not ignored. MissingError when the program does not stand in a
    checkout of its own, or git does not answer.
    """
    if not (program / ".git").exists():
        raise MissingError("NOT_A_CHECKOUT: installed, or part of another project")
    lines = _git(program, "status", "--porcelain=v2", "--branch", "--untracked-files=normal", "-z").split(b"\0")
    heads = dict(line[2:].decode().partition(" ")[::2] for line in lines if line.startswith(b"# branch."))
    dirty = any(line[:2] in (b"1 ", b"2 ", b"u ") for line in lines)
    return {
        "commit": heads["branch.oid"],
        "branch": heads["branch.head"],
        "dirty": dirty,
        "diff_sha256": hashlib.sha256(_git(program, *DIFF) if dirty else b"").hexdigest(),
        "untracked": sorted(line[2:].decode(errors="replace") for line in lines if line.startswith(b"? ")),
    }


def _git(program: Path, *arguments: str) -> bytes:
    command = ["git", "--no-optional-locks", "-C", str(program), *arguments]
    environment = {name: os.environ[name] for name in ("PATH", "HOME", "SYSTEMROOT") if name in os.environ}
    try:
        done = subprocess.run(command, capture_output=True, check=True, timeout=LONGEST_S, env=environment)
    except FileNotFoundError:
        raise MissingError("NO_GIT: the program git was not found") from None
    except (subprocess.SubprocessError, OSError) as error:
        raise MissingError(f"GIT_FAILED: {arguments[0]}, {type(error).__name__}") from None
    return done.stdout
