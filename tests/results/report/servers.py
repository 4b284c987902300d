"""Run and sweep folders of servers to report on, made from streams without a server: every text and time is given."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from results.recording import Recording
from results.server.summary import server_summary
from results.server.table import RUN_START, STREAM_ENDING, ServerTable, make_table, write_server
from results.slo import parse_slo
from results.status import Status
from results.store import COMPLETE, RunFolder, write_json
from results.verdicts.case import RunFacts
from results.verdicts.judged import judged
from tests.results.streams import Stream, part_of, streamed

MS, S = 1_000_000, 1_000_000_000
URL = "http://127.0.0.1:8000/v1"
STARTED, ENDED = "2026-11-29T12:00:00+00:00", "2026-11-29T12:01:00+00:00"
LIMITS = "ttft<=1s,tpot<=50ms"
CALIBRATION: dict[str, Any] = {
    "ttft_error_us": {"p50": 40.0, "p95": 90.0, "p99": 210.0},
    "itl_error_us": {"p50": 20.0, "p95": 60.0, "p99": 130.0},
    "send_lateness_us": {"p50": 60.0, "p95": 200.0, "p99": 700.0},
    "ceiling_events_per_s": 50_000.0,
}


@dataclass(frozen=True)
class Served:
    """One run against a server."""

    streams: Sequence[Stream]
    url: str = URL
    load: str = "10"
    model: str = "tiny-1b"
    config: Mapping[str, Any] = field(default_factory=dict)
    info: Mapping[str, Any] = field(default_factory=dict)
    scrapes: ServerTable | None = None
    slots: int | None = None
    status: str = COMPLETE


def answers(count: int = 120, every_ms: int = 100, ttft_ms: int = 50, tokens: int = 8, **told: Any) -> list[Stream]:
    """Streams that all went well: evenly due, a token every 10 ms, each phase 1 ms longer than the one before."""
    found = []
    for at in range(count):
        due_ns = at * every_ms * MS
        first_ns = due_ns + ttft_ms * MS
        events = [first_ns + step * 10 * MS for step in range(tokens)]
        phases = {
            "dispatched_ns": due_ns, "connected_ns": due_ns, "uploaded_ns": due_ns + 2 * MS,
            "header_ns": due_ns + 5 * MS, "first_byte_ns": first_ns, "connect_ns": 1 * MS if at == 0 else None,
            "connection_reused": int(at > 0), "http_status": 200, "told_output_tokens": tokens,
            "told_prompt_tokens": 10, "reply_bytes": 100 * tokens,
        }  # fmt: skip
        known = {name: value for name, value in {**phases, **told}.items() if value is not None}
        found.append(Stream(events, due_ns, handed_ns=due_ns + MS, end_ns=events[-1] + 4 * MS, told=known))
    return found


def failing(streams: Sequence[Stream], count: int, error: str, http_status: int = 500) -> list[Stream]:
    """The same with the first of them failed."""
    lost = [
        replace(
            one,
            events=(),
            status=Status.HTTP_ERROR,
            error=error,
            asked=8,
            finish_reason=None,
            end_ns=one.due_ns + 9 * MS,
            told={"http_status": http_status, "header_ns": one.due_ns + 5 * MS},
        )
        for one in streams[:count]
    ]
    return [*lost, *streams[count:]]


def scrape_rows(seconds: int = 12, kind: str = "vllm", slots: int = 4) -> list[dict[str, Any]]:
    """One scrape a second of a server whose slots are half used."""
    names: dict[str, Callable[[int], float]] = {
        f"{kind}:num_requests_running": lambda at: float(at % 3),
        f"{kind}:num_requests_waiting": lambda at: float(at % 2),
        f"{kind}:kv_cache_usage_perc": lambda at: min(at / 20, 1.0),
        f"{kind}:num_preemptions_total": lambda at: float(at // 5),
        f"{kind}:generation_tokens_total": lambda at: at * 80.0,
        f"{kind}:iteration_tokens_total_count": lambda at: at * 80.0 * 2 / slots,
        "process_start_time_seconds": lambda at: 5.0,
    }
    return [_row(at, name, told(at)) for at in range(seconds + 1) for name, told in names.items()]


def scrapes(seconds: int = 12) -> ServerTable:
    """Those rows as a table."""
    return make_table(scrape_rows(seconds))


def _row(at: int, name: str, value: float) -> dict[str, Any]:
    return {
        "round": at, "t_ns": at * S, "request_ns": MS, "url": "http://127.0.0.1:8000/metrics", "name": name,
        "labels": "", "value": value,
    }  # fmt: skip


def make_served(folder: Path, served: Served) -> Path:
    """One run folder, as a session would have written it."""
    recording = _recorded(served)
    schedule = recording.schedule
    run = RunFolder(folder, schedule, _info(served, schedule.sha256))
    facts = RunFacts("real", schedule.sha256, "http", None if served.status == COMPLETE else "STOPPED")
    summary, verdict = judged(recording, parse_slo(LIMITS), facts)
    run.info["verdict"] = verdict.to_json()
    run.finish(recording, summary, served.status, ENDED)
    if served.scrapes is not None:
        write_server(served.scrapes, folder)
    return folder


def make_killed(folder: Path, served: Served, ended: int, rows: Sequence[Mapping[str, Any]]) -> Path:
    """The folder of a run whose process died when so many requests had ended, and what it had scraped by then."""
    import pyarrow as pa

    told = _info(replace(served, scrapes=None), (schedule := _recorded(served).schedule).sha256)
    run = RunFolder(folder, schedule, {**told, "calibration": None})
    with run.writer() as writer:
        writer.write(part_of(dict(enumerate(served.streams[:ended]))))
    start = {**_row(0, RUN_START, 0.0), "url": ""}
    table = pa.Table.from_pylist([start, *rows])
    with pa.ipc.new_stream(folder / "parts" / f"0000{STREAM_ENDING}", table.schema) as stream:
        stream.write_table(table)
    return folder


def _info(served: Served, schedule_sha256: str) -> dict[str, Any]:
    watched = server_summary(served.scrapes, 0, None, served.slots) if served.scrapes is not None else {}
    ceiling_eps = CALIBRATION["ceiling_events_per_s"]
    return {
        "tokenload_version": "0.0.0", "started_utc": STARTED, "clock": "real", "target": "http", "repeats": 1,
        "clean_tree": True, "config": _config(served), "schedule_sha256": schedule_sha256, "calibration": CALIBRATION,
        "facts": {"ceiling_eps": ceiling_eps}, "ended_early": None, **watched,
        "engine": {"policy": "server", "api": "openai-chat", "served_model": served.model, "slots": served.slots},
        **served.info,
    }  # fmt: skip


def make_served_sweep(out: Path, *points: Served) -> Path:
    """A sweep folder with these points."""
    sweep = out / "20261129T120000Z-sweep-fedcba"
    rows = []
    for number, served in enumerate(points):
        place = f"points/{number:03d}"
        (sweep / place).parent.mkdir(parents=True, exist_ok=True)
        make_served(sweep / place, served)
        rate_rps = float(served.load) if served.load.isdigit() else None
        rows.append({"folder": place, "engine": served.url, "load": served.load, "rate_rps": rate_rps, "repeat": 0,
                     "seed": 7, "order": number, "status": "complete"})  # fmt: skip
    told = {
        "schema_version": 1, "kind": "sweep", "status": "complete", "started_utc": STARTED, "ended_utc": ENDED,
        "command": "tokenload sweep --target ...", "config": {}, "repeats": 1, "order_seed": 7, "points": rows,
        "engines": list(dict.fromkeys(one.url for one in points)),
        "loads": list(dict.fromkeys(one.load for one in points)),
    }  # fmt: skip
    write_json(sweep / "sweep.json", told)
    return sweep


def _recorded(served: Served) -> Recording:
    kind, _, users = served.load.partition(":")
    window = {"window": {"kind": "makespan"}} if kind in ("closed", "burst") else {}
    origin = {"process": "closed" if users else "poisson", "stationary": not window, **window}
    if not window:
        origin["rate_rps"] = float(served.load)
    return streamed(*served.streams, origin=origin)


def _config(served: Served) -> dict[str, Any]:
    kind, _, users = served.load.partition(":")
    closed = {"arrival": "closed", "users": users} if users else {}
    of_load = closed or ({"arrival": "burst"} if kind == "burst" else {"rate": served.load})
    return {"target": served.url, "slo": LIMITS, **of_load, **served.config}

