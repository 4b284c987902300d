"""The steps that a server told of itself, as the table of an engine's steps: checked, and on the run's axis if may be.

`targets.observe.step_records` writes what was told into the run folder's parts; it becomes `server_steps.parquet`.
Nothing of it is believed: whatever an engine's steps cannot be is said, and no figure is made of it.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from results.columns import NULL, Int64, Table, int64, is_null
from results.recording import KINDS, PART_TABLES
from results.server.names import STEPS_FILE, STEPS_PART, STEPS_TOLD
from results.slots import SLOT_STATES, WORK_COLUMNS

STEP_COLUMNS = (*PART_TABLES["steps"], "start_ns", "end_ns")
ALWAYS = ("step", "n_steps", "told", "start_ns", "end_ns")
"""Columns without a null."""
CLOCK_SLACK_NS = 100_000_000
"""How far outside the time between the first question and the last answer a step may end on the same clock."""
LARGEST_COUNT = 1 << 40
LATEST_NS = 1 << 61
NEVER_CAME = "its steps did not come in time"
ASKED_LATE = "the run had begun before it said where its steps stood"


def empty_steps() -> Table:
    """No step at all."""
    return {name: int64([]) for name in STEP_COLUMNS}


@dataclass(frozen=True, slots=True)
class ServerSteps:
    """What a server told of its steps from before the run to after it."""

    steps: Table = field(default_factory=empty_steps, repr=False)
    begin_step: int | None = None
    """The first step after time 0 by its number; None: the server tells no steps."""
    missed_steps: int = 0
    """Dropped before they were fetched."""
    same_clock: bool = False
    """start_ns and end_ns are on the run's axis; else they are the server's own."""
    reason: str = ""
    """Why they are not all there, or not believed; empty: they are."""

    @property
    def left_out_steps(self) -> int:
        """Missing between the first and the last."""
        step = int64(self.steps["step"])
        return int(step[-1] - step[0]) + 1 - len(step) if len(step) else 0


def read_told_steps(parts: Path, t0_ns: int, same_host: bool) -> ServerSteps:
    """What was fetched. Times move to the run's axis where the server shares this host's clock, by its address and
    by the times themselves: every step ended between the first question and the last answer."""
    import pyarrow as pa

    try:
        with (parts / STEPS_PART).open("rb") as file, pa.ipc.open_stream(file) as stream:
            table = stream.read_all()
            fetching = json.loads((table.schema.metadata or {})[STEPS_TOLD])
    except (OSError, ValueError, KeyError):
        return ServerSteps(reason=NEVER_CAME)
    late = (fetching["stood_ns"] or t0_ns) > t0_ns
    told = ServerSteps(
        begin_step=fetching["begin_step"],
        missed_steps=fetching["missed_steps"],
        reason=fetching["reason"] or (ASKED_LATE if late else ""),
    )
    if not table.num_rows:
        return told
    missing = [name for name in STEP_COLUMNS if name not in table.column_names]
    if missing:
        return _without_rows(told, f"its steps have no {missing[0]}")
    steps = _columns(table, STEP_COLUMNS)
    fault = next(_faults(steps, told.missed_steps, fetching["kinds"]), "")
    if fault:
        return _without_rows(told, fault)
    steps["kind"] = _coded(int64(steps["kind"]), fetching["kinds"])
    same_clock = same_host and _in_time(steps, fetching["asked_ns"], fetching["fetched_ns"])
    if same_clock:
        steps.update({name: int64(steps[name]) - t0_ns for name in ("start_ns", "end_ns")})
    return ServerSteps(steps, told.begin_step, told.missed_steps, same_clock, told.reason)


def write_server_steps(told: ServerSteps, folder: Path) -> Path:
    """`server_steps.parquet`, with the columns of steps.parquet; the same steps give the same bytes."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    arrays: dict[str, Any] = {name: pa.array(values, mask=is_null(values)) for name, values in told.steps.items()}
    arrays["kind"] = pa.DictionaryArray.from_arrays(arrays["kind"].cast(pa.int32()), pa.array(KINDS))
    facts = {name: value for name, value in asdict(told).items() if name != "steps"}
    table = pa.table(arrays).replace_schema_metadata({STEPS_TOLD: json.dumps(facts, sort_keys=True).encode()})
    encoding = {name: "DELTA_BINARY_PACKED" for name in arrays if name != "kind"}
    path = folder / STEPS_FILE
    partial = path.with_suffix(".partial")
    pq.write_table(table, partial, compression="zstd", use_dictionary=["kind"], column_encoding=encoding)
    partial.replace(path)
    return path


def read_server_steps(folder: Path) -> ServerSteps | None:
    """What `write_server_steps` wrote; None: this run has none."""
    import pyarrow.parquet as pq

    path = folder / STEPS_FILE
    if not path.is_file():
        return None
    table = pq.read_table(path)
    facts = json.loads(table.schema.metadata[STEPS_TOLD])
    kinds = [None if kind is None else KINDS.index(kind) for kind in table.column("kind").to_pylist()]
    steps = _columns(table, [name for name in STEP_COLUMNS if name != "kind"])
    steps["kind"] = int64([NULL if code is None else code for code in kinds])
    return ServerSteps({name: steps[name] for name in STEP_COLUMNS}, **facts)


def _columns(table: Any, names: Sequence[str]) -> Table:
    return {name: int64(np.asarray(table.column(name).fill_null(NULL).to_numpy())).copy() for name in names}


def _without_rows(told: ServerSteps, reason: str) -> ServerSteps:
    return ServerSteps(begin_step=told.begin_step, missed_steps=told.missed_steps, reason=reason)


def _faults(steps: Table, missed_steps: int, kinds: Any) -> Iterator[str]:
    """What no engine's steps can be."""
    if any(is_null(steps[name]).any() for name in ALWAYS):
        yield "its steps leave out numbers or times"
    step, start, end = (int64(steps[name]) for name in ("step", "start_ns", "end_ns"))
    if step[0] < 0 or (np.diff(step) < 1).any() or (int64(steps["n_steps"]) != 1).any():
        yield "its steps are not in order"
    if step[-1] - step[0] + 1 - len(step) > missed_steps:
        yield "its steps leave out steps"
    if start[0] < 0 or (start > end).any() or (end > LATEST_NS).any() or (start[1:] < end[:-1]).any():
        yield "the times of its steps contradict each other"
    counts = [int64(steps[name])[~is_null(steps[name])] for name in ("told", *WORK_COLUMNS)]
    if any(((values < 0) | (values > LARGEST_COUNT)).any() for values in counts):
        yield "its steps hold counts that cannot be"
    if len(np.unique(_slots_of(steps))) > 1:
        yield "the slot states of its steps do not add up to the same number of slots"
    if not isinstance(kinds, list) or not set(kinds) <= set(KINDS) or not _are_codes(int64(steps["kind"]), len(kinds)):
        yield "its steps are of a kind that is not known"


def _slots_of(steps: Mapping[str, Any]) -> Int64:
    """The six states' sum of each step that tells them all."""
    states = np.array([int64(steps[name]) for name in SLOT_STATES])
    return int64(states[:, ~is_null(states).any(axis=0)].sum(axis=0))


def _are_codes(kind: Int64, count: int) -> bool:
    known = kind[~is_null(kind)]
    return bool(((known >= 0) & (known < count)).all())


def _coded(kind: Int64, kinds: list[str]) -> Int64:
    """The server's codes as ours."""
    ours = int64([*(KINDS.index(name) for name in kinds), NULL])
    return ours[np.where(is_null(kind), len(kinds), kind)]


def _in_time(steps: Table, asked_ns: int | None, fetched_ns: int | None) -> bool:
    """Whether they can be of this host's clock."""
    if asked_ns is None or fetched_ns is None:
        return False
    end = int64(steps["end_ns"])
    return bool(end[0] >= asked_ns - CLOCK_SLACK_NS and end[-1] <= fetched_ns + CLOCK_SLACK_NS)
