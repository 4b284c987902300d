"""Slots over HTTP: how many slot-steps of a server's steps were used, from two scrapes of its counters.

unused = 1 - (sequence-steps that produced a token) / (steps x slots), summed over engines and servers.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from results.server.known import LLAMACPP, TOKENLOAD, VLLM
from results.server.rounds import Rounds
from results.server.window import NotObservableError, ServerWindow, open_window

EXACT = 1e-9
"""How far outside [0, 1] the arithmetic of doubles can put a fraction."""
DIGITS = 6
"""llama.cpp prints its numbers with so many digits."""

_USING = ('state="prefilling"', 'state="decoding"')


@dataclass(frozen=True, slots=True)
class SlotUse:
    """Slot-steps of one or several servers in a window."""

    used_slot_steps: float
    computed_slot_steps: float
    """Steps times slots."""
    steps: float
    slots: float
    rounding_slot_steps: float = 0.0
    """How far the used ones can be off, because the server prints its numbers rounded."""


def slot_use(rounds: Rounds, start_ns: int, end_ns: int | None, slots: int | None) -> SlotUse:
    """Over all servers. NotObservableError, in one line with what to pass, where one of them does not tell.

    `slots`: of each engine, where the server does not tell.
    """
    if not rounds.servers:
        raise NotObservableError("no metrics were asked for: pass --metrics-url URL")
    uses = []
    for server in rounds.servers:
        window = open_window(rounds, server, start_ns, end_ns)
        rule = RULES.get(server.kind)
        if rule is None:
            raise NotObservableError(f"{server.kind} servers tell no steps: only vLLM, llama.cpp and serve do")
        uses.append(rule(window, slots))
    names = ("used_slot_steps", "computed_slot_steps", "steps", "slots", "rounding_slot_steps")
    return SlotUse(*(float(sum(getattr(one, name) for one in uses)) for name in names))


def unused_fraction(use: SlotUse) -> float:
    """In [0, 1]. NotObservableError where nothing was computed, or the counters contradict the number of slots."""
    if use.computed_slot_steps <= 0:
        raise NotObservableError("no step was computed between the scrapes")
    fraction = 1 - use.used_slot_steps / use.computed_slot_steps
    slack = EXACT + use.rounding_slot_steps / use.computed_slot_steps
    if not -slack <= fraction <= 1 + slack:
        raise NotObservableError(
            f"its counters say {use.used_slot_steps:g} of {use.computed_slot_steps:g} slot-steps were used, "
            f"which cannot be with {use.slots:g} slots: pass --slots N with the right number"
        )
    return min(max(fraction, 0.0), 1.0)


def _vllm(window: ServerWindow, slots: int | None) -> SlotUse:
    """Tokens less those of accepted drafts, over steps x slots of every engine."""
    ends = window.ends("vllm:iteration_tokens_total_count")
    steps = sum(last - first for first, last in ends.values())
    tokens = window.delta("vllm:generation_tokens_total")
    accepted = window.delta_or_0("vllm:spec_decode_num_accepted_tokens_total")
    if slots is None:
        raise NotObservableError("vLLM does not tell its slots: pass --slots N (its --max-num-seqs)")
    return SlotUse(tokens - accepted, steps * slots, steps, slots * len(ends))


def _llamacpp(window: ServerWindow, slots: int | None) -> SlotUse:
    """The average of busy slots since the start, times steps, at both ends."""
    told = _llamacpp_slots(window) or slots
    if not told:
        raise NotObservableError("it does not tell /props or /slots: pass --slots N (its --parallel)")
    if not window.has("llamacpp:n_decode_total"):
        raise NotObservableError("its /metrics tells no n_decode_total: start llama.cpp with --metrics")
    steps, means = window.ends("llamacpp:n_decode_total"), _means(window)
    if steps.keys() != means.keys():
        raise NotObservableError("n_busy_slots_per_decode does not go with n_decode_total")
    used = rounding = 0.0
    for labels, (first, last) in steps.items():
        first_mean, last_mean = means[labels]
        used += _whole(last_mean, last) - _whole(first_mean, first)
        rounding += _rounding(last_mean, last) + _rounding(first_mean, first)
        rounding += told * (_count_rounding(last) + _count_rounding(first))
    if used < 0:
        raise NotObservableError("n_busy_slots_per_decode x n_decode_total fell: the server restarted")
    count = sum(last - first for first, last in steps.values())
    return SlotUse(used, count * told, count, told * len(steps), rounding)


def _tokenload(window: ServerWindow, slots: int | None) -> SlotUse:
    """Exact where it counts the states of its slots; by vLLM's rule else."""
    told = sum(window.last("tokenload:slots").values()) or slots
    if not window.has("tokenload:slot_steps_total"):
        return _vllm(window, int(told) if told else None)
    spent = {labels: last - first for labels, (first, last) in window.ends("tokenload:slot_steps_total").items()}
    used = sum(count for labels, count in spent.items() if any(state in labels for state in _USING))
    computed = sum(spent.values())
    return SlotUse(used, computed, window.delta("tokenload:steps_total"), told or 0.0)


RULES: dict[str, Callable[[ServerWindow, int | None], SlotUse]] = {
    VLLM: _vllm,
    LLAMACPP: _llamacpp,
    TOKENLOAD: _tokenload,
}
"""By kind of server; others tell no steps."""


def _llamacpp_slots(window: ServerWindow) -> int:
    """By /props, else as many as /slots lists; 0: neither is told."""
    told = sum(window.last("llamacpp_props:total_slots").values())
    return int(told) or len(window.last("llamacpp_slots:processing"))


def _means(window: ServerWindow) -> dict[str, tuple[float, float]]:
    """n_busy_slots_per_decode at both ends: an average may fall."""
    found = window.rounds.find(window.server, "llamacpp:n_busy_slots_per_decode")
    if not found:
        raise NotObservableError("it does not tell llamacpp:n_busy_slots_per_decode: update llama.cpp")
    ends = {labels: values[window.at[[0, -1]]] for labels, values in found.items()}
    return {labels: (float(np.nan_to_num(first)), float(np.nan_to_num(last))) for labels, (first, last) in ends.items()}


def _whole(busy_slots: float, count: float) -> float:
    """Average x count is a whole number of slot-steps: that number where the rounding leaves only one."""
    product = busy_slots * count
    return float(round(product)) if _product_rounding(busy_slots, count) < 1 / 2 else product


def _rounding(busy_slots: float, count: float) -> float:
    rounding = _product_rounding(busy_slots, count)
    return 0.0 if rounding < 1 / 2 else rounding


def _product_rounding(busy_slots: float, count: float) -> float:
    """How far average x count can be off: each by half a unit of its last printed digit."""
    return count * _half_unit(busy_slots) + busy_slots * _count_rounding(count)


def _count_rounding(count: float) -> float:
    """A count of few digits is printed whole."""
    return 0.0 if count < 10**DIGITS else _half_unit(count)


def _half_unit(number: float) -> float:
    return float(0.5 * 10.0 ** (np.floor(np.log10(number)) - DIGITS + 1)) if number > 0 else 0.0
