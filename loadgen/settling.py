"""Whether a warm-up has done its work: service times no longer change from one group to the next."""

from collections.abc import Sequence

import numpy as np

GROUP = 20
MEDIAN_FRACTION = 0.05
"""By so much of it the medians of two groups may differ."""
SPREAD_FRACTION = 0.10
"""By so much of the median their interquartile ranges may: of the range itself twenty values cannot tell."""


def settled(service_ns: Sequence[int]) -> bool | None:
    """Whether the last two groups of twenty agree in median and in spread; None before there are two."""
    if len(service_ns) < 2 * GROUP:
        return None
    last = np.array(service_ns[-2 * GROUP :], dtype=np.float64).reshape(2, GROUP)
    low, middle, high = np.percentile(last, (25, 50, 75), axis=1)
    median = float(middle.min())
    spread = high - low
    near = abs(float(middle[1] - middle[0])) <= MEDIAN_FRACTION * median
    return near and abs(float(spread[1] - spread[0])) <= SPREAD_FRACTION * median
