"""The spool: what players write beside a locust worker until the master has it. It outlives the worker.

A folder a run and rank: its schedule, its parts, and whose it is. What a worker that died left behind is found by
the next one on the same machine.
"""

import json
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from loadgen.part_files import part_numbers

OWNER_FILE = "owner.json"


@dataclass(frozen=True, slots=True)
class Spooled:
    """One run's rows of one rank."""

    folder: Path
    run: str
    rank: int

    @property
    def parts(self) -> Path:
        """Where its parts stand."""
        return self.folder / "parts"


def spool_root() -> Path:
    """Of this user on this machine; nobody else may look into it."""
    root = Path(tempfile.gettempdir()) / f"tokenload-spool-{os.getuid()}"
    root.mkdir(mode=0o700, exist_ok=True)
    if root.is_symlink() or root.stat().st_uid != os.getuid():
        raise ValueError(f"{root} belongs to somebody else: set TMPDIR to a folder of your own")
    return root


def begin_spool(root: Path, run: str, rank: int) -> Spooled:
    """An empty folder for it."""
    folder = Path(tempfile.mkdtemp(prefix=f"{run}-{rank}-", dir=root))
    (folder / "parts").mkdir()
    return Spooled(folder, run, rank)


def set_owner(spooled: Spooled, player_id: int) -> None:
    """Whose it is, while that process lives."""
    told = {"run": spooled.run, "rank": spooled.rank, "pid": player_id, "worker_pid": os.getpid()}
    (spooled.folder / OWNER_FILE).write_text(json.dumps(told))


def left_behind(root: Path, current: Path | None = None) -> list[Spooled]:
    """What nobody alive looks after any more, this process included but for its `current` folder.

    Folders without a part are removed.
    """
    found = []
    for file in sorted(root.glob(f"*/{OWNER_FILE}")):
        try:
            told = json.loads(file.read_text())
            spooled = Spooled(file.parent, str(told["run"]), int(told["rank"]))
            worker_pid = int(told["worker_pid"])
            alive = _is_alive(int(told["pid"])) or (worker_pid != os.getpid() and _is_alive(worker_pid))
        except (OSError, ValueError, KeyError, TypeError):
            continue
        if alive or spooled.folder == current:
            continue
        if part_numbers(spooled.parts):
            found.append(spooled)
        else:
            drop(spooled)
    return found


def drop(spooled: Spooled) -> None:
    """All of it is with the master."""
    shutil.rmtree(spooled.folder, ignore_errors=True)


def _is_alive(process_id: int) -> bool:
    try:
        return b"python" in Path(f"/proc/{process_id}/cmdline").read_bytes()
    except OSError:
        return False
