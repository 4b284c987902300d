"""The summary: every figure of a run, recomputed from its rows alone. The same rows give the same document."""

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from results import metrics, splits, waits
from results.columns import Int64, int64, is_null
from results.concurrency import in_flight
from results.figure_json import (
    NO_TIME,
    NOT_ASKED,
    NOT_TOLD,
    NS_PER_MS,
    NS_PER_S,
    QUANTILES,
    Json,
    Rate,
    counted_latency,
    latency,
    share,
    with_reasons,
)
from results.fluidity import deadlines_met, fluidity
from results.in_run import uncertainty
from results.metrics import Events
from results.recording import Recording
from results.remote import prompt_tokens
from results.schedule import COOLDOWN, FILL, MEASURE, PHASES
from results.slo import FLUIDITY, Slo
from results.slot_figures import slot_figures
from results.stats import NO_VALUES, quantile
from results.status import NAMES, Status
from results.steps import started_between
from results.stream_figures import stream_figures
from results.verdicts.thresholds import Thresholds
from results.window import loaded_span_ns, planned_window_ns, span_name, window_kind
from results.windows import by_window

SCHEMA_VERSION = 1
Latency = Callable[[Recording, Events], NDArray[np.float64]]
Values = Mapping[str, NDArray[np.float64]]

LATENCIES: dict[str, Latency] = {
    "ttft": metrics.ttft_ns,
    "tpot": metrics.tpot_ns,
    "e2e": metrics.e2e_ns,
    "norm": metrics.norm_ns,
    "stall": metrics.stall_ns,
}
STREAM_LATENCIES: dict[str, Latency] = {
    "ttft_net": metrics.ttft_net_ns,
    "ttat": metrics.ttat_ns,
    "tail": metrics.tail_ns,
    "tpot_std": metrics.tpot_std_ns,
}
"""Of streaming targets alone, beside the others."""


def latencies_of(recording: Recording) -> dict[str, Latency]:
    """Those that a run of this kind has."""
    return {**LATENCIES, **STREAM_LATENCIES} if recording.token_t_ns is not None else LATENCIES


def summarise(recording: Recording, slo: Slo | None = None, thresholds: Thresholds | None = None) -> Json:
    """All figures, with units in their names; null has its reason beside it."""
    events = metrics.events_of(recording)
    chosen = metrics.measured(recording)
    window_ns = window(recording, events)
    values = {name: function(recording, events) for name, function in latencies_of(recording).items()}
    good = chosen & ~metrics.failed(recording)
    itl = _gaps(recording, events, good)
    stall_ns = (thresholds or Thresholds()).stall_ns
    fluid, fluidity_figures = _fluidity(recording, events, chosen, slo)
    attained = _attained(recording, values, fluid, slo) if slo is not None else None
    return {
        "schema_version": SCHEMA_VERSION,
        "schedule_sha256": recording.schedule.sha256,
        "window_ns": list(window_ns),
        "window_kind": window_kind(recording.schedule),
        "requests_by_phase": _phases(recording),
        "requests": _counts(recording, chosen),
        **{f"{name}_ms": latency(values[name][chosen]) for name in values},
        "ttft_ok_ms": latency(values["ttft"][good]),
        "itl_ms": itl,
        "queue_wait_ms": latency(metrics.lag_ns(recording)[chosen]),
        "admission_wait_ms": _admission(recording, chosen),
        "stalls": _stalls(values["stall"][good], stall_ns),
        "in_flight": _in_flight(recording, window_ns),
        "rates": _rates(recording, events, chosen, window_ns),
        "slo": _objectives(attained, chosen, window_ns, slo),
        "fluidity": fluidity_figures,
        "in_run": uncertainty(recording, values, chosen, attained),
        "windows": by_window(recording, values, chosen, window_ns, attained),
        "by_class": splits.by_class(recording, values, chosen),
        "by_phase": splits.by_phase(recording, values),
        "by_turn": splits.by_turn(recording, values, chosen),
        "slots": _slots(recording, loaded_span_ns(recording.schedule, window_ns)),
        "little_error_ns": metrics.little_error_ns(recording),
        **_of_streams(recording, itl, chosen),
    }


def _gaps(recording: Recording, events: Events, good: NDArray[np.bool_]) -> Json:
    """All gaps between deliveries, each counted once for every request that had it."""
    if events.spans is not None:
        return counted_latency(*events.spans.gaps_ns(good))
    return latency(metrics.gaps_ns(recording, events, good)[0].astype(np.float64))


def _of_streams(recording: Recording, itl: Json, chosen: NDArray[np.bool_]) -> Json:
    """icl_ms: the gaps between events under a name that promises no more, however many tokens an event holds."""
    if recording.token_t_ns is None:
        return {}
    return {"icl_ms": {**itl, "reasons": dict(itl["reasons"])}, **stream_figures(recording, chosen)}


def window(recording: Recording, events: Events) -> tuple[int, int]:
    """The measured window in ns: both ends belong to it.

    Generated: from 0, or the last due time of the fill, to the last measured one. Trace: the length of its window.
    Bursts and closed modes: makespan, from 0, or the first measured due time after a fill, to the last token, or to
    the last measured due time before a cool-down. A run that was stopped is measured up to then.
    """
    begin_ns, end_ns = planned_window_ns(recording.schedule)
    if end_ns is None:
        begin_ns, end_ns = _makespan(recording, events)
    if recording.stopped_ns is not None:
        end_ns = min(end_ns, recording.stopped_ns)
    return begin_ns, max(begin_ns, end_ns)


def _makespan(recording: Recording, events: Events) -> tuple[int, int]:
    phase, due = recording.schedule.phase, int64(recording.requests["due_ns"])
    measured = due[(phase == MEASURE) & ~is_null(due)]
    begin_ns = int(measured.min()) if (phase == FILL).any() and len(measured) else 0
    if (phase == COOLDOWN).any():
        return begin_ns, int(measured.max(initial=begin_ns))
    return begin_ns, events.latest_ns


def _phases(recording: Recording) -> Json:
    """Scheduled requests by phase: only those of `measure` are in any figure."""
    counts = np.bincount(recording.schedule.phase, minlength=len(PHASES))
    return {name: int(count) for name, count in zip(PHASES, counts, strict=True) if count or name == PHASES[MEASURE]}


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


def _stalls(stall_ns: NDArray[np.float64], limit_ns: int) -> Json:
    """Requests that stood still for longer than the limit somewhere in their answer, of those that could."""
    defined = stall_ns[~np.isnan(stall_ns)]
    stalled = share(float((defined > limit_ns).sum()), len(defined))
    return {"limit_ms": limit_ns / NS_PER_MS, "requests": len(defined), **with_reasons({"share": stalled})}


def _in_flight(recording: Recording, window_ns: tuple[int, int]) -> Json:
    """From due to end, as users see it; and from hand-over, as the target does."""
    due, handed = (in_flight(recording, begins, window_ns) for begins in ("due_ns", "handed_ns"))
    return with_reasons(
        {
            "max": (due.most_requests, NO_VALUES),
            "mean": (due.mean_requests, NO_TIME),
            "handed_max": (handed.most_requests, NO_VALUES),
            "handed_mean": (handed.mean_requests, NO_TIME),
        }
    )


def _admission(recording: Recording, chosen: NDArray[np.bool_]) -> Json:
    found = waits.admission_waits(recording)
    if found is None:
        figures = (*QUANTILES, "mean", "max")
        return {"n": 0, "undefined": 0, **dict.fromkeys(figures), "reasons": dict.fromkeys(figures, NOT_TOLD)}
    counted = chosen[found.request_id]
    parts = {"step": found.step_ns, "collect": found.collect_ns, "slot": found.slot_ns}
    means = {f"{name}_mean": float(part[counted].mean()) / NS_PER_MS for name, part in parts.items() if counted.any()}
    return {**latency(found.all_ns[counted].astype(np.float64)), **means}


def _rates(recording: Recording, events: Events, chosen: NDArray[np.bool_], window_ns: tuple[int, int]) -> Json:
    output = float(metrics.tokens_within(recording, events, window_ns))
    firsts_ns = events.firsts_ns
    begun = np.flatnonzero(events.delivered)[(firsts_ns >= window_ns[0]) & (firsts_ns <= window_ns[1])]
    ends = int64(recording.requests["end_ns"])
    ended = metrics.completed(recording) & (ends >= window_ns[0]) & (ends <= window_ns[1])
    per_second = Rate(window_ns[1] - window_ns[0])
    makespan = Rate(events.latest_ns)
    due = np.sort(int64(recording.requests["due_ns"])[chosen])
    figures = {
        "offered_rps": (recording.schedule.origin.get("rate_rps"), NOT_ASKED),
        "realised_rps": _realised(due),
        "completed_rps": per_second(int(ended.sum())),
        "output_tokens_per_s": per_second(output),
        "total_tokens_per_s": per_second(output + float(prompt_tokens(recording.requests)[begun].sum())),
        "makespan_output_tokens_per_s": makespan(float(metrics.streamed_tokens(recording).sum())),
        "decode_tokens_per_s": (metrics.decode_speed_tokens_per_s(recording, events, chosen), NO_TIME),
    }
    return with_reasons(figures)


def _realised(due_ns: Int64) -> tuple[float | None, str]:
    """(N - 1) / (last - first due time)."""
    span_ns = int(due_ns[-1] - due_ns[0]) if len(due_ns) else 0
    return ((len(due_ns) - 1) * NS_PER_S / span_ns if span_ns else None), NO_TIME


def _attained(recording: Recording, values_ns: Values, fluid: NDArray[np.float64], slo: Slo) -> NDArray[np.bool_]:
    """Requests that answered, and within every limit; with nothing only where the workload allows that."""
    answered = metrics.completed(recording)
    if not recording.schedule.recipe.get("allow_empty"):
        answered &= ~np.isnan(values_ns["ttft"])
    return slo.attained({**values_ns, FLUIDITY: fluid}) & answered


def _objectives(
    attained: NDArray[np.bool_] | None, chosen: NDArray[np.bool_], window_ns: tuple[int, int], slo: Slo | None
) -> Json:
    """Attainment over the scheduled, and goodput."""
    if slo is None or attained is None:
        return with_reasons(dict.fromkeys(("limits", "attainment", "goodput_rps"), (None, NOT_ASKED)))
    count = int(attained[chosen].sum())
    told = {
        "attainment": share(count, int(chosen.sum())),
        "goodput_rps": Rate(window_ns[1] - window_ns[0])(count),
    }
    return {"limits": str(slo), **with_reasons(told)}


def _fluidity(
    recording: Recording, events: Events, chosen: NDArray[np.bool_], slo: Slo | None
) -> tuple[NDArray[np.float64], Json]:
    """Of every request; and over those that did not fail. Against the deadlines of the SLO."""
    deadlines = slo.deadlines if slo is not None else None
    if deadlines is None:
        names = ("first_deadline_ms", "further_deadline_ms", "mean", "p50", "of_deadlines")
        return np.full(len(chosen), np.nan), {"requests": 0, **with_reasons(dict.fromkeys(names, (None, NOT_ASKED)))}
    met = deadlines_met(recording, events, deadlines)
    value = fluidity(recording, met)
    counted = chosen & np.isfinite(value)
    shares = value[counted]
    missed, total = int(met.missed[counted].sum()), int(met.total[counted].sum())
    figures = {
        "first_deadline_ms": (deadlines.first_ns / NS_PER_MS, NO_VALUES),
        "further_deadline_ms": (deadlines.further_ns / NS_PER_MS, NO_VALUES),
        "mean": (float(shares.mean()) if len(shares) else None, NO_VALUES),
        "p50": quantile(shares, 0.5),
        "of_deadlines": share(total - missed, total),
    }
    return value, {"requests": len(shares), **with_reasons(figures)}


def _slots(recording: Recording, span_ns: tuple[int, int | None]) -> Json:
    """Of the steps that started in the span: fill and cool-down have slots of their own."""
    if not bool(recording.steps["told"].any()):
        names = ("wasted_slot_fraction", "unused_slot_fraction", "padding_fraction", "slot_time_share")
        return with_reasons(dict.fromkeys((*names, "held_back_fraction"), (None, NOT_TOLD)))
    steps = started_between(recording.steps, *span_ns)
    return {
        "span": span_name(span_ns),
        "steps": int(steps["n_steps"].sum()),
        **slot_figures(steps, waits.held_back_fraction(recording, span_ns), NO_VALUES),
    }
