"""How many values each latency of the summary stands on."""

import numpy as np

from results import metrics
from results.columns import is_null
from results.figure_json import QUANTILES
from results.metrics import Float64, Mask
from results.recording import Recording
from results.summary import latencies_of

__all__ = ["QUANTILES", "sample_counts"]


def sample_counts(recording: Recording) -> dict[str, int]:
    """Defined values by the summary's name of the metric, failures among them; 0 where there is none."""
    events = metrics.events_of(recording)
    chosen = metrics.measured(recording)
    good = chosen & ~metrics.failed(recording)
    values = {f"{name}_ms": function(recording, events) for name, function in latencies_of(recording).items()}
    gaps = int(np.maximum(np.diff(recording.token_offsets)[good] - 1, 0).sum())
    return {
        **{name: _defined(one, chosen) for name, one in values.items()},
        "ttft_ok_ms": _defined(values["ttft_ms"], good),
        **dict.fromkeys(("itl_ms",) if recording.token_t_ns is None else ("itl_ms", "icl_ms"), gaps),
        "queue_wait_ms": _defined(metrics.lag_ns(recording), chosen),
        "admission_wait_ms": int((chosen & ~is_null(recording.requests["admitted_step"])).sum()),
    }


def _defined(values: Float64, chosen: Mask) -> int:
    return int((~np.isnan(values[chosen])).sum())
