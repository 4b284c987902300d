"""The summary: every figure of a run, recomputed from its rows alone. The same rows give the same document."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from results import metrics, slots, waits
from results.columns import Int64, int64, is_null
from results.metrics import Events
from results.recording import Recording
from results.schedule import Schedule
from results.slo import Slo
from results.stats import NO_VALUES, quantile
from results.status import NAMES, Status
from results.steps import durations, ends_ns, starts_ns

SCHEMA_VERSION = 1
NS_PER_S = 1e9
NS_PER_MS = 1e6
QUANTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}
NOT_TOLD = "NOT_OBSERVABLE"
NOT_ASKED = "NOT_ASKED"
NO_TIME = "NO_TIME"
Json = dict[str, Any]

LATENCIES: dict[str, Callable[[Recording, Events], NDArray[np.float64]]] = {
    "ttft": metrics.ttft_ns,
    "tpot": metrics.tpot_ns,
    "e2e": metrics.e2e_ns,
    "norm": metrics.norm_ns,
    "stall": metrics.stall_ns,
}


def summarise(recording: Recording, slo: Slo | None = None) -> Json:
    """All figures, with units in their names; null has its reason beside it."""
    events = metrics.events_of(recording)
    chosen = metrics.measured(recording)
    window_ns = window(recording, events)
    values = {name: function(recording, events) for name, function in LATENCIES.items()}
    gaps, _ = metrics.gaps_ns(recording, events, chosen & ~metrics.failed(recording))
    return {
        "schema_version": SCHEMA_VERSION,
        "schedule_sha256": recording.schedule.sha256,
        "window_ns": list(window_ns),
        "window_kind": _window_rule(recording.schedule)["kind"],
        "requests": _counts(recording, chosen),
        **{f"{name}_ms": _latency(values[name][chosen]) for name in LATENCIES},
        "ttft_ok_ms": _latency(values["ttft"][chosen & ~metrics.failed(recording)]),
        "itl_ms": _latency(gaps.astype(np.float64)),
        "queue_wait_ms": _latency(metrics.lag_ns(recording)[chosen]),
        "admission_wait_ms": _admission(recording, chosen),
        "rates": _rates(recording, events, chosen, window_ns),
        "slo": _slo(recording, values, chosen, window_ns, slo),
        "slots": _slots(recording),
        "little_error_ns": metrics.little_error_ns(recording),
    }


def window(recording: Recording, events: Events) -> tuple[int, int]:
    """The measured window in ns: both ends belong to it.

    Generated: from 0 to the last due time. Trace: the length of its window. Bursts and closed modes: makespan,
    from 0 to the last token. A run that was stopped is measured up to then.
    """
    rule = _window_rule(recording.schedule)
    due = recording.schedule.due_ns
    known = due[~is_null(due)]
    if rule["kind"] == "makespan":
        end_ns = int(events.t_ns.max()) if len(events.t_ns) else 0
    elif rule.get("end_ns") is not None:
        end_ns = int(rule["end_ns"])
    else:
        end_ns = int(known.max()) if len(known) else 0
    return 0, end_ns if recording.stopped_ns is None else min(end_ns, recording.stopped_ns)


def _window_rule(schedule: Schedule) -> Json:
    rule: Json = schedule.origin.get("window", {"kind": "schedule"})
    return rule


def _counts(recording: Recording, chosen: NDArray[np.bool_]) -> Json:
    status = int64(recording.requests["status"])[chosen]
    by_name = np.bincount(status, minlength=len(NAMES))
    return {
        "scheduled": int(chosen.sum()),
        "sent": int((status != Status.NOT_DISPATCHED).sum()),
        "completed": int(metrics.completed(recording)[chosen].sum()),
        "failed": int(metrics.failed(recording)[chosen].sum()),
        "by_status": {name: int(count) for name, count in zip(NAMES, by_name, strict=True) if count},
        "output_tokens": int(recording.requests["output_tokens"][chosen].sum()),
        "prompt_tokens": int(recording.requests["prompt_tokens"][chosen].sum()),
    }


def _latency(values_ns: NDArray[np.float64]) -> Json:
    """n, quantiles, mean and max in ms; undefined values are counted, failures are +inf."""
    defined = values_ns[~np.isnan(values_ns)]
    figures: Json = {"n": len(defined), "undefined": int(np.isnan(values_ns).sum())}
    reasons: Json = {}
    for name, q in QUANTILES.items():
        value, reason = quantile(defined, q)
        figures[name] = None if value is None else value / NS_PER_MS
        if reason:
            reasons[name] = reason
    for name, function in (("mean", np.mean), ("max", np.max)):
        value = float(function(defined)) if len(defined) else None
        finite = value is not None and np.isfinite(value)
        figures[name] = value / NS_PER_MS if value is not None and finite else None
        if not finite:
            reasons[name] = "FAILED_TAIL" if len(defined) else NO_VALUES
    return {**figures, "reasons": reasons}


def _admission(recording: Recording, chosen: NDArray[np.bool_]) -> Json:
    found = waits.admission_waits(recording)
    if found is None:
        figures = (*QUANTILES, "mean", "max")
        return {"n": 0, "undefined": 0, **dict.fromkeys(figures), "reasons": dict.fromkeys(figures, NOT_TOLD)}
    counted = chosen[found.request_id]
    parts = {"step": found.step_ns, "collect": found.collect_ns, "slot": found.slot_ns}
    means = {f"{name}_mean": float(part[counted].mean()) / NS_PER_MS for name, part in parts.items() if counted.any()}
    return {**_latency(found.all_ns[counted].astype(np.float64)), **means}


def _rates(recording: Recording, events: Events, chosen: NDArray[np.bool_], window_ns: tuple[int, int]) -> Json:
    owner = np.repeat(np.arange(len(chosen)), np.diff(recording.token_offsets))
    inside = (events.t_ns >= window_ns[0]) & (events.t_ns <= window_ns[1])
    output = float(events.tokens[inside].sum())
    starts = events.first[events.delivered & chosen]
    begun = owner[starts][inside[starts]]
    ends = int64(recording.requests["end_ns"])
    ended = metrics.completed(recording) & (ends >= window_ns[0]) & (ends <= window_ns[1])
    per_second = _Rate(window_ns[1] - window_ns[0])
    makespan = _Rate(int(events.t_ns.max()) if len(events.t_ns) else 0)
    due = np.sort(int64(recording.requests["due_ns"])[chosen])
    figures = {
        "offered_rps": (recording.schedule.origin.get("rate_rps"), NOT_ASKED),
        "realised_rps": _realised(due),
        "completed_rps": per_second(int(ended.sum())),
        "output_tokens_per_s": per_second(output),
        "total_tokens_per_s": per_second(output + float(recording.requests["prompt_tokens"][begun].sum())),
        "makespan_output_tokens_per_s": makespan(float(events.tokens.sum())),
    }
    return _with_reasons(figures)


class _Rate:
    """Counts per second over a time that may be none."""

    def __init__(self, time_ns: int) -> None:
        self._time_ns = time_ns

    def __call__(self, count: float) -> tuple[float | None, str]:
        return (count * NS_PER_S / self._time_ns if self._time_ns else None), NO_TIME


def _realised(due_ns: Int64) -> tuple[float | None, str]:
    """(N - 1) / (last - first due time)."""
    span_ns = int(due_ns[-1] - due_ns[0]) if len(due_ns) else 0
    return ((len(due_ns) - 1) * NS_PER_S / span_ns if span_ns else None), NO_TIME


def _slo(
    recording: Recording,
    values_ns: dict[str, NDArray[np.float64]],
    chosen: NDArray[np.bool_],
    window_ns: tuple[int, int],
    slo: Slo | None,
) -> Json:
    """Attainment over the scheduled requests, and goodput: those that attain, per second of the window."""
    if slo is None:
        return _with_reasons(dict.fromkeys(("limits", "attainment", "goodput_rps"), (None, NOT_ASKED)))
    answered = metrics.completed(recording) & ~np.isnan(values_ns["ttft"])
    attained = int((slo.attained(values_ns) & answered)[chosen].sum())
    scheduled = int(chosen.sum())
    return {
        "limits": str(slo),
        **_with_reasons(
            {
                "attainment": (attained / scheduled if scheduled else None, NO_VALUES),
                "goodput_rps": _Rate(window_ns[1] - window_ns[0])(attained),
            }
        ),
    }


def _slots(recording: Recording) -> Json:
    steps = recording.steps
    if not bool(steps["told"].any()):
        names = ("wasted_slot_fraction", "unused_slot_fraction", "padding_fraction", "slot_time_share")
        return _with_reasons(dict.fromkeys((*names, "held_back_fraction"), (None, NOT_TOLD)))
    spent, busy = slots.slot_steps(steps), slots.slot_steps(steps, slots.BUSY_STATES)
    return {
        "steps": int(steps["n_steps"].sum()),
        "busy_ns": int((ends_ns(steps) - starts_ns(steps)).sum()),
        **_with_reasons(
            {
                "total_slot_steps": (sum(busy.values()) if busy else None, NOT_TOLD),
                "wasted_slot_steps": (busy["finished_slots"] if busy else None, NOT_TOLD),
                "slot_steps": (spent, NOT_TOLD),
                "wasted_slot_fraction": (slots.wasted_slot_fraction(steps), NO_VALUES),
                "unused_slot_fraction": (slots.unused_slot_fraction(steps), NO_VALUES),
                "padding_fraction": (slots.padding_fraction(steps), NO_VALUES),
                "held_back_fraction": (waits.held_back_fraction(recording), NO_VALUES),
                "slot_time_share": (slots.slot_time_share(steps, durations(steps)), NO_VALUES),
            }
        ),
    }


def _with_reasons(figures: dict[str, tuple[Any, str]]) -> Json:
    reasons = {name: reason for name, (value, reason) in figures.items() if value is None}
    values = {name: value for name, (value, _) in figures.items()}
    return {**values, "reasons": reasons} if reasons else values
