"""Request by request: how the same request fared with A and with B. A picture of the difference, never its proof."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from results.paired import two_modes

Json = dict[str, Any]
Values = Mapping[str, NDArray[np.float64]]
NS_PER_MS = 1e6
QUANTILES = {"p5": 0.05, "p25": 0.25, "p50": 0.5, "p75": 0.75, "p95": 0.95}
BINS = 40
LEAST = 20


def request_differences(pairs: Sequence[tuple[Values, Values]]) -> Json:
    """Metric -> the distribution of B - A in ms over requests that both served, and whether it has two heaps."""
    names = sorted({name for a, b in pairs for name in (*a, *b)})
    return {name: _described([(a[name], b[name]) for a, b in pairs if name in a and name in b]) for name in names}


def _described(pairs: Sequence[tuple[NDArray[np.float64], NDArray[np.float64]]]) -> Json:
    fitting = [(a, b) for a, b in pairs if len(a) == len(b)]
    with np.errstate(invalid="ignore"):
        all_ms = np.concatenate([(b - a) / NS_PER_MS for a, b in fitting]) if fitting else np.empty(0)
    known = all_ms[np.isfinite(all_ms)]
    told: Json = {"n": len(known), "left_out": len(all_ms) - len(known)}
    if len(known) < LEAST:
        return {**told, "reason": f"fewer than {LEAST} requests that both served"}
    low, high = (float(value) for value in np.quantile(known, [0.01, 0.99]))
    counts, edges = np.histogram(known, bins=BINS, range=(low, high) if low < high else None)
    return {
        **told,
        **{f"{name}_ms": float(np.quantile(known, q, method="median_unbiased")) for name, q in QUANTILES.items()},
        "lower_share": float((known < 0).mean()),
        "equal_share": float((known == 0).mean()),
        "two_modes": two_modes(known),
        "histogram": {"counts": counts.tolist(), "edges_ms": edges.tolist()},
    }
