"""The live view of a run: rolling figures from the rows of its parts, as one JSON document.

Knows no locust. Live rates are of the last seconds, never averages over the run; once a run has ended the figures are
those of its summary.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from loadgen.config import RunConfig
from loadgen.locust.alarms import alarms
from loadgen.locust.pictures import pictures, rate, recent_seconds
from loadgen.locust.tally import LATENCY_ROWS, Samples, Tally
from results.figure_json import NS_PER_MS, NS_PER_S, QUANTILES
from results.recording import RecordingPart
from results.schedule import Schedule
from results.slo import parse_slo
from results.status import NAMES
from results.verdicts.thresholds import Thresholds

Json = dict[str, Any]
Listener = Callable[[Samples], None]
IDLE, RUNNING, ENDED = "idle", "running", "ended"
SUMMARY_ROWS = {"ttft": "ttft_ms", "itl": "itl_ms", "tpot": "tpot_ms", "e2e": "e2e_ms", "lateness": "queue_wait_ms"}
"""Where the summary has what a row of the table shows."""
TITLES = {"ttft": "TTFT", "itl": "ITL", "tpot": "TPOT", "e2e": "E2E", "lateness": "Lateness"}
REAL = "real"


class LiveView:
    """One run after the other, as they are told."""

    def __init__(self) -> None:
        """Nothing has begun."""
        self.folder: Path | None = None
        """Of the run that ended last."""
        self.state = IDLE
        self.failure: str | None = None
        """Why the newest run did not come about, or broke off: one line."""
        self.is_preparing = False
        """Whether a run is about to begin: locust itself knows no such state, and says that it is ready."""
        self.lost_ranks: set[int] = set()
        self.run = 0
        """How many runs have begun."""
        self._version = 0
        self._tally: Tally | None = None
        self._config: RunConfig | None = None
        self._summary: Json = {}
        self._verdict: Json = {}
        self._server: dict[str, float] = {}
        self._listeners: list[Listener] = []
        self._written: tuple[int, Json] | None = None

    def listen(self, listener: Listener) -> None:
        """Call it with the samples of every part."""
        self._listeners.append(listener)

    @property
    def name(self) -> str:
        """What is under load, in a word."""
        config = self._config
        if config is None:
            return "LLM"
        return config.served_model or config.name or ("LLM" if config.target else config.engine)

    @property
    def real_time(self) -> bool:
        """Whether the run's axis is the wall's."""
        return self._config is None or self._config.clock == REAL

    def begin(self, schedule: Schedule, config: RunConfig) -> None:
        """A run begins: all that was shown before is of another."""
        self._tally = Tally(schedule, parse_slo(config.slo) if config.slo else None)
        self._config, self.state, self.folder, self.failure = config, RUNNING, None, None
        self._summary, self._verdict, self._server, self.lost_ranks = {}, {}, {}, set()
        self.run += 1
        self._version += 1

    def add(self, part: RecordingPart, rank: int) -> None:
        """Count a part of a worker, each part once. What comes when no run goes on is left out."""
        if self._tally is None or self.state != RUNNING:
            return
        self._version += 1
        samples = self._tally.add(part, rank)
        if samples is not None:
            for listener in self._listeners:
                listener(samples)

    def prepare(self) -> None:
        """A run is tried. What was shown of the one before stays until it begins."""
        self.is_preparing, self.failure = True, None
        self._version += 1

    def prepared(self) -> None:
        """Time 0 is set."""
        self.is_preparing = False
        self._version += 1

    def failed(self, reason: str) -> None:
        """It did not come about, or broke off."""
        self.is_preparing, self.failure = False, reason
        self._version += 1

    def stopped(self) -> None:
        """Somebody has stopped it, and it drains."""
        if self._tally is not None and self.state == RUNNING:
            self._tally.stop()
            self._version += 1

    def lost(self, rank: int) -> None:
        """A worker is gone."""
        self.lost_ranks.add(rank)
        self._version += 1

    def server(self, told: Mapping[str, float]) -> None:
        """What the server told last: `at_ns`, panels of `results.server.known.PANELS`, and fractions of its slots."""
        self._server = {name: value for name, value in told.items() if name != "at_ns"}
        if self._tally is not None:
            self._tally.server_told(int(told["at_ns"]), told.get("waiting_requests"))
        self._version += 1

    def end(self, folder: Path | None, summary: Json, verdict: Json) -> None:
        """The run has been written. `folder`: None when nothing could be."""
        self.folder = Path(folder) if folder is not None else None
        self._summary, self._verdict, self.state = dict(summary), dict(verdict), ENDED
        self._version += 1

    def snapshot(self) -> Json:
        """Everything that the page shows; the same document until something is told."""
        if self._written is None or self._written[0] != self._version:
            self._written = (self._version, self._document())
        return self._written[1]

    def _document(self) -> Json:
        tally, config = self._tally, self._config
        if tally is None or config is None:
            return self._heading()
        ended = self.state == ENDED
        return {
            **self._heading(),
            "load": _load(config),
            "clock": config.clock,
            "slo": config.slo,
            "time_s": tally.now_ns / NS_PER_S,
            "scheduled": len(tally.schedule),
            "schedule_sha256": tally.schedule.sha256,
            "latency": [_latency(name, tally, self._summary) for name in LATENCY_ROWS],
            "counts": _counts(tally, self._summary),
            "now": self._now(tally),
            "alarms": alarms(tally, self.lost_ranks, _is_sender(config), _is_open(config), Thresholds()),
            "workers": self._workers(tally),
            "series": pictures(tally, ended),
            "verdict": _verdict(self._verdict),
            "report": self.folder is not None,
        }

    def _now(self, tally: Tally) -> Json:
        if "rates" in self._summary:
            return _of_summary(self._summary, self._server)
        return _now(tally, self._server, self.state == ENDED)

    def _heading(self) -> Json:
        return {"state": self.state, "run": self.run, "failure": self.failure, "preparing": self.is_preparing}

    def _workers(self, tally: Tally) -> list[Json]:
        ranks = sorted({*tally.until_ns, *self.lost_ranks})
        return [
            {
                "rank": rank,
                "ended": tally.ended_by_rank.get(rank, 0),
                "until_s": tally.until_ns[rank] / NS_PER_S if rank in tally.until_ns else None,
                "lost": rank in self.lost_ranks,
            }
            for rank in ranks
        ]


def _load(config: RunConfig) -> str:
    """What runs against what, in a line."""
    how = config.arrival if config.rate_rps is None else f"{config.arrival}, {config.rate_rps:g} requests/s"
    return f"{config.target or config.engine} · {how if not config.trace else f'trace {Path(config.trace).name}'}"


def _is_sender(config: RunConfig) -> bool:
    """Whether lateness is the client's own: it waits neither for a step of an engine nor under a cap."""
    return config.target is not None and config.clock == REAL and config.max_concurrency is None


def _is_open(config: RunConfig) -> bool:
    return config.arrival not in ("closed", "burst") and config.max_concurrency is None


def _latency(name: str, tally: Tally, summary: Json) -> Json:
    """One row of the table: of the summary once there is one."""
    told = summary.get(SUMMARY_ROWS[name])
    if told is not None:
        shown = {**told, **told.get("of_this_run", {})}
        figures = {figure: shown.get(figure) for figure in ("n", "mean", *QUANTILES, "max")}
        return {"name": name, "title": TITLES[name], **figures, "reasons": told.get("reasons", {})}
    histogram = tally.latencies[name]
    found = {figure: histogram.quantile(q) for figure, q in QUANTILES.items()}
    whole = histogram.infinite_count == 0
    mean, largest = (histogram.mean, histogram.largest) if whole else (None, None)
    values = {"mean": mean, **{figure: value for figure, (value, _) in found.items()}, "max": largest}
    reasons = {figure: reason for figure, (_, reason) in found.items() if reason is not None}
    missing = "FAILED_TAIL" if histogram.count else "NO_VALUES"
    reasons.update({figure: missing for figure in ("mean", "max") if values[figure] is None})
    scaled = {figure: None if value is None else value / NS_PER_MS for figure, value in values.items()}
    return {"name": name, "title": TITLES[name], "n": histogram.count, **scaled, "reasons": reasons}


def _counts(tally: Tally, summary: Json) -> Json:
    """Of the measured requests that have ended; of all of them once the run has."""
    told = summary.get("requests")
    if told is not None:
        kinds, objectives = told["by_status"], summary.get("slo", {})
        ended = sum(kinds.values())
        counts = {name: told[name] for name in ("completed", "failed", "output_tokens")}
        share = objectives.get("attainment")
        return {
            "ended": ended, **counts, "by_status": kinds, "attainment": share, "newest_error": tally.newest_error,
        }  # fmt: skip
    kinds = {name: int(count) for name, count in zip(NAMES, tally.by_status, strict=True) if count}
    ended = tally.ended_requests
    return {
        "ended": ended,
        "completed": tally.completed_requests,
        "failed": tally.failed_requests,
        "output_tokens": tally.output_tokens,
        "by_status": kinds,
        "attainment": tally.attained_requests / ended if tally.slo is not None and ended else None,
        "newest_error": tally.newest_error,
    }


def _now(tally: Tally, server: Mapping[str, float], ended: bool) -> Json:
    """Of the last whole seconds. Slots: of the steps of the run so far, or of what the server counted of them.

    Tokens of a streaming target count when their request ends: by their own moments the newest would be missing.
    """
    first, end = recent_seconds(tally, ended)
    waiting, busy = tally.slots.waiting.total(first, end), tally.slots.busy.total(first, end)
    queue = waiting / busy if busy else server.get("waiting_requests")
    tokens = tally.tokens_of_ended if tally.streamed and not ended else tally.tokens
    return {
        "seconds": end - first,
        "arrivals_rps": rate(tally.arrivals, first, end),
        "completions_rps": rate(tally.completions, first, end),
        "failures_rps": rate(tally.failures, first, end),
        "output_tokens_per_s": rate(tokens, first, end),
        "in_flight": tally.flight.total(end - 1, end) / NS_PER_S if end > first else None,
        "queue": queue,
        "wasted_slot_fraction": _first_told(tally.slots.wasted_slot_fraction(), server.get("wasted_slot_fraction")),
        "unused_slot_fraction": _first_told(tally.slots.unused_slot_fraction(), server.get("unused_slot_fraction")),
        "server": dict(server),
    }


def _of_summary(summary: Json, told: Mapping[str, float]) -> Json:
    """The same of a run that has ended: over the whole of it. Where rows tell nothing of slots, what the server did."""
    rates, slots, server = summary["rates"], summary.get("slots", {}), summary.get("server") or {}
    return {
        "whole_run": True,
        "arrivals_rps": rates.get("realised_rps"),
        "completions_rps": rates.get("completed_rps"),
        "output_tokens_per_s": rates.get("output_tokens_per_s"),
        "in_flight": summary.get("in_flight", {}).get("mean"),
        "queue": None,
        "wasted_slot_fraction": _first_told(slots.get("wasted_slot_fraction"), told.get("wasted_slot_fraction")),
        "unused_slot_fraction": _first_told(slots.get("unused_slot_fraction"), server.get("unused_slot_fraction")),
    }


def _first_told(*told_fraction: float | None) -> float | None:
    return next((value for value in told_fraction if value is not None), None)


def _verdict(verdict: Json) -> Json | None:
    """What the page says of it."""
    if not verdict:
        return None
    return {
        "valid": bool(verdict.get("valid")),
        "label": verdict.get("label"),
        "suffices_for": verdict.get("suffices_for"),
        "reasons": [{"code": one.get("code"), "text": one.get("text")} for one in verdict.get("invalid", [])],
    }
