"""What a killed run left behind: whole batches of its parts' streams, made to fit together."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from results.columns import NULL, Table, int64
from results.compact import as_recording, compact
from results.recording import KINDS, PART_TABLES, TEXT_COLUMNS, Recording, RecordingPart, empty_part, merge
from results.schedule import Schedule
from results.status import Status
from results.steps import ends_ns
from results.unroll import implied_tokens, unrolled

MIXED = KINDS.index("mixed")
UNROLLED_TOKENS = 5_000_000
"""So many implied tokens are written out, as a run that ends in good order has them."""


def recover(schedule: Schedule, parts: Path) -> Recording:
    """Merge what the parts hold. Requests that were due by then and have no end are unfinished.

    Deliveries and slot events of steps that are not there are left out, and token ids that do not reach. A
    streaming target's deliveries have times of their own and are all kept.
    """
    tables = dict(read_parts(parts).tables)
    tables["steps"] = _chosen(tables["steps"], np.argsort(tables["steps"]["step"], kind="stable"))
    long = implied_tokens(tables["steps"]) > UNROLLED_TOKENS and not (tables["steps"]["kind"] == MIXED).any()
    tables = tables if long else unrolled(tables)
    last_step = _last_step(tables["steps"])
    if "t_ns" not in tables["tokens"]:
        tables["token_ids"], tables["tokens"] = _fitting(tables, last_step)
    events = tables["slot_events"]
    tables["slot_events"] = _chosen(events, (int64(events["step"]) <= last_step).nonzero()[0])
    part = RecordingPart(tables)
    recording = as_recording(compact(schedule, [part]), [tables["host"]]) if long else merge(schedule, [part])
    reached_ns = int(ends_ns(recording.steps)[-1]) if last_step >= 0 else _last_seen_ns(tables)
    requests = recording.requests
    due = int64(requests["due_ns"])
    still_open = (requests["status"] == Status.NOT_DISPATCHED) & (due != NULL) & (due <= reached_ns)
    requests["status"][still_open] = np.int64(Status.UNFINISHED)
    return replace(recording, stopped_ns=reached_ns)


def _last_step(steps: Table) -> int:
    """-1 where there is none."""
    return int(steps["step"][-1] + steps["n_steps"][-1]) - 1 if len(steps["step"]) else -1


def read_parts(parts: Path) -> RecordingPart:
    """All rows that any process has written, as one part."""
    tables = dict(empty_part().tables)
    tables.update((name, table) for name, table in _tables(parts).items() if table)
    return RecordingPart(tables)


def _last_seen_ns(tables: dict[str, Table]) -> int:
    """Without steps: the latest of what happened to a request, and of what the driver had counted up to."""
    columns = (("tokens", "t_ns"), ("requests", "end_ns"), ("flight", "until_ns"))
    return max(int(int64(tables[table].get(name, [])).max(initial=0)) for table, name in columns)


def _fitting(tables: dict[str, Table], last_step: int) -> tuple[Table, Table]:
    """Token ids and deliveries of the steps that are there; no ids at all where they do not reach."""
    tokens, ids = tables["tokens"], int64(tables["token_ids"]["token_id"])
    counts = int64(tokens["tokens"])
    kept = int64(tokens["step"]) <= last_step
    told = int(counts.sum())
    ids = ids[:told][np.repeat(kept, counts)] if len(ids) >= told else ids[:0]
    return {"token_id": ids}, _chosen(tokens, kept.nonzero()[0])


def _chosen(table: Table, rows: Any) -> Table:
    return {name: values[rows] for name, values in table.items()}


def _tables(parts: Path) -> dict[str, Table]:
    """Each table's rows over all streams; {} for a table without any."""
    return {name: _read_streams(sorted(parts.glob(f"*-{name}.arrows"))) for name in PART_TABLES}


def _read_streams(paths: list[Path]) -> Table:
    """Whole batches only: a stream may end anywhere."""
    import pyarrow as pa

    batches = []
    for path in paths:
        try:
            with path.open("rb") as file, pa.ipc.open_stream(file) as stream:
                while True:
                    batches.append(stream.read_next_batch())
        except (pa.ArrowInvalid, OSError, StopIteration):
            continue
    if not batches:
        return {}
    table = pa.Table.from_batches(batches)
    return {
        name: np.array(table.column(name).to_pylist(), dtype=object)
        if name in TEXT_COLUMNS
        else table.column(name).to_numpy().copy()
        for name in table.column_names
    }
