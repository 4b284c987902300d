"""The curves of the live page: few enough points for a picture, however long the run."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from loadgen.locust.seconds import Seconds
from loadgen.locust.tally import Tally
from results.figure_json import NS_PER_MS, NS_PER_S
from results.slots import SLOT_STATES

Json = dict[str, Any]
MOST_POINTS = 300
RECENT_SECONDS = 10
"""Live rates are of so many whole seconds."""
STILL_COMING_SECONDS = 1
"""Parts come every half second: the newest second is not whole yet."""


def recent_seconds(tally: Tally, ended: bool = False) -> tuple[int, int]:
    """The last whole seconds of a run, the end excluded."""
    end = _end_second(tally, ended)
    return max(end - RECENT_SECONDS, 0), end


def rate(counts: Seconds, first_s: int, end_s: int) -> float | None:
    """A count a second; None over no time."""
    lasted = end_s - first_s
    return counts.total(first_s, end_s) / lasted if lasted > 0 else None


def pictures(tally: Tally, ended: bool) -> Json:
    """Curves over the run so far. Seconds are put together where there are too many."""
    end = _end_second(tally, ended)
    width = max(-(-end // MOST_POINTS), 1)
    end = end // width * width
    seconds = np.arange(0, end, width)
    span = (0, end, width)
    slots = tally.slots
    queue = (slots.waiting, slots.busy) if slots.told_steps else (tally.server_waiting, tally.server_looks)
    return {
        "width_s": width,
        "settled_s": None if ended else tally.settled_ns / NS_PER_S,
        "streamed": tally.streamed,
        "t_s": (seconds + width / 2).tolist(),
        "arrivals_rps": _list(_blocks(tally.arrivals, *span) / width),
        "completions_rps": _list(_blocks(tally.completions, *span) / width),
        "failures_rps": _list(_blocks(tally.failures, *span) / width),
        "output_tokens_per_s": _list(_blocks(tally.tokens, *span) / width),
        "in_flight": _list(_blocks(tally.flight, *span) / width / NS_PER_S),
        "queue": _ratio(*(_blocks(one, *span) for one in queue)),
        "slots": _slots(tally, *span),
        "ttft_ms": _curve(tally, "ttft", p50=0.5, p95=0.95),
        "itl_ms": _curve(tally, "itl", p50=0.5, p99=0.99),
        "lateness_ms": _curve(tally, "lateness", p50=0.5, p99=0.99),
    }


def _end_second(tally: Tally, ended: bool) -> int:
    """The end of the last whole second; once the run has ended, of its last."""
    now = tally.now_ns / NS_PER_S
    return int(np.ceil(now)) if ended else max(int(now) - STILL_COMING_SECONDS, 0)


def _slots(tally: Tally, first_s: int, end_s: int, width_s: int) -> Json | None:
    """Shares of the slots' time; None where no step tells of slots."""
    if not tally.slots.told:
        return None
    blocks = {name: _blocks(tally.slots.share[name], first_s, end_s, width_s) for name in SLOT_STATES}
    total = np.sum(list(blocks.values()), axis=0)
    return {name.removesuffix("_slots"): _ratio(values, total) for name, values in blocks.items()}


def _curve(tally: Tally, name: str, **q: float) -> Json:
    middles, curves = tally.curves[name].quantiles(*q.values())
    scaled = [[None if value is None else round(value / NS_PER_MS, 4) for value in curve] for curve in curves]
    return {"t_s": middles, **dict(zip(q, scaled, strict=True))}


def _blocks(counts: Seconds, first_s: int, end_s: int, width_s: int) -> NDArray[np.float64]:
    return np.asarray(counts.over(first_s, end_s).reshape(-1, width_s).sum(axis=1))


def _ratio(of: NDArray[np.float64], whole: NDArray[np.float64]) -> list[float | None]:
    return [round(float(a / b), 4) if b > 0 else None for a, b in zip(of, whole, strict=True)]


def _list(values: NDArray[np.float64]) -> list[float]:
    return [round(float(value), 3) for value in values]
