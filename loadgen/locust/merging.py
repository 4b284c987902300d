"""A finished run and the rows that came after its end, merged into a run folder of their own: neither is changed.

The requests of a lost worker that its spool tells of take the place of `worker_lost`; those it does not tell of stay.
Of servers only: an engine in a process has one player, and a run that loses it has no steps to go on from.
"""

import json
import shutil
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from results.columns import Int64, int64
from results.recording import PART_TABLES, Recording, RecordingPart, empty_part, merge
from results.recovery import read_parts
from results.remote import REMOTE_COLUMNS, REMOTE_TEXT_COLUMNS
from results.report import write_report
from results.slo import parse_slo
from results.status import Status
from results.store import INCOMPLETE, OPTIONAL_FILES, SEAL, Run, RunFolder, load_run
from results.verdicts.judged import judged
from results.verdicts.run_facts import facts_of

LATE = "late"
"""The folder in a run's folder where late parts are kept, as `parts` in one of its own."""
MERGED_ENDING = "-merged"
WITHOUT_ROWS = (Status.NOT_DISPATCHED, Status.WORKER_LOST)
OF_THE_END = ("digest_sha256", "in_flight_request_ns", "stopped_ns", "files_sha256", "verdict", "ended_utc", SEAL)
"""What `RunFolder.finish` writes anew."""


def merge_late(folder: Path) -> Path:
    """The new run folder beside `folder`. ValueError in one line where there is nothing to merge."""
    run = load_run(folder)
    if run.label == INCOMPLETE:
        raise ValueError(f"{folder} has not ended: late rows are among its own, `tokenload report` shows them")
    if not (folder / LATE / "parts").is_dir():
        raise ValueError(f"{folder} has no late rows: there is no folder {LATE} in it")
    merged = with_late(run.recording, read_parts(folder / LATE / "parts"))
    return _write(run, merged)


def with_late(recording: Recording, late: RecordingPart) -> Recording:
    """Each request as it was first told; `worker_lost` where nobody has told of it still.

    ValueError in one line for a run of an engine in a process.
    """
    if recording.token_t_ns is None:
        raise ValueError("this is the run of an engine in a process: late rows can be merged into runs against servers")
    lost = recording.requests["status"] == Status.WORKER_LOST
    merged = merge(recording.schedule, [_as_part(recording, recording.token_t_ns), late])
    status = merged.requests["status"]
    status[lost & (status == Status.NOT_DISPATCHED)] = np.int64(Status.WORKER_LOST)
    return replace(merged, stopped_ns=recording.stopped_ns)


def _as_part(recording: Recording, token_t_ns: Int64) -> RecordingPart:
    """Its rows as before they were merged."""
    requests = recording.requests
    told = told_of(requests["status"])
    names = [*PART_TABLES["requests"], *REMOTE_COLUMNS, *REMOTE_TEXT_COLUMNS]
    owner = np.repeat(requests["request_id"], np.diff(recording.token_offsets))
    return RecordingPart(
        {
            **empty_part().tables,
            "requests": {name: requests[name][told] for name in names if name in requests},
            "tokens": {"request_id": owner, "t_ns": token_t_ns, "tokens": recording.token_count},
            "host": recording.host,
            "flight": {"until_ns": int64([0]), "request_ns": int64([recording.in_flight_request_ns])},
        }
    )


def told_of(status: Any) -> Any:
    """By request: whether some row told of its end."""
    return ~np.isin(status, WITHOUT_ROWS)


def ids_told_of(folder: Path) -> Int64:
    """Of a finished run. ValueError when it cannot be read."""
    requests = load_run(folder).recording.requests
    return int64(requests["request_id"][told_of(requests["status"])])


def _write(run: Run, merged: Recording) -> Path:
    late_requests = int((told_of(merged.requests["status"]) & ~told_of(run.recording.requests["status"])).sum())
    kept = {name: value for name, value in run.info.items() if name not in OF_THE_END}
    info = {**kept, "merged_from": run.folder.name, "late_requests": late_requests}
    conditions = json.loads((run.folder / "conditions.json").read_text())
    made = RunFolder(run.folder.with_name(run.folder.name + MERGED_ENDING), merged.schedule, info, conditions)
    for name in OPTIONAL_FILES:
        if (run.folder / name).is_file():
            shutil.copyfile(run.folder / name, made.folder / name)
    slo = (info.get("config_effective") or {}).get("slo")
    summary, verdict = judged(merged, parse_slo(slo) if slo else None, facts_of(info, run.label))
    if info.get("server"):
        summary["server"] = info["server"]
    made.info["verdict"] = verdict.to_json()
    made.finish(merged, summary, run.info["status"], datetime.now(UTC).isoformat(timespec="seconds"), conditions)
    write_report(made.folder)
    return made.folder
