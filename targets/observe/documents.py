"""JSON that servers tell of themselves beside their metrics, as series: numbers alone, never a text.

llama.cpp's `/slots` and `/props`, SGLang's `/get_server_info` and vLLM's `/load`.
"""

import math
import re
from collections.abc import Callable, Iterator
from typing import Any

from results.stamp.names import is_secret_name
from targets.observe.exposition import MOST_SERIES, Page, Sample, canonical

_NAME = re.compile(r"[A-Za-z_]\w{0,99}", re.ASCII)


def _slots(document: Any) -> Iterator[Sample]:
    """llama.cpp: whether each slot is busy (older ones tell a state), how far it is, and whether it drafts."""
    for number, slot in enumerate(document if isinstance(document, list) else []):
        if not isinstance(slot, dict):
            continue
        labels = {"slot": str(slot.get("id", number))[:20]}
        busy = slot.get("is_processing", slot.get("state"))
        yield from _numbers("llamacpp_slots:", {"processing": busy, "speculative": slot.get("speculative")}, labels)
        yield from _numbers("llamacpp_slots:", {"n_ctx": slot.get("n_ctx"), "n_decoded": _decoded(slot)}, labels)


def _decoded(slot: dict[str, Any]) -> Any:
    token = slot.get("next_token")
    token = token[0] if isinstance(token, list) and token else token
    return token.get("n_decoded") if isinstance(token, dict) else None


def _props(document: Any) -> Iterator[Sample]:
    """llama.cpp: how many slots it has, and the context of each."""
    if isinstance(document, dict):
        settings = document.get("default_generation_settings")
        context = settings.get("n_ctx") if isinstance(settings, dict) else None
        yield from _numbers("llamacpp_props:", {"total_slots": document.get("total_slots"), "n_ctx": context}, {})


def _server_info(document: Any) -> Iterator[Sample]:
    """SGLang: its numeric settings, and the state of each of its schedulers."""
    if isinstance(document, dict):
        yield from _numbers("sglang_info:", document, {})
        states = document.get("internal_states")
        for number, state in enumerate(states if isinstance(states, list) else []):
            if isinstance(state, dict):
                yield from _numbers("sglang_info:", state, {"state": str(number)})


def _load(document: Any) -> Iterator[Sample]:
    """vLLM: requests that its front end holds."""
    if isinstance(document, dict):
        yield from _numbers("vllm_load:", document, {})


def _numbers(prefix: str, fields: dict[str, Any], labels: dict[str, str]) -> Iterator[Sample]:
    for name, value in fields.items():
        if isinstance(value, int | float) and _NAME.fullmatch(name) and not is_secret_name(name):
            yield prefix + name, canonical(labels), _float(value)


def _float(value: float) -> float | None:
    """Numbers of JSON can be larger than any double, and Python reads NaN in it."""
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:
        return None


DOCUMENTS: dict[str, Callable[[Any], Iterator[Sample]]] = {
    "slots": _slots,
    "props": _props,
    "get_server_info": _server_info,
    "load": _load,
}
"""By the last part of the URL."""


def read_document(kind: str, document: Any) -> Page:
    """The numbers of one document."""
    samples = list(DOCUMENTS[kind](document))
    return Page(samples[:MOST_SERIES], cut_rows=max(len(samples) - MOST_SERIES, 0))
