"""The schedule: what is asked, when, of whom. Fixed and hashed before a run, stored with it.

Holds columns and their hash, loads and saves them; draws nothing. A row is a request, its index is the
request's id, and rows stand in the order of their due times (requests that wait for others come where their
maker put them).
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from results.columns import NULL, Int64, int64, is_null

PHASES = ("warmup", "fill", "measure", "cooldown")
FILL, MEASURE, COOLDOWN = (PHASES.index(name) for name in ("fill", "measure", "cooldown"))
FORMAT = "tokenload-schedule/1"

HASHED_COLUMNS = (
    "due_ns", "after_offsets", "after_ids", "think_ns", "session", "turn", "request_class", "phase",
    "prompt_tokens", "output_tokens",
)  # fmt: skip
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Schedule:
    """Columns of one workload; arrays are int64, of one length (after_* excepted), and read-only."""

    due_ns: Int64
    """When a request is due, from the start of the run; NULL where it waits for others."""
    after_offsets: Int64
    """Request i waits for after_ids[after_offsets[i]:after_offsets[i + 1]]; one longer than the rows."""
    after_ids: Int64
    think_ns: Int64
    """Wait after the latest end of those it waits for; NULL where it waits for nobody."""
    session: Int64
    turn: Int64
    request_class: Int64
    """Index into class_names."""
    phase: Int64
    """Index into PHASES."""
    prompt_tokens: Int64
    output_tokens: Int64
    class_names: tuple[str, ...] = ("default",)
    recipe: Json = field(default_factory=dict)
    """How prompts are drawn and sampled: content, not shape, and so outside `sha256`."""
    origin: Json = field(default_factory=dict)
    """Where it came from: process or trace, parameters, offered rate, window, labels."""
    sha256: str = field(init=False)
    """Of the shape: the columns and class names, over `name|dtype|length|little-endian bytes` each."""

    def __post_init__(self) -> None:
        """ValueError when the columns do not fit together."""
        _check(self)
        for name in HASHED_COLUMNS:
            getattr(self, name).setflags(write=False)
        object.__setattr__(self, "sha256", _shape_sha256(self))

    def __len__(self) -> int:
        """How many requests."""
        return len(self.due_ns)

    @property
    def content_sha256(self) -> str:
        """Of shape and recipe together: two runs with it equal send the same prompts."""
        text = self.sha256 + json.dumps(self.recipe, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def after(self, request_id: int) -> Int64:
        """The requests it waits for."""
        return self.after_ids[self.after_offsets[request_id] : self.after_offsets[request_id + 1]]


def make_schedule(
    due_ns: Sequence[int] | Int64,
    prompt_tokens: Sequence[int] | Int64,
    output_tokens: Sequence[int] | Int64,
    *,
    after: Sequence[Sequence[int]] | None = None,
    think_ns: Sequence[int] | Int64 | None = None,
    session: Sequence[int] | Int64 | None = None,
    turn: Sequence[int] | Int64 | None = None,
    request_class: Sequence[int] | Int64 | None = None,
    class_names: tuple[str, ...] = ("default",),
    phase: Sequence[int] | Int64 | None = None,
    recipe: Json | None = None,
    origin: Json | None = None,
) -> Schedule:
    """A schedule from what is known of it; everything else is missing, in class 0, and measured."""
    rows = len(due_ns)
    missing = np.full(rows, NULL, dtype=np.int64)
    zeros = np.zeros(rows, dtype=np.int64)
    lists = after if after is not None else [()] * rows
    return Schedule(
        due_ns=int64(due_ns).copy(),
        after_offsets=np.concatenate([[0], np.cumsum([len(ids) for ids in lists])]).astype(np.int64),
        after_ids=int64([request_id for ids in lists for request_id in ids]),
        think_ns=missing.copy() if think_ns is None else int64(think_ns).copy(),
        session=missing.copy() if session is None else int64(session).copy(),
        turn=missing.copy() if turn is None else int64(turn).copy(),
        request_class=zeros.copy() if request_class is None else int64(request_class).copy(),
        phase=np.full(rows, MEASURE, dtype=np.int64) if phase is None else int64(phase).copy(),
        prompt_tokens=int64(prompt_tokens).copy(),
        output_tokens=int64(output_tokens).copy(),
        class_names=class_names,
        recipe=recipe if recipe is not None else {},
        origin=origin if origin is not None else {},
    )


def save_schedule(schedule: Schedule, path: Path) -> None:
    """Write a Parquet file that holds all of it; the same schedule gives the same bytes."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = {}
    for name in HASHED_COLUMNS:
        if not name.startswith("after_"):
            values = getattr(schedule, name)
            columns[name] = pa.array(values, mask=is_null(values))
    columns["after"] = pa.ListArray.from_arrays(
        pa.array(schedule.after_offsets.astype(np.int32)), pa.array(schedule.after_ids)
    )
    metadata = {
        "format": FORMAT,
        "sha256": schedule.sha256,
        "class_names": json.dumps(schedule.class_names),
        "recipe": json.dumps(schedule.recipe, sort_keys=True),
        "origin": json.dumps(schedule.origin, sort_keys=True),
    }
    pq.write_table(pa.table(columns).replace_schema_metadata(metadata), path, compression="zstd")


def load_schedule(path: Path) -> Schedule:
    """Read what `save_schedule` wrote. ValueError when it is something else, or its hash does not fit."""
    import pyarrow.parquet as pq

    file = pq.ParquetFile(path)
    try:
        return _from_file(file, path)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path} is damaged: {' '.join(str(error).split())}") from None


def _from_file(file: Any, path: Path) -> Schedule:
    """Column by column, so that a long schedule is never there twice."""
    metadata = {key.decode(): value.decode() for key, value in (file.schema_arrow.metadata or {}).items()}
    if metadata.get("format") != FORMAT:
        raise ValueError(f"{path} is not a schedule that tokenload saved")
    after = file.read(columns=["after"]).column("after").combine_chunks()
    columns = {
        name: np.asarray(file.read(columns=[name]).column(name).fill_null(NULL).to_numpy(), dtype=np.int64).copy()
        for name in HASHED_COLUMNS
        if not name.startswith("after_")
    }
    schedule = Schedule(
        **columns,
        after_offsets=np.asarray(after.offsets.to_numpy(), dtype=np.int64).copy(),
        after_ids=np.asarray(after.values.to_numpy(zero_copy_only=False), dtype=np.int64).copy(),
        class_names=tuple(json.loads(metadata["class_names"])),
        recipe=json.loads(metadata["recipe"]),
        origin=json.loads(metadata["origin"]),
    )
    if schedule.sha256 != metadata["sha256"]:
        raise ValueError(f"{path} has been changed: its columns hash to {schedule.sha256[:12]}, "
                         f"it says {metadata['sha256'][:12]}")  # fmt: skip
    return schedule


def _check_codes(schedule: Schedule) -> None:
    for name, names in (("request_class", schedule.class_names), ("phase", PHASES)):
        codes = getattr(schedule, name)
        if len(codes) and not 0 <= int(codes.min()) <= int(codes.max()) < len(names):
            raise ValueError(f"column {name} must hold indices from 0 to {len(names) - 1}")


def _shape_sha256(schedule: Schedule) -> str:
    digest = hashlib.sha256()
    for name in HASHED_COLUMNS:
        column = getattr(schedule, name)
        digest.update(f"{name}|int64|{len(column)}|".encode())
        digest.update(column.astype("<i8", copy=False).tobytes())
    for class_name in schedule.class_names:
        text = class_name.encode()
        digest.update(f"class_name|utf8|{len(text)}|".encode() + text)
    return digest.hexdigest()


def _check(schedule: Schedule) -> None:
    rows = len(schedule.due_ns)
    for name in HASHED_COLUMNS:
        if not name.startswith("after_") and len(getattr(schedule, name)) != rows:
            raise ValueError(f"column {name} has {len(getattr(schedule, name))} rows, due_ns has {rows}")
    waits = np.diff(schedule.after_offsets) > 0
    unknown = is_null(schedule.due_ns)
    if len(waits) != rows or bool((waits != unknown).any()):
        raise ValueError("a request has either a due time or others that it waits for")
    if bool((schedule.due_ns[~unknown] < 0).any()) or bool((schedule.think_ns[waits] < 0).any()):
        raise ValueError("due and think times must be known and not below 0")
    if bool((np.diff(schedule.due_ns[~unknown]) < 0).any()):
        raise ValueError("due times must not fall: sort the rows first")
    if rows and (int(schedule.prompt_tokens.min()) < 1 or int(schedule.output_tokens.min()) < 1):
        raise ValueError("every request needs at least 1 prompt token and 1 output token")
    if schedule.after_offsets[0] != 0 or schedule.after_offsets[-1] != len(schedule.after_ids):
        raise ValueError("after_offsets must go from 0 to the number of after_ids")
    _check_codes(schedule)
    waiters = np.repeat(np.arange(rows), np.diff(schedule.after_offsets))
    if bool(((schedule.after_ids < 0) | (schedule.after_ids >= waiters)).any()):
        raise ValueError("a request can wait only for requests before it")
