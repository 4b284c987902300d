"""The run folder: parts while a run lasts, Parquet files when it is complete, readable at any moment between.

A folder that is not complete is read from its parts and labelled INCOMPLETE: whatever reached the kernel before
the process died is there.
"""

import hashlib
import json
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

from results.columns import int64
from results.recording import TEXT_COLUMNS, Recording, RecordingPart
from results.recovery import recover
from results.schedule import Schedule, load_schedule, save_schedule
from results.stamp.canonical import sha256_of
from results.tables import TABLE_FILES, read_tables, write_tables

SCHEMA_VERSION = 1
RUNNING, COMPLETE, STOPPED = "running", "complete", "stopped"
INCOMPLETE = "INCOMPLETE"
SEAL = "info_sha256"
WRITE_ORDER = ("steps", "token_ids", "tokens", "slot_events", "requests", "host", "flight")
"""So that, wherever a write is cut off, what is there refers only to what is there too."""
OPTIONAL_FILES = ("server.parquet", "server_steps.parquet", "warmup.parquet")
OBJECTS = (
    "config", "config_effective", "engine", "verdict", "facts", "thresholds", "server", "connections", "calibration",
    "files_sha256",
)  # fmt: skip
"""What is an object in run.json, where it is there."""
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Run:
    """A run read from its folder."""

    folder: Path
    info: Json
    """run.json."""
    recording: Recording
    label: str | None
    """INCOMPLETE when the process died, STOPPED when the run was stopped, else None."""


class RunFolder:
    """The folder of one run that is going on."""

    def __init__(self, folder: Path, schedule: Schedule, info: Json, conditions: Json | None = None) -> None:
        """Makes the folder, under another name until it is readable. FileExistsError when it is there."""
        if folder.exists():
            raise FileExistsError(f"{folder} exists: a run never goes into a folder that is there")
        self.folder = folder
        self.info: Json = {"schema_version": SCHEMA_VERSION, "status": RUNNING, **info}
        begun = folder.with_name(f".{folder.name}.begun")
        (begun / "parts").mkdir(parents=True)
        save_schedule(schedule, begun / "schedule.parquet")
        write_json(begun / "conditions.json", conditions or {})
        write_json(begun / "run.json", self.info)
        begun.rename(folder)

    def writer(self, number: int = 0) -> "PartWriter":
        """Where a driver's parts go; each of several drivers has its own number."""
        return PartWriter(self.folder / "parts", number)

    def finish(
        self, recording: Recording, summary: Json, status: str, ended_utc: str, conditions: Json | None = None
    ) -> None:
        """Write tables, summary and conditions, then mark the folder complete (or stopped), then drop the parts."""
        write_tables(recording, self.folder)
        write_json(self.folder / "summary.json", summary)
        if conditions is not None:
            write_json(self.folder / "conditions.json", conditions)
        optional = [name for name in OPTIONAL_FILES if (self.folder / name).is_file()]
        names = ("schedule.parquet", "conditions.json", *TABLE_FILES, "summary.json", *optional)
        self.info.update(
            status=status,
            ended_utc=ended_utc,
            digest_sha256=digest(recording),
            in_flight_request_ns=recording.in_flight_request_ns,
            stopped_ns=recording.stopped_ns,
            files_sha256={name: file_sha256(self.folder / name) for name in names},
        )
        write_json(self.folder / "run.json", seal(self.info))
        shutil.rmtree(self.folder / "parts")


class PartWriter:
    """Appends parts to one Arrow IPC stream a table; each part reaches the kernel before `write` returns."""

    def __init__(self, folder: Path, number: int) -> None:
        """Opens nothing yet."""
        self._folder = folder
        self._number = number
        self._streams: dict[str, tuple[BinaryIO, Any]] = {}

    def __enter__(self) -> "PartWriter":
        """Itself, with what writing needs loaded: that takes a tenth of a second, which no run can spare."""
        import pyarrow as pa

        pa.ipc.new_stream(pa.BufferOutputStream(), pa.schema([])).close()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the streams properly; a stream that is not closed can be read all the same.

        A disk that refuses has said so when a part was written: nothing is left to be lost.
        """
        for file, stream in self._streams.values():
            for one in (stream, file):
                with suppress(OSError):
                    one.close()

    def write(self, part: RecordingPart) -> None:
        """Append a part's rows."""
        import pyarrow as pa

        for name in WRITE_ORDER:
            table = part.tables[name]
            if not len(next(iter(table.values()))):
                continue
            batch = pa.record_batch(
                {
                    column: pa.array(values, type=pa.string() if column in TEXT_COLUMNS else pa.int64())
                    for column, values in table.items()
                }
            )
            self._stream(name, batch.schema).write_batch(batch)
            self._streams[name][0].flush()

    def _stream(self, name: str, schema: Any) -> Any:
        import pyarrow as pa

        if name not in self._streams:
            path = self._folder / f"{self._number:04d}-{name}.arrows"
            file = path.open("wb")
            self._streams[name] = (file, pa.ipc.new_stream(file, schema))
        return self._streams[name][1]


def load_run(folder: Path) -> Run:
    """Read a run in any state. ValueError, in one line, when the folder holds none or what it holds is damaged."""
    info = _read_info(folder)
    try:
        schedule = load_schedule(folder / "schedule.parquet")
        if info["status"] == RUNNING:
            return Run(folder, info, recover(schedule, folder / "parts"), INCOMPLETE)
        recording = read_tables(schedule, folder, int(info["in_flight_request_ns"]))
    except (KeyError, TypeError, ValueError, OSError) as error:
        raise ValueError(f"{folder} is damaged: {' '.join(str(error).split())}") from None
    label = STOPPED.upper() if info["status"] == STOPPED else None
    return Run(folder, info, replace(recording, stopped_ns=info.get("stopped_ns")), label)


def _read_info(folder: Path) -> Json:
    """run.json, checked for what everything else relies on."""
    try:
        info = json.loads((folder / "run.json").read_text())
    except (FileNotFoundError, NotADirectoryError):
        raise ValueError(f"{folder} is not a run folder: it has no run.json") from None
    except (ValueError, OSError, RecursionError):
        raise ValueError(f"{folder / 'run.json'} is damaged: it is not JSON") from None
    if not isinstance(info, dict) or info.get("status") not in (RUNNING, COMPLETE, STOPPED):
        raise ValueError(f"{folder / 'run.json'} is damaged: it does not say what state the run is in")
    odd = [name for name in OBJECTS if not isinstance(info.get(name) or {}, dict)]
    if odd:
        raise ValueError(f"{folder / 'run.json'} is damaged: {', '.join(odd)} is no JSON object")
    if info.get("schema_version") != SCHEMA_VERSION:
        raise ValueError(f"{folder} was written as version {info.get('schema_version')}, this is {SCHEMA_VERSION}")
    return info


def digest(recording: Recording) -> str:
    """Canonical digest: SHA-256 over (id, due_ns, prompt tokens, output tokens asked and received, status)."""
    sha = hashlib.sha256()
    for name in ("request_id", "due_ns", "prompt_tokens", "output_tokens_asked", "output_tokens", "status"):
        sha.update(f"{name}|int64|{len(recording.schedule)}|".encode())
        sha.update(int64(recording.requests[name]).astype("<i8", copy=False).tobytes())
    return sha.hexdigest()


def seal(info: Mapping[str, Any]) -> Json:
    """run.json with the SHA-256 of all else in it, since no other file can hold that."""
    plain = json.loads(json.dumps({**info, SEAL: None}, default=str))
    return {**plain, SEAL: sha256_of(plain)}


def is_sealed(info: Mapping[str, Any]) -> bool:
    """Whether it is as it was written; one without a seal, of a run that has not ended, is."""
    try:
        return info.get(SEAL) in (None, sha256_of({**info, SEAL: None}))
    except ValueError:
        return False  # numbers that no file of ours has


def changed_files(folder: Path, info: Mapping[str, Any]) -> list[str]:
    """Names of the files whose bytes are not those that were written; run.json among them by its own seal."""
    told = info.get("files_sha256")
    changed = [
        name
        for name, sha256 in sorted((told if isinstance(told, dict) else {}).items())
        if "/" not in name and (not (folder / name).is_file() or file_sha256(folder / name) != sha256)
    ]
    return changed if is_sealed(info) else [*changed, "run.json"]


def file_sha256(path: Path) -> str:
    """Of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def json_sha256(document: Mapping[str, Any]) -> str:
    """Of the bytes of the file that `write_json` makes of it."""
    return hashlib.sha256(_json_text(document).encode()).hexdigest()


def _json_text(document: Mapping[str, Any]) -> str:
    return json.dumps(document, indent=1, sort_keys=True, allow_nan=False, default=str) + "\n"


def write_json(path: Path, document: Mapping[str, Any]) -> None:
    """Sorted, indented, and either all there or not at all."""
    partial = path.with_suffix(".partial")
    partial.write_text(_json_text(document))
    partial.replace(path)
