"""How requests failed: by status and by what was said, the most frequent first."""

from collections import Counter
from dataclasses import dataclass

import numpy as np

from results.metrics import failed, measured
from results.recording import Recording
from results.status import NAMES

SHOWN_KINDS = 3
LONGEST_TEXT = 300


@dataclass(frozen=True, slots=True)
class Failures:
    """Of one run's measured requests."""

    count: int
    requests: int
    kinds: tuple[tuple[str, str, int], ...]
    """(status, error text or empty, how many), at most three."""


def failures_of(recording: Recording) -> Failures:
    """Nothing failed: count 0."""
    chosen = measured(recording)
    rows = np.flatnonzero(failed(recording) & chosen)
    statuses, errors = recording.requests["status"], recording.requests["error"]
    counts = Counter((NAMES[int(statuses[row])], _cut(errors[row])) for row in rows.tolist())
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    kinds = tuple((status, error, count) for (status, error), count in ordered[:SHOWN_KINDS])
    return Failures(len(rows), int(chosen.sum()), kinds)


def _cut(error: object) -> str:
    text = "" if error is None else " ".join(str(error).split())
    return text if len(text) <= LONGEST_TEXT else text[:LONGEST_TEXT] + "…"
