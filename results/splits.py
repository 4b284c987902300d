"""The headline latencies apart: by class of request, and by turn of a conversation."""

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from results.columns import int64
from results.figure_json import Json, latency
from results.recording import Recording
from results.schedule import COOLDOWN, FILL, PHASES

SPLIT = ("ttft", "tpot", "e2e")
TURNS = 10
"""So many turns are told apart; the later ones stand together."""
Mask = NDArray[np.bool_]


def by_class(recording: Recording, values_ns: Mapping[str, NDArray[np.float64]], chosen: Mask) -> Json:
    """Class name -> requests and latencies; empty where there is one class."""
    names = recording.schedule.class_names
    classes = int64(recording.requests["request_class"])
    parts = ((name, classes == code) for code, name in enumerate(names))
    return _split(values_ns, chosen, parts) if len(names) > 1 else {}


def by_turn(recording: Recording, values_ns: Mapping[str, NDArray[np.float64]], chosen: Mask) -> Json:
    """Number of the turn, from 1 -> requests and latencies; empty where no conversation has a second turn."""
    turns = int64(recording.requests["turn"])
    most = int(turns.max(initial=0))
    return _split(values_ns, chosen, _turns(turns, most)) if most > 0 else {}


def by_phase(recording: Recording, values_ns: Mapping[str, NDArray[np.float64]]) -> Json:
    """fill and cooldown -> requests and latencies, which stand in no other figure; empty where all is measured."""
    phase = int64(recording.schedule.phase)
    parts = ((PHASES[code], phase == code) for code in (FILL, COOLDOWN))
    return _split(values_ns, np.ones(len(phase), dtype=np.bool_), parts)


def _turns(turns: NDArray[np.int64], most: int) -> Iterator[tuple[str, Mask]]:
    for turn in range(min(most + 1, TURNS)):
        yield str(turn + 1), turns == turn
    if most >= TURNS:
        yield f"{TURNS + 1} and later", turns >= TURNS


def _split(
    values_ns: Mapping[str, NDArray[np.float64]], chosen: Mask, parts: Iterator[tuple[str, Mask]]
) -> Json:
    return {
        name: {
            "requests": int((chosen & part).sum()),
            **{f"{metric}_ms": latency(values_ns[metric][chosen & part]) for metric in SPLIT},
        }
        for name, part in parts
        if (chosen & part).any()
    }
