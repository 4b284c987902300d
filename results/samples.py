"""How many values each latency of the summary stands on."""

import numpy as np

from results import metrics
from results.columns import is_null
from results.metrics import Float64, Mask
from results.recording import Recording

QUANTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}
"""Those that the summary gives."""
PER_REQUEST = {
    "ttft_ms": metrics.ttft_ns,
    "tpot_ms": metrics.tpot_ns,
    "e2e_ms": metrics.e2e_ns,
    "norm_ms": metrics.norm_ns,
    "stall_ms": metrics.stall_ns,
}


def sample_counts(recording: Recording) -> dict[str, int]:
    """Defined values by the summary's name of the metric, failures among them; 0 where there is none."""
    events = metrics.events_of(recording)
    chosen = metrics.measured(recording)
    good = chosen & ~metrics.failed(recording)
    values = {name: function(recording, events) for name, function in PER_REQUEST.items()}
    return {
        **{name: _defined(one, chosen) for name, one in values.items()},
        "ttft_ok_ms": _defined(values["ttft_ms"], good),
        "itl_ms": int(np.maximum(np.diff(recording.token_offsets)[good] - 1, 0).sum()),
        "queue_wait_ms": _defined(metrics.lag_ns(recording), chosen),
        "admission_wait_ms": int((chosen & ~is_null(recording.requests["admitted_step"])).sum()),
    }


def _defined(values: Float64, chosen: Mask) -> int:
    return int((~np.isnan(values[chosen])).sum())
