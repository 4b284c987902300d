"""Figures for the texts' claims that no summary holds, from the rows of single points."""

from dataclasses import dataclass

import numpy as np

from results.columns import int64, is_null
from results.metrics import events_of, measured, ttft_ns
from results.recording import KINDS, Recording
from results.stats import quantile
from results.steps import durations, step_ends_ns

DECODE = KINDS.index("decode")
NS_PER_MS = 1e6
PS_PER_MS = 1e9
MEDIAN = 0.5


@dataclass(frozen=True, slots=True)
class ShortAnswers:
    """What the shorter half of the answers waits for after its last token is computed; medians in ms."""

    answer_wait_ms: float
    """Until the answer has been handed over."""
    slot_held_ms: float
    """Until its slot is free."""


def ttft_ms_of(recording: Recording) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """TTFT of the measured requests in the order of their ids; inf where failed."""
    return ttft_ns(recording, events_of(recording))[measured(recording)] / NS_PER_MS


def block_medians_ms(recording: Recording, requests: int) -> list[float]:
    """Median TTFT of each full block of so many consecutive requests; blocks with an infinite one left out."""
    values = ttft_ms_of(recording)
    blocks = [values[at : at + requests] for at in range(0, len(values) - requests + 1, requests)]
    medians = [quantile(block[~np.isnan(block)], MEDIAN)[0] for block in blocks]
    return [median for median in medians if median is not None]


def decode_step_ms(recording: Recording, rows: int) -> float | None:
    """Median duration of the decode steps that computed exactly so many rows; None when there were none."""
    steps = recording.steps
    computed = int64(steps["decoding_slots"]) + int64(steps["finished_slots"])
    chosen = (int64(steps["kind"]) == DECODE) & (computed == rows) & steps["told"].astype(np.bool_)
    if not chosen.any():
        return None
    per_step = durations(steps)[chosen] / int64(steps["n_steps"])[chosen]
    each = np.repeat(per_step, int64(steps["n_steps"])[chosen])
    return float(np.median(each)) / (PS_PER_MS if "start_ps" in steps else NS_PER_MS)


def most_rows(recording: Recording) -> int:
    """The largest number of rows that any decode step computed."""
    computed = int64(recording.steps["decoding_slots"]) + int64(recording.steps["finished_slots"])
    return int(computed.max()) if len(computed) else 0


def short_answers(recording: Recording) -> ShortAnswers | None:
    """Of the requests whose output is not longer than the median; None when steps are not told."""
    requests = recording.requests
    told = ~is_null(requests["ended_step"]) & ~is_null(requests["released_step"]) & ~is_null(requests["end_ns"])
    outputs = int64(requests["output_tokens"])
    short = told & (outputs <= np.median(outputs[told])) if told.any() else told
    if not short.any():
        return None
    computed = step_ends_ns(recording.steps, int64(requests["ended_step"])[short])
    released = step_ends_ns(recording.steps, int64(requests["released_step"])[short])
    answer_wait = float(np.median(int64(requests["end_ns"])[short] - computed))
    return ShortAnswers(answer_wait / NS_PER_MS, float(np.median(released - computed)) / NS_PER_MS)
