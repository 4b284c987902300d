"""Calibration: what this client adds to what it measures, on this machine, now.

It plays a schedule against a server that computes nothing and says in each event when it was written. The error of
a stamp is never subtracted from anything: it stands beside the figures, and a run above half the ceiling is invalid.
"""

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Coroutine
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from loadgen.config import RunConfig, from_texts
from loadgen.planned import planned_requests
from loadgen.steering import Steering
from loadgen.stream_drive import play_target
from loadgen.workload import build_schedule
from results.columns import Int64, int64
from results.metrics import events_of, gaps_ns, lag_ns
from results.recording import Recording
from results.stats import quantile
from targets.api import BodyOptions
from targets.apis.catalog import make_api
from targets.http_target import HttpTarget, Limits
from targets.target import PlannedRequest, Reply
from targets.transport.endpoint import parse_endpoint

LOAD = {
    "arrival": "conditioned", "rate": "150", "requests": "180", "prompt-tokens": "64", "output-tokens": "32",
    "same-bytes": "true", "seed": "1",
}  # fmt: skip
"""About 4,800 events a second for a little more than a second."""
DRAIN_NS = 2_000_000_000
VALID_S = 3600
NS_PER_US, NS_PER_S = 1e3, 1e9
QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
Json = dict[str, Any]


def calibration(fresh: bool = False) -> Json:
    """This machine's, measured in the last hour under this boot and version, else now. OSError when it cannot be."""
    key = _key()
    cached = None if fresh else _cached(key)
    if cached is not None:
        return cached
    found = {**measure(), "key": key, "measured_s": time.time()}
    _keep(found)
    return found


def measure() -> Json:
    """Take about two seconds: error of TTFT and ITL stamps, lateness of sends, and events a second of one core."""
    process = subprocess.Popen(
        [sys.executable, "-m", "targets.null_server"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        line = process.stdout.readline() if process.stdout else ""
        if not line.startswith("listening on "):
            raise OSError("the null server of the calibration did not start")
        return _measured(line.removeprefix("listening on ").strip())
    finally:
        process.kill()
        process.wait()


def _measured(url: str) -> Json:
    import uvloop

    config = from_texts({**LOAD, "target": url})
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        recording, written_ns, cpu_ns = runner.run(_play(config, url))
    events = events_of(recording)
    late_ns = events.t_ns - written_ns
    chosen = np.ones(len(recording.schedule), dtype=np.bool_)
    true_gaps = _gaps_of(recording, written_ns)
    gap_error_ns = np.abs(gaps_ns(recording, events, chosen)[0] - true_gaps)
    per_event_us = cpu_ns / NS_PER_US / max(len(late_ns), 1)
    return {
        "events": len(late_ns),
        "requests": len(recording.schedule),
        "ttft_error_us": _figures(late_ns[events.first[events.delivered]]),
        "token_error_us": _figures(late_ns),
        "itl_error_us": _figures(gap_error_ns),
        "send_lateness_us": _figures(lag_ns(recording)),
        "cpu_us_per_event": per_event_us,
        "ceiling_events_per_s": 1e6 / per_event_us,
        "measured_utc": datetime.now(UTC).isoformat(timespec="seconds"),
    }


async def _play(config: RunConfig, url: str) -> tuple[Recording, Int64, int]:
    """The recording, when each of its events was written on the run's axis, and the client's CPU time."""
    schedule = build_schedule(config)
    planned = planned_requests(schedule, as_ids=False)
    texts: dict[int, str] = {}
    target = _Listening(HttpTarget(parse_endpoint(url), make_api("openai-chat"), BodyOptions("null"), Limits()), texts)
    await target.target.open(planned)
    started: list[tuple[int, int]] = []
    control = Steering(config, lambda ended: None, DRAIN_NS)
    recording = await play_target(
        schedule, target, planned, lambda part: None, control,
        begin=lambda origin_ns: started.append((origin_ns, time.process_time_ns())),
    )  # fmt: skip
    origin_ns, begin_ns = started[0]
    cpu_ns = time.process_time_ns() - begin_ns
    await target.target.close()
    written = [int(word) for request_id in range(len(schedule)) for word in texts.get(request_id, "").split()]
    if not written or len(written) != len(recording.token_count):
        raise OSError("the calibration lost events: this machine cannot measure now")
    return recording, int64(written) - origin_ns, cpu_ns


class _Listening:
    """A target that keeps the texts, which hold the times of writing."""

    def __init__(self, target: HttpTarget, texts: dict[int, str]) -> None:
        self.target = target
        self._texts = texts
        self.abort = target.abort
        self.describe = target.describe
        self.open = target.open
        self.close = target.close

    async def send(self, request: PlannedRequest) -> Reply:
        return await self.start(request)

    def start(self, request: PlannedRequest) -> Coroutine[Any, Any, Reply]:
        """As a run sends."""
        return self._kept(self.target.start(request))

    async def _kept(self, under_way: Awaitable[Reply]) -> Reply:
        reply = await under_way
        self._texts[reply.request_id] = reply.text
        return reply


def _gaps_of(recording: Recording, written_ns: Int64) -> Int64:
    owner = np.repeat(np.arange(len(recording.schedule)), np.diff(recording.token_offsets))
    return int64(np.diff(written_ns)[owner[1:] == owner[:-1]])


def _figures(values_ns: Any) -> Json:
    values = np.asarray(values_ns, dtype=np.float64)
    values = values[~np.isnan(values)]
    found: Json = {name: quantile(values, q)[0] for name, q in QUANTILES.items()}
    return {name: None if value is None else round(value / NS_PER_US, 1) for name, value in found.items()}


def _key() -> str:
    from importlib.metadata import version

    boot = Path("/proc/sys/kernel/random/boot_id")
    return f"{version('tokenload')}|{os.uname().nodename}|{boot.read_text().strip() if boot.exists() else ''}"


def _file() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "tokenload" / "calibration.json"


def _cached(key: str) -> Json | None:
    try:
        found: Json = json.loads(_file().read_text())
        usable = found["key"] == key and 0 <= time.time() - found["measured_s"] < VALID_S
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return found if usable else None


def _keep(found: Json) -> None:
    """For the next hour; where it cannot be kept, it is measured again."""
    path = _file()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(f".{os.getpid()}")
        partial.write_text(json.dumps(found))
        partial.replace(path)
    except OSError:
        return
